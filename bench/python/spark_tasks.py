"""Row 4: tasks that use the functions for a user's own tasks, and tasks with pyarrow and Parquet.

A task makes its messages ready, waits for the other tasks, and then measures itself, so that the
start of tasks and Spark's transport do not count. There is one task for each core.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from spark_data import BATCH_ROWS, COLUMNS
from spark_measure import Took

from topicdb import jobs
from topicdb.spark import Split, read_split, write_partition

MEETING_SECONDS = 120
Row: TypeAlias = "tuple[str, int, bytes]"
Work: TypeAlias = Callable[[], "tuple[int, Any]"]  # messages, and a result for the driver


@dataclass(frozen=True)
class Done:
    """What a task did. Times are those of the monotonic clock, which all processes share."""

    messages: int
    began: float
    ended: float
    cpu_s: float
    result: Any


@dataclass(frozen=True)
class Rows:
    """Where the messages of each shard are, and how many of them a task takes."""

    parquet: Path
    count: int

    def ready_batches(self, shard: int) -> list[pa.RecordBatch]:
        parts = sorted((self.parquet / f"shard={shard}").glob("*.parquet"))
        batches: list[pa.RecordBatch] = []
        left = self.count
        for part in parts:
            for batch in pq.ParquetFile(part).iter_batches(BATCH_ROWS, columns=COLUMNS):
                batches.append(batch.slice(0, left))
                left -= batches[-1].num_rows
                if not left:
                    return batches
        return batches

    def ready_tuples(self, shard: int) -> list[list[Row]]:
        return [as_tuples(batch) for batch in self.ready_batches(shard)]


def as_tuples(batch: pa.RecordBatch) -> list[Row]:
    times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    columns = batch.column("topic").to_pylist(), times, batch.column("value").to_pylist()
    return list(zip(*columns, strict=True))


def run(spark: SparkSession, tasks: int, prepare: Callable[[int], Work]) -> list[Done]:
    """Prepares and runs ``tasks`` tasks at the same time. REQUIRES: a core for each."""
    numbers = spark.sparkContext.parallelize(range(tasks), tasks)
    with tempfile.TemporaryDirectory(prefix="topicdb-tasks-") as meeting:
        task = partial(_in_task, prepare, Path(meeting), tasks)
        done: list[Done] = numbers.mapPartitions(task).collect()
    return done


def _in_task(
    prepare: Callable[[int], Work], meeting: Path, tasks: int, numbers: Iterable[int]
) -> Iterator[Done]:
    for number in numbers:
        work = prepare(number)
        gc.collect()
        _meet(meeting, number, tasks)
        began, cpu = time.monotonic(), time.process_time()
        messages, result = work()
        yield Done(messages, began, time.monotonic(), time.process_time() - cpu, result)


def _meet(meeting: Path, number: int, tasks: int) -> None:
    """Waits for the other tasks. Spark's barrier would look only once a second.

    Raises TimeoutError if they have not come after ``MEETING_SECONDS``.
    """
    (meeting / str(number)).touch()
    deadline = time.monotonic() + MEETING_SECONDS
    while len(list(meeting.iterdir())) < tasks:
        if time.monotonic() > deadline:
            raise TimeoutError(f"fewer than {tasks} tasks run at the same time")
        time.sleep(0.001)


def took(tasks: list[Done]) -> Took:
    """Returns the seconds from the first begin to the last end, and the CPU seconds of all."""
    wall = max(task.ended for task in tasks) - min(task.began for task in tasks)
    return wall, sum(task.cpu_s for task in tasks)


# Writing. ``tuples`` says whether messages are lists of tuples or Arrow batches.


def stage(rows: Rows, database: Path, job: str, tuples: bool, shard: int) -> Work:
    batches = _ready(rows, tuples, shard)

    def work() -> tuple[int, jobs.Staged]:
        with jobs.StagedWriter(database, job) as writer:
            for batch in batches:
                writer.append(batch)
        return writer.staged.messages, writer.staged

    return work


def append(rows: Rows, database: Path, tuples: bool, shard: int) -> Work:
    batches = _ready(rows, tuples, shard)

    def work() -> tuple[int, None]:
        each = (row for batch in batches for row in batch) if tuples else iter(batches)
        done = list(write_partition(each, str(database), shard))
        return sum(part.messages for part in done), None

    return work


def to_parquet(rows: Rows, directory: Path, tuples: bool, shard: int) -> Work:
    """Writes one file, and fsyncs it as staged files are."""
    batches = _ready(rows, tuples, shard)
    schema = rows.ready_batches(shard)[0].schema

    def work() -> tuple[int, None]:
        count = 0
        with (directory / f"{shard}.parquet").open("wb") as file:
            with pq.ParquetWriter(file, schema, compression="snappy") as writer:
                for batch in batches:
                    made = _from_tuples(batch, schema) if tuples else batch
                    writer.write_batch(made, row_group_size=100 * BATCH_ROWS)
                    count += made.num_rows
            file.flush()
            os.fsync(file.fileno())
        return count, None

    return work


def _ready(rows: Rows, tuples: bool, shard: int) -> list[Any]:
    return rows.ready_tuples(shard) if tuples else rows.ready_batches(shard)


def _from_tuples(rows: list[Row], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


# Reading. A checksum of times and sizes shows that both sides read the same.


def scan(splits: list[Split], tasks: int, number: int) -> Work:
    def batches() -> Iterator[pa.RecordBatch]:
        for split in splits[number::tasks]:
            yield from read_split(split)

    return lambda: _summed(batches())


def from_parquet(files: list[Path], tasks: int, number: int) -> Work:
    return lambda: _summed(_parquet_batches(files[number::tasks]))


def parquet_tuples(files: Iterable[Path]) -> Iterator[Row]:
    """Yields the tuples of Parquet files in the form in which ``read_rdd`` gives them."""
    for batch in _parquet_batches(files):
        yield from as_tuples(batch)


def count_tuples(rows: Iterable[Row]) -> Iterator[Done]:
    """Counts and times the rows of a partition; for ``mapPartitions``."""
    began, cpu = time.monotonic(), time.process_time()
    count = 0
    for _ in rows:
        count += 1
    yield Done(count, began, time.monotonic(), time.process_time() - cpu, None)


def sum_tuples(rows: Iterable[Row]) -> Iterator[Done]:
    """Counts the rows of a partition and sums them up to the checksum; for ``mapPartitions``."""
    count = total = 0
    for topic, timestamp, value in rows:
        count += 1
        total += timestamp + len(topic) + len(value)
    yield Done(count, 0, 0, 0, total)


def _parquet_batches(files: Iterable[Path]) -> Iterator[pa.RecordBatch]:
    for file in files:
        yield from pq.ParquetFile(file).iter_batches(BATCH_ROWS, columns=COLUMNS)


def _summed(batches: Iterable[pa.RecordBatch]) -> tuple[int, int]:
    count = total = 0
    for batch in batches:
        count += batch.num_rows
        total += _sum(batch.column("timestamp").cast(pa.int64()))
        total += _sum(pc.binary_length(batch.column("topic")))
        total += _sum(pc.binary_length(batch.column("value")))
    return count, total


def _sum(column: pa.Array) -> int:
    """Returns the sum as an int of Python: times of 10,000 rows may add up to more than 64 bits."""
    first = column[0].as_py() if len(column) else 0
    return int(pc.sum(pc.subtract(column, first)).as_py() or 0) + first * len(column)


# Transport: the time that Spark itself takes for Arrow data from Python.


def ready_for_spark(parquet: Path, count: int, frames: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    """Yields one ready batch again and again, ``count`` messages in all; for ``mapInArrow``."""
    file = sorted(parquet.glob("*.parquet"))[0]
    batch = next(pq.ParquetFile(file).iter_batches(BATCH_ROWS, columns=COLUMNS))
    for _ in frames:
        pass
    left = count
    while left > 0:
        yield batch.slice(0, left)
        left -= batch.num_rows


def discard(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Takes all batches and yields the number of their messages; for ``mapInArrow``."""
    count = sum(batch.num_rows for batch in batches)
    yield pa.record_batch({"messages": pa.array([count], pa.int64())})


def empty_directory(path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path
