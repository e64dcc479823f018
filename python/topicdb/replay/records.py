"""The records of replay logs and endpoints, stored as JSON among TopicDB's own topics."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from topicdb import _core
from topicdb.engine import Engine, TransactionEngine
from topicdb.follow.positions import Place
from topicdb.map import escape, unescape
from topicdb.replay.rules import EVERYTHING, Era, Promotion
from topicdb.transaction import begun

if TYPE_CHECKING:
    from topicdb.types import Durability

Kind: TypeAlias = Literal["queue", "topic"]
Access: TypeAlias = Literal["none", "read", "consume"]
Expired: TypeAlias = Literal["give", "remove"]
_PREFIX = "$topicdb/replay/"
SHARD = 0  # the only one: a replay log needs a database of one shard


def check_count(what: str, value: object) -> None:
    """Raises TypeError or ValueError, which names the option, unless it is a number from 1 on.

    Options may come from another process, which may send anything.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what}: expected a number, got {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{what}: at least 1 is needed, got {value}")


@dataclass
class LogRecord:
    """The record of a replay log.

    Attributes:
        origin: the random number that stands for the database in message ids.
        egress: whether there can be replays.
        eras: the rules of what is logged, in their order; the last one holds now.
        quota_bytes: bytes of topics and values that the log may have; 0: any number.
        promote: the rules about direct messages.
        first: the place where the log begins; everything before it was trimmed.
        seals: one entry for each time that the log has ended generations, so that they can be
            dropped: the last commit before that, and for each retention class the generation that
            took messages from then on.
        dropped: the retention class and the number of each generation that the log has dropped
            while replays ran.
        temporary_replays: whether clients may start replays on temporary endpoints.
    """

    origin: int
    egress: bool = True
    eras: list[Era] = field(default_factory=lambda: [Era(Place(0, 0), True, EVERYTHING, ())])
    quota_bytes: int = 0
    promote: list[Promotion] = field(default_factory=list)
    first: Place = field(default_factory=lambda: Place(1, 0))
    seals: list[tuple[int, dict[str, int]]] = field(default_factory=list)
    dropped: list[tuple[str, int]] = field(default_factory=list)
    temporary_replays: bool = False

    def encode(self) -> bytes:
        body = {**vars(self), "eras": [era.to_json() for era in self.eras]}
        return _encoded(body)

    @staticmethod
    def decode(value: bytes) -> LogRecord:
        body = json.loads(value)
        body["eras"] = [Era.from_json(era) for era in body["eras"]]
        body["promote"] = [Promotion(*rule) for rule in body["promote"]]
        body["first"] = Place(*body["first"])
        # Older versions stored times of a clock that may have leapt. Such seals are left out: the
        # next seal covers their generations, too.
        body["seals"] = [
            (serial, current) for serial, current in body["seals"] if isinstance(current, dict)
        ]
        body["dropped"] = [(name, generation) for name, generation in body.get("dropped", [])]
        return LogRecord(**body)


@dataclass
class Subscribed:
    """A subscription of an endpoint: a filter, for messages from ``since`` on, before ``until``."""

    filter: str
    since: Place
    until: Place | None = None

    def wants(self, place: Place) -> bool:
        return self.since <= place and (self.until is None or place < self.until)


@dataclass
class RunRecord:
    """A replay that runs on an endpoint.

    Attributes:
        started_by: the client that started the replay, or "" for an administrator.
        start: the start that was asked for, for people.
        begin: the place where the replay begins.
        live_from: messages before this place are replayed, and those from it on are live.
        start_us: older messages are not replayed; 0 if the replay does not start from a time.
        end_us: messages of this timestamp or a later one are not replayed. None: no limit.
        rate: the rate as it was given; see ``parse_rate``.
        paused: whether the replay pauses.
        stall_timeout_us: after this time of standing still the replay fails. None: never.
        total: about how many messages the replay has; None: not counted yet.
        done: how many of them have come to the endpoint.
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
    total: int | None = None
    done: int = 0


@dataclass
class EndpointRecord:
    """The record of an endpoint: its options, how far it has read, and what it still holds.

    ``ReplayLog.queue`` explains the options ``exclusive``, ``durable``, ``owner``, ``others``,
    ``spool``, ``spool_bytes``, ``dead_letter`` and ``expired``.

    Attributes:
        subscriptions: also those that were removed, as long as their messages may be here.
        next: everything before this place has come to the endpoint, or does not belong to it.
        held: the first and the last place of each run of messages before ``next`` that are here
            and not done with.
        given: a message before this place may have been given to a client already.
        lost_until: what was dropped up to this commit is counted as lost, or is no loss.
        state: the value of the ``State`` of the replay.
        run: the replay that runs.
        last_start: when the last replay was started (µs), by which client, and from where.
        last_complete: when a replay was last complete (µs).
        last_failure: when a replay last failed (µs), the reason, and the text of the error.
        counts: counters by name, such as "acknowledged".
        clients: of each client that receives, in their order: its name, its window, and how many
            messages it has without an acknowledgement. Other processes read them.
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
    dead_letter: str | None = None
    expired: Expired = "give"
    held: list[tuple[Place, Place]] = field(default_factory=list)
    given: Place = field(default_factory=lambda: Place(0, 0))
    lost_until: int = 0
    state: str = "n/a"
    run: RunRecord | None = None
    last_start: list[Any] | None = None
    last_complete: list[Any] | None = None
    last_failure: list[Any] | None = None
    counts: dict[str, int] = field(default_factory=dict)
    clients: list[tuple[str, int, int]] = field(default_factory=list)

    @property
    def live_from(self) -> Place:
        """Messages before this place are replayed; without a replay there are none."""
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
    """Reads and writes the records of one replay log and its endpoints. Thread-safe.

    The log owns this object, which lives as long as the log; its endpoints use it, too.
    """

    def __init__(self, core: Engine, name: str, durability: Durability | None) -> None:
        self._core = core
        self._prefix = f"{_PREFIX}{escape(name)}/"
        _core.check_topic(self._prefix + "log")
        self.durability = durability  # how safely the log stores what it writes
        # Lock rule: _lock is held while something is written, so that an older record never
        # overwrites a newer one. It is taken after all other locks of this package.
        self._lock = threading.Lock()
        self._waiting: dict[str, bytes] = {}
        self.writes = 0  # commits that have stored or removed records

    def origin(self) -> int:
        """Returns the random number of this database, and makes it when it is first asked for."""
        with begun(self._core, SHARD, self.durability) as transaction:
            value = transaction.get(_PREFIX + "origin", 0)
            if value is not None:
                return int(value, 16)
            origin = secrets.randbits(64)
            transaction.write(_PREFIX + "origin", 0, b"%016x" % origin, reserved=True)
            with self._lock:
                self._commit(transaction)
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
        """Returns the topic of an endpoint's record. Raises TopicError if its name is too long."""
        topic = f"{self._prefix}endpoint/{escape(endpoint)}"
        _core.check_topic(topic)
        return topic

    def save_endpoint(self, record: EndpointRecord, *, later: bool = False) -> None:
        """Stores a record at once, or with others in the next ``save_waiting`` (``later``)."""
        label = f"endpoint/{escape(record.name)}"
        value = record.encode()
        with self._lock:
            self._waiting.pop(label, None)
            if later:
                self._waiting[label] = value
            else:
                self._write({label: value})

    def save_waiting(self) -> None:
        """Stores the records that wait, in one commit. If that fails, they wait on."""
        with self._lock:
            if self._waiting:
                self._write(self._waiting)
                self._waiting.clear()

    def drop_endpoint(self, name: str) -> None:
        with self._lock:
            self._waiting.pop(f"endpoint/{escape(name)}", None)
            self._delete(self.topic_of(name))

    def drop(self) -> None:
        """Removes the records of the log and of all its endpoints."""
        with self._lock:
            self._waiting.clear()
            self._delete(self._prefix + "#")

    def _write(self, values: dict[str, bytes]) -> None:
        with begun(self._core, SHARD, self.durability) as transaction:
            for label, value in values.items():
                transaction.write(self._prefix + label, 0, value, reserved=True)
            self._commit(transaction)

    def _delete(self, filter: str) -> None:
        with begun(self._core, SHARD, self.durability) as transaction:
            transaction.delete(filter, None, None, reserved=True)
            self._commit(transaction)

    def _commit(self, transaction: TransactionEngine) -> None:
        self.writes += len(transaction.commit().serials)


def stored(core: Engine) -> Iterator[tuple[str, str, bytes]]:
    """Yields the log, the endpoint ("" for the log itself) and the record of all that is stored.

    It needs no transaction, so it also works with a handle that is open for reading only.
    """
    scan = core.scan(_PREFIX + "#", None, None, "stream", None)
    while (batch := scan.next_batch(10_000, 8 << 20)) is not None:
        for topic, _, value in batch:
            levels = topic.split("/")
            if len(levels) == 4 and levels[3] == "log":
                yield unescape(levels[2]), "", value
            elif len(levels) == 5:
                yield unescape(levels[2]), unescape(levels[4]), value
