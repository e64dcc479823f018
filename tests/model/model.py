"""The whole database as its user sees it, in plain Python: what every operation must return.

The tests compare streams by ``StreamRef``. They tell the model the serials of each commit and the
timestamps that the database assigned; the model works out everything else by itself.
"""

from __future__ import annotations

import copy
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import permutations
from typing import Any, TypeAlias

from model.structures import StreamKey, Structures
from model.topics import matches, may_match

CATCH_ALL = "#"
FIRST_GENERATION = 1
ORDERED_TOPICS_MAX = 4

ResolvedRow: TypeAlias = tuple[str, int, bytes]
Row: TypeAlias = "tuple[str, int | None, bytes]"
OrderKey: TypeAlias = tuple[Any, ...]
Key: TypeAlias = "str | bytes | None"
"""The key of a message; None: it has none."""
SlabId: TypeAlias = tuple[int, str, int]
"""(shard, retention class, generation)"""


def shard_of(text: str | bytes, shards: int) -> int:
    """Returns the shard that a topic or a key stands for."""
    data = text.encode() if isinstance(text, str) else text
    return zlib.crc32(data) % shards


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored message with the serial of its commit, and its number among that commit's rows."""

    topic: str
    timestamp: int
    value: bytes
    serial: int
    position: int

    @property
    def message(self) -> ResolvedRow:
        return self.topic, self.timestamp, self.value

    def rank(self, shard: int) -> tuple[int, int, int, int]:
        """Orders the messages of a topic; the greatest rank is that of the newest message."""
        return self.timestamp, shard, self.serial, self.position


@dataclass(frozen=True, slots=True)
class StreamRef:
    """A stream of the database."""

    slab: SlabId
    key: StreamKey


