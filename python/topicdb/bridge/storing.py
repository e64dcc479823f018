"""What a bridge stores: messages, and which packets of QoS 2 they were, in one commit."""

from __future__ import annotations

import json
import struct
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from topicdb import _core
from topicdb.map import escape
from topicdb.transaction import begun

if TYPE_CHECKING:
    from topicdb.database import Durability

VALUE_BYTES_MAX = (1 << 28) - 1  # of any message
_SEEN = struct.Struct(">Q")  # in front of each name


class Arrival(NamedTuple):
    """A message to be stored; ``mid`` is 0 but for QoS 2, ``name`` what it is known by, or "";
    ``dup``: the broker says that it was sent before. ``payload``: if that is not the value, of
    which a part (how long it lives) is another one each time it is sent."""

    topic: str
    value: bytes
    mid: int
    name: str
    dup: bool = False
    payload: bytes | None = None

    @property
    def checksum(self) -> int:
        content = self.value if self.payload is None else self.payload
        return zlib.crc32(content, zlib.crc32(self.topic.encode(errors="replace")))


class Outcome(NamedTuple):
    """How many were stored, were there already, and cannot be stored; the last error's text."""

    stored: int
    duplicates: int
    refused: int
    error: str


class Part(NamedTuple):
    """What goes into one shard: messages, and the ids that are known after it."""

    shard: int
    arrivals: list[Arrival]
    ids: dict[int, int]


@dataclass
class Plan:
    """What is left to do, and what was done."""

    parts: list[Part] = field(default_factory=list)
    stored: int = 0
    duplicates: int = 0
    refused: int = 0
    error: str = ""


