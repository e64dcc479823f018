"""Tails of the log, and watches of streams."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import topicdb
from examples.memory_engine.given import Given
from examples.memory_engine.reading import commits_of
from examples.memory_engine.state import Shard, Stored, is_wanted
from topicdb.engine import Serials
from topicdb.engines import batch_of

if TYPE_CHECKING:
    from examples.memory_engine.engine import MemoryEngine

Found = TypeVar("Found")


class Cursor:
    """What waits for commits of an engine. Another thread may close it."""

    def __init__(self, engine: MemoryEngine) -> None:
        self._engine = engine
        self._closed = False

    def wait_for(self, find: Callable[[], Found | None], timeout_us: int | None) -> Found | None:
        """Returns what ``find`` finds, or None after the timeout; holds the lock while it looks.

        Raises ClosedError once this or the engine is closed.
        """
        end = None if timeout_us is None else time.monotonic() + timeout_us / 1e6
        with self._engine.changed:
            while True:
                self._engine.check_open()
                if self._closed:
                    raise topicdb.ClosedError("this cursor is closed")
                if (found := find()) is not None:
                    return found
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return None
                self._engine.changed.wait(left)

    def close(self) -> None:
        """Ends calls that wait. May be repeated."""
        with self._engine.changed:
            self._closed = True
            self._engine.changed.notify_all()


class MemoryTail(Cursor):
    """Commits in their order."""

    def __init__(
        self,
        engine: MemoryEngine,
        filters: list[str] | None,
        after: Serials,
        until: Serials,
        given: Given,
    ) -> None:
        super().__init__(engine)
        self._filters = filters
        self._until = until
        self._given = given
        self._at = {shard.number: after.get(shard.number, 0) for shard in engine.shards}
        for shard in engine.shards:
            if self._at[shard.number] < given.seen(shard.number):
                given.check_not_lost(shard, filters)

    def next_batch(
        self, rows_max: int, bytes_max: int, timeout_us: int | None, with_serials: bool = False, /
    ) -> topicdb.Batch | None:
        def find() -> list[Stored] | None:
            for shard in self._engine.shards:
                if some := self._take(shard, rows_max, bytes_max):
                    return some
            return [] if self._is_over() else None

        found = self.wait_for(find, timeout_us)
        if not found:
            return None
        serials = [stored.serial for stored in found]
        return batch_of((stored[:3] for stored in found), serials if with_serials else None)

    def _take(self, shard: Shard, rows_max: int, bytes_max: int) -> list[Stored]:
        last = min(self._until.get(shard.number, shard.serial), shard.serial)
        some: list[Stored] = []
        size = 0
        for serial, commit in commits_of(shard.behind((self._at[shard.number] + 1, 0))):
            if serial > last or len(some) >= rows_max or size >= bytes_max:
                break
            mine = [stored for stored in commit if self._wants(shard, stored)]
            some += mine
            size += sum(stored.size for stored in mine)
            self._at[shard.number] = serial
        else:
            self._at[shard.number] = max(self._at[shard.number], last)
        return some

    def _wants(self, shard: Shard, stored: Stored) -> bool:
        is_given = self._given.has(shard.number, stored)
        return is_wanted(self._filters, stored.topic) and not is_given

    def _is_over(self) -> bool:
        return all(
            number in self._until and at >= self._until[number] for number, at in self._at.items()
        )

    def serials(self) -> Serials:
        """Returns the serials up to which it has given every message."""
        with self._engine.changed:
            return dict(self._at)

    def shards(self) -> list[int]:
        """Returns the shards that it reads."""
        return sorted(self._at)

    def missing_shards(self) -> dict[int, str]:
        """Returns none: the shards of this engine are all there."""
        return {}


class MemoryWatch(Cursor):
    """Streams as they come to be."""

    def __init__(self, engine: MemoryEngine, filters: list[str] | None, existing: bool) -> None:
        super().__init__(engine)
        self._filters = filters
        self._seen = {s.number: 0 if existing else len(s.stream_log) for s in engine.shards}

    def next_streams(self, timeout_us: int | None, /) -> list[topicdb.Stream]:
        return self.wait_for(self._new, timeout_us) or []

    def _new(self) -> list[topicdb.Stream] | None:
        found: list[topicdb.Stream] = []
        for shard in self._engine.shards:
            for generation, topic in shard.stream_log[self._seen[shard.number] :]:
                if generation in shard.counts and is_wanted(self._filters, topic):
                    found.append(self._engine.stream(shard, generation, topic))
            self._seen[shard.number] = len(shard.stream_log)
        return found or None
