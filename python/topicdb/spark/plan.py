"""Dividing a read into tasks. Runs on the driver; what it makes is sent to the tasks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import topicdb
from topicdb import Slab, Stream
from topicdb.spark._shards import local_path
from topicdb.times import TimeLike, now_us, optional_time_us

SPLIT_BYTES = 64 << 20
TASKS_MAX = 1_000
# A task costs Spark some 30 ms: data below this is not divided further for the sake of parallelism.
_SPLIT_BYTES_MIN = 1 << 20
# Each stream of a time slice costs a seek, so that a slice of more streams is not worth its trouble.
_STREAMS_PER_SLICE = 256


@dataclass(frozen=True, slots=True)
class Split:
    """What one task reads: some streams of a database, in one time range. Immutable, can be pickled.

    ``start`` and ``end`` are µs since the epoch (None: no bound), ``bytes`` the estimated size.
    """

    path: str
    filter: str
    start: int | None
    end: int | None
    streams: tuple[Stream, ...]
    bytes: int

    @property
    def shards(self) -> list[int]:
        """The shards that have to be opened."""
        return sorted({stream.shard for stream in self.streams})


def plan(
    path: str | os.PathLike[str],
    filter: str = "#",
    *,
    start: TimeLike | None = None,
    end: TimeLike | None = None,
    split_bytes: int = SPLIT_BYTES,
    tasks_min: int = 1,
    tasks_max: int = TASKS_MAX,
) -> list[Split]:
    """Splits that together hold every message of ``filter`` with ``start`` <= timestamp < ``end`` once.

    Small slabs of a shard share a task; a slab of more than ``split_bytes`` (as stored, estimated
    from the slab's size and how many of its streams match) is divided by streams and by time.
    ``tasks_min`` makes the splits smaller, down to 1 MiB, and ``tasks_max`` larger, to come near
    these numbers; the estimates are too coarse to promise them.

    Opens the database for reading, and closes it. Generations that begin later are not in the plan.
    Raises as ``topicdb.open(mode="r")`` and ``Database.streams``; ValueError for a bad size or number.
    """
    for name, value in (("split_bytes", split_bytes), ("tasks_min", tasks_min)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if tasks_max < tasks_min:
        raise ValueError(f"tasks_max must be at least tasks_min ({tasks_min}), got {tasks_max}")
    now = now_us()
    whole = Split(
        path=local_path(path),
        filter=filter,
        start=optional_time_us(start, what="start", now=now),
        end=optional_time_us(end, what="end", now=now),
        streams=(),
        bytes=0,
    )
    with topicdb.open(whole.path, mode="r") as db:
        streams = db.streams(filter, start=whole.start, end=whole.end)
        slabs = db.slabs()
    return _divide(_by_slab(whole, streams, slabs), split_bytes, tasks_min, tasks_max)


@dataclass(frozen=True, slots=True)
class _SlabSplit:
    """All that is to be read of one slab, and from when to when the slab has messages there."""

    split: Split
    first: int
    last: int


def _by_slab(whole: Split, streams: Iterable[Stream], slabs: Iterable[Slab]) -> list[_SlabSplit]:
    known = {(slab.shard, slab.retention_class, slab.generation): slab for slab in slabs}
    result = []
    for key, found in groupby(streams, lambda s: (s.shard, s.retention_class, s.generation)):
        matching = tuple(found)
        slab = known.get(key)
        if slab is None:  # begun or dropped between the two calls
            result.append(_SlabSplit(replace(whole, streams=matching), 0, 0))
            continue
        first, last = _overlap(slab, whole)
        share = len(matching) / max(slab.streams, 1) * _time_share(slab, first, last)
        split = replace(whole, streams=matching, bytes=round(slab.bytes * min(share, 1.0)))
        result.append(_SlabSplit(split, first, last))
    return result


def _overlap(slab: Slab, whole: Split) -> tuple[int, int]:
    """First and last time at which the slab can have messages of the read; last < first: none known."""
    first = slab.first_timestamp or 0
    last = slab.last_timestamp or 0
    if whole.start is not None:
        first = max(first, whole.start)
    if whole.end is not None:
        last = min(last, whole.end - 1)
    return first, last


def _time_share(slab: Slab, first: int, last: int) -> float:
    """The part of the slab's time that lies in first .. last, as if messages came evenly."""
    if slab.first_timestamp is None or slab.last_timestamp is None:
        return 1.0
    whole = slab.last_timestamp - slab.first_timestamp + 1
    return max(last - first + 1, 0) / whole


def _divide(
    slabs: Sequence[_SlabSplit], split_bytes: int, tasks_min: int, tasks_max: int
) -> list[Split]:
    total = sum(slab.split.bytes for slab in slabs)
    target = min(split_bytes, max(total // tasks_min, _SPLIT_BYTES_MIN))
    target = max(target, -(-total // tasks_max))
    large = [slab for slab in slabs if slab.split.bytes > target]
    small = [slab.split for slab in slabs if slab.split.bytes <= target]
    packed = [
        bin for _, splits in groupby(small, lambda s: s.shards) for bin in _pack(splits, target)
    ]
    if len(packed) > tasks_max:
        packed = _merge_neighbours(packed, tasks_max)
    return packed + [part for slab in large for part in _slices(slab, target)]


def _pack(splits: Iterable[Split], target: int) -> list[Split]:
    """Splits of one time range put together, in order, up to ``target`` bytes each."""
    bins: list[Split] = []
    for split in splits:
        if bins and bins[-1].bytes + split.bytes <= target:
            bins[-1] = _merged([bins[-1], split])
        else:
            bins.append(split)
    return bins


def _merge_neighbours(splits: Sequence[Split], count_max: int) -> list[Split]:
    step = -(-len(splits) // count_max)
    return [_merged(splits[i : i + step]) for i in range(0, len(splits), step)]


def _merged(splits: Sequence[Split]) -> Split:
    return replace(
        splits[0],
        streams=tuple(stream for split in splits for stream in split.streams),
        bytes=sum(split.bytes for split in splits),
    )


def _slices(slab: _SlabSplit, target: int) -> list[Split]:
    """A large slab divided into groups of streams, and these into time slices.

    Streams may differ much in size, and nobody has counted: dividing time too keeps one hot stream
    from being one long task.
    """
    split = slab.split
    parts = -(-split.bytes // target)
    slices = min(parts, max(slab.last - slab.first, 1))
    groups = -(-len(split.streams) // _STREAMS_PER_SLICE)
    groups = min(len(split.streams), max(groups, parts // slices))
    slices = -(-slices // groups)
    span = slab.last - slab.first
    cuts = [slab.first + span * i // slices for i in range(1, slices)]
    bounds = [split.start, *cuts, split.end]
    return [
        replace(
            split,
            start=start,
            end=end,
            streams=split.streams[group::groups],
            bytes=split.bytes // (groups * slices),
        )
        for group in range(groups)
        for start, end in zip(bounds, bounds[1:], strict=False)
    ]
