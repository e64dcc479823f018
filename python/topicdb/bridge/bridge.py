"""The bridge: stores the messages of an MQTT broker in a database."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from topicdb import _core
from topicdb.arguments.filters import Filters, covers, filter_list, unshared
from topicdb.arguments.times import now_us
from topicdb.bridge.device_time import FUTURE, PAST, DeviceTime, TimeUnit
from topicdb.bridge.options import (
    check_bridge,
    check_connection,
    check_sharding,
    expiry_s,
    widest,
)
from topicdb.bridge.status import Status
from topicdb.bridge.storing import Arrival, Plan, Store
from topicdb.closing import Closing
from topicdb.mqtt.address import broker_of, named
from topicdb.mqtt.follows import Follows
from topicdb.replay.broker.marks import is_replayed

if TYPE_CHECKING:
    from topicdb.bridge.client import StoringClient
    from topicdb.bridge.history import History
    from topicdb.bridge.packet import Published
    from topicdb.database.database import Database
    from topicdb.mqtt.envelope import Envelope
    from topicdb.types import Durability

REQUEST_TOPIC = "topicdb/history"
CLIENT_ID_PROPERTY = "client-id"
NAMES_MAX = 100_000
_TURN_S = 0.1
_BATCH, _BATCH_BYTES = 2_000, 16 << 20  # of messages in a commit; a longer one is alone in it
_PAUSE_MIN_S, _PAUSE_MAX_S = 0.1, 10.0
_CONNECT_S = 5.0
_logger = logging.getLogger("topicdb.bridge")


class Bridge(Closing):
    """Stores what an MQTT broker publishes, and acknowledges it when it is stored.

    The broker keeps a session for it, under the client id ``name``. So messages that are published
    while the bridge is away come when it is back. Messages of QoS 1 are stored at least once, of
    QoS 2 once, even if the bridge is killed; docs/reference/bridge.md says what a broker adds.

    Call ``run``, or ``start`` and ``stop``, or use it in ``with``. ``run`` connects again whenever
    the connection is lost. It does not close the database. Thread-safe.

    Example:
        >>> from topicdb.bridge import Bridge
        >>> with Bridge(db, "mqtt://broker.example", filters="site/#") as bridge:  # doctest: +SKIP
        ...     print(bridge.status().stored)
    """

    def __init__(
        self,
        database: Database,
        host: str,
        port: int | None = None,
        *,
        filters: Filters = "#",
        name: str = "topicdb-bridge",
        qos: Literal[0, 1, 2] = 2,
        envelope: bool = True,
        protocol: Literal["5", "3.1.1"] = "5",
        username: str | None = None,
        password: str | None = None,
        tls: bool | ssl.SSLContext = False,
        keepalive: int = 60,
        session_expiry: str | timedelta = "7d",
        client_id_property: str = CLIENT_ID_PROPERTY,
        shard_by: Literal["topic", "client"] = "topic",
        client_level: int | None = None,
        deduplicate_by: str | None = None,
        history: Filters = (),
        request_topic: str = REQUEST_TOPIC,
        durability: Durability | None = None,
        store_replays: bool = False,
        timestamp: str | None = None,
        timestamp_unit: TimeUnit = "ms",
        timestamp_past: str | timedelta = PAST,
        timestamp_future: str | timedelta = FUTURE,
    ) -> None:
        """Checks the options. ``start`` or ``run`` connects.

        Arguments:
            database: where to store the messages; it must be open for writing.
            host: a name, an address, or a URL that may also have the port, the login and TLS, such
                as ``mqtts://user:password@broker.example:8884``.
            port: None: 1883, or 8883 with TLS.
            filters: what to store. Of a shared filter, ``$share/<group>/<filter>``, each message
                goes to one of the bridges of the group.
            name: the client id. The bridge also stores its state in the database under this name.
            qos: the greatest QoS that the bridge asks for. A message has its publisher's, if that
                is less.
            envelope: stores messages with their properties, which readers get on request. False
                stores the payload alone.
            protocol: ``"5"`` or ``"3.1.1"``.
            username: the login.
            password: the login.
            tls: True, or a context of your own.
            keepalive: seconds.
            session_expiry: how long the broker keeps messages while the bridge is away.
            client_id_property: the user property in which publishers say who they are, since MQTT
                does not tell.
            shard_by: what decides the shard of a message. ``"client"``, in a database with
                ``shard_by="key"``: the client that published it, as ``client_level`` or
                ``client_id_property`` tells; the topic, if neither does.
            client_level: the level of the topic that names the client, counted from 1: 2 in
                ``site/<client>/rpm``. Where a topic has it, it goes before the user property.
            deduplicate_by: a user property that names the message. Of the last 100,000 names (in
                each shard) none is stored twice: for publishers that send again what a broker has
                lost.
            history: filters of what clients may ask for at ``request_topic``:
                docs/reference/bridge.md.
            request_topic: where clients ask for history.
            durability: of each commit; None: the default of the database.
            store_replays: also stores what a replay has published (``topicdb.replay.broker``). By
                default such messages are left out, since they come from a database. MQTT 3.1.1 does
                not tell them.
            timestamp: where a message has the time at which the device made it: ``"field:NAME"`` of
                a JSON payload (``"field:A/B"``: of an object in it), or ``"property:NAME"``, a user
                property. None: messages have the time at which they are stored.
            timestamp_unit: of numbers, ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``; text may also be
                ISO 8601 with a zone. A message without a time has the time at which it is stored.
            timestamp_past: a time that is longer before the reception does not count.
            timestamp_future: a time that is longer after the reception does not count.

        Raises:
            ImportError: paho-mqtt is missing: install ``topicdb[mqtt]``.
            TopicError, ValueError: a bad option.
            SchemaError: ``shard_by="client"``, and the database shards by topic.
            ReadOnlyError: the database is not open for writing.
        """
        try:
            import paho.mqtt.client  # noqa: F401
        except ImportError as error:
            raise ImportError("the bridge needs paho-mqtt: pip install topicdb[mqtt]") from error
        self._filters = filter_list(filters) or []
        self._history_filters = filter_list(history) or []
        broker = broker_of(host, port, tls, username, password)
        check_bridge(self._filters, name, qos, protocol, deduplicate_by, self._history_filters)
        check_connection(keepalive, broker.login)
        core = database._core
        check_sharding(shard_by, client_level, protocol, core.schema, core.path)
        _core.check_topic(request_topic)
        self._database = database
        self._broker = broker
        self._name = name
        self._qos = qos
        self._keeps_envelope = envelope
        self._protocol = protocol
        self._keepalive = keepalive
        self._session_expiry_s = expiry_s(session_expiry)
        self._client_id_property = client_id_property
        self._shards_by_client = shard_by == "client"
        self._client_level = client_level
        self._deduplicate_by = deduplicate_by
        self._request_topic = request_topic
        self._stores_replays = store_replays
        self._device_time = (
            None
            if timestamp is None
            else DeviceTime(timestamp, timestamp_unit, timestamp_past, timestamp_future)
        )
        if self._device_time is not None and self._device_time.is_property and protocol != "5":
            raise ValueError("timestamp: user properties need protocol='5'")
        names_max = NAMES_MAX if deduplicate_by else 0
        self._store = Store(
            core, name, durability, names_max, self._filters, has_properties=envelope
        )
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._status = Status()
        self._error: Exception | None = None
        self._history: History | None = None

    def status(self) -> Status:
        """Returns how the bridge stands."""
        history, status = self._history, self._status
        if history is None:
            return status
        return replace(
            status,
            requests=history.requests,
            replayed=history.replayed,
            expired=history.expired,
        )

    def run(self) -> None:
        """Runs in this thread until ``stop`` is called.

        It connects again whenever the connection is lost.

        Raises:
            ClosedError: the database is closed.
        """
        pause_s = _PAUSE_MIN_S
        while not self._stopping.is_set():
            before, began_s = self._status.received, time.monotonic()
            try:
                self._serve_connection()
            except _core.ClosedError:
                raise
            except OSError as error:
                if not isinstance(error, _core.Error):  # an error of the connection
                    named(error, self._broker.address)
                self._note(state="waiting", last_error=str(error))
                _logger.warning("bridge %s: %s", self._name, error)
            if self._status.received > before or time.monotonic() - began_s > _PAUSE_MAX_S:
                pause_s = _PAUSE_MIN_S
            self._stopping.wait(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)
        self._note(state="stopped")

    def _serve_connection(self) -> None:
        from topicdb.bridge.client import LostError, StoringClient

        self._note(state="connecting")
        self._store.refresh()
        client = StoringClient(self._name, self._protocol, self._keepalive)
        if self._broker.login is not None:
            client.username_pw_set(*self._broker.login)
        if self._broker.tls is not None:
            client.tls_set_context(self._broker.tls)
        try:
            client.open(self._broker.host, self._broker.port, self._session_expiry_s, _CONNECT_S)
            self._subscribe(client)
            is_ready = False
            while not self._stopping.is_set():
                client.turn(_TURN_S, _BATCH, _BATCH_BYTES)
                if not is_ready and client.is_answered:
                    is_ready = True
                    self._connected(client)
                self._take(client)
                if self._history is not None:
                    self._history.publish(client)
        except LostError:
            self._take(client)  # stores what came before; the broker sends the rest again
            raise
        finally:
            self._end_history()
            client.end()

    def _subscribe(self, client: StoringClient) -> None:
        if not client.session_present:
            self._store.forget_session()
        before = self._store.filters if client.session_present else []
        wanted = self._subscriptions()
        self._store.remember_filters([*before, *wanted])
        known = [one for one in self._confirmed(client) if one in wanted]
        self._store.remember_follows(self._follows(known))
        if stale := [one for one in before if one not in wanted]:
            client.give_up(stale)
        for qos in sorted(set(wanted.values())):
            client.ask_for([one for one, of_it in wanted.items() if of_it == qos], qos, known)
        if self._history_filters:
            from topicdb.bridge.history import History

            status = self._status
            self._history = History(
                self._database,
                self._history_filters,
                status.requests,
                status.replayed,
                status.expired,
            )

    def _confirmed(self, client: StoringClient) -> Iterable[str]:
        """Returns the filters that the broker's session certainly has."""
        follows = self._store.follows
        if follows is None or not client.session_present or not client.tells_retained:
            return ()
        return follows.confirmed if (follows.host, follows.port) == self._broker[:2] else ()

    def _follows(self, confirmed: Iterable[str]) -> Follows:
        return Follows(
            self._broker.host,
            self._broker.port,
            self._protocol,
            tuple(self._filters),
            tuple(sorted(confirmed)),
            self._stores_replays,
        )

    def _subscriptions(self) -> dict[str, int]:
        """Returns the filters to subscribe to, each with its QoS.

        It leaves out filters that another one covers: a broker may send a message for each filter.
        """
        wanted: dict[str, int] = dict.fromkeys(widest(self._filters), self._qos)
        if self._history_filters and not any(
            covers(unshared(one), self._request_topic) for one in wanted
        ):
            wanted[self._request_topic] = 1
        return wanted

    def _connected(self, client: StoringClient) -> None:
        """Notes that the broker has accepted all filters."""
        wanted = self._subscriptions()
        self._store.remember_filters(wanted)
        self._store.remember_follows(self._follows(wanted if client.tells_retained else ()))
        connections = self._status.connections + 1
        self._note(state="connected", connections=connections, last_error="")
        _logger.info("bridge %s: connected to %s", self._name, self._broker.address)

    def _end_history(self) -> None:
        history = self._history
        if history is not None:
            history.close()
            self._note(
                requests=history.requests, replayed=history.replayed, expired=history.expired
            )
            self._history = None

    def _take(self, client: StoringClient) -> None:
        """Stores what has arrived, however long that takes, and acknowledges it."""
        messages, released = client.take()
        if not messages and not released:
            return
        arrivals, replays = [], 0
        for message in messages:
            users = message.envelope.user_properties
            if users and not self._stores_replays and is_replayed(users):
                replays += 1
                continue
            copy = client.is_copy(message)
            if self._history is None or not self._is_request(message):
                arrivals.append(self._arrival(message, copy))
            elif not copy:  # a copy is a request that was answered when it was published
                self._history.ask(message.envelope)
        untimed = sum(arrival.timestamp is None for arrival in arrivals)
        unnamed = sum(not arrival.key for arrival in arrivals)
        self._note(
            received=self._status.received + len(arrivals) + replays,
            untimed=self._status.untimed + (untimed if self._device_time is not None else 0),
            unnamed=self._status.unnamed + (unnamed if self._shards_by_client else 0),
            replays=self._status.replays + replays,
        )
        plan = self._store.plan(arrivals, released, tells_retained=client.tells_retained)
        if self._store_until_done(plan):
            client.acknowledge(messages, released)

    def _store_until_done(self, plan: Plan) -> bool:
        """Stores until that succeeds; returns whether it did, or was stopped before."""
        state, pause_s = self._status.state, _PAUSE_MIN_S
        while True:
            try:
                outcome = self._store.commit(plan)
                break
            except _core.ClosedError:
                raise
            except _core.Error as error:  # no room, a failing disk, a server that is away
                self._note(state="waiting", last_error=str(error))
                _logger.error("bridge %s cannot store: %s", self._name, error)
            if self._stopping.wait(pause_s):
                return False
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)
        status = self._status
        if outcome.refused:
            _logger.error("bridge %s: a message cannot be stored: %s", self._name, outcome.error)
        self._note(
            state=state,
            stored=status.stored + outcome.stored,
            duplicates=status.duplicates + outcome.duplicates,
            refused=status.refused + outcome.refused,
            copies=status.copies + outcome.copies,
            last_error=outcome.error or status.last_error,
        )
        return True

    def _is_request(self, message: Published) -> bool:
        return self._history is not None and message.topic == self._request_topic.encode()

    def _arrival(self, message: Published, copy: bool) -> Arrival:
        envelope, name, fault = message.envelope, "", ""
        try:
            topic = message.topic.decode()
        except UnicodeDecodeError as error:
            topic = message.topic.decode(errors="surrogateescape")
            fault = f"the topic {message.topic!r} is no UTF-8: {error.reason}"
        mid = message.mid if envelope.qos == 2 else 0
        if envelope.subscription_ids:  # the bridge's own
            envelope = envelope._replace(subscription_ids=())
        if envelope.user_properties:
            users = dict(envelope.user_properties)
            envelope = envelope._replace(client_id=users.get(self._client_id_property, ""))
            if self._deduplicate_by is not None:
                name = users.get(self._deduplicate_by, "")
        timestamp = None
        if self._device_time is not None:
            received = now_us()
            timestamp = self._device_time.of(envelope, received)
            if timestamp is not None:
                envelope = envelope._replace(received=received)
        payload = envelope.payload
        value = envelope.encode() if self._keeps_envelope else _core.escaped_value(payload)
        key = self._client_of(topic, envelope) if self._shards_by_client else ""
        return Arrival(topic, value, mid, name, message.dup, envelope, copy, fault, timestamp, key)

    def _client_of(self, topic: str, envelope: Envelope) -> str:
        """Returns the client that published a message, or "" if nothing tells."""
        if self._client_level is not None:
            levels = topic.split("/", self._client_level)
            if len(levels) >= self._client_level and levels[self._client_level - 1]:
                return levels[self._client_level - 1]
        return envelope.client_id

    def _note(self, **changes: object) -> None:
        self._status = replace(self._status, **changes)  # type: ignore[arg-type]

    def start(self) -> None:
        """Runs the bridge in a thread of its own.

        Raises:
            RuntimeError: it was started before.
        """
        if self._thread is not None:
            raise RuntimeError("the bridge has been started")
        self._thread = threading.Thread(
            target=self._run_quietly, name="topicdb-bridge", daemon=True
        )
        self._thread.start()

    def _run_quietly(self) -> None:
        try:
            self.run()
        except _core.ClosedError:
            _logger.info("bridge %s: the database was closed", self._name)
            self._note(state="stopped")
        except Exception as error:
            _logger.exception("bridge %s: ended by what should not have happened", self._name)
            self._error = error
            self._note(state="stopped", last_error=f"{type(error).__name__}: {error}")

    def stop(self) -> None:
        """Ends the bridge once what has arrived is stored. May be repeated.

        Raises:
            RuntimeError: once, if an unexpected error had ended the bridge before. What was not
                stored is not acknowledged.
        """
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        error, self._error = self._error, None
        if error is not None:
            raise RuntimeError(f"bridge {self._name!r} ended by an error") from error

    def close(self) -> None:
        """Ends the bridge, as ``stop`` does."""
        self.stop()

    def __enter__(self) -> Bridge:
        self.start()
        return self
