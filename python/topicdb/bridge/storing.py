"""Stores the messages of a bridge, and what it has to know after a restart."""

from __future__ import annotations

import json
import secrets
import struct
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from topicdb import _core
from topicdb.bridge.retained import Known, Retained, digest_of
from topicdb.engine import Engine, TransactionEngine
from topicdb.map import escape
from topicdb.mqtt.follows import LEVEL, Follows
from topicdb.transaction import begun

if TYPE_CHECKING:
    from topicdb.mqtt.envelope import Envelope
    from topicdb.types import Durability

VALUE_BYTES_MAX = (1 << 28) - 1  # the longest value of a message
_SEEN = struct.Struct(">Q")  # the number in front of each name


class Arrival(NamedTuple):
    """A message to be stored.

    - ``mid``: its packet id; 0 unless it has QoS 2.
    - ``name``: the name that its publisher gave it (``deduplicate_by``), or "".
    - ``dup``: the broker says that it was sent before.
    - ``envelope``: the envelope as it came; None if the value is all. How long the message lives is
      a part of the value, and differs each time the message is sent.
    - ``copy``: the broker sends a message that it retains, which may have been stored long ago.
    - ``fault``: why it can never be stored, or "".
    - ``timestamp``: the device's; None: that of the commit.
    - ``key``: the key that decides its shard, or "" if its topic does.
    """

    topic: str
    value: bytes
    mid: int
    name: str
    dup: bool = False
    envelope: Envelope | None = None
    copy: bool = False
    fault: str = ""
    timestamp: int | None = None
    key: str = ""

    @property
    def checksum(self) -> int:
        """A checksum of topic and payload, which tells messages with the same packet id apart."""
        content = self.value if self.envelope is None else self.envelope.payload
        return zlib.crc32(content, zlib.crc32(self.topic.encode(errors="surrogateescape")))

    @property
    def is_retained(self) -> bool:
        """Whether the broker retains it, as far as that is known."""
        return self.envelope is not None and self.envelope.retain


class Outcome(NamedTuple):
    """The result of committing a plan.

    ``stored``: messages that were stored. ``duplicates``: those that were stored already.
    ``refused``: those that cannot be stored, the last one because of ``error``. ``copies``: copies
    of retained messages that had been stored before.
    """

    stored: int
    duplicates: int
    refused: int
    error: str
    copies: int = 0


class Part(NamedTuple):
    """A part of a plan, which is one commit to a shard: messages, and the state after them.

    ``ids``: packet ids that are then stored and not released. ``retained``: digests to store.
    ``name``: a random name of the commit, by which the database tells whether it has it already.
    """

    shard: int
    arrivals: list[Arrival]
    ids: dict[int, int]
    retained: Known
    name: bytes


@dataclass
class Plan:
    """The parts that are still to be stored, and counts of those that were."""

    parts: list[Part] = field(default_factory=list)
    stored: int = 0
    duplicates: int = 0
    refused: int = 0
    error: str = ""
    copies: int = 0


class StaleError(ConnectionError):
    """The state of a bridge is not what it was when it was loaded; see ``Store.refresh``.

    The connection to the broker is to end, so that the broker sends again what is not acknowledged.
    """


class _Loaded(NamedTuple):
    """The state of one shard as it is stored.

    ``seen``: the last names of messages, oldest first. ``next``: the number of the next name.
    """

    received: dict[int, int]
    seen: OrderedDict[str, None]
    next: int
    last_commit: bytes | None


