"""What an engine must hold after any history of operations, in plain Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from topicdb import _core

Message = tuple[str, int, bytes]


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored message, the generation that it is in, and its place: shard, serial, row."""

    message: Message
    generation: int
    shard: int
    serial: int
    row: int

    @property
    def rank(self) -> tuple[int, int, int]:
        """Orders the messages of a topic in a generation."""
        return self.message[1], self.serial, self.row


@dataclass(slots=True)
class Read:
    """An iterator of one topic in one generation, and what it had passed when it was read last."""

    saved: bytes
    topic: str
    shard: int
    generation: int
    last: tuple[int, int, int] | None = None  # the rank of the message that it stands behind
    passed: frozenset[Entry] = frozenset()


@dataclass(slots=True)
class Scan:
    """A scan in steps: what was there when it began, what it has given, the drops it has told."""

    saved: bytes
    wanted: frozenset[Entry]
    drops: int  # how many there were when it began
    given: set[Entry]
    told: set[tuple[int, int]]  # shard and generation


class Model:
    """The messages of an engine, as a list. The checks tell it of each operation and its receipt.

    It has one class of topics, and generations of all shards at once.
    """

    def __init__(self, shards: int, *, keeps_all: bool) -> None:
        self.shards = shards
        self.keeps_all = keeps_all
        self.entries: list[Entry] = []
        self.generation = 0
        self.dropped: list[tuple[int, int, list[Entry]]] = []  # shard, generation, what it had

    def append(self, rows: Sequence[Message], serials: Mapping[int, int]) -> None:
        """Stores rows that were acknowledged with these serials."""
        for row, message in enumerate(rows):
            shard = _core.shard_of(message[0], self.shards)
            self.write(message, shard, serials[shard], row)

    def write(self, message: Message, shard: int, serial: int, row: int) -> None:
        """Stores one message in a shard."""
        if not self.keeps_all:
            same = message[:2]
            self.entries = [e for e in self.entries if e.message[:2] != same or e.shard != shard]
        self.entries.append(Entry(message, self.generation, shard, serial, row))

    def delete(self, filter: str, start: int, end: int, shard: int | None = None) -> int:
        """Removes what matches, in one shard or in all, and returns how many messages that were."""
        left = [
            entry
            for entry in self.entries
            if not (matches(entry.message, filter, start, end) and shard in (None, entry.shard))
        ]
        count = len(self.entries) - len(left)
        self.entries = left
        return count

    def rotate(self) -> None:
        """Begins a generation."""
        self.generation += 1

    def drop(self, shard: int, generation: int) -> None:
        """Removes the messages of one generation in a shard."""
        gone = [e for e in self.entries if (e.shard, e.generation) == (shard, generation)]
        self.entries = [e for e in self.entries if (e.shard, e.generation) != (shard, generation)]
        self.dropped.append((shard, generation, gone))

    def found(self, filter: str | None = None, start: int = 0, end: int = 1 << 62) -> list[Message]:
        """Returns what a scan must find, sorted."""
        return sorted(
            entry.message
            for entry in self.entries
            if start <= entry.message[1] < end
            and (filter is None or _core.topic_matches(filter, entry.message[0]))
        )

    def in_order(self, topic: str) -> list[bytes]:
        """Returns the values of a topic in the order of a scan by streams.

        An older generation comes first, and in it messages by timestamp, commit and place.
        """
        mine = [entry for entry in self.entries if entry.message[0] == topic]
        mine.sort(key=lambda entry: (entry.generation, *entry.rank))
        return [entry.message[2] for entry in mine]

    def newest(self, filter: str) -> list[Message]:
        """Returns the newest message of each topic, by topic."""
        found: dict[str, Entry] = {}
        for entry in self.entries:
            topic = entry.message[0]
            known = found.get(topic)
            if _core.topic_matches(filter, topic) and (known is None or entry.rank > known.rank):
                found[topic] = entry
        return [found[topic].message for topic in sorted(found, key=str.encode)]

    def log(self, shard: int, after: int, reads: Sequence[Read] = ()) -> list[bytes]:
        """Returns the values of a shard behind a commit, in the order of commits.

        ``reads``: what these have passed is left out, and so are messages of their topics in
        generations that are older than those of all of them.
        """
        mine = [read for read in reads if read.shard == shard]
        oldest = min((read.generation for read in mine), default=0)
        topics = {read.topic for read in mine}
        passed = frozenset[Entry]().union(*(read.passed for read in mine))
        left = [
            e
            for e in self.entries
            if e.shard == shard
            and e.serial > after
            and e not in passed
            and not (e.generation < oldest and e.message[0] in topics)
        ]
        return [e.message[2] for e in sorted(left, key=lambda e: (e.serial, e.row))]

    def read_on(self, read: Read, given: Sequence[bytes]) -> None:
        """Notes that an iterator was read, and has given these values."""
        mine = [e for e in self.entries if (e.shard, e.generation) == (read.shard, read.generation)]
        of_topic = [e for e in mine if e.message[0] == read.topic]
        ranks = [e.rank for e in of_topic if e.message[2] in given]
        read.last = max(ranks, default=read.last)
        if read.last is not None:
            last = read.last
            read.passed |= frozenset(e for e in of_topic if e.rank <= last)

    def begin_scan(self, saved: bytes, filter: str, start: int, end: int) -> Scan:
        """Returns a scan in steps that begins now."""
        wanted = frozenset(e for e in self.entries if matches(e.message, filter, start, end))
        return Scan(saved, wanted, len(self.dropped), set(), set())

    def due(self, scan: Scan) -> list[Entry]:
        """Returns what a scan must still give; its order is that of each topic."""
        left = [e for e in self.entries if e in scan.wanted and e not in scan.given]
        return sorted(left, key=lambda e: (e.generation, *e.rank))

    def lost(self, scan: Scan) -> dict[tuple[int, int], int]:
        """Returns how many messages were dropped before a scan had given them, by generation.

        The keys are shard and generation.
        """
        found: dict[tuple[int, int], int] = {}
        for shard, generation, entries in self.dropped[scan.drops :]:
            missed = [e for e in entries if e in scan.wanted and e not in scan.given]
            found[shard, generation] = len(missed)
        return found

    def topics(self) -> list[str]:
        """Returns the topics of all messages, sorted."""
        return sorted({entry.message[0] for entry in self.entries})


def matches(message: Message, filter: str, start: int, end: int) -> bool:
    """Returns whether a filter and a range find a message."""
    return start <= message[1] < end and _core.topic_matches(filter, message[0])
