"""The engine: appends, deletes, reads, generations. All calls share one lock."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import topicdb
from examples.memory_engine.cursors import MemoryTail, MemoryWatch
from examples.memory_engine.given import Given
from examples.memory_engine.reading import Reads
from examples.memory_engine.state import Commit, Range, Shard, now_us
from examples.memory_engine.steps import Steps
from examples.memory_engine.subscription import MemorySubscription
from examples.memory_engine.transaction import MemoryTransaction
from topicdb.engine import RowPlace, Serials
from topicdb.engines import (
    BatchScan,
    EngineBase,
    checked_durability,
    checked_filters,
    checked_keys,
    checked_rows,
    stats_of,
)
from topicdb.engines.values import Row
from topicdb.results import Dropped, QuotaState, TrimCount
from topicdb.types import Keys

ID_BYTES_MAX = 255


class MemoryEngine(Reads, Steps, EngineBase):
    """An engine that keeps its messages in memory. Thread-safe.

    ``changed`` is the lock of everything, and tells those who wait of each commit.
    """

    takes_given: ClassVar[bool] = True

    def __init__(self, path: str, shards: int) -> None:
        self._path = path
        self.database = os.urandom(16)
        self.shards = [Shard(number) for number in range(shards)]
        self.changed = threading.Condition(threading.RLock())
        self.subscriptions: list[MemorySubscription] = []
        self._quota = 0, 0.0
        self._closed = False

    @property
    def path(self) -> str:
        return self._path

    @property
    def schema(self) -> dict[str, Any]:
        return {
            "shards": len(self.shards),
            "layout": "columnar",  # messages with one topic and timestamp are all kept
            "timestamp_bytes": 8,
            "structures": [],
            "thresholds": [],
            "retention": {},
        }

    @property
    def closed(self) -> bool:
        return self._closed

    @contextmanager
    def using(self) -> Iterator[None]:
        """Holds the lock during a call. Raises ClosedError if the engine is closed."""
        with self.changed:
            self.check_open()
            yield

    # Writing.

    def append_rows(
        self,
        rows: Iterable[Any],
        durability: str | None,
        escapes: bool = False,
        id: str | None = None,
        key: Keys | None = None,
        /,
    ) -> topicdb.Receipt:
        checked = checked_rows(rows, escapes)
        checked_keys(key, len(checked), self.schema, self.path)  # it shards by topic
        with self.using():
            reached = self.reached(durability)
            if id is not None and (known := self._known(id, checked)) is not None:
                return topicdb.Receipt(known, len(checked), reached, repeated=True)
            if checked:
                self.check_quota()
            by_shard: dict[int, list[Row]] = {}
            for row in checked:
                by_shard.setdefault(topicdb.shard_of(row[0], len(self.shards)), []).append(row)
            about = None if id is None else (id, _digest(checked), len(checked))
            serials = {
                number: self.commit(self.shards[number], mine, [], reached, about)[0]
                for number, mine in by_shard.items()
            }
            return topicdb.Receipt(serials, len(checked), reached)

    def _known(self, id: str, rows: list[Row]) -> Serials | None:
        """Returns the serials of the append with this id, or None if there was none."""
        if not 1 <= len(id.encode()) <= ID_BYTES_MAX:
            raise ValueError(f"id: expected 1 to {ID_BYTES_MAX} bytes, got {len(id.encode())}")
        known = {shard.number: shard.ids[id] for shard in self.shards if id in shard.ids}
        for one in known.values():
            if one.digest != _digest(rows):
                raise ValueError(
                    f"id {id!r} was used for another append, of {one.messages} messages"
                )
        return {number: one.serial for number, one in known.items()} or None

    def find_append(self, id: str, /) -> topicdb.Receipt | None:
        with self.using():
            known = {shard.number: shard.ids[id] for shard in self.shards if id in shard.ids}
            if not known:
                return None
            serials = {number: one.serial for number, one in known.items()}
            count = next(iter(known.values())).messages
            return topicdb.Receipt(serials, count, self.reached(None), repeated=True)

    def delete(
        self, filter: str, start: int | None, end: int | None, durability: str | None, /
    ) -> topicdb.Receipt:
        checked_filters(filter)
        if end is not None and (start or 0) > end:
            raise ValueError(f"the range to delete ends at {end}, before it begins at {start}")
        with self.using():
            reached = self.reached(durability)
            range = filter, start, end
            done = {s.number: self.commit(s, [], [(range, None)], reached) for s in self.shards}
            serials = {number: serial for number, (serial, _) in done.items()}
            return topicdb.Receipt(serials, sum(count for _, count in done.values()), reached)

    def begin(
        self, shard: int, generation: int | None, durability: str | None, /
    ) -> MemoryTransaction:
        with self.using():
            self.check_shards([shard])
            if generation is not None and generation not in self.shards[shard].counts:
                raise topicdb.NotFoundError(f"shard {shard} has no generation {generation}")
            return MemoryTransaction(self, self.shards[shard], generation, self.reached(durability))

    def commit(
        self,
        shard: Shard,
        rows: Sequence[tuple[str, int | None, bytes | None]],
        deletes: list[tuple[Range, int | None]],
        durability: str,
        id: tuple[str, str, int] | None = None,
    ) -> tuple[int, int]:
        """Makes a commit; returns its serial and how many messages it deleted. Holds the lock."""
        serial, clock = shard.serial + 1, shard.clock
        writes: list[tuple[str, int, bytes]] = []
        for topic, timestamp, value in rows:
            if timestamp is None:
                timestamp = clock = max(clock + 1, now_us())
            writes.append((topic, timestamp, serial.to_bytes(8, "big") if value is None else value))
        commit = Commit(shard.number, serial, writes, deletes, id, clock)
        self.record(commit, durability)
        gone = shard.apply(commit)
        self.tell()
        return serial, gone

    def record(self, change: object, durability: str) -> None:
        """Writes down what is going to change. This engine forgets."""

    def reached(self, durability: str | None) -> str:
        """Returns the durability of a commit. Raises NotImplementedError for what cannot be."""
        found = checked_durability(durability, "os" if self.persists else "none")
        if self.persists:
            return "os" if found == "none" else found
        if found != "none":
            raise NotImplementedError(f"durability: this engine forgets, {found!r} cannot be")
        return found

    def tell(self) -> None:
        """Wakes up whoever waits for a commit. Holds the lock."""
        self.changed.notify_all()
        for subscription in self.subscriptions:
            subscription.tell()

    # Generations.

    def rotate(
        self,
        retention_class: str | None,
        resets_clock: bool = False,
        layout: str | None = None,
        /,
    ) -> None:
        with self.using():
            if layout not in (None, "columnar"):
                raise topicdb.SchemaError(f"layout: expected 'columnar', got {layout!r}")
            if retention_class not in (None, "#"):
                raise topicdb.NotFoundError(f"there is no retention class {retention_class!r}")
            if resets_clock and retention_class is not None:
                raise ValueError("a shard has one clock for all classes: reset it without a class")
            now = now_us()
            self.record({"rotate": now, "resets_clock": resets_clock}, "os")
            self.rotate_all(now, resets_clock)

    def rotate_all(self, now: int, resets_clock: bool) -> None:
        """Begins a generation in every shard. Holds the lock."""
        for shard in self.shards:
            shard.rotate(now)
            if resets_clock:
                shard.clock = min(shard.clock, now)

    def slabs(self) -> list[topicdb.Slab]:
        with self.using():
            return [self.slab(shard, number) for shard in self.shards for number in shard.counts]

    def slab(self, shard: Shard, generation: int) -> topicdb.Slab:
        """Returns what is known of a generation in a shard."""
        counts = shard.counts[generation]
        return topicdb.Slab(
            shard=shard.number,
            class_id=0,
            retention_class="#",
            generation=generation,
            layout="columnar",
            read_only=generation != shard.generation,
            created_at=counts.created_at,
            sealed_at=counts.sealed_at,
            messages=counts.messages,
            bytes=counts.bytes,
            streams=len(counts.streams),
            first_timestamp=counts.first,
            last_timestamp=counts.last,
        )

    def drop_slab(self, shard: int, retention_class: str, generation: int, /) -> None:
        with self.using():
            self.check_shards([shard])
            found = self.shards[shard]
            if retention_class != "#" or generation not in found.counts:
                raise topicdb.NotFoundError(
                    f"shard {shard} has no generation {generation} of {retention_class!r}"
                )
            if generation == found.generation:
                raise ValueError(f"generation {generation} is the current one: rotate first")
            self.record({"drop": [shard, generation, found.serial + 1]}, "os")
            found.drop(generation, found.serial + 1)
            self.tell()

    def trim(self, before_us: int, filter: str | None, dry_run: bool, /) -> TrimCount:
        wanted = checked_filters(filter if filter is not None else "#")
        with self.using():
            whole = (
                []
                if filter is not None
                else [slab for slab in self.slabs() if _is_old(slab, before_us)]
            )
            dropped = {(slab.shard, slab.generation) for slab in whole}
            single = [
                stored
                for shard in self.shards
                for stored in shard.find(wanted, None, before_us)
                if (shard.number, stored.generation) not in dropped
            ]
            if not dry_run:
                for slab in whole:
                    self.drop_slab(slab.shard, slab.retention_class, slab.generation)
                self.delete((wanted or ["#"])[0], None, before_us, None)
            return TrimCount(whole, len(single))

    # The quota: no generation goes for it, since nothing drops any by itself.

    def quota(self) -> QuotaState:
        with self.using():
            return QuotaState(*self._quota, sum(shard.size for shard in self.shards))

    def set_quota(
        self, quota_bytes: int | None, quota_trim: float | None, dry_run: bool = False, /
    ) -> list[Dropped]:
        if quota_bytes is not None and quota_bytes < 0:
            raise ValueError(f"quota_bytes: {quota_bytes} is negative; 0 sets no limit")
        if quota_trim is not None and not 0 <= quota_trim <= 1:
            raise ValueError(f"quota_trim: expected a part of the quota, up to 1, got {quota_trim}")
        with self.using():
            size, part = self._quota
            if not dry_run:
                self._quota = (
                    size if quota_bytes is None else quota_bytes,
                    part if quota_trim is None else quota_trim,
                )
            return []

    def check_quota(self) -> None:
        """Raises QuotaError if nothing may be added. Holds the lock."""
        limit, used = self._quota[0], sum(shard.size for shard in self.shards)
        if limit and used >= limit:
            raise topicdb.QuotaError(f"{self._path} has {used} bytes, its quota is {limit}")

    # Following.

    def tail(
        self,
        filters: Sequence[str] | None,
        after: Serials,
        until: Serials,
        given: Sequence[topicdb.Iterator] = (),
        /,
    ) -> MemoryTail:
        wanted = checked_filters(filters)
        with self.using():
            self.check_shards([*after, *until])
            return MemoryTail(self, wanted, after, until, Given(self, given))

    def watch_streams(self, filter: str, existing: bool, /) -> MemoryWatch:
        wanted = checked_filters(filter)
        with self.using():
            return MemoryWatch(self, wanted, existing)

    def subscribe(
        self,
        filters: Sequence[str] | None,
        places: dict[int, RowPlace] | None,
        start_us: int,
        window: int,
        window_bytes: int,
        part: tuple[int, int] = (0, 1),
        counted: Serials | None = None,
        given: Sequence[topicdb.Iterator] = (),
        /,
    ) -> MemorySubscription:
        wanted = checked_filters(filters)
        if window < 1 or window_bytes < 1:
            raise ValueError(f"window: at least 1 is needed, got {window} and {window_bytes} bytes")
        with self.using():
            self.check_shards([*(places or {}), *(counted or {})])
            before = Given(self, given)
            made = MemorySubscription(
                self, wanted, places, start_us, (window, window_bytes), part, counted or {}, before
            )
            self.subscriptions.append(made)
            return made

    def subscription_stats(self) -> dict[str, int]:
        with self.using():
            return {**super().subscription_stats(), "subscriptions": len(self.subscriptions)}

    def check_shards(self, numbers: Iterable[int]) -> None:
        """Raises ValueError if there is no such shard."""
        for number in numbers:
            if not 0 <= number < len(self.shards):
                raise ValueError(f"there is no shard {number}: there are {len(self.shards)}")

    def scan_of(self, messages: Iterable[tuple[str, int, bytes, int]]) -> BatchScan:
        """Returns a scan of these messages, which ends with the engine."""
        return BatchScan(messages, self.check_open)

    # The engine as a whole.

    def stats(self) -> dict[str, Any]:
        with self.using():
            return stats_of([shard.stats() for shard in self.shards])

    def flush(self) -> None:
        self.check_open()

    def close(self) -> None:
        with self.changed:
            self._closed = True
            self.tell()


def _is_old(slab: topicdb.Slab, before_us: int) -> bool:
    last = slab.last_timestamp
    return slab.read_only and last is not None and last < before_us


def _digest(rows: list[Row]) -> str:
    return hashlib.sha256(repr(rows).encode()).hexdigest()