MessageId: TypeAlias = tuple[int, int, int]
"""(shard, serial, position)"""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position in a stream: after the message with the key ``after``, or at the start if None.

    ``passed``: what it had given or passed over when it was read last.
    """

    stream: StreamRef
    filter: str
    start: int
    end: int | None
    after: OrderKey | None = None
    passed: frozenset[MessageId] = frozenset()


@dataclass(frozen=True, slots=True)
class ScanCursor:
    """A position in all streams of a filter, as they were when a scan in steps began.

    - ``until``: the last commit of each shard that is part of the scan.
    - ``dropped``: how many slabs had been dropped when it began.
    - ``given``: the messages that it has given: shard, serial and position of each.
    - ``told``: the slabs that it has told to be lost.
    """

    filter: str
    start: int
    end: int | None
    until: Mapping[int, int]
    dropped: int
    given: frozenset[MessageId] = frozenset()
    told: frozenset[SlabId] = frozenset()


@dataclass(slots=True)
class Slab:
    """One generation of a retention class in a shard.

    ``written`` and ``written_bytes`` count every message that was written, also those that were
    overwritten since.
    """

    structures: Structures
    begun_after: int = 0
    """How many changes its shard had had: it is read after all that began before."""
    read_only: bool = False
    written: int = 0
    written_bytes: int = 0
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    layout: str = "columnar"
    entries: dict[tuple[Any, ...], Entry] = field(default_factory=dict)
    stream_of: dict[str, StreamKey] = field(default_factory=dict)

    @property
    def keeps_all(self) -> bool:
        """Whether messages with equal topic and timestamp are all kept."""
        return self.layout == "columnar"

    def write(self, entry: Entry) -> None:
        assert not self.read_only
        key = self.structures.learn(entry.topic)
        assert self.stream_of.setdefault(entry.topic, key) == key, "a topic changed its stream"
        place: tuple[Any, ...] = (entry.topic, entry.timestamp)
        if self.keeps_all:
            place += (entry.serial, entry.position)
        self.entries[place] = entry
        self.written += 1
        self.written_bytes += len(entry.topic.encode()) + len(entry.value)
        first, last = self.first_timestamp, self.last_timestamp
        self.first_timestamp = entry.timestamp if first is None else min(first, entry.timestamp)
        self.last_timestamp = entry.timestamp if last is None else max(last, entry.timestamp)


@dataclass(frozen=True, slots=True)
class Schema:
    """What a database is created with."""

    shards: int = 1
    thresholds: tuple[int, ...] = (100, 10)
    structures: tuple[str, ...] = ()
    retention: tuple[str, ...] = ()
    timestamp_bytes: int = 8
    layout: str = "columnar"
    """The layout of the first generations."""
    shard_by: str = "topic"

    @property
    def layouts(self) -> tuple[str, ...]:
        """The layouts that generations may have."""
        return ("columnar", "skipstream") if self.timestamp_bytes > 0 else ("skipstream",)

    @property
    def classes(self) -> tuple[str, ...]:
        """The retention classes in the order in which the database tries them."""
        return self.retention if CATCH_ALL in self.retention else (*self.retention, CATCH_ALL)

    def class_of(self, topic: str) -> str:
        """Returns the first class whose filter matches; the catch-all also takes ``$`` topics."""
        return next(c for c in self.classes if c == CATCH_ALL or matches(c, topic))


class Model:
    """The reference database."""

    def __init__(self, schema: Schema, layouts: Mapping[str, str | None] | None = None) -> None:
        """``layouts``: those that retention classes name from the beginning."""
        self.schema = schema
        self.serials: dict[int, int] = {}
        self.layouts = dict(layouts or {})  # that the retention classes name
        self.changes: Counter[int] = Counter()  # commits and drops of each shard
        self.assigned_last: dict[int, int] = {}
        self.slabs: dict[SlabId, Slab] = {}
        self.dropped: list[tuple[SlabId, Slab]] = []
        for shard in range(schema.shards):
            for name in schema.classes:
                fresh = self._fresh_slab(shard, self.layouts.get(name) or schema.layout)
                self.slabs[shard, name, FIRST_GENERATION] = fresh

    # Writing

    def append(
        self,
        rows: Sequence[ResolvedRow],
        serials: Mapping[int, int],
        keys: Sequence[Key] | None = None,
    ) -> None:
        """Applies a batch that the database acknowledged with ``serials``.

        ``keys`` has the key of each row; None: no row has one.
        """
        given = [None] * len(rows) if keys is None else keys
        shards = [self.shard_of(row[0], key) for row, key in zip(rows, given, strict=True)]
        assert set(serials) == set(shards), "a receipt names the shards that were written"
        for shard, serial in serials.items():
            assert serial > self.serials.get(shard, -1), "serials increase"
            self.serials[shard] = serial
            self.changes[shard] += 1
        for position, ((topic, timestamp, value), shard) in enumerate(
            zip(rows, shards, strict=True)
        ):
            entry = Entry(topic, timestamp, value, serials[shard], position)
            written = self.current(shard, self.schema.class_of(topic))
            self.slabs[written].write(entry)
            if not self.slabs[written].keeps_all:
                self._forget_copies(entry, written)

    def _forget_copies(self, entry: Entry, written: SlabId) -> None:
        """Removes the message of the same topic and time from other generations of the shard.

        Those that keep all messages keep it.
        """
        for slab_id, slab in self.slabs.items():
            if slab_id[0] == written[0] and slab_id != written and not slab.keeps_all:
                slab.entries.pop((entry.topic, entry.timestamp), None)

    def assign(self, shard: int, timestamp: int, before: int, after: int) -> None:
        """Checks a timestamp that a shard assigned between two readings of the clock."""
        last = self.assigned_last.get(shard, -1)
        assert timestamp > last, "assigned timestamps increase within a shard"
        assert timestamp >= before, "an assigned timestamp is never before now"
        assert timestamp <= after or timestamp == last + 1, (
            "an assigned timestamp is max(last+1, now)"
        )
        self.assigned_last[shard] = timestamp

    def learns_alike(self, topics: Iterable[tuple[int, str]]) -> bool:
        """Returns whether new topics get the same streams in whatever order they come.

        The topics are given with their shards. It tries all orders, slab by slab. With more than
        ``ORDERED_TOPICS_MAX`` new topics in one slab it returns False.
        """
        known = self.current_topics()
        new: dict[SlabId, list[str]] = {}
        for shard, topic in sorted(set(topics) - known):
            slab_id = self.current(shard, self.schema.class_of(topic))
            new.setdefault(slab_id, []).append(topic)
        return all(
            len(found) <= ORDERED_TOPICS_MAX
            and all(
                self._learned(slab_id, found) == self._learned(slab_id, order)
                for order in permutations(found)
            )
            for slab_id, found in new.items()
        )

    def current_topics(self) -> set[tuple[int, str]]:
        """Returns the topics that have a stream in a slab that takes messages, with its shard."""
        return {
            (slab_id[0], topic)
            for slab_id, slab in self.slabs.items()
            if not slab.read_only
            for topic in slab.stream_of
        }

    def rotate(self, retention_class: str | None = None, layout: str | None = None) -> None:
        """Starts a new generation, which inherits the structures that vary."""
        names = [name for name in self.schema.classes if retention_class in (None, name)]
        for shard in range(self.schema.shards):
            self._rotate(shard, dict.fromkeys(names, layout))

    def set_layouts(self, layouts: dict[str, str | None]) -> None:
        """Lets classes name the layout of new generations, and begins those that differ."""
        self.layouts = layouts
        for shard in range(self.schema.shards):
            now = {name: self.slabs[self.current(shard, name)].layout for name in layouts}
            begins = {n: layout for n, layout in layouts.items() if layout not in (None, now[n])}
            self._rotate(shard, begins)

    def drop(self, slab: SlabId) -> None:
        """Forgets a read-only slab."""
        assert self.slabs[slab].read_only
        self.dropped.append((slab, self.slabs.pop(slab)))
        self.changes[slab[0]] += 1

    # Reading

    def shard_of(self, topic: str, key: Key = None) -> int:
        """Returns the shard in which an append stores a message of ``topic`` with this key."""
        assert key is None or self.schema.shard_by == "key"
        return shard_of(topic if key is None else key, self.schema.shards)

    def current(self, shard: int, retention_class: str) -> SlabId:
        """Returns the slab that takes new messages."""
        return max(s for s in self.slabs if s[:2] == (shard, retention_class))

    def reading_order(self, stream: StreamRef) -> tuple[int, int, int, int, bytes]:
        """Returns the sort key of a stream in lists: its shard, then its slab as slabs began."""
        shard, retention_class, generation = stream.slab
        place = self.schema.classes.index(retention_class)
        begun_after = self.slabs[stream.slab].begun_after
        return shard, begun_after, place, generation, stream.key.structure.encode()

    def stream_entries(self, stream: StreamRef) -> list[Entry]:
        """Returns all messages of a stream, in order."""
        slab = self.slabs.get(stream.slab)
        if slab is None:
            return []
        found = [e for e in slab.entries.values() if slab.stream_of[e.topic] == stream.key]
        return sorted(found, key=partial(self.order_key, stream.key))

    def order_key(self, key: StreamKey, entry: Entry) -> OrderKey:
        """Returns the sort key of ``entry`` in its stream."""
        if self.schema.timestamp_bytes == 0:
            return tuple(word.encode() for word in key.varying(entry.topic))
        return entry.timestamp, entry.serial, entry.position

    def scan(
        self, filter: str = "#", start: int = 0, end: int | None = None
    ) -> dict[SlabId, list[Entry]]:
        """Returns the matching messages by slab, in no order; leaves out slabs without any."""
        found = {
            slab_id: [e for e in slab.entries.values() if is_wanted(e, filter, start, end)]
            for slab_id, slab in sorted(self.slabs.items())
        }
        return {slab_id: entries for slab_id, entries in found.items() if entries}

    def last(self, filter: str = "#", start: int = 0, end: int | None = None) -> list[ResolvedRow]:
        """Returns the newest message of each topic in [start, end), by topic."""
        newest: dict[str, tuple[tuple[int, ...], Entry]] = {}
        for (shard, _, _), entries in self.scan(filter, start, end).items():
            for entry in entries:
                found = entry.rank(shard), entry
                newest[entry.topic] = max(newest.get(entry.topic, found), found, key=_rank)
        return [newest[topic][1].message for topic in sorted(newest, key=str.encode)]

    def without(self, shards: Collection[int]) -> Model:
        """Returns what a partial read finds while these shards are missing."""
        rest = copy.deepcopy(self)
        for slab in [slab for slab in rest.slabs if slab[0] in shards]:
            del rest.slabs[slab]
        return rest

    def state_at(self, time: int, filter: str = "#", start: int = 0) -> list[ResolvedRow]:
        """Returns the newest message of each topic up to and including ``time``."""
        return self.last(filter, start, time + 1)

    def remaining(self, cursor: Cursor) -> list[Entry]:
        """Returns the messages that reading from ``cursor`` on must still return, in order."""
        key = cursor.stream.key
        return [
            entry
            for entry in self.stream_entries(cursor.stream)
            if is_wanted(entry, cursor.filter, cursor.start, cursor.end)
            and (cursor.after is None or self.order_key(key, entry) > cursor.after)
        ]

    def advance(self, cursor: Cursor, last: Entry) -> Cursor:
        """Returns ``cursor`` as it is after ``last`` was read."""
        return replace(cursor, after=self.order_key(cursor.stream.key, last))

    def looked(self, cursor: Cursor) -> Cursor:
        """Returns ``cursor`` as it is when the database was asked for it now."""
        key = cursor.stream.key
        passed = {
            _id(cursor.stream.slab, entry)
            for entry in self.stream_entries(cursor.stream)
            if matches(cursor.filter, entry.topic)
            and (
                entry.timestamp < cursor.start
                if cursor.after is None
                else self.order_key(key, entry) <= cursor.after
            )
        }
        return replace(cursor, passed=frozenset(passed))

    def behind(self, cursors: Sequence[Cursor], filter: str) -> list[ResolvedRow]:
        """Returns the messages that match, without what cursors have passed, in no order.

        In a shard and class, generations before those of its cursors count as passed.
        """
        oldest: dict[tuple[int, str], int] = {}
        for shard, name, generation in (cursor.stream.slab for cursor in cursors):
            oldest[shard, name] = min(generation, oldest.get((shard, name), generation))
        passed: frozenset[MessageId] = frozenset().union(*(cursor.passed for cursor in cursors))

        def is_passed(slab_id: SlabId, entry: Entry) -> bool:
            is_older = slab_id[2] < oldest.get(slab_id[:2], 0) and any(
                cursor.stream.slab[:2] == slab_id[:2] and matches(cursor.filter, entry.topic)
                for cursor in cursors
            )
            return is_older or _id(slab_id, entry) in passed

        return [
            entry.message
            for slab_id, entries in self.scan(filter).items()
            for entry in entries
            if not is_passed(slab_id, entry)
        ]

    def begin_scan(
        self, filter: str, start: int, end: int | None, until: Mapping[int, int]
    ) -> ScanCursor:
        """Returns a cursor at the start of a scan in steps."""
        return ScanCursor(filter, start, end, until, len(self.dropped))

    def take(self, cursor: ScanCursor, message: ResolvedRow) -> ScanCursor:
        """Returns the cursor behind a message, which must be one that may come next."""
        left = self.left(cursor)
        assert left, "everything was given"
        first = min(key for key, _, _ in left)
        next_of_streams: dict[StreamKey, tuple[SlabId, Entry]] = {}  # of one time and commit: a tie
        for key, stream, entry in sorted(left, key=lambda one: one[2].position):
            if key == first:
                next_of_streams.setdefault(stream.key, (stream.slab, entry))
        found = [one for one in next_of_streams.values() if one[1].message == message]
        assert found, f"{message} does not come next"
        return replace(cursor, given=cursor.given | {_id(*found[0])})

    def lose(self, cursor: ScanCursor, slab_id: SlabId, messages: int) -> ScanCursor:
        """Returns the cursor behind a slab that was told to be lost, with so many messages."""
        (slab,) = (slab for of, slab in self.dropped[cursor.dropped :] if of == slab_id)
        assert slab_id not in cursor.told, "told twice"
        assert len(self._unread(cursor, slab_id, slab)) <= messages
        return replace(cursor, told=cursor.told | {slab_id})

    def check_end(self, cursor: ScanCursor) -> None:
        """Checks that a scan that has ended has given everything, and told all that was lost."""
        assert self.left(cursor) == []
        for slab_id, slab in self.dropped[cursor.dropped :]:
            assert slab_id in cursor.told or not self._unread(cursor, slab_id, slab)

    def left(self, cursor: ScanCursor) -> list[tuple[OrderKey, StreamRef, Entry]]:
        """Returns what a scan must still give, with its place in the order, and its stream."""
        return [
            (self._scan_key(stream, entry), stream, entry)
            for slab_id, slab in self.slabs.items()
            for entry in self._unread(cursor, slab_id, slab)
            for stream in [StreamRef(slab_id, slab.stream_of[entry.topic])]
        ]

    def _unread(self, cursor: ScanCursor, slab_id: SlabId, slab: Slab) -> list[Entry]:
        return [
            entry
            for entry in slab.entries.values()
            if is_wanted(entry, cursor.filter, cursor.start, cursor.end)
            and entry.serial <= cursor.until[slab_id[0]]
            and _id(slab_id, entry) not in cursor.given
        ]

    def _scan_key(self, stream: StreamRef, entry: Entry) -> OrderKey:
        """Returns the sort key of an entry in a scan: a state is read stream by stream."""
        order = self.reading_order(stream)
        if not self.slabs[stream.slab].keeps_all:
            return *order, self.order_key(stream.key, entry)
        return *order[:-1], entry.timestamp, entry.serial

    def streams(self) -> Iterator[StreamRef]:
        """Yields every stream of every slab."""
        for slab_id, slab in self.slabs.items():
            for key in slab.structures.streams():
                yield StreamRef(slab_id, key)

    def expected_structures(self, filter: str = "#") -> dict[str, set[SlabId]]:
        """Returns what ``Database.structures(filter)`` must show: the slabs with each structure."""
        found: dict[str, set[SlabId]] = {}
        for stream in self.streams():
            key = stream.key
            if may_match(filter, list(key.levels)):
                found.setdefault(key.structure, set()).add(stream.slab)
        return found

    def count(self) -> int:
        """Returns the number of stored messages."""
        return sum(len(slab.entries) for slab in self.slabs.values())

    def topics(self) -> set[str]:
        """Returns the topics of all stored messages."""
        return {entry.topic for slab in self.slabs.values() for entry in slab.entries.values()}

    def _learned(self, slab_id: SlabId, topics: Iterable[str]) -> dict[str, StreamKey]:
        learner = copy.deepcopy(self.slabs[slab_id].structures)
        return {topic: learner.learn(topic) for topic in topics}

    def _rotate(self, shard: int, layouts: Mapping[str, str | None]) -> None:
        """Starts generations of these classes, with the layout that is asked for or follows."""
        before = {name: self.current(shard, name) for name in layouts}
        chosen = {
            name: layout or self.layouts.get(name) or self.slabs[before[name]].layout
            for name, layout in layouts.items()
        }
        if any(self.slabs[before[name]].layout != layout for name, layout in chosen.items()):
            self.changes[shard] += 1  # this is a commit
        for name, layout in chosen.items():
            older = self.slabs[before[name]]
            older.read_only = True
            newer = self._fresh_slab(shard, layout)
            newer.structures.inherit(older.structures)
            self.slabs[shard, name, before[name][2] + 1] = newer

    def _fresh_slab(self, shard: int, layout: str) -> Slab:
        structures = Structures(self.schema.thresholds, self.schema.structures)
        return Slab(structures, self.changes[shard], layout=layout)


def _id(slab_id: SlabId, entry: Entry) -> MessageId:
    return slab_id[0], entry.serial, entry.position


def _rank(found: tuple[tuple[int, ...], Entry]) -> tuple[int, ...]:
    return found[0]


def is_wanted(entry: Entry, filter: str, start: int, end: int | None) -> bool:
    """Returns whether a scan for ``filter`` in [start, end) finds ``entry``."""
    in_time = entry.timestamp >= start and (end is None or entry.timestamp < end)
    return in_time and matches(filter, entry.topic)


def check_scan(
    model: Model, got: Sequence[Any], filter: str, start: int, end: int | None, order: str
) -> None:
    """Checks that a scan has all messages that match and no others, in the promised order."""
    expected = model.scan(filter, start, end)
    messages = [tuple(message) for message in got]
    wanted = [entry.message for entries in expected.values() for entry in entries]
    assert sorted(messages) == sorted(wanted)
    if order == "none":
        return
    if order == "time":
        timestamps = [timestamp for _, timestamp, _ in messages]
        assert timestamps == sorted(timestamps)
        return
    chains: dict[tuple[int, str], list[ResolvedRow]] = {}
    begin = 0
    for shard in range(model.schema.shards):  # one shard after the other
        end_of_shard = begin + sum(len(e) for slab_id, e in expected.items() if slab_id[0] == shard)
        for message in messages[begin:end_of_shard]:
            chains.setdefault((shard, model.schema.class_of(message[0])), []).append(message)
        begin = end_of_shard
    for slab_id, entries in expected.items():  # sorted: an older generation comes first
        chain = chains[slab_id[:2]]
        check_slab_order(model, slab_id, entries, chain[: len(entries)])
        del chain[: len(entries)]


def check_slab_order(
    model: Model, slab_id: SlabId, entries: Iterable[Entry], got: Sequence[ResolvedRow]
) -> None:
    """Checks that ``got`` has exactly ``entries``, and those of each stream in its order."""
    stream_of = model.slabs[slab_id].stream_of
    wanted: dict[StreamKey, list[Entry]] = {}
    for entry in entries:
        wanted.setdefault(stream_of[entry.topic], []).append(entry)
    by_stream: dict[StreamKey, list[ResolvedRow]] = {}
    for message in got:
        assert message[0] in stream_of, "an older generation is read to its end first"
        by_stream.setdefault(stream_of[message[0]], []).append(message)
    assert set(by_stream) == set(wanted), "an older generation is read to its end first"
    for key, stream_entries in wanted.items():
        in_order = sorted(stream_entries, key=partial(model.order_key, key))
        assert by_stream[key] == [entry.message for entry in in_order], key.structure
