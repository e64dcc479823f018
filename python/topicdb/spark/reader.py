"""Reading: the driver plans tasks from streams and times, each task scans its part."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa

import topicdb
from topicdb.scan import BATCH_BYTES_MAX
from topicdb.spark.columns import DDL, to_arrow
from topicdb.times import TimeLike, optional_time_us

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession

TASKS_PER_CORE = 2
BATCH_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Split:
    """What one task reads: some streams, or a slice of time of one. Travels pickled."""

    path: str
    filter: str
    start: int | None
    end: int | None
    streams: tuple[topicdb.Stream, ...]


@dataclass(frozen=True, slots=True)
class _Sized:
    """A stream, the times its slab spans, and a guess of its messages (its share of the slab)."""

    stream: topicdb.Stream
    first: int
    last: int
    messages: float


def plan(
    path: str,
    filter: str = "#",
    *,
    start: TimeLike | None = None,
    end: TimeLike | None = None,
    tasks: int = 8,
) -> list[Split]:
    """Splits that together hold each matching message once: about ``tasks`` of equal size.

    Small streams share a split; a large one is cut by time. Opens the database read-only for a
    moment: a writer may go on. What it commits after this is not planned for: slices of time may
    see it, other streams not.
    """
    if tasks < 1:
        raise ValueError(f"tasks must be at least 1, got {tasks}")
    path = os.path.abspath(path)  # tasks may run in another directory
    start_us = optional_time_us(start, what="start")
    end_us = optional_time_us(end, what="end")
    with topicdb.open(path, mode="r") as database:
        streams = database.streams(filter, start=start_us, end=end_us)
        slabs = {_slab_key(slab): slab for slab in database.slabs()}
    sized = [_size(stream, slabs[_slab_key(stream)]) for stream in streams]
    share = sum(item.messages for item in sized) / tasks
    splits: list[Split] = []
    group: list[_Sized] = []
    for item in sized:
        if item.messages > 1.5 * share and item.last > item.first:
            splits += _cut(path, filter, start_us, end_us, item, round(item.messages / share))
            continue
        group.append(item)
        if sum(member.messages for member in group) >= share:
            splits.append(_join(path, filter, start_us, end_us, group))
            group = []
    if group:
        splits.append(_join(path, filter, start_us, end_us, group))
    return splits


def read_split(split: Split) -> Iterator[pa.RecordBatch]:
    """Record batches (topic string, timestamp[us, UTC], value binary) of a split, in a task."""
    shards = sorted({stream.shard for stream in split.streams})
    with topicdb.open(split.path, mode="r", only_shards=shards) as database:
        scan = database.scan(split.filter, start=split.start, end=split.end, streams=split.streams)
        for batch in scan.batches(BATCH_ROWS, bytes_max=BATCH_BYTES_MAX):
            yield to_arrow(batch)


def read_dataframe(
    spark: SparkSession,
    path: str,
    filter: str = "#",
    *,
    start: TimeLike | None = None,
    end: TimeLike | None = None,
    tasks: int | None = None,
) -> DataFrame:
    """Matching messages as a DataFrame (topic string, timestamp timestamp, value binary).

    Planned now, read when the DataFrame is used. TopicError, NotFoundError at once. No order is
    promised. ``tasks`` defaults to two a core.
    """
    splits = plan(path, filter, start=start, end=end, tasks=_tasks(spark, tasks))
    if not splits:
        return spark.createDataFrame([], DDL)
    rows = [(pickle.dumps(split),) for split in splits]
    frame = spark.createDataFrame(spark.sparkContext.parallelize(rows, len(rows)), "split binary")
    return frame.mapInArrow(_read_pickled, DDL)


def read_rdd(
    spark: SparkSession,
    path: str,
    filter: str = "#",
    *,
    start: TimeLike | None = None,
    end: TimeLike | None = None,
    tasks: int | None = None,
) -> RDD[tuple[str, int, bytes]]:
    """As ``read_dataframe``, as an RDD of (topic, µs, value)."""
    splits = plan(path, filter, start=start, end=end, tasks=_tasks(spark, tasks))
    rows = spark.sparkContext.parallelize(splits, max(len(splits), 1))
    return rows.flatMap(_read_tuples)


def _read_pickled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for pickled in batch.column("split").to_pylist():
            yield from read_split(pickle.loads(pickled))


def _read_tuples(split: Split) -> Iterator[tuple[str, int, bytes]]:
    shards = sorted({stream.shard for stream in split.streams})
    with topicdb.open(split.path, mode="r", only_shards=shards) as database:
        for message in database.scan(
            split.filter, start=split.start, end=split.end, streams=split.streams
        ):
            yield message.topic, message.timestamp, message.value


def _tasks(spark: SparkSession, tasks: int | None) -> int:
    return TASKS_PER_CORE * spark.sparkContext.defaultParallelism if tasks is None else tasks


def _slab_key(place: topicdb.Slab | topicdb.Stream) -> tuple[int, str, int]:
    return place.shard, place.retention_class, place.generation


def _size(stream: topicdb.Stream, slab: topicdb.Slab) -> _Sized:
    return _Sized(
        stream,
        slab.first_timestamp or 0,
        slab.last_timestamp or 0,
        slab.messages / max(slab.streams, 1),
    )


def _join(path: str, filter: str, start: int | None, end: int | None, group: list[_Sized]) -> Split:
    return Split(path, filter, start, end, tuple(item.stream for item in group))


def _cut(
    path: str, filter: str, start: int | None, end: int | None, item: _Sized, slices: int
) -> Iterator[Split]:
    """Slices of equal length; the outermost keep the caller's bounds, so that nothing falls out."""
    first = item.first if start is None else max(start, item.first)
    last = item.last if end is None else min(end, item.last)
    if last <= first:  # the caller's range only touches the slab's
        return iter([Split(path, filter, start, end, (item.stream,))])
    inner = sorted({first + (last - first) * i // slices for i in range(1, slices)} - {first})
    bounds = [start, *(bound for bound in inner if bound > (start or 0)), end]
    return (Split(path, filter, low, high, (item.stream,)) for low, high in pairwise(bounds))
