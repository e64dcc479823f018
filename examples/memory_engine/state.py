"""What an engine knows of a shard: messages in the order of commits, generations, streams, ids."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import topicdb
from topicdb.engine import RowPlace
from topicdb.engines.values import RESERVED

Key = tuple[str, int]
"""Topic and timestamp."""
Range = tuple[str, "int | None", "int | None"]
"""Filter, start, end."""


class Stored(NamedTuple):
    """A message and its place."""

    topic: str
    timestamp: int
    value: bytes
    serial: int
    row: int
    generation: int

    @property
    def place(self) -> RowPlace:
        """The commit, and the number in it."""
        return self.serial, self.row

    @property
    def rank(self) -> tuple[int, int, int]:
        """Orders the messages of a stream."""
        return self.timestamp, self.serial, self.row

    @property
    def size(self) -> int:
        """How many bytes topic and value have."""
        return len(self.topic.encode()) + len(self.value)

    @property
    def numbered(self) -> tuple[str, int, bytes, int]:
        """What a scan gives."""
        return self.topic, self.timestamp, self.value, self.serial


class Drop(NamedTuple):
    """A generation that was dropped by a commit, and the messages that went."""

    serial: int
    generation: int
    lost: list[Stored]


class Change(NamedTuple):
    """What a commit changed; None: everything."""

    serial: int
    keys: set[Key] | None


@dataclass
class Commit:
    """What a shard stores in one step: first it deletes, then it writes.

    ``writes`` are (topic, timestamp, value); ``deletes`` are ranges, each with a generation or None
    for all. ``id`` is (id of the append, digest and count of its messages).
    """

    shard: int
    serial: int
    writes: list[tuple[str, int, bytes]]
    deletes: list[tuple[Range, int | None]] = field(default_factory=list)
    id: tuple[str, str, int] | None = None
    clock: int = 0


class Known(NamedTuple):
    """An append that had an id: digest and number of its messages, and its commit."""

    digest: str
    messages: int
    serial: int


@dataclass
class Counts:
    """What was written to a generation."""

    created_at: int
    sealed_at: int | None = None
    messages: int = 0
    bytes: int = 0
    first: int | None = None
    last: int | None = None
    streams: dict[str, int] = field(default_factory=dict)
    """The number of each stream, by topic: every topic is a structure of its own."""


def now_us() -> int:
    """Returns the time of the clock, in µs since 1970."""
    return time.time_ns() // 1_000


def is_wanted(filters: list[str] | None, topic: str) -> bool:
    """Returns whether filters match a topic. None matches every topic."""
    return filters is None or any(topicdb.topic_matches(filter, topic) for filter in filters)


def limited(messages: list[Stored], rows_max: int, bytes_max: int) -> list[Stored]:
    """Returns the first messages within the limits, at least one."""
    size = 0
    for number, stored in enumerate(messages[:rows_max]):
        size += stored.size
        if number and size > bytes_max:
            return messages[:number]
    return messages[:rows_max]


def in_range(key: Key, range: Range) -> bool:
    """Returns whether a range has the messages with this key."""
    filter, start, end = range
    in_time = key[1] >= (start or 0) and (end is None or key[1] < end)
    return in_time and topicdb.topic_matches(filter, key[0])


def _matching(
    messages: Iterable[Stored], filters: list[str] | None, start: int | None, end: int | None
) -> Iterator[Stored]:
    for stored in messages:
        in_time = stored.timestamp >= (start or 0) and (end is None or stored.timestamp < end)
        if in_time and is_wanted(filters, stored.topic):
            yield stored


class Shard:
    """The messages of one shard. The engine owns it, and holds its lock whenever it uses it.

    What is written under ``$topicdb/`` is in ``own``, apart from the log and from generations.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.serial = 0
        self.clock = 0
        self.generation = 1
        self.messages: dict[RowPlace, Stored] = {}
        self.own: dict[Key, Stored] = {}
        self.counts = {1: Counts(now_us())}
        self.stream_log: list[tuple[int, str]] = []
        self.ids: dict[str, Known] = {}
        self.drops: list[Drop] = []
        self.changes: list[Change] = []
        self.starts: list[int] = []
        """The serials at which open transactions began: changes since then are remembered."""

    def find(
        self, filters: list[str] | None, start: int | None, end: int | None
    ) -> Iterator[Stored]:
        """Yields the messages that match, in the order of commits; those of ``own`` first."""
        yield from _matching(self.own.values(), filters, start, end)
        yield from self.find_logged(filters, start, end)

    def find_logged(
        self, filters: list[str] | None, start: int | None, end: int | None
    ) -> Iterator[Stored]:
        """Yields the messages that match, in the order of commits, without those of ``own``."""
        yield from _matching(self.messages.values(), filters, start, end)

    def behind(self, place: RowPlace) -> list[Stored]:
        """Returns the messages of the log at a place and behind it, in the order of commits."""
        found: list[Stored] = []
        for stored in reversed(self.messages.values()):
            if stored.place < place:
                break
            found.append(stored)
        return found[::-1]

    def apply(self, commit: Commit) -> int:
        """Makes a commit, and returns how many messages it deleted."""
        self.serial = commit.serial
        self.clock = max(self.clock, commit.clock)
        gone = [
            key for range, generation in commit.deletes for key in self._delete(range, generation)
        ]
        for row, (topic, timestamp, value) in enumerate(commit.writes):
            self._write(Stored(topic, timestamp, value, commit.serial, row, self.generation))
        if commit.id is not None:
            id, digest, count = commit.id
            self.ids[id] = Known(digest, count, commit.serial)
        self._changed({*gone, *[(topic, timestamp) for topic, timestamp, _ in commit.writes]})
        return len(gone)

    def _delete(self, range: Range, generation: int | None) -> list[Key]:
        gone = [
            stored
            for stored in [*self.messages.values(), *self.own.values()]
            if in_range(stored[:2], range) and generation in (None, stored.generation)
        ]
        for stored in gone:
            self.messages.pop(stored.place, None)
            if stored.topic.startswith(RESERVED):
                self.own.pop(stored[:2], None)
        return [stored[:2] for stored in gone]

    def _write(self, stored: Stored) -> None:
        if stored.topic.startswith(RESERVED):
            self.own[stored[:2]] = stored
            return
        self.messages[stored.place] = stored
        counts = self.counts[self.generation]
        if stored.topic not in counts.streams:
            counts.streams[stored.topic] = len(counts.streams) + 1
            self.stream_log.append((self.generation, stored.topic))
        counts.messages += 1
        counts.bytes += stored.size
        time = stored.timestamp
        counts.first = time if counts.first is None else min(counts.first, time)
        counts.last = time if counts.last is None else max(counts.last, time)

    def rotate(self, now: int) -> None:
        """Ends the current generation, and begins the next one."""
        self.counts[self.generation].sealed_at = now
        self.generation += 1
        self.counts[self.generation] = Counts(now)

    def drop(self, generation: int, serial: int) -> None:
        """Forgets a generation, by a commit with this serial."""
        self.serial = serial
        lost = [stored for stored in self.messages.values() if stored.generation == generation]
        for stored in lost:
            del self.messages[stored.place]
        del self.counts[generation]
        self.drops.append(Drop(serial, generation, lost))
        self._changed(None)

    def _changed(self, keys: set[Key] | None) -> None:
        if self.starts:
            self.changes.append(Change(self.serial, keys))

    @property
    def size(self) -> int:
        """How many bytes the topics and values of all messages have."""
        return sum(stored.size for stored in [*self.messages.values(), *self.own.values()])

    def stats(self) -> dict[str, Any]:
        """Returns what ``Engine.stats`` has of a shard."""
        counts: Iterable[Counts] = self.counts.values()
        return {
            "shard": self.number,
            "serial": self.serial,
            "clock": self.clock,
            "messages": sum(one.messages for one in counts),
            "bytes": sum(one.bytes for one in counts),
            "streams": sum(len(one.streams) for one in counts),
            "slabs": len(self.counts),
            "disk_bytes": self.size,
        }
