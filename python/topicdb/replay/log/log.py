"""The replay log: a database whose messages can be replayed to endpoints."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from topicdb import _core
from topicdb.arguments import has_arrow
from topicdb.closing import Closing
from topicdb.engine import Engine, SubscriptionCursor
from topicdb.filters import Filters, filter_list
from topicdb.follow.positions import Place
from topicdb.replay.endpoint.endpoint import Endpoint
from topicdb.replay.errors import LogModifiedError, ReplayDisabledError
from topicdb.replay.log.endpoints import Endpoints, new_record
from topicdb.replay.log.log_rules import Change, LogRules
from topicdb.replay.log.pump import Pump
from topicdb.replay.log.running import Running
from topicdb.replay.log.trimming import Trimmer, eras_from, oldest_generations
from topicdb.replay.records import SHARD, Access, EndpointRecord, LogRecord, Records
from topicdb.replay.rules import Era, Promotion, checked_promotions, filters_of
from topicdb.replay.selector.properties import selector_of
from topicdb.replay.states import Event
from topicdb.replay.throttle import ReadThrottle
from topicdb.times import TIMESTAMP_MAX, TimeLike, time_us
from topicdb.types import Receipt

if TYPE_CHECKING:
    from topicdb.database.database import Database
    from topicdb.types import ArrowArray, ArrowStream, Durability, Row

REPLAYS_MAX = 100
SPOOL = 10_000
SPOOL_BYTES = 32 << 20


class ReplayLog(Closing):
    """A database whose messages come to endpoints, and again in replays; made by ``replay.open``.

    Everything that is appended to the database is in it, if the log's rules say so when it is:
    nothing is stored twice. One process has it open, and in that one object. Thread-safe.
    """

    # Lock rule: _lock guards the record, the rules, the endpoints and the trimmer. Locks of
    # endpoints are taken behind it; those of `_running`, `_records` and `_pump` behind these.

    def __init__(
        self,
        database: Database,
        name: str,
        record: LogRecord,
        records: Records,
        *,
        replays_max: int,
        store_interval_s: float,
    ) -> None:
        self._database = database
        self._name = name
        self._record = record
        self._records = records
        self._lock = threading.RLock()
        self._running = Running(name, replays_max)
        self._closed = False
        self._rules = LogRules(record)
        self._trimmer = Trimmer(self.core, record)
        self._oldest = oldest_generations(self.core)
        self._throttle = ReadThrottle(self._commits_of_others)
        self._pump = Pump(self._step, records.save_waiting, self.maintain, self._closed_by_database)
        self._endpoints = Endpoints(self, store_interval_s, self._pump.wake)
        for stored in records.endpoints():
            self._endpoints.open(stored)
        records.save_log(record)
        self._pump.start(f"topicdb-replay-{name}")
        _opened.add(self)

    # For endpoints: see Host.

    @property
    def core(self) -> Engine:
        return self._database._core

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def records(self) -> Records:
        return self._records

    @property
    def origin(self) -> int:
        """The number of this database in message ids."""
        return self._record.origin

    @property
    def first(self) -> Place:
        """Where the log begins: what is before was trimmed."""
        return self._record.first

    @property
    def throttle(self) -> ReadThrottle:
        return self._throttle

    def _commits_of_others(self) -> int:
        return self.now().serial - self._records.writes

    def eras(self) -> Sequence[Era]:
        """What was logged, from when on."""
        return self._record.eras

    def now(self) -> Place:
        """Behind everything that is committed."""
        return Place(*self.core.places_at(None, TIMESTAMP_MAX)[SHARD])

    def emit(self, event: Event) -> None:
        self._running.note(event)
        self._pump.tell(event)

    def take_slot(self, endpoint: str) -> None:
        self._running.take_slot(endpoint)

    def give_slot(self, endpoint: str) -> None:
        self._running.give_slot(endpoint)

    def wake(self, endpoint: str) -> None:
        self._pump.wake(endpoint)

    def watch(self, endpoint: str, reading: SubscriptionCursor) -> None:
        self._pump.watch(endpoint, reading)

    def drop_temporary(self, endpoint: str) -> None:
        with suppress(_core.NotFoundError):
            self.drop_endpoint(endpoint)

    # Publishing.

    def publish(
        self,
        messages: Iterable[Row] | ArrowStream | ArrowArray,
        *,
        qos: Literal[0, 1, 2] = 1,
        durability: Durability | None = None,
        raw: bool = False,
    ) -> Receipt:
        """As ``Database.append``; with ``qos=0``, of direct messages only those that a promotion
        rule lets pass, within its budget. The others are counted, and go nowhere.

        What is appended to the database otherwise comes to endpoints just the same.
        """
        if qos not in (0, 1, 2):
            raise ValueError(f"qos: expected 0, 1 or 2, got {qos!r}")
        if qos > 0:
            return self._database.append(messages, durability=durability, raw=raw)
        batch = _batch_of(messages)
        promotes = self._rules.promotes
        rows: list[Row] = [
            (topic, None if timestamp < 0 else timestamp, value)
            for topic, timestamp, value in batch
            if promotes(topic, len(topic) + len(value))
        ]
        return self._database.append(rows, durability=durability, raw=raw)

    @property
    def direct(self) -> dict[str, int]:
        """Direct messages since it was opened: ``logged``; not: ``no rule``, ``over budget``."""
        return self._rules.direct

    # Endpoints.

    def queue(
        self,
        name: str,
        filter: Filters = None,
        *,
        exclusive: bool = True,
        durable: bool = True,
        owner: str | None = None,
        others: Access = "consume",
        spool: int = SPOOL,
        spool_bytes: int = SPOOL_BYTES,
    ) -> Endpoint:
        """The queue of this name, or a new one, to which messages of ``filter`` come from now on.

        ``exclusive``: only one client at a time is given messages. ``durable``: it outlasts its
        clients and the process. ``owner``, ``others``: with an owner, what other clients may do:
        ``"none"``, ``"read"`` (browse) or ``"consume"``. ``spool``, ``spool_bytes``:
        messages, and their bytes, that sit at it; more come as they are acknowledged.

        ValueError: it was made with other filters, or a bad option. TopicError.
        """
        filters = filter_list(filter)
        self._records.topic_of(name)
        record = new_record(
            name,
            "queue",
            exclusive=exclusive,
            durable=durable,
            rights=(owner, others),
            room=(spool, spool_bytes),
        )
        return self._endpoint(record, filters)

    def topic_endpoint(
        self,
        name: str,
        filter: str,
        *,
        selector: str | None = None,
        exclusive: bool = True,
        durable: bool = True,
        owner: str | None = None,
        others: Access = "consume",
        spool: int = SPOOL,
        spool_bytes: int = SPOOL_BYTES,
    ) -> Endpoint:
        """As ``queue``, with one filter; and of its messages come only those that ``selector`` is
        true of: ``"color = 'red' AND size > 3"`` (docs/replay.md says what it may look at)."""
        self._records.topic_of(name)
        record = new_record(
            name,
            "topic",
            exclusive=exclusive,
            durable=durable,
            rights=(owner, others),
            room=(spool, spool_bytes),
        )
        selector_of(selector)
        record.selector = selector
        return self._endpoint(record, filters_of(filter, "filter"))

    def _endpoint(self, record: EndpointRecord, filters: list[str] | None) -> Endpoint:
        with self._lock:
            self._check_open()
            return self._endpoints.found_or_made(record, filters)

    def endpoint(self, name: str) -> Endpoint:
        """The one of this name. NotFoundError."""
        found = self._endpoints.find(name)
        if found is None:
            raise _core.NotFoundError(f"replay log {self._name!r} has no endpoint {name!r}")
        return found

    def endpoints(self) -> list[Endpoint]:
        """All that there are, by name."""
        with self._lock:
            return self._endpoints.sorted()

    def drop_endpoint(self, name: str) -> None:
        """Forgets one, and disconnects its clients. NotFoundError."""
        with self._lock:
            self.endpoint(name)
            self._endpoints.drop(name)

    # Rules.

    @property
    def ingress(self) -> bool:
        """Whether what is appended is logged; a change holds from the next commit on."""
        return self._rules.era.ingress

    @ingress.setter
    def ingress(self, value: bool) -> None:
        with self._lock:
            self._begin(self._rules.ingress_era(bool(value), self.now()))

    @property
    def egress(self) -> bool:
        """Whether there can be replays; those that run when it is switched off fail."""
        return self._rules.egress

    @egress.setter
    def egress(self, value: bool) -> None:
        with self._lock:
            self._check_open()
            self._rules.egress = bool(value)
            self._records.save_log(self._record)
            if not value:
                self._endpoints.fail_all(
                    ReplayDisabledError(f"the egress of replay log {self._name!r} was switched off")
                )

    @property
    def include(self) -> tuple[str, ...]:
        """Filters of what is logged."""
        return self._rules.era.include

    @property
    def exclude(self) -> tuple[str, ...]:
        """Filters of what is not, though it is included."""
        return self._rules.era.exclude

    def set_filters(self, include: Filters = "#", exclude: Filters = ()) -> None:
        """What is logged from now on. Fails the replays that run. TopicError, ValueError."""
        included, excluded = filters_of(include, "include"), filter_list(exclude) or []
        with self._lock:
            self._begin(self._rules.filters_era(included, excluded, self.now()))

    def set_promotion(self, promote: Sequence[Promotion | str]) -> None:
        """Which direct messages are logged; see ``Promotion``. TopicError, ValueError."""
        rules = checked_promotions(promote)
        with self._lock:
            self._check_open()
            self._rules.set_promotion(rules)
            self._records.save_log(self._record)

    def _begin(self, era: Era) -> None:
        self._check_open()
        change = self._rules.begin(era)
        if change is Change.NOTHING:
            return
        self._trimmer.forget()
        self._records.save_log(self._record)
        if change is Change.FILTERS:
            self._endpoints.fail_all(
                LogModifiedError(f"the filters of replay log {self._name!r} changed")
            )

    # Trimming.

    @property
    def quota_bytes(self) -> int:
        """Topics and values that the log may have; 0: any number."""
        return self._record.quota_bytes

    @quota_bytes.setter
    def quota_bytes(self, value: int) -> None:
        with self._lock:
            self._check_open()
            self._record.quota_bytes = checked_quota(value)
            self._records.save_log(self._record)
        self.maintain()

    def trim(self, before: TimeLike) -> int:
        """The log begins with the first message that has this timestamp, or a later one. How many
        generations were dropped for it.

        Endpoints that hold messages which are trimmed deliver them; a replay that has still to read
        such ones fails.
        """
        before_us = time_us(before, what="before")
        with self._lock:
            self._check_open()
            self._trimmer.seal()  # first, so that what is trimmed is in generations that have ended
            self._trim(self._trimmer.cut_at(before_us))
            return self._reclaim()

    def maintain(self) -> None:
        """Does at once what happens every second: trims the log if it has 90 % of its quota, to
        80 %, and gives back the space of what nobody needs."""
        with self._lock:
            self._check_open()
            self._look_for_lost()
            if (cut := self._trimmer.cut()) is not None:
                self._trim(cut)
                self._trimmer.nbytes()
            if self._trimmer.should_seal():
                self._trimmer.seal()
                self._records.save_log(self._record)
            self._reclaim()

    def _trim(self, first: Place) -> None:
        if first <= self._record.first:
            return
        self._endpoints.trimmed(first)
        self._record.first = first
        self._record.eras = eras_from(self._record.eras, first)
        self._records.save_log(self._record)

    def _reclaim(self) -> int:
        dropped = self._trimmer.reclaim(self._endpoints.hold_from(self._record.first))
        if dropped:
            self._records.save_log(self._record)
        self._oldest = oldest_generations(self.core)
        return dropped

    def _look_for_lost(self) -> None:
        """Generations that went by the retention or quota of the database, or by hand."""
        slabs = oldest_generations(self.core)
        if any(slabs.get(name, 0) != oldest for name, oldest in self._oldest.items()):
            oldest = Place(*self.core.places_at(list(self.include), 0)[SHARD])
            self._endpoints.lost_before(oldest)
            self._record.first = max(self._record.first, oldest)
            self._records.save_log(self._record)
        self._oldest = slabs

    # What can be seen.

    def on_event(self, listener: Callable[[Event], object]) -> None:
        """Calls ``listener`` with each change of a replay's state, in a thread of the log."""
        self._pump.listeners = [*self._pump.listeners, listener]

    def events(self) -> list[Event]:
        """The last changes, 1,000 at most, the oldest first."""
        return self._running.events()

    def info(self) -> dict[str, Any]:
        """How it stands: rules, ``bytes``, ``first`` (place), ``reclaims``, the retention classes
        whose generations trimming drops, direct messages, and its endpoints."""
        with self._lock:
            self._check_open()
            return {
                "name": self._name,
                "ingress": self.ingress,
                "egress": self.egress,
                "include": list(self.include),
                "exclude": list(self.exclude),
                "quota_bytes": self.quota_bytes,
                "bytes": self._trimmer.nbytes(),
                "first": self._record.first,
                "reclaims": self._trimmer.classes(),
                "direct": self.direct,
                "replays": len(self._running),
                "endpoints": [endpoint.info() for endpoint in self.endpoints()],
            }

    def flush(self) -> None:
        """Stores what was acknowledged."""
        for endpoint in self.endpoints():
            endpoint.flush()
        self._records.save_waiting()

    def close(self) -> None:
        """Stores everything, ends its threads; clients get ClosedError. May be repeated."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._pump.close()
        with self._lock:
            self._endpoints.end()

    @property
    def closed(self) -> bool:
        """``close`` was called, or the database was closed."""
        return self._closed

    def _check_open(self) -> None:
        if self._closed:
            raise _core.ClosedError(f"replay log {self._name!r} is closed")

    # For the pump.

    def _step(self, name: str) -> float | None:
        endpoint = self._endpoints.find(name)
        return None if endpoint is None else endpoint.step()

    def _closed_by_database(self) -> None:
        self._closed = True
        self._endpoints.end()

    def __repr__(self) -> str:
        return f"<topicdb.ReplayLog {self._name!r}{' (closed)' if self._closed else ''}>"


def checked_quota(value: int) -> int:
    """ValueError."""
    if value < 0:
        raise ValueError(f"quota_bytes: {value} is negative; 0 sets no limit")
    return value


def _batch_of(messages: Any) -> _core.Batch:
    if has_arrow(messages):
        return _core.batch_of_arrow(messages)
    return _core.batch_of_rows(messages)


_opened: weakref.WeakSet[ReplayLog] = weakref.WeakSet()


@atexit.register
def _end_threads() -> None:
    # A thread that the core wakes up while Python takes itself apart would abort the process.
    for log in list(_opened):
        with suppress(Exception):
            log.close()