class Store:
    """Of one bridge. To be used by one thread.

    Among TopicDB's own topics, in each shard: ``$topicdb/bridge/<name>/received``, the ids of
    packets that are stored and not released, with checksums: a broker that was killed may have
    forgotten them, and give their ids to other messages. ``$topicdb/bridge/<name>/seen/<n>``, the
    names of the last messages, each with its number. In the first shard ``…/filters``: what the
    broker may have subscriptions for.
    """

    def __init__(
        self, core: _core.Database, name: str, durability: Durability | None, names_max: int
    ) -> None:
        self._core = core
        self._prefix = f"$topicdb/bridge/{escape(name)}/"
        _core.check_topic(self._prefix + "seen/4294967295")
        self._durability = durability
        self._shards: int = core.schema["shards"]
        self._names_max = names_max
        self._received: list[dict[int, int]] = []
        self._seen: list[OrderedDict[str, None]] = []
        self._next: list[int] = []
        with begun(core, 0, durability) as transaction:
            filters = transaction.get(self._prefix + "filters", 0)
        self.filters: list[str] = json.loads(filters) if filters else []
        for shard in range(self._shards):
            self._load(shard)

    def _load(self, shard: int) -> None:
        names: list[tuple[int, str]] = []
        with begun(self._core, shard, None) as transaction:
            value = transaction.get(self._prefix + "received", 0)
            scan = transaction.scan(self._prefix + "seen/+", None, None)
            while (batch := scan.next_batch(10_000, 8 << 20)) is not None:
                for value_of_name in batch.values:
                    (number,) = _SEEN.unpack_from(value_of_name)
                    names.append((number, value_of_name[_SEEN.size :].decode()))
        names.sort()
        self._received.append(dict(json.loads(value)) if value else {})
        self._seen.append(OrderedDict.fromkeys(name for _, name in names))
        self._next.append(names[-1][0] + 1 if names else 0)

    @property
    def received(self) -> dict[int, int]:
        """Ids of packets that are stored and not released, and checksums of the messages."""
        return {id: checksum for of_shard in self._received for id, checksum in of_shard.items()}

    def forget_session(self) -> None:
        """The broker has lost the session: ids mean nothing any more."""
        for shard in range(self._shards):
            if self._received[shard]:
                self._commit(shard, [], {})

    def remember_filters(self, filters: Iterable[str]) -> None:
        """What the broker may have subscriptions for; kept if that is not known already."""
        wanted = sorted(set(filters))
        if wanted == self.filters:
            return
        with begun(self._core, 0, self._durability) as transaction:
            value = json.dumps(wanted, ensure_ascii=False, separators=(",", ":")).encode()
            transaction.write(self._prefix + "filters", 0, value, reserved=True)
            transaction.commit()
        self.filters = wanted

    def store(self, arrivals: Sequence[Arrival], released: Iterable[int]) -> Outcome:
        """As ``plan`` and ``commit``."""
        return self.commit(self.plan(arrivals, released))

    def plan(self, arrivals: Sequence[Arrival], released: Iterable[int]) -> Plan:
        """What is to be stored of it; ``released`` are ids that may be used again."""
        plan = Plan()
        known = self.received
        by_shard: dict[int, list[Arrival]] = {}
        for arrival in arrivals:
            if arrival.dup and arrival.mid and known.get(arrival.mid) == arrival.checksum:
                plan.duplicates += 1
                continue
            if arrival.mid:
                known[arrival.mid] = arrival.checksum
            try:
                _check(arrival)
            except (_core.TopicError, ValueError) as problem:
                plan.refused, plan.error = plan.refused + 1, str(problem)
                continue
            shard = _core.shard_of(arrival.topic, self._shards)
            by_shard.setdefault(shard, []).append(arrival)
        left = set(released)
        again = {one.mid for one in arrivals if one.mid}
        for shard in range(self._shards):
            found = by_shard.get(shard, [])
            ids = {
                id: checksum
                for id, checksum in self._received[shard].items()
                if id not in left and (id not in again or known[id] == checksum)
            }
            ids |= {one.mid: one.checksum for one in found if one.mid}
            if found or ids != self._received[shard]:
                plan.parts.append(Part(shard, found, ids))
        return plan

    def commit(self, plan: Plan) -> Outcome:
        """One commit for each shard. Raises what a commit does; called again with the same plan it
        goes on with the shard that failed."""
        while plan.parts:
            part = plan.parts[0]
            count = self._commit(part.shard, part.arrivals, part.ids)
            plan.parts.pop(0)
            plan.stored += count
            plan.duplicates += len(part.arrivals) - count
        return Outcome(plan.stored, plan.duplicates, plan.refused, plan.error)

    def _commit(self, shard: int, arrivals: list[Arrival], ids: dict[int, int]) -> int:
        seen, number = self._seen[shard], self._next[shard]
        new: dict[str, None] = {}
        stored = 0
        with begun(self._core, shard, self._durability) as transaction:
            for arrival in arrivals:
                if arrival.name and self._names_max:
                    if arrival.name in seen or arrival.name in new:
                        continue
                    new[arrival.name] = None
                    slot = f"{self._prefix}seen/{number % self._names_max}"
                    value = _SEEN.pack(number) + arrival.name.encode()
                    transaction.write(slot, 0, value, reserved=True)
                    number += 1
                transaction.write(arrival.topic, None, arrival.value)
                stored += 1
            if ids != self._received[shard]:
                text = json.dumps(sorted(ids.items()), separators=(",", ":")).encode()
                transaction.write(self._prefix + "received", 0, text, reserved=True)
            transaction.commit()
        self._received[shard] = ids
        self._next[shard] = number
        seen.update(new)
        while len(seen) > self._names_max:
            seen.popitem(last=False)
        return stored


def _check(arrival: Arrival) -> None:
    """TopicError, ValueError: it can never be stored."""
    _core.check_topic(arrival.topic)
    if arrival.topic.startswith("$topicdb/"):
        raise _core.TopicError(f"topic {arrival.topic!r} is one of TopicDB's own")
    if len(arrival.value) > VALUE_BYTES_MAX:
        raise ValueError(
            f"the message in {arrival.topic!r} is too long: {len(arrival.value)} bytes with its "
            f"properties, at most {VALUE_BYTES_MAX} are allowed"
        )
