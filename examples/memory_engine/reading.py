"""The methods of the engine that read what is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import topicdb
from examples.memory_engine.state import Shard, Stored, is_wanted, limited
from topicdb.engine import Filters, RowPlace, Serials
from topicdb.engines import BatchScan, batch_of, checked_filters
from topicdb.engines.base import READ_COUNTS
from topicdb.results import CommitSpan, SlabUsage, StructureUsage

Place = tuple[int, Stored]
"""The number of a shard, and a message in it."""

_ORDERS: dict[str, Callable[[Place], Any] | None] = {
    "stream": lambda found: (found[0], found[1].generation, *found[1].rank),
    "time": lambda found: (found[1].timestamp, found[0], *found[1].rank),
    "none": None,
}


class Reads:
    """Methods of MemoryEngine. What they use of it is declared here."""

    database: bytes
    shards: list[Shard]
    using: Callable[[], AbstractContextManager[None]]
    check_shards: Callable[[Iterable[int]], None]
    scan_of: Callable[[Iterable[tuple[str, int, bytes, int]]], BatchScan]
    slabs: Callable[[], list[topicdb.Slab]]

    def scan(
        self,
        filter: Filters,
        start: int | None,
        end: int | None,
        order: str,
        streams: Sequence[topicdb.Stream] | None,
        /,
    ) -> BatchScan:
        wanted = checked_filters(filter)
        if order not in _ORDERS:
            raise ValueError(f"order: expected 'stream', 'time' or 'none', got {order!r}")
        with self.using():
            chosen = None if streams is None else {self._topic(stream) for stream in streams}
            found = [
                (shard.number, stored)
                for shard in self.shards
                for stored in shard.find(wanted, start, end)
                if chosen is None or (shard.number, stored.generation, stored.topic) in chosen
            ]
        key = _ORDERS[order]
        if key is not None:
            found.sort(key=key)
        return self.scan_of(stored.numbered for _, stored in found)

    # Streams: each topic is one.

    def streams(
        self, filter: Filters, start: int | None, end: int | None, generation_min: int | None, /
    ) -> list[topicdb.Stream]:
        wanted = checked_filters(filter)
        if generation_min is not None and generation_min < 0:
            raise ValueError(f"generation_min: {generation_min} is negative")
        with self.using():
            return [
                self.stream(shard, generation, topic)
                for shard in self.shards
                for generation, counts in shard.counts.items()
                for topic in sorted(counts.streams)
                if generation >= (generation_min or 0) and is_wanted(wanted, topic)
            ]

    def stream(self, shard: Shard, generation: int, topic: str) -> topicdb.Stream:
        """Returns the stream of a topic in a generation."""
        return topicdb.Stream(
            database=self.database,
            shard=shard.number,
            class_id=0,
            retention_class="#",
            generation=generation,
            structure=topic,
            id=shard.counts[generation].streams[topic],
        )

    def _topic(self, stream: topicdb.Stream) -> tuple[int, int, str]:
        """Returns shard, generation and topic of a stream. Raises NotFoundError if it is gone."""
        self._counts(stream.database, stream.shard, stream.generation)
        return stream.shard, stream.generation, stream.structure

    def _counts(self, database: bytes, shard: int, generation: int) -> Any:
        if database != self.database:
            raise topicdb.NotFoundError("this belongs to another database")
        if shard >= len(self.shards) or generation not in self.shards[shard].counts:
            raise topicdb.NotFoundError(f"shard {shard} has no generation {generation}")
        return self.shards[shard].counts[generation]

    def iterator(
        self, stream: topicdb.Stream, filter: str, start: int | None, end: int | None, /
    ) -> topicdb.Iterator:
        wanted = checked_filters(filter)
        with self.using():
            _, _, topic = self._topic(stream)
            if not is_wanted(wanted, topic):
                raise ValueError(f"filter {filter!r} matches no topic of the structure {topic!r}")
            return topicdb.Iterator(stream, filter, start, end, self.shards[stream.shard].serial)

    def next(self, iterator: topicdb.Iterator, rows_max: int, bytes_max: int, /) -> topicdb.Page:
        with self.using():
            counts = self._counts(iterator.database, iterator.shard, iterator.generation)
            topic = next(t for t, id in counts.streams.items() if id == iterator.stream_id)
            shard = self.shards[iterator.shard]
            place = iterator.place
            behind = (iterator.timestamp, -1, -1) if place is None else (iterator.timestamp, *place)
            left = sorted(
                (
                    stored
                    for stored in shard.find_logged([iterator.filter], None, iterator.end)
                    if stored.topic == topic
                    and stored.generation == iterator.generation
                    and stored.rank > behind
                ),
                key=lambda stored: stored.rank,
            )
            taken = limited(left, rows_max, bytes_max)
            is_all = len(taken) == len(left)
            is_over = is_all and iterator.generation != shard.generation
            seen = shard.serial
        if taken:
            iterator = iterator.after(*taken[-1].rank)
        following = iterator.with_seen(seen, is_all)
        return topicdb.Page(following, batch_of(stored[:3] for stored in taken), is_over)

    # Slices: some commits of a generation.

    def slices(
        self,
        filters: Sequence[str] | None,
        start: int | None,
        end: int | None,
        after: Serials,
        until: Serials,
        bytes_max: int,
        /,
    ) -> list[topicdb.Slice]:
        wanted = checked_filters(filters)
        found: list[topicdb.Slice] = []
        with self.using():
            self.check_shards([*after, *until])
            for shard in self.shards:
                low = after.get(shard.number, 0)
                high = min(until.get(shard.number, shard.serial), shard.serial)
                matching = [
                    m for m in shard.find_logged(wanted, start, end) if low < m.serial <= high
                ]
                for generation in shard.counts:
                    mine = [stored for stored in matching if stored.generation == generation]
                    for first, last, some in _cut(mine, bytes_max):
                        size = sum(stored.size for stored in some)
                        slab = shard.number, "#", generation
                        found.append(topicdb.Slice(*slab, first, last, start, end, len(some), size))
        return found

    def scan_slices(
        self, filters: Sequence[str] | None, slices: Sequence[topicdb.Slice], /
    ) -> BatchScan:
        wanted = checked_filters(filters)
        found: list[Stored] = []
        with self.using():
            for one in slices:
                self._counts(self.database, one.shard, one.generation)
                found += [
                    stored
                    for stored in self.shards[one.shard].find_logged(wanted, one.start, one.end)
                    if stored.generation == one.generation
                    and one.after < stored.serial <= one.until
                ]
        return self.scan_of(stored.numbered for stored in found)

    # The log of commits.

    def measure_log(
        self,
        shard: int,
        filters: Sequence[str] | None,
        after: int,
        until: int | None,
        start: int | None,
        rows_max: int,
        bytes_max: int,
        whole_blocks: bool = False,
    ) -> CommitSpan:
        wanted = checked_filters(filters)
        with self.using():
            self._check_shard(shard)
            last = self.shards[shard].serial if until is None else until
            messages = size = 0
            reached = after
            for serial, commit in commits_of(self.shards[shard].behind((after + 1, 0))):
                if serial > last:
                    break
                mine = [
                    m for m in commit if is_wanted(wanted, m.topic) and m.timestamp >= (start or 0)
                ]
                more = sum(stored.size for stored in mine)
                if messages and (messages + len(mine) > rows_max or size + more > bytes_max):
                    return CommitSpan(reached, messages, size)
                messages, size, reached = messages + len(mine), size + more, serial
            return CommitSpan(last, messages, size)

    def places_at(self, filters: Sequence[str] | None, start_us: int, /) -> dict[int, RowPlace]:
        wanted = checked_filters(filters)
        with self.using():
            return {
                shard.number: next(
                    (
                        stored.place
                        for stored in shard.messages.values()
                        if stored.timestamp >= start_us and is_wanted(wanted, stored.topic)
                    ),
                    (shard.serial + 1, 0),
                )
                for shard in self.shards
            }

    def count_dropped(
        self,
        shard: int,
        filters: Sequence[str] | None,
        start_us: int,
        place: RowPlace,
        counted: int,
        /,
    ) -> int:
        wanted = checked_filters(filters)
        with self.using():
            self._check_shard(shard)
            return sum(
                is_wanted(wanted, stored.topic)
                and stored.timestamp >= start_us
                and stored.place >= place
                for drop in self.shards[shard].drops
                if drop.serial > counted
                for stored in drop.lost
            )

    def _check_shard(self, shard: int) -> None:
        if not 0 <= shard < len(self.shards):
            raise topicdb.NotFoundError(f"shard {shard} is not open here")

    # What reads and messages take.

    def explain(self, filter: Filters, start: int | None, end: int | None, /) -> dict[str, int]:
        wanted = checked_filters(filter)
        with self.using():
            found = [m for shard in self.shards for m in shard.find(wanted, start, end)]
            examined = sum(len(shard.messages) for shard in self.shards)
            slabs = sum(len(shard.counts) for shard in self.shards)
            streams = len(self.streams(filter, start, end, None))
        counts = {"rows_examined": examined, "rows_matched": len(found)}
        return {"slabs": slabs, "streams": streams, **dict.fromkeys(READ_COUNTS, 0), **counts}

    def usage(self) -> list[SlabUsage]:
        return [SlabUsage(slab, slab.bytes, 0) for slab in self.slabs()]

    def usage_by_structure(self) -> list[StructureUsage]:
        found: dict[str, list[int]] = {}
        with self.using():
            for shard in self.shards:
                for stored in shard.messages.values():
                    found.setdefault(stored.topic, []).append(stored.size)
        return [StructureUsage("#", t, len(s), sum(s), sum(s)) for t, s in sorted(found.items())]


def commits_of(messages: Sequence[Stored]) -> Iterator[tuple[int, list[Stored]]]:
    """Yields each commit of messages that are in the order of commits: serial and messages."""
    some: list[Stored] = []
    for stored in messages:
        if some and stored.serial != some[0].serial:
            yield some[0].serial, some
            some = []
        some.append(stored)
    if some:
        yield some[0].serial, some


def _cut(messages: Sequence[Stored], bytes_max: int) -> Iterator[tuple[int, int, list[Stored]]]:
    """Yields parts of whole commits: the commit before the first, the last one, the messages."""
    some: list[Stored] = []
    size = 0
    for _, commit in commits_of(messages):
        more = sum(stored.size for stored in commit)
        if some and size + more > bytes_max:
            yield some[0].serial - 1, some[-1].serial, some
            some, size = [], 0
        some, size = [*some, *commit], size + more
    if some:
        yield some[0].serial - 1, some[-1].serial, some
