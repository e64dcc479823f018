"""The stored state of an MQTT session, and where it is stored."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from topicdb import _core
from topicdb.arguments.times import TIMESTAMP_MAX, now_us
from topicdb.engine import Engine
from topicdb.follow.losses import LossCount
from topicdb.follow.positions import Place, check_whole
from topicdb.follow.positions import stored as stored_in
from topicdb.map import escape, unescape
from topicdb.transaction import begun

if TYPE_CHECKING:
    from topicdb.types import Durability

Qos: TypeAlias = Literal[0, 1, 2]
_PREFIX = "$topicdb/session/"
_HEAD = struct.Struct(">QQ")  # when the state was stored, and when the session ends: µs since 1970


@dataclass(slots=True)
class SessionFilter:
    """A filter of a session: it wants messages from ``since`` on, and before ``until``."""

    text: str
    qos: Qos
    since: dict[int, Place]
    until: dict[int, Place] | None = None

    def wants(self, shard: int, place: Place) -> bool:
        if place < self.since.get(shard, place):
            return False
        return self.until is None or place < self.until.get(shard, place)


@dataclass(slots=True)
class InFlight:
    """A packet that the client has not acknowledged to the end."""

    id: int
    shard: int
    place: Place
    qos: Qos
    received: bool = False  # QoS 2: PUBREC came, so only PUBREL is still to be done


@dataclass(slots=True)
class SessionState:
    """The stored state of a session: its filters, its places, and its packets in flight.

    Not thread-safe.
    """

    expiry_us: int
    next_id: int = 1
    filters: list[SessionFilter] = field(default_factory=list)
    places: dict[int, Place] = field(default_factory=dict)  # everything before them was sent
    in_flight: dict[int, InFlight] = field(default_factory=dict)  # by packet id
    lost: LossCount = field(default_factory=LossCount)

    def find(self, filter: str) -> SessionFilter | None:
        """Returns the filter of this text that the client has subscribed to."""
        for one in self.filters:
            if one.text == filter and one.until is None:
                return one
        return None

    def go_back(self, new: SessionFilter) -> None:
        """Goes back for a filter with a start in the past; the others skip what they had."""
        for one in self.filters:
            one.since = {
                shard: max(one.since[shard], place) for shard, place in self.places.items()
            }
        self.places = {shard: min(new.since[shard], place) for shard, place in self.places.items()}

    def encode(self, now: int) -> bytes:
        body = {
            "expiry_us": self.expiry_us,
            "next_id": self.next_id,
            "filters": [[f.text, f.qos, f.since, f.until] for f in self.filters],
            "places": self.places,
            "in_flight": [
                [p.id, p.shard, p.place, p.qos, p.received] for p in self.in_flight.values()
            ],
            "lost": self.lost.as_json(),
        }
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        return _HEAD.pack(now, min(now + self.expiry_us, TIMESTAMP_MAX)) + text.encode()

    @staticmethod
    def decode(value: bytes) -> SessionState:
        body = json.loads(value[_HEAD.size :])
        return SessionState(
            body["expiry_us"],
            body["next_id"],
            [
                SessionFilter(text, qos, _places(since), None if until is None else _places(until))
                for text, qos, since, until in body["filters"]
            ],
            _places(body["places"]),
            {
                number: InFlight(number, shard, Place(*place), qos, received)
                for number, shard, place, qos, received in body["in_flight"]
            },
            LossCount.of_json(body.get("lost")),
        )


class SessionRecord:
    """Where the state of one session is stored. Its session owns it, and locks calls.

    ``stored`` is what this object has read or stored last; None if there was no session.
    """

    def __init__(self, core: Engine, client_id: str, durability: Durability | None) -> None:
        self._core = core
        self._topic = topic_of(client_id)
        self._shard: int = _core.shard_of(self._topic, core.schema["shards"])
        self._durability = durability
        self._attempted: bytes | None = None  # a state that may be stored, as its commit failed
        check_whole(core, self._topic)  # what is stored has places in all shards
        self.stored = self._load()

    def _load(self) -> bytes | None:
        with begun(self._core, self._shard, None) as transaction:
            return transaction.get(self._topic, 0)

    def save(self, state: SessionState) -> None:
        """Stores a state, on condition that ``stored`` is stored.

        Raises PreconditionError or ConflictError if another object has stored a state.
        """
        if self._attempted is not None and self._load() == self._attempted:
            self.stored = self._attempted  # that commit was done, and its answer was lost
        self._attempted = value = state.encode(now_us())
        with begun(self._core, self._shard, self._durability) as transaction:
            transaction.require(self._topic, 0, self.stored)
            transaction.write(self._topic, 0, value, reserved=True)
            transaction.commit()
        self.stored, self._attempted = value, None


def _places(by_key: dict[str, list[int]]) -> dict[int, Place]:
    return {int(shard): Place(serial, row) for shard, (serial, row) in by_key.items()}


def end_of(value: bytes) -> int:
    """Returns when a stored session ends, if nobody connects: µs since 1970."""
    return int(_HEAD.unpack_from(value)[1])


def topic_of(client_id: str) -> str:
    """Returns the topic of a session. Raises TopicError if the client id is too long."""
    topic = f"{_PREFIX}{escape(client_id)}/state"
    _core.check_topic(topic)
    return topic


def stored(core: Engine) -> Iterator[tuple[str, int]]:
    """Gives the client id of each session, and when it ends if nobody connects: µs since 1970."""
    for topic, value in stored_in(core, f"{_PREFIX}+/state"):
        if len(value) >= _HEAD.size:  # no session has stored a shorter value
            yield unescape(topic.split("/")[2]), end_of(value)


def drop(core: Engine, client_id: str, ended_before: int = TIMESTAMP_MAX + 1) -> bool:
    """Forgets a session that ends before ``ended_before``; returns whether there was one."""
    topic = topic_of(client_id)
    with begun(core, _core.shard_of(topic, core.schema["shards"]), None) as transaction:
        value = transaction.get(topic, 0)
        if value is None or end_of(value) >= ended_before:
            return False
        transaction.delete(topic, 0, 1, reserved=True)
        transaction.commit()
    return True


def expire(core: Engine, is_open: Callable[[str], bool]) -> list[str]:
    """Forgets the sessions that have ended and are not open, and returns their client ids."""
    now = now_us()
    ended = [client_id for client_id, end in stored(core) if end < now]
    left = [client_id for client_id in ended if not is_open(client_id)]
    return sorted(one for one in left if drop(core, one, now))
