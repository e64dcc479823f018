"""What is stored of a replay log and its endpoints: JSON among TopicDB's own topics."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from topicdb import _core
from topicdb.engine import Engine
from topicdb.follow.positions import Place
from topicdb.map import escape, unescape
from topicdb.replay.rules import EVERYTHING, Era, Promotion
from topicdb.transaction import begun

if TYPE_CHECKING:
    from topicdb.types import Durability

Kind: TypeAlias = Literal["queue", "topic"]
Access: TypeAlias = Literal["none", "read", "consume"]
_PREFIX = "$topicdb/replay/"
SHARD = 0  # a replay log is for databases of one shard


@dataclass
class LogRecord:
    """A replay log. ``first``: what is before was trimmed. ``seals``: up to which commit
    generations were ended, so that they can be dropped; of each class the first that was not."""

    origin: int
    egress: bool = True
    eras: list[Era] = field(default_factory=lambda: [Era(Place(0, 0), True, EVERYTHING, ())])
    quota_bytes: int = 0
    promote: list[Promotion] = field(default_factory=list)
    first: Place = field(default_factory=lambda: Place(1, 0))
    seals: list[tuple[int, dict[str, int]]] = field(default_factory=list)

    def encode(self) -> bytes:
        body = {**vars(self), "eras": [era.to_json() for era in self.eras]}
        return _encoded(body)

    @staticmethod
    def decode(value: bytes) -> LogRecord:
        body = json.loads(value)
        body["eras"] = [Era.from_json(era) for era in body["eras"]]
        body["promote"] = [Promotion(*rule) for rule in body["promote"]]
        body["first"] = Place(*body["first"])
        # Older ones have times, of a clock that may have leapt: the next seal has those, too.
        body["seals"] = [
            (serial, current) for serial, current in body["seals"] if isinstance(current, dict)
        ]
        return LogRecord(**body)


@dataclass
class Subscribed:
    """A filter of an endpoint: messages from ``since`` on, and before ``until``."""

    filter: str
    since: Place
    until: Place | None = None

    def wants(self, place: Place) -> bool:
        return self.since <= place and (self.until is None or place < self.until)


@dataclass
class RunRecord:
    """A replay that runs: messages before ``live_from`` are replayed, from there on they are live.

    ``started_by``: a client, or "" for an administrator. ``start_us``: of a replay from a date.
    """

    started_by: str
    start: str
    begin: Place
    live_from: Place
    start_us: int = 0
    end_us: int | None = None
    rate: str | float | None = None
    paused: bool = False
    stall_timeout_us: int | None = None
    total: int | None = None  # not counted yet
    done: int = 0


@dataclass
class EndpointRecord:
    """An endpoint: what it is, how far it was read (``next``), and what of that it still holds.

    ``held``: first and last place of each run of messages without an acknowledgement. ``given``:
    what is before was given to a client. ``clients``: name, window and messages without an
    acknowledgement of each that is bound, in their order, for who looks from outside.
    """

    name: str
    kind: Kind
    exclusive: bool
    subscriptions: list[Subscribed]
    next: Place
    durable: bool = True
    selector: str | None = None
    owner: str | None = None
    others: Access = "consume"
    spool: int = 10_000
    spool_bytes: int = 32 << 20
    held: list[tuple[Place, Place]] = field(default_factory=list)
    given: Place = field(default_factory=lambda: Place(0, 0))
    state: str = "n/a"
    run: RunRecord | None = None
    last_start: list[Any] | None = None
    last_complete: list[Any] | None = None
    last_failure: list[Any] | None = None
    counts: dict[str, int] = field(default_factory=dict)
    clients: list[tuple[str, int, int]] = field(default_factory=list)

    @property
    def live_from(self) -> Place:
        """Messages before are replayed, if a replay runs."""
        return Place(0, 0) if self.run is None else self.run.live_from

    def encode(self) -> bytes:
        return _encoded(asdict(self))

    @staticmethod
    def decode(value: bytes) -> EndpointRecord:
        body = json.loads(value)
        body["subscriptions"] = [
            Subscribed(one["filter"], Place(*one["since"]), _place(one["until"]))
            for one in body["subscriptions"]
        ]
        body["next"], body["given"] = Place(*body["next"]), Place(*body["given"])
        body["held"] = [(Place(*first), Place(*last)) for first, last in body["held"]]
        if body["run"] is not None:
            run = body["run"]
            run["begin"], run["live_from"] = Place(*run["begin"]), Place(*run["live_from"])
            body["run"] = RunRecord(**run)
        return EndpointRecord(**body)


def _place(value: list[int] | None) -> Place | None:
    return None if value is None else Place(*value)


def _encoded(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


class Records:
    """Those of one log. Thread-safe."""

    def __init__(self, core: Engine, name: str, durability: Durability | None) -> None:
        self._core = core
        self._prefix = f"{_PREFIX}{escape(name)}/"
        _core.check_topic(self._prefix + "log")
        self._durability = durability
        # Lock rule: _lock is held while something is written, so that what is older never comes
        # behind what is newer. It is the last lock that is taken.
        self._lock = threading.Lock()
        self._waiting: dict[str, bytes] = {}
        self.writes = 0  # commits

    def origin(self) -> int:
        """The random number of this database, made when it is first asked for."""
        with begun(self._core, SHARD, self._durability) as transaction:
            value = transaction.get(_PREFIX + "origin", 0)
            if value is not None:
                return int(value, 16)
            origin = secrets.randbits(64)
            transaction.write(_PREFIX + "origin", 0, b"%016x" % origin, reserved=True)
            transaction.commit()
            return origin

    def log(self) -> LogRecord | None:
        with begun(self._core, SHARD, None) as transaction:
            value = transaction.get(self._prefix + "log", 0)
        return None if value is None else LogRecord.decode(value)

    def save_log(self, record: LogRecord) -> None:
        with self._lock:
            self._write({"log": record.encode()})

    def endpoints(self) -> list[EndpointRecord]:
        found = []
        with begun(self._core, SHARD, None) as transaction:
            scan = transaction.scan(self._prefix + "endpoint/+", None, None)
            while (batch := scan.next_batch(10_000, 8 << 20)) is not None:
                found += [EndpointRecord.decode(value) for value in batch.values]
        return found

    def topic_of(self, endpoint: str) -> str:
        """Where an endpoint is stored. TopicError: the name is too long."""
        topic = f"{self._prefix}endpoint/{escape(endpoint)}"
        _core.check_topic(topic)
        return topic

    def save_endpoint(self, record: EndpointRecord, *, later: bool = False) -> None:
        """``later``: it is stored by ``save_waiting``, with others."""
        label = f"endpoint/{escape(record.name)}"
        value = record.encode()
        with self._lock:
            self._waiting.pop(label, None)
            if later:
                self._waiting[label] = value
            else:
                self._write({label: value})

    def save_waiting(self) -> None:
        """Stores what waits, in one commit. What fails waits on."""
        with self._lock:
            if self._waiting:
                self._write(self._waiting)
                self._waiting.clear()

    def drop_endpoint(self, name: str) -> None:
        with self._lock:
            self._waiting.pop(f"endpoint/{escape(name)}", None)
            self._delete(self.topic_of(name))

    def drop(self) -> None:
        """The log and all its endpoints."""
        with self._lock:
            self._waiting.clear()
            self._delete(self._prefix + "#")

    def _write(self, values: dict[str, bytes]) -> None:
        self.writes += 1
        with begun(self._core, SHARD, self._durability) as transaction:
            for label, value in values.items():
                transaction.write(self._prefix + label, 0, value, reserved=True)
            transaction.commit()

    def _delete(self, filter: str) -> None:
        with begun(self._core, SHARD, self._durability) as transaction:
            transaction.delete(filter, None, None, reserved=True)
            transaction.commit()


def stored(core: Engine) -> Iterator[tuple[str, str, bytes]]:
    """Log, endpoint ("" for the log itself) and record of all that is stored.

    Read without a transaction: also of a handle that only reads.
    """
    scan = core.scan(_PREFIX + "#", None, None, "stream", None)
    while (batch := scan.next_batch(10_000, 8 << 20)) is not None:
        for topic, _, value in batch:
            levels = topic.split("/")
            if len(levels) == 4 and levels[3] == "log":
                yield unescape(levels[2]), "", value
            elif len(levels) == 5:
                yield unescape(levels[2]), unescape(levels[4]), value
