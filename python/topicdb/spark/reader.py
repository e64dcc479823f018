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
    """The part of a read for one task: slices of one shard; made by ``plan``. Can be pickled.

    Attributes:
        path: the directory of the database.
        filter: as in ``plan``.
        slices: those that the task reads.
        properties: as in ``plan``.
    """

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

    Opens the database read-only for a moment, also beside a writer. Tasks see this moment: no split
    has later commits. Messages that are deleted before a task begins are missing.

    Arguments:
        path: the directory of the database.
        filter: as in ``Database.scan``.
        start: as in ``Database.scan``.
        end: as in ``Database.scan``.
        tasks: about how many splits of equal size to make; at least one for each shard that has
            matching messages.
        properties: tasks get the MQTT properties, too.

    Returns:
        The splits.

    Raises:
        TopicError, ValueError: a bad argument.
        NotFoundError: there is no database.

    Example:
        >>> from topicdb.spark import plan, read_split
        >>> splits = plan("fleet.db", "site/#", tasks=16)
        >>> sum(batch.num_rows for split in splits for batch in read_split(split))
        2
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

    Arguments:
        split: one of ``plan``.

    Returns:
        pyarrow batches. The columns are topic string, timestamp timestamp[us, UTC] and value
        binary, and those of docs/concepts/properties.md if it was planned so.

    Raises:
        NotFoundError: a slab was dropped since; the text names it.
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

    The read is planned now, and runs when the DataFrame is used: it has the messages of now. Rows
    come in no order.

    Arguments:
        spark: the session.
        path: the directory of the database, which the workers can read.
        filter: as in ``Database.scan``.
        start: as in ``Database.scan``.
        end: as in ``Database.scan``.
        tasks: about how many; None: two for each core.
        properties: adds a column for each MQTT property; see docs/concepts/properties.md.

    Returns:
        The DataFrame.

    Raises:
        TopicError: a bad filter.
        NotFoundError: there is no database.

    Example:
        >>> frame = topicdb.spark.read_dataframe(spark, "fleet.db", "site/#")  # doctest: +SKIP
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

    Arguments:
        spark: as in ``read_dataframe``.
        path: as in ``read_dataframe``.
        filter: as in ``read_dataframe``.
        start: as in ``read_dataframe``.
        end: as in ``read_dataframe``.
        tasks: as in ``read_dataframe``.

    Returns:
        The RDD.
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
