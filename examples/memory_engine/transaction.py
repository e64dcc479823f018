"""Transactions: what they see, and whether they may commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import topicdb
from examples.memory_engine.state import Key, Range, Shard, Stored, in_range
from topicdb.engines import BatchScan, checked_filters
from topicdb.engines.values import RESERVED, check_topic, stored_value

if TYPE_CHECKING:
    from examples.memory_engine.engine import MemoryEngine

TIME_MAX = (1 << 63) - 1
Required: TypeAlias = "bytes | Literal[True] | None"
"""This value, True for any value, or None for no message."""


class MemoryTransaction:
    """Implements ``topicdb.engine.TransactionEngine``.

    It copies the shard when it begins. At commit it looks at what has changed since.
    """

    def __init__(
        self, engine: MemoryEngine, shard: Shard, generation: int | None, durability: str
    ) -> None:
        self._engine = engine
        self._shard = shard
        self._generation = generation
        self._durability = durability
        self._start = shard.serial
        self._current = shard.generation
        self._view: dict[Any, Stored] = dict(shard.messages)  # by place, or by key under $topicdb/
        self._view.update(shard.own)
        self._writes: dict[Any, tuple[str, int | None, bytes | None]] = {}
        self._deletes: list[tuple[Range, int | None]] = []
        self._reads: list[Range] = []
        self._required: list[tuple[Key, Required]] = []
        self._open = True
        shard.starts.append(self._start)

    def write(
        self,
        topic: str,
        timestamp: int | None,
        value: object | None,
        reserved: bool = False,
        escapes: bool = False,
    ) -> None:
        with self._engine.changed:
            self._check_open()
            check_topic(topic, reserved=reserved)
            if timestamp is not None and not 0 <= timestamp <= TIME_MAX:
                raise ValueError(f"timestamp {timestamp} is outside 0 <= t < 2**63 microseconds")
            data = None if value is None else stored_value(value, escapes)
            key = (topic, timestamp) if timestamp is not None else object()
            self._writes.pop(key, None)  # the last write is also the last in order
            self._writes[key] = topic, timestamp, data

    def delete(
        self, filter: str, start: int | None, end: int | None, reserved: bool = False
    ) -> None:
        with self._engine.changed:
            self._check_open()
            checked_filters(filter)
            if filter.startswith(RESERVED) and not reserved:
                raise topicdb.TopicError(f"filter {filter!r}: {RESERVED} is TopicDB's own")
            if end is not None and (start or 0) > end:
                raise ValueError(f"the range to delete ends at {end}, before it begins at {start}")
            range = filter, start, end
            self._deletes.append((range, self._generation))
            for place, stored in list(self._view.items()):
                if self._sees(stored) and in_range(stored[:2], range):
                    del self._view[place]
            for key, (topic, timestamp, _) in list(self._writes.items()):
                if timestamp is not None and in_range((topic, timestamp), range):
                    del self._writes[key]

    def get(self, topic: str, timestamp: int) -> bytes | None:
        with self._engine.changed:
            self._check_open()
            check_topic(topic, reserved=True)
            own = self._writes.get((topic, timestamp))
            if own is not None:
                return own[2]
            self._reads.append((topic, timestamp, timestamp + 1))
            return _newest(self._view.values(), (topic, timestamp), self._generation)

    def scan(self, filter: str, start: int | None, end: int | None) -> BatchScan:
        with self._engine.changed:
            self._check_open()
            checked_filters(filter)
            range = filter, start, end
            self._reads.append(range)
            found = [
                (stored.timestamp, stored.generation, *stored.rank, stored.numbered)
                for stored in self._view.values()
                if self._sees(stored) and in_range(stored[:2], range)
            ]
            for number, (topic, timestamp, value) in enumerate(self._writes.values()):
                if (
                    timestamp is not None
                    and value is not None
                    and in_range((topic, timestamp), range)
                ):
                    message = topic, timestamp, value, 0
                    found.append((timestamp, self._current + 1, 0, 0, number, message))
            found.sort()
        return self._engine.scan_of([entry[-1] for entry in found])

    def require(self, topic: str, timestamp: int, value: object | None) -> None:
        with self._engine.changed:
            self._check_open()
            check_topic(topic, reserved=True)
            data = None if value is None else stored_value(value, False)
            self._required.append(((topic, timestamp), data))

    def require_present(self, topic: str, timestamp: int) -> None:
        with self._engine.changed:
            self._check_open()
            check_topic(topic, reserved=True)
            self._required.append(((topic, timestamp), True))

    def commit(self) -> topicdb.Receipt:
        with self._engine.changed:
            self._check_open()
            try:
                return self._commit()
            finally:
                self._end()

    def _commit(self) -> topicdb.Receipt:
        if not self._writes and not self._deletes and not self._required:
            return topicdb.Receipt({}, 0, self._durability)
        self._check_conflicts()
        self._check_required()
        if not self._writes and not self._deletes:
            return topicdb.Receipt({}, 0, self._durability)
        if self._writes and self._generation not in (None, self._shard.generation):
            raise topicdb.ReadOnlyError(f"generation {self._generation} takes no more messages")
        if self._writes:
            self._engine.check_quota()
        rows = list(self._writes.values())
        serial, _ = self._engine.commit(self._shard, rows, self._deletes, self._durability)
        return topicdb.Receipt({self._shard.number: serial}, len(rows), self._durability)

    def _check_conflicts(self) -> None:
        required = [(key[0], key[1], key[1] + 1) for key, _ in self._required]
        looked_at = [*self._reads, *(range for range, _ in self._deletes), *required]
        conflicts: list[tuple[str, int | None, int | None, int]] = []
        for change in self._shard.changes:
            if change.serial <= self._start:
                continue
            if change.keys is None:
                conflicts.append(("#", None, None, 0))
                continue
            for range in looked_at:
                if any(in_range(key, range) for key in change.keys):
                    conflicts.append((*range, change.serial))
        if conflicts:
            error = topicdb.ConflictError(f"other commits changed what it looked at: {conflicts}")
            error.conflicts = conflicts
            raise error

    def _check_required(self) -> None:
        stored = [*self._shard.messages.values(), *self._shard.own.values()]
        found = [
            (key, value, _newest(stored, key, self._generation)) for key, value in self._required
        ]
        failures = [
            (*key, wanted, there)
            for key, wanted, there in found
            if (there is None if wanted is True else wanted != there)
        ]
        if failures:
            error = topicdb.PreconditionError(f"what was required is not so: {failures}")
            error.failures = failures
            raise error

    def rollback(self) -> None:
        with self._engine.changed:
            if self._open:
                self._end()

    def _end(self) -> None:
        self._open = False
        self._shard.starts.remove(self._start)
        if not self._shard.starts:
            self._shard.changes.clear()

    def _sees(self, stored: Stored) -> bool:
        return self._generation in (None, stored.generation)

    def _check_open(self) -> None:
        self._engine.check_open()
        if not self._open:
            raise topicdb.ClosedError("the transaction is over")

    @property
    def open(self) -> bool:
        return self._open and not self._engine.closed

    @property
    def shard(self) -> int:
        return self._shard.number


def _newest(stored: Any, key: Key, generation: int | None) -> bytes | None:
    """Returns the value of a message in the newest generation that has it, or None."""
    mine = [one for one in stored if one[:2] == key and generation in (None, one.generation)]
    newest: Stored | None = max(mine, key=lambda one: (one.generation, *one.rank), default=None)
    return None if newest is None else newest.value
