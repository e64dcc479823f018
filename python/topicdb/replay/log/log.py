"""The replay log: a database whose messages can be replayed to endpoints."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from topicdb import _core
from topicdb.arguments.filters import Filters, filter_list
from topicdb.arguments.times import TimeLike, time_us
from topicdb.closing import Closing
from topicdb.replay.endpoint.endpoint import Endpoint
from topicdb.replay.log.endpoint_host import EndpointHost
from topicdb.replay.log.endpoints import Asked, Endpoints, new_record
from topicdb.replay.log.log_rules import LogRules
from topicdb.replay.log.publishing import Publisher
from topicdb.replay.log.pump import Pump
from topicdb.replay.log.running import Running
from topicdb.replay.log.settings import LogSettings
from topicdb.replay.log.upkeep import LogUpkeep, checked_quota
from topicdb.replay.orders.listener import Listener
from topicdb.replay.orders.orders import carry_out
from topicdb.replay.orders.sockets import socket_path
from topicdb.replay.records import Access, EndpointRecord, Expired, LogRecord, Records
from topicdb.replay.rules import filters_of
from topicdb.replay.states import Event
from topicdb.types import Receipt

if TYPE_CHECKING:
    from topicdb.database.database import Database
    from topicdb.types import ArrowArray, ArrowStream, Durability, Row

REPLAYS_MAX = 100
SPOOL = 10_000
SPOOL_BYTES = 32 << 20


class ReplayLog(LogSettings, Closing):
    """A database whose messages come to endpoints, and again in replays; made by ``replay.open``.

    A message that is appended to the database belongs to the log if the rules of the log say so at
    that moment. Nothing is stored twice. One process at a time has a log open, with one ReplayLog.
    A thread of the log serves the endpoints until the log or the database is closed. Thread-safe.
    """

    # Lock rule: _lock guards the record, the rules, the endpoints and the upkeep. It is taken
    # before the locks of endpoints, and these before those of `_running`, `_records` and `_pump`.

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
        self._pump = Pump(self._step, records.save_waiting, self.maintain, self._closed_by_database)
        core = database._core
        self._host = EndpointHost(
            name, core, (record, records), self._running, self._pump, self.drop_endpoint
        )
        self._endpoints = Endpoints(self._host, store_interval_s, self._pump.wake)
        self._publisher = Publisher(database, self._rules, self._host, self._endpoints)
        self._upkeep = LogUpkeep(core, record, records, self._endpoints)
        for stored in records.endpoints():
            self._endpoints.open(stored)
        records.save_log(record)
        self._listener = Listener(name, socket_path(core.path, name), partial(carry_out, self))
        self._pump.start(f"topicdb-replay-{name}")

    @property
    def name(self) -> str:
        """The name of the log."""
        return self._name

    @property
    def origin(self) -> int:
        """The random number that stands for this database in message ids."""
        return self._record.origin

    # Publishing.

    def publish(
        self,
        messages: Iterable[Row] | ArrowStream | ArrowArray,
        *,
        qos: Literal[0, 1, 2] = 1,
        durability: Durability | None = None,
        raw: bool = False,
    ) -> Receipt:
        """Appends messages to the database, and of direct messages (QoS 0) only some.

        Messages that are appended to the database in another way come to endpoints just the same.

        Arguments:
            messages: as in ``Database.append``.
            qos: 1 or 2 stores all messages, as ``Database.append`` does. 0 stores only those that a
                promotion rule lets pass, within its budget (see ``Promotion``). The others are
                counted (see ``direct``), and come at most once to clients that are bound to
                endpoints of this log now.
            durability: as in ``Database.append``.
            raw: as in ``Database.append``.

        Returns:
            What ``Database.append`` returns for the messages that were stored.

        Raises:
            ValueError: another ``qos``. What ``Database.append`` raises comes through, too.
        """
        return self._publisher.publish(messages, qos, durability, raw=raw)

    @property
    def direct(self) -> dict[str, int]:
        """Counts direct messages since the log was opened, by what became of them.

        ``"logged"`` messages were stored. Messages with ``"no rule"`` and those ``"over budget"``
        were not; ``Endpoint.info`` counts how many of them clients were given.
        """
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
        dead_letter: str | None = None,
        expired: Expired | None = None,
    ) -> Endpoint:
        """Returns the queue of this name, or makes a new one.

        Messages that match ``filter`` come to a new queue from now on. ``owner``, ``others``,
        ``spool`` and ``spool_bytes`` count only when the queue is made.

        Arguments:
            name: the name of the queue, unique in this log.
            filter: one topic filter or several. A queue that exists must have the same ones; None
                does not check them. A new queue needs at least one.
            exclusive: whether only one client at a time is given messages.
            durable: whether the queue outlasts its clients and the process. If not, it is dropped
                when its last client leaves.
            owner: the client that may do everything. None: every client may.
            others: what clients other than the owner may do: ``"none"``, ``"read"`` (browse) or
                ``"consume"``.
            spool: at most this many messages are held in memory; more are read from the database as
                clients acknowledge them.
            spool_bytes: once these messages have this many bytes, no more are read (default 32
                MiB). Up to half of them may be those of messages that are done with, beside which
                others are not.
            dead_letter: a topic. What this queue removes because a client has rejected it, or
                because it has expired, is stored once more under this topic, with its own one
                behind. None: nothing is; for a queue that exists: as before.
            expired: what becomes of a live message whose expiry interval (MQTT 5) is over before a
                client was given it. ``"give"``: it is given all the same. ``"remove"``: it is
                removed. None: as before, or ``"give"`` for a new queue.

        Returns:
            The queue.

        Raises:
            ValueError: a bad option; or the queue has other filters, another ``exclusive``,
                ``durable``, ``dead_letter`` or ``expired``, or is a topic endpoint.
            TopicError: a bad filter or topic, or the name is too long.
            ClosedError: the log is closed.

        Example:
            >>> log = topicdb.replay.open(db)
            >>> log.queue("pumps", "site/+/pump/#").subscriptions
            ['site/+/pump/#']
            >>> log.close()
        """
        filters = filter_list(filter)
        self._records.topic_of(name)
        asked = Asked(None, dead_letter, expired)
        record = new_record(
            name,
            "queue",
            exclusive=exclusive,
            durable=durable,
            rights=(owner, others),
            room=(spool, spool_bytes),
            asked=asked,
        )
        return self._endpoint(record, filters, asked)

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
        dead_letter: str | None = None,
        expired: Expired | None = None,
    ) -> Endpoint:
        """Returns the topic endpoint of this name, or makes a new one.

        It is like a queue that has exactly one filter, and whose messages a selector may choose.

        Arguments:
            name: as in ``queue``.
            filter: the topic filter. An endpoint that exists must have the same one.
            selector: only messages for which this condition is true come, such as ``"color = 'red'
                AND size > 3"``. docs/concepts/replay.md says which properties it may use. None: all
                messages come, or, if the endpoint exists, those that its selector chose before.
            exclusive: as in ``queue``.
            durable: as in ``queue``.
            owner: as in ``queue``.
            others: as in ``queue``.
            spool: as in ``queue``.
            spool_bytes: as in ``queue``.
            dead_letter: as in ``queue``.
            expired: as in ``queue``.

        Returns:
            The endpoint.

        Raises:
            ValueError: as ``queue``; or the selector is no condition, or the endpoint has another
                one.
            TopicError, ClosedError: as ``queue``.
            ImportError: there is a selector, and sqlglot is missing: install ``topicdb[replay]``.
        """
        self._records.topic_of(name)
        asked = Asked(selector, dead_letter, expired)
        record = new_record(
            name,
            "topic",
            exclusive=exclusive,
            durable=durable,
            rights=(owner, others),
            room=(spool, spool_bytes),
            asked=asked,
        )
        return self._endpoint(record, filters_of(filter, "filter"), asked)

    def _endpoint(
        self, record: EndpointRecord, filters: list[str] | None, asked: Asked
    ) -> Endpoint:
        with self._lock:
            self._check_open()
            return self._endpoints.found_or_made(record, filters, asked)

    def endpoint(self, name: str) -> Endpoint:
        """Returns the endpoint of this name.

        Arguments:
            name: of the endpoint.

        Returns:
            The endpoint.

        Raises:
            NotFoundError: there is no such endpoint.
        """
        found = self._endpoints.find(name)
        if found is None:
            raise _core.NotFoundError(f"replay log {self._name!r} has no endpoint {name!r}")
        return found

    def endpoints(self) -> list[Endpoint]:
        """Returns all endpoints, sorted by name."""
        with self._lock:
            return self._endpoints.sorted()

    def drop_endpoint(self, name: str) -> None:
        """Removes an endpoint, and disconnects its clients with EndpointDroppedError.

        The messages stay in the database.

        Arguments:
            name: of the endpoint.

        Raises:
            NotFoundError: there is no such endpoint.
        """
        with self._lock:
            self.endpoint(name)
            self._endpoints.drop(name)

    # Trimming.

    @property
    def quota_bytes(self) -> int:
        """How many bytes of topics and values the log may have; 0 stands for any number.

        It can be set, and ``maintain`` is called then. A negative number raises ValueError.
        """
        return self._record.quota_bytes

    @quota_bytes.setter
    def quota_bytes(self, value: int) -> None:
        with self._lock:
            self._check_open()
            self._record.quota_bytes = checked_quota(value)
            self._records.save_log(self._record)
        self.maintain()

    def trim(self, before: TimeLike) -> int:
        """Lets the log begin with its first message that has this timestamp or a later one.

        Endpoints still deliver trimmed messages that they hold or have to read. A replay that has
        still to read trimmed messages fails with MessageUnavailableError.

        Arguments:
            before: a time, as in ``Database.scan``.

        Returns:
            How many generations were dropped, which gives back their space.

        Raises:
            ValueError, TypeError: ``before`` is no time.
            ClosedError: the log is closed.
        """
        before_us = time_us(before, what="before")
        with self._lock:
            self._check_open()
            return self._upkeep.trim(before_us)

    def maintain(self) -> None:
        """Does at once what the log otherwise does every second.

        It trims the log to 80 % of its quota if the log has more than 90 %, and drops generations
        that hold nothing that the log or an endpoint still needs.
        """
        with self._lock:
            self._check_open()
            self._upkeep.run()

    # What can be seen.

    def on_event(self, listener: Callable[[Event], object]) -> None:
        """Calls ``listener`` with each ``Event`` from now on, in the thread of the log.

        Events that are left when the log is closed are told in the thread that closes it. An error
        that a listener raises is logged.

        Arguments:
            listener: takes an ``Event``.
        """
        self._pump.listeners = [*self._pump.listeners, listener]

    def events(self) -> list[Event]:
        """Returns the last events, at most 1,000, the oldest first."""
        return self._running.events()

    def events_since(self, number: int, wait_s: float) -> tuple[int, list[Event]]:
        """Returns the events that came after the first ``number``; waits for the next one.

        Arguments:
            number: how many events you know.
            wait_s: the most seconds to wait.

        Returns:
            How many events there were, and the events; of many only the last 1,000 are kept.
        """
        return self._running.since(number, wait_s)

    def info(self) -> dict[str, Any]:
        """Returns the rules and the state of the log and its endpoints.

        Returns:
            A dict. Among others: ``bytes`` of topics and values in the log; ``first``, the place
            where it begins; ``reclaims``, the retention classes whose generations trimming may
            drop; ``direct``, the counts of direct messages; ``replays``, how many run; and
            ``endpoints``, each as of ``Endpoint.info``.

        Raises:
            ClosedError: the log is closed.
        """
        with self._lock:
            self._check_open()
            return {
                "name": self._name,
                "ingress": self.ingress,
                "egress": self.egress,
                "temporary_replays": self.temporary_replays,
                "include": list(self.include),
                "exclude": list(self.exclude),
                "quota_bytes": self.quota_bytes,
                "bytes": self._upkeep.nbytes(),
                "first": self._record.first,
                "reclaims": self._upkeep.classes(),
                "direct": self.direct,
                "replays": len(self._running),
                "endpoints": [endpoint.info() for endpoint in self.endpoints()],
            }

    def flush(self) -> None:
        """Stores what clients have acknowledged; the log itself does that within a second."""
        for endpoint in self.endpoints():
            endpoint.flush()
        self._records.save_waiting()

    def close(self) -> None:
        """Stores everything and ends the thread of the log; clients then get ClosedError.

        Closing it again does nothing.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._listener.close()
        self._pump.close()
        with self._lock:
            self._endpoints.end()

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called or the database was closed."""
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
        self._listener.close()
        self._endpoints.end()

    def __repr__(self) -> str:
        return f"<topicdb.ReplayLog {self._name!r}{' (closed)' if self._closed else ''}>"
