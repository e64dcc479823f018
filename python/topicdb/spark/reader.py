"""Functions that read: the driver plans splits, and each task reads one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import topicdb
from topicdb.arguments.filters import filter_list
from topicdb.arguments.times import TimeLike
from topicdb.spark.columns import ddl, to_arrow
from topicdb.spark.place import Remote, Wanted, open_to_read, place_of, planned
from topicdb.spark.slices import pack
from topicdb.types import AtLeastLike

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
        path: the directory of the database, or its servers.
        filter: as in ``plan``.
        slices: those that the task reads.
        properties: as in ``plan``.
        database: the id of the database that the servers offer; "" for a directory.
    """

    path: str | Remote
    filter: Filters
    slices: tuple[topicdb.Slice, ...]
    properties: bool = False
    database: str = ""


def plan(
    path: str | None = None,
    filter: Filters = "#",
    *,
    start: TimeLike | None = None,
    end: TimeLike | None = None,
    tasks: int = 8,
    properties: bool = False,
    remote: str | Remote | None = None,
    at_least: AtLeastLike | None = None,
) -> list[Split]:
    """Returns splits that together hold each matching message once.

    Opens the database read-only for a moment, also beside a writer. Tasks see this moment: no split
    has later commits. Messages that are deleted before a task begins are missing.

    Arguments:
        path: the directory of the database. None: ``remote`` has it.
        filter: as in ``Database.scan``.
        start: as in ``Database.scan``.
        end: as in ``Database.scan``.
        tasks: about how many splits of equal size to make; at least one for each shard that has
            matching messages.
        properties: tasks get the MQTT properties, too.
        remote: servers that offer the database: their addresses as text, or with a token or TLS a
            ``Remote``.
        at_least: what the read must see, as in ``Database.scan``. The driver waits for that, and
            tasks have what the driver has seen.

    Returns:
        The splits.

    Raises:
        TopicError, ValueError: a bad argument.
        NotFoundError: there is no database.
        UnavailableError: no server answers.
        AccessError: the token may not read what ``filter`` matches.
        StaleError, NoQuorumError: no server came to ``at_least`` in time.

    Example:
        >>> from topicdb.spark import plan, read_split
        >>> splits = plan("fleet.db", "site/#", tasks=16)
        >>> sum(batch.num_rows for split in splits for batch in read_split(split))
        2
    """
    if tasks < 1:
        raise ValueError(f"tasks must be at least 1, got {tasks}")
    place = place_of(path, remote)

    def make(database: topicdb.Database, seen: AtLeastLike | None) -> list[Split]:
        extent = database._extent(filter_list(filter))
        cut = partial(database.slices, filter, start=start, end=end, at_least=seen)
        share = -(-sum(slice.bytes for slice in cut()) // tasks)
        return [
            Split(place, filter, tuple(task), properties, extent.database)
            for task in pack(cut(bytes_max=max(share, 1)), share)
        ]

    return planned(place, make, at_least)


def read_split(split: Split) -> Iterator[pa.RecordBatch]:
    """Returns the messages of a split as record batches, in a task, in no order.

    Arguments:
        split: one of ``plan``.

    Returns:
        pyarrow batches. The columns are topic string, timestamp timestamp[us, UTC] and value
        binary, and those of docs/concepts/properties.md if it was planned so.

    Raises:
        NotFoundError: a slab was dropped since; the text names it.
        UnavailableError: no server answers, or the connection broke.
    """
    return map(to_arrow, _batches(split))


def read_dataframe(
    spark: SparkSession,
    path: str | None = None,
    filter: Filters = "#",
    *,
    start: TimeLike | None = None,
    end: TimeLike | None = None,
    tasks: int | None = None,
    properties: bool = False,
    remote: str | Remote | None = None,
    at_least: AtLeastLike | None = None,
) -> DataFrame:
    """Returns matching messages as a DataFrame (topic string, timestamp timestamp, value binary).

    The read is planned now, and runs when the DataFrame is used: it has the messages of now. Rows
    come in no order.

    Arguments:
        spark: the session.
        path: the directory of the database, which the workers can read. None: ``remote`` has it.
        filter: as in ``Database.scan``.
        start: as in ``Database.scan``.
        end: as in ``Database.scan``.
        tasks: about how many; None: two for each core.
        properties: adds a column for each MQTT property; see docs/concepts/properties.md.
        remote: as in ``plan``.
        at_least: as in ``plan``.

    Returns:
        The DataFrame.

    Raises:
        TopicError: a bad filter.
        NotFoundError: there is no database.

    Example:
        >>> frame = topicdb.spark.read_dataframe(spark, "fleet.db", "site/#")  # doctest: +SKIP
    """
    splits = plan(
        path,
        filter,
        start=start,
        end=end,
        tasks=_tasks(spark, tasks),
        properties=properties,
        remote=remote,
        at_least=at_least,
    )
    schema = ddl(metadata=False, properties=properties)
    if not splits:
        return spark.createDataFrame([], schema)
    numbers = spark.range(0, len(splits), 1, len(splits))  # a task each, made without Python
    return numbers.mapInArrow(partial(_read_numbered, splits), schema)


def read_rdd(
    spark: SparkSession,
    path: str | None = None,
    filter: Filters = "#",
    *,
    start: TimeLike | None = None,
    end: TimeLike | None = None,
    tasks: int | None = None,
    remote: str | Remote | None = None,
    at_least: AtLeastLike | None = None,
) -> RDD[topicdb.Message]:
    """Returns matching messages as an RDD of tuples (topic, µs since 1970, value).

    Arguments:
        spark: as in ``read_dataframe``.
        path: as in ``read_dataframe``.
        filter: as in ``read_dataframe``.
        start: as in ``read_dataframe``.
        end: as in ``read_dataframe``.
        tasks: as in ``read_dataframe``.
        remote: as in ``plan``.
        at_least: as in ``plan``.

    Returns:
        The RDD.
    """
    count = _tasks(spark, tasks)
    splits = plan(path, filter, start=start, end=end, tasks=count, remote=remote, at_least=at_least)
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
    until = max(slice.until for slice in split.slices)
    wanted = Wanted(split.database, shard, until, filter_list(split.filter))
    with open_to_read(split.path, wanted) as database:
        scan = database.scan_slices(split.slices, split.filter, properties=split.properties)
        yield from scan.batches()


def _tasks(spark: SparkSession, tasks: int | None) -> int:
    return TASKS_PER_CORE * spark.sparkContext.defaultParallelism if tasks is None else tasks
