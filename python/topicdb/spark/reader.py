"""Functions that read: the driver plans splits, and each task reads one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import topicdb
from topicdb.arguments.times import TimeLike
from topicdb.spark.columns import ddl, to_arrow
from topicdb.spark.slices import pack

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession

    from topicdb.arguments.filters import Filters

TASKS_PER_CORE = 2


@dataclass(frozen=True, slots=True)
class Split:
    """The part of a read for one task: slices of one shard. Can be pickled."""

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
    """Returns splits that together hold each matching message once.

    - ``filter``: as in ``Database.scan``.
    - ``start``, ``end``: only messages with ``start`` <= timestamp < ``end``.
    - ``tasks``: about how many splits of equal size to make; at least one for each shard that has
      matching messages.
    - ``properties``: tasks get the MQTT properties, too.

    Opens the database read-only for a moment, also beside a writer. Tasks see this moment: no split
    has later commits. Messages that are deleted before a task begins are missing.

    Raises TopicError, NotFoundError or ValueError.

    >>> splits = topicdb.spark.plan("fleet.db", "site/#", tasks=16)         # doctest: +SKIP
    >>> spark.sparkContext.parallelize(splits).flatMap(read_split)          # doctest: +SKIP
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
    """Returns the messages of a split as record batches, in a task, in no order.

    The columns are topic string, timestamp timestamp[us, UTC] and value binary, and those of
    docs/concepts/properties.md if it was planned so. Raises NotFoundError, which names the slab,
    if one was dropped since.
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
    """Returns matching messages as a DataFrame (topic string, timestamp timestamp, value binary).

    - ``filter``, ``start``, ``end``: as in ``Database.scan``.
    - ``tasks``: about how many; None: two for each core.
    - ``properties``: adds a column for each MQTT property; see docs/concepts/properties.md.

    The read is planned now, and runs when the DataFrame is used: it has the messages of now. The
    order of rows is not promised. Raises TopicError or NotFoundError at once.

    >>> frame = topicdb.spark.read_dataframe(spark, "fleet.db", "site/#")   # doctest: +SKIP
    """
    splits = plan(
        path, filter, start=start, end=end, tasks=_tasks(spark, tasks), properties=properties
    )
    schema = ddl(metadata=False, properties=properties)
    if not splits:
        return spark.createDataFrame([], schema)
    numbers = spark.range(0, len(splits), 1, len(splits))  # a task each, made without Python
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
    """Returns matching messages as an RDD of tuples (topic, µs since 1970, value).

    The arguments are those of ``read_dataframe``.
    """
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
    shard = split.slices[0].shard  # all slices of a split are of one shard
    with topicdb.open(split.path, mode="r", only_shards=[shard]) as database:
        scan = database.scan_slices(split.slices, split.filter, properties=split.properties)
        yield from scan.batches()


def _tasks(spark: SparkSession, tasks: int | None) -> int:
    return TASKS_PER_CORE * spark.sparkContext.defaultParallelism if tasks is None else tasks
