"""Functions that read: the driver plans splits, each task reads one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import topicdb
from topicdb.spark.columns import ddl, to_arrow
from topicdb.spark.slices import pack
from topicdb.times import TimeLike

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession

    from topicdb.filters import Filters

TASKS_PER_CORE = 2


@dataclass(frozen=True, slots=True)
class Split:
    """What one task reads: slices of one shard. Travels pickled."""

    path: str
    filter: Filters
    slices: tuple[topicdb.Slice, ...]
    properties: bool = False


def plan(
    path: str,
    filter: Filters = "#",
    *,
    start: TimeLike | None = None,
    end: TimeLike | None = None,
    tasks: int = 8,
    properties: bool = False,
) -> list[Split]:
    """Splits that together hold each matching message once: about ``tasks`` of equal size.

    At least one for each shard that has something. Opens the database read-only for a moment: a
    writer may go on. Tasks see this moment: what is committed later is in no split, and what is
    deleted before a task begins it does not see. ``properties``: whether tasks get those, too.
    """
    if tasks < 1:
        raise ValueError(f"tasks must be at least 1, got {tasks}")
    path = os.path.abspath(path)  # tasks may run in another directory
    with topicdb.open(path, mode="r") as database:
        whole = database.slices(filter, start=start, end=end)
        share = -(-sum(slice.bytes for slice in whole) // tasks)
        slices = database.slices(filter, start=start, end=end, bytes_max=max(share, 1))
    return [Split(path, filter, tuple(task), properties) for task in pack(slices, share)]


def read_split(split: Split) -> Iterator[pa.RecordBatch]:
    """Record batches (topic string, timestamp[us, UTC], value binary) of a split, in a task.

    In no order; with the columns of docs/properties.md if it was planned so. NotFoundError names a
    slab that was dropped since the plan was made.
    """
    return map(to_arrow, _batches(split))


def read_dataframe(
    spark: SparkSession,
    path: str,
    filter: Filters = "#",
    *,
    start: TimeLike | None = None,
    end: TimeLike | None = None,
    tasks: int | None = None,
    properties: bool = False,
) -> DataFrame:
    """Matching messages as a DataFrame (topic string, timestamp timestamp, value binary).

    ``properties``: with a column for each MQTT property, too; see docs/properties.md.
    Planned now, read when the DataFrame is used: it has the messages of now. TopicError,
    NotFoundError at once. No order is promised. ``tasks`` defaults to two a core.
    """
    splits = plan(
        path, filter, start=start, end=end, tasks=_tasks(spark, tasks), properties=properties
    )
    schema = ddl(metadata=False, properties=properties)
    if not splits:
        return spark.createDataFrame([], schema)
    numbers = spark.range(0, len(splits), 1, len(splits))  # a task each, without a way to Python
    return numbers.mapInArrow(partial(_read_numbered, splits), schema)


def read_rdd(
    spark: SparkSession,
    path: str,
    filter: Filters = "#",
    *,
    start: TimeLike | None = None,
    end: TimeLike | None = None,
    tasks: int | None = None,
) -> RDD[topicdb.Message]:
    """As ``read_dataframe``, as an RDD of messages: tuples of topic, µs and value."""
    splits = plan(path, filter, start=start, end=end, tasks=_tasks(spark, tasks))
    rows = spark.sparkContext.parallelize(splits, max(len(splits), 1))
    return rows.flatMap(lambda split: chain.from_iterable(_batches(split)))


def _read_numbered(
    splits: list[Split], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column("id").to_pylist():
            yield from read_split(splits[number])


def _batches(split: Split) -> Iterator[topicdb.Batch]:
    shard = split.slices[0].shard  # of all slices of a split
    with topicdb.open(split.path, mode="r", only_shards=[shard]) as database:
        scan = database.scan_slices(split.slices, split.filter, properties=split.properties)
        yield from scan.batches()


def _tasks(spark: SparkSession, tasks: int | None) -> int:
    return TASKS_PER_CORE * spark.sparkContext.defaultParallelism if tasks is None else tasks
