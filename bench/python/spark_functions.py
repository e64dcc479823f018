"""Row 4: the functions for a user's own tasks. The driver's part; ``spark_tasks`` has the tasks."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import spark_data
import spark_tasks
from pyspark import RDD
from pyspark.sql import DataFrame
from spark_measure import Side, Took, digest, digest_text, measured, to_noop, turns
from spark_report import OURS, PARQUET
from spark_rows import Bench

from topicdb import jobs
from topicdb.spark import plan, read_dataframe, read_rdd, write_dataframe

ARROW_WRITE, TUPLES_WRITE = 3e6, 1.5e6  # messages/s
ARROW_READ, TUPLES_READ = 8e6, 5e6
TASK_ROWS_MAX = 400_000  # a task's messages are in memory


def functions(bench: Bench) -> None:
    by_shard = bench.directory / "by_shard.parquet"
    count = min(bench.rows // bench.cores // 2, TASK_ROWS_MAX)
    share = 2.5 * count * bench.cores / bench.rows  # more than needed: each shard has enough
    until = spark_data.START_US + int(spark_data.YEAR_US * min(share, 1))
    some = bench.read_parquet().where(f"timestamp < timestamp_micros({until})")
    spark_data.write_by_shard(some, by_shard, bench.cores)
    rows = spark_tasks.Rows(by_shard, count)
    for tuples in (False, True):
        _staging(bench, rows, tuples)
        _appending(bench, rows, tuples)
    _write_dataframe(bench, some)
    _scan_arrow(bench)
    _scan_tuples(bench)
    _transport(bench)


def _how(tuples: bool) -> tuple[str, float]:
    return ("tuples", TUPLES_WRITE) if tuples else ("Arrow", ARROW_WRITE)


def _staging(bench: Bench, rows: spark_tasks.Rows, tuples: bool) -> None:
    database = bench.directory / "staged.db"

    def ours() -> Took:
        spark_data.new_database(database, bench.cores)
        job = uuid.uuid4().hex
        prepare = partial(spark_tasks.stage, rows, database, job, tuples)
        done = spark_tasks.run(bench.spark, bench.cores, prepare)
        jobs.commit(database, job, [task.result for task in done])
        return spark_tasks.took(done)

    _beside_files(bench, rows, tuples, database, ours, "stage {} (StagedWriter)")


def _appending(bench: Bench, rows: spark_tasks.Rows, tuples: bool) -> None:
    database = bench.directory / "appended.db"

    def ours() -> Took:
        spark_data.new_database(database, bench.cores)
        prepare = partial(spark_tasks.append, rows, database, tuples)
        return spark_tasks.took(spark_tasks.run(bench.spark, bench.cores, prepare))

    _beside_files(bench, rows, tuples, database, ours, "append {} (write_partition)")


def _beside_files(
    bench: Bench,
    rows: spark_tasks.Rows,
    tuples: bool,
    database: Path,
    ours: Callable[[], Took],
    title: str,
) -> None:
    """Measures ``ours``, which fills ``database``, in turns with tasks that write Parquet.

    Removes the database in the end.
    """
    files = bench.directory / "task_files"
    how, target = _how(tuples)
    what = title.format(how)
    sides = {OURS: ours, PARQUET: _files_side(bench, rows, files, tuples)}
    timings = turns(sides, bench.rounds)
    found = digest(bench.read_parquet(files)), digest(bench.read_topicdb(database))
    bench.report.same(f"4 {what}", *found)
    bench.report.add_rates("4", what, rows.count * bench.cores, timings, rate=target)
    shutil.rmtree(database)


def _files_side(bench: Bench, rows: spark_tasks.Rows, files: Path, tuples: bool) -> Side:
    def theirs() -> Took:
        spark_tasks.empty_directory(files)
        prepare = partial(spark_tasks.to_parquet, rows, files, tuples)
        return spark_tasks.took(spark_tasks.run(bench.spark, bench.cores, prepare))

    return theirs


def _write_dataframe(bench: Bench, some: DataFrame) -> None:
    """Measures it beside the same shuffle into Python tasks that only count the rows."""
    database = bench.directory / "dataframe.db"
    frame = some.persist()
    count = frame.count()

    def ours() -> Took:
        spark_data.new_database(database, bench.cores)
        return measured(lambda: write_dataframe(frame, str(database)))

    def bare() -> None:
        shuffled = frame.repartition(bench.cores, "topic")
        counts = shuffled.mapInArrow(spark_tasks.discard, "messages bigint").collect()
        assert sum(row.messages for row in counts) == count

    timings = turns({OURS: ours, "bare": lambda: measured(bare)}, bench.rounds)
    bench.report.same("4 write_dataframe", digest(frame), digest(bench.read_topicdb(database)))
    what = "write_dataframe; beside: only the shuffle"
    bench.report.add_rates("4", what, count, timings, rate=ARROW_WRITE)
    frame.unpersist()
    shutil.rmtree(database)


def _checksum(done: list[spark_tasks.Done]) -> str:
    return digest_text(sum(task.messages for task in done), sum(task.result for task in done))


def _scan_arrow(bench: Bench) -> None:
    tasks = bench.cores
    splits = plan(str(bench.database), tasks=2 * tasks)
    files = spark_data.parquet_files(bench.parquet)
    sums: dict[str, str] = {}

    def side(name: str, prepare: Callable[[int], spark_tasks.Work]) -> Took:
        done = spark_tasks.run(bench.spark, tasks, prepare)
        sums[name] = _checksum(done)
        return spark_tasks.took(done)

    ours = partial(spark_tasks.scan, splits, tasks)
    theirs = partial(spark_tasks.from_parquet, files, tasks)
    timings = turns(
        {OURS: lambda: side(OURS, ours), PARQUET: lambda: side(PARQUET, theirs)}, bench.rounds
    )
    bench.report.same("4 scan to Arrow", sums[PARQUET], sums[OURS])
    what = "scan to Arrow (plan, read_split)"
    bench.report.add_rates("4", what, bench.rows, timings, rate=ARROW_READ)


def _scan_tuples(bench: Bench) -> None:
    files = spark_data.parquet_files(bench.parquet)

    def ours() -> RDD[spark_tasks.Row]:
        return read_rdd(bench.spark, str(bench.database))

    def theirs() -> RDD[spark_tasks.Row]:
        rdd = bench.spark.sparkContext.parallelize(files, len(files))
        return rdd.mapPartitions(spark_tasks.parquet_tuples)

    def side(make: Callable[[], RDD[spark_tasks.Row]]) -> Took:
        return spark_tasks.took(make().mapPartitions(spark_tasks.count_tuples).collect())

    sums = [make().mapPartitions(spark_tasks.sum_tuples).collect() for make in (theirs, ours)]
    bench.report.same("4 scan to tuples", *map(_checksum, sums))
    timings = turns({OURS: lambda: side(ours), PARQUET: lambda: side(theirs)}, bench.rounds)
    bench.report.add_rates("4", "scan to tuples (read_rdd)", bench.rows, timings, rate=TUPLES_READ)


def _transport(bench: Bench) -> None:
    """Measures ``read_dataframe`` beside ready batches that take the same way into Spark."""
    tasks = 2 * bench.cores
    ready = partial(spark_tasks.ready_for_spark, bench.parquet, bench.rows // tasks)

    def ours() -> None:
        to_noop(read_dataframe(bench.spark, str(bench.database), tasks=tasks))

    def bare() -> None:
        numbers = bench.spark.range(0, tasks, 1, tasks)
        to_noop(numbers.mapInArrow(ready, "topic string, timestamp timestamp, value binary"))

    found = digest(read_dataframe(bench.spark, str(bench.database), tasks=tasks))
    bench.report.same("4 read_dataframe", digest(bench.read_parquet()), found)
    sides: dict[str, Side] = {OURS: lambda: measured(ours), "bare": lambda: measured(bare)}
    timings = turns(sides, bench.rounds)
    bench.report.add_rates("4", "read_dataframe; beside: ready batches", bench.rows, timings)