class Store:
    """The stored state of one bridge. Not thread-safe: the bridge's thread uses it.

    Its topics are among TopicDB's own, in each shard. ``$topicdb/bridge/<name>/received`` has the
    ids of packets that are stored and not released, with checksums: a broker that was killed may
    have forgotten these ids, and give them to other messages. ``$topicdb/bridge/<name>/seen/<n>``
    have the names of the last messages, each with its number. ``…/retained/<digest>``: see
    ``Retained``. In the first shard, ``…/filters`` has the filters that the broker may have
    subscriptions for, and ``…/follows`` a ``Follows``.

    If a server has the database, the answer to a commit may be lost, so that nobody knows whether
    it was carried out. So each commit stores its name in ``…/commit``, and requires that the commit
    before it is there. If it is tried again and its own name is there, it was carried out.
    """

    def __init__(
        self,
        core: Engine,
        name: str,
        durability: Durability | None,
        names_max: int,
        filters: Sequence[str] = (),
        *,
        has_properties: bool = True,
    ) -> None:
        """Loads the state.

        ``filters``: those that the messages match. ``has_properties``: values have their
        properties, which then also tell one message from another.
        """
        self._core = core
        self._name = name
        self._prefix = f"$topicdb/bridge/{escape(name)}/"
        _core.check_topic(self._prefix + "seen/4294967295")
        self._durability = durability
        self._shards: int = core.schema["shards"]
        self._names_max = names_max
        self._has_properties = has_properties
        self._message_filters = filters
        self._names_commits = not isinstance(core, _core.Database)
        self._load()

    def refresh(self) -> None:
        """Loads the state again after a StaleError. If that raises, it is still to be done."""
        if self._is_stale:
            self._load()

    def _load(self) -> None:
        with begun(self._core, 0, self._durability) as transaction:
            before = transaction.get(self._prefix + "filters", 0)
            follows = transaction.get(self._prefix + LEVEL, 0)
        loaded = [self._loaded(shard) for shard in range(self._shards)]
        self.follows = None if follows is None else Follows.decode(follows)
        self.filters: list[str] = json.loads(before) if before else []
        self._received = [one.received for one in loaded]
        self._seen = [one.seen for one in loaded]
        self._next = [one.next for one in loaded]
        self._last_commits = [one.last_commit for one in loaded]
        self._retained = Retained(
            self._core, self._prefix, self._message_filters, self._has_properties
        )
        self._is_stale = False

    def _loaded(self, shard: int) -> _Loaded:
        names: list[tuple[int, str]] = []
        with begun(self._core, shard, None) as transaction:
            value = transaction.get(self._prefix + "received", 0)
            last_commit = transaction.get(self._prefix + "commit", 0)
            scan = transaction.scan(self._prefix + "seen/+", None, None)
            while (batch := scan.next_batch(10_000, 8 << 20)) is not None:
                for value_of_name in batch.values:
                    (number,) = _SEEN.unpack_from(value_of_name)
                    names.append((number, value_of_name[_SEEN.size :].decode()))
        names.sort()
        return _Loaded(
            dict(json.loads(value)) if value else {},
            OrderedDict.fromkeys(name for _, name in names),
            names[-1][0] + 1 if names else 0,
            last_commit,
        )

    @property
    def received(self) -> dict[int, int]:
        """The ids of packets that are stored and not released, with checksums of the messages."""
        return {id: checksum for of_shard in self._received for id, checksum in of_shard.items()}

    def forget_session(self) -> None:
        """Forgets all packet ids, which mean nothing once the broker has lost the session."""
        for shard in range(self._shards):
            if self._received[shard]:
                self._commit(Part(shard, [], {}, {}, _commit_name()))

    def remember_filters(self, filters: Iterable[str]) -> None:
        """Stores the filters that the broker may have subscriptions for, if they have changed."""
        wanted = sorted(set(filters))
        if wanted == self.filters:
            return
        value = json.dumps(wanted, ensure_ascii=False, separators=(",", ":")).encode()
        self._remember("filters", value)
        self.filters = wanted

    def remember_follows(self, follows: Follows) -> None:
        """Stores what the bridge follows, if it has changed."""
        if follows != self.follows:
            self._remember(LEVEL, follows.encode())
            self.follows = follows

    def _remember(self, level: str, value: bytes) -> None:
        with begun(self._core, 0, self._durability) as transaction:
            transaction.write(self._prefix + level, 0, value, reserved=True)
            transaction.commit()

    def store(self, arrivals: Sequence[Arrival], released: Iterable[int]) -> Outcome:
        """Stores messages: ``plan``, then ``commit``."""
        return self.commit(self.plan(arrivals, released))

    def plan(
        self, arrivals: Sequence[Arrival], released: Iterable[int], *, tells_retained: bool = False
    ) -> Plan:
        """Returns what is to be stored. ``released`` are packet ids that may be used again.

        ``tells_retained``: the broker says of each message whether it is retained, and not only of
        copies.
        """
        plan = Plan()
        known = self.received
        new: list[Arrival] = []
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
            new.append(arrival)
        kept, memories = self._pass_by_copies(plan, new, tells_retained)
        by_shard: dict[int, list[Arrival]] = {}
        for one in kept:
            by_shard.setdefault(self._shard_of(one), []).append(one)
        # A digest says that its message is stored. So it is not stored before the message, where
        # the two are in different shards.
        waits = any(one.key for one in kept)
        left = set(released)
        again = {one.mid for one in arrivals if one.mid}
        late: list[Part] = []
        for shard in range(self._shards):
            found = by_shard.get(shard, [])
            ids = {
                id: checksum
                for id, checksum in self._received[shard].items()
                if id not in left and (id not in again or known[id] == checksum)
            }
            ids |= {one.mid: one.checksum for one in found if one.mid}
            memory = memories.get(shard, {})
            if waits and memory:
                late.append(Part(shard, [], ids, memory, _commit_name()))
                memory = {}
            if found or memory or ids != self._received[shard]:
                plan.parts.append(Part(shard, found, ids, memory, _commit_name()))
        plan.parts += late
        return plan

    def _shard_of(self, arrival: Arrival) -> int:
        if arrival.key:
            return _core.shard_of_key(arrival.key, self._shards)
        return _core.shard_of(arrival.topic, self._shards)

    def _pass_by_copies(
        self, plan: Plan, arrivals: Sequence[Arrival], tells_retained: bool
    ) -> tuple[list[Arrival], dict[int, Known]]:
        """Leaves out copies that are stored.

        Returns the other messages, and what is to be remembered, by the shards of topics.
        """
        copies: dict[int, set[str]] = {}
        for one in arrivals:
            if one.copy:
                copies.setdefault(_core.shard_of(one.topic, self._shards), set()).add(one.topic)
        states = self._retained.states(copies)
        memories: dict[int, Known] = {}
        kept: list[Arrival] = []
        for one in arrivals:
            state = states.get(one.topic)
            if one.envelope is None or (state is None and not one.is_retained):
                kept.append(one)
                continue
            digest = digest_of(one.envelope, self._retained.has_properties)
            if one.copy and state is not None and state.has(digest, tells_retained):
                plan.copies += 1
            else:
                kept.append(one)
                if state is not None:
                    state.newest, state.is_newest_retained = digest, one.is_retained
            if one.is_retained:
                if state is not None:
                    state.remembered = digest
                if self._retained.is_news(one.topic, digest):
                    home = _core.shard_of(one.topic, self._shards)
                    memories.setdefault(home, {})[one.topic] = digest
        return kept, memories

    def commit(self, plan: Plan) -> Outcome:
        """Commits a plan, one commit for each part.

        Raises what a commit raises. Called again with the same plan, it continues with the shard
        that failed, and stores nothing twice, even if only the answer to its commit was lost.
        Raises StaleError if another bridge of this name has changed the state of a database that a
        server has: the plan is void then.
        """
        while plan.parts:
            part = plan.parts[0]
            count = self._commit(part)
            plan.parts.pop(0)
            plan.stored += count
            plan.duplicates += len(part.arrivals) - count
        return Outcome(plan.stored, plan.duplicates, plan.refused, plan.error, plan.copies)

    def _commit(self, part: Part) -> int:
        shard, arrivals, ids, memory, name = part
        seen, number = self._seen[shard], self._next[shard]
        new: dict[str, None] = {}
        times = _Times()
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
                transaction.write(arrival.topic, times.of(arrival), arrival.value)
                stored += 1
            if ids != self._received[shard]:
                text = json.dumps(sorted(ids.items()), separators=(",", ":")).encode()
                transaction.write(self._prefix + "received", 0, text, reserved=True)
            self._retained.write(transaction, memory)
            self._commit_once(transaction, shard, name)
        self._retained.wrote(memory)
        self._received[shard] = ids
        self._next[shard] = number
        seen.update(new)
        while len(seen) > self._names_max:
            seen.popitem(last=False)
        return stored

    def _commit_once(self, transaction: TransactionEngine, shard: int, name: bytes) -> None:
        """Commits, unless an attempt whose answer was lost has committed the same before."""
        if not self._names_commits:
            transaction.commit()
            return
        topic = self._prefix + "commit"
        transaction.require(topic, 0, self._last_commits[shard])
        transaction.write(topic, 0, name, reserved=True)
        try:
            transaction.commit()
        except _core.PreconditionError as error:
            if any(found != name for _, _, _, found in error.failures):
                self._is_stale = True
                raise StaleError(
                    f"another bridge named {self._name!r} has stored something in this database "
                    "since; the bridges of a database need different names"
                ) from None
        self._last_commits[shard] = name


def _commit_name() -> bytes:
    return secrets.token_hex(8).encode()


class _Times:
    """The timestamps of one commit.

    A message with the topic and timestamp of another one of the commit would replace that.
    """

    def __init__(self) -> None:
        self._taken: set[tuple[str, int]] = set()

    def of(self, arrival: Arrival) -> int | None:
        """Returns the timestamp of a message, or the next µs that is free."""
        time = arrival.timestamp
        if time is None:
            return None
        while (arrival.topic, time) in self._taken:
            time += 1
        self._taken.add((arrival.topic, time))
        return time


def _check(arrival: Arrival) -> None:
    """Raises TopicError or ValueError if the message can never be stored."""
    if arrival.fault:
        raise ValueError(arrival.fault)
    _core.check_topic(arrival.topic)
    if arrival.topic.startswith("$topicdb/"):
        raise _core.TopicError(f"topic {arrival.topic!r} is one of TopicDB's own")
    if len(arrival.value) > VALUE_BYTES_MAX:
        raise ValueError(
            f"the message in {arrival.topic!r} is too long: {len(arrival.value)} bytes with its "
            f"properties, at most {VALUE_BYTES_MAX} are allowed"
        )
