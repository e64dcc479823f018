"""The bridge: from an MQTT broker into a database."""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from topicdb import _core
from topicdb.bridge.storing import Arrival, Store
from topicdb.closing import Closing
from topicdb.filters import Filters, covers, filter_list
from topicdb.times import duration_us

if TYPE_CHECKING:
    from topicdb.bridge.client import StoringClient
    from topicdb.bridge.history import History
    from topicdb.bridge.packet import Published
    from topicdb.database import Database, Durability

PORT, PORT_TLS = 1883, 8883
REQUEST_TOPIC = "topicdb/history"
CLIENT_ID_PROPERTY = "client-id"
NAMES_MAX = 100_000
_TURN_S = 0.1
_BATCH = 2_000
_PAUSE_MIN_S, _PAUSE_MAX_S = 0.1, 10.0
_CONNECT_S = 5.0
_logger = logging.getLogger("topicdb.bridge")


@dataclass(frozen=True)
class Status:
    """How a bridge stands. ``state``: "stopped", "connecting", "connected", "waiting" (to connect
    again, or to store again). Messages ``received``, ``stored``, that were there already
    (``duplicates``), and that cannot be stored (``refused``); ``connections`` so far; the text of
    the last error, or ""; requests for ``history`` that were answered, and their messages."""

    state: str = "stopped"
    received: int = 0
    stored: int = 0
    duplicates: int = 0
    refused: int = 0
    connections: int = 0
    last_error: str = ""
    requests: int = 0
    replayed: int = 0


class Bridge(Closing):
    """Stores what an MQTT broker publishes, and acknowledges it when it is stored.

    The broker keeps a session for it, under the client id ``name``: what is published while the
    bridge is away comes when it is back. Messages of QoS 1 are stored at least once, of QoS 2 once,
    also if the bridge is killed; docs/bridge.md says what a broker adds to that.

    ``run`` it, or ``start`` and ``stop``, or use it in ``with``. Thread-safe.
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
        deduplicate_by: str | None = None,
        history: Filters = (),
        request_topic: str = REQUEST_TOPIC,
        durability: Durability | None = None,
    ) -> None:
        """
        - ``qos``: the most that is asked for; a message has that of its publisher, if less.
        - ``envelope``: values are envelopes, with all properties (``topicdb.replay.Envelope``);
          False: the payload alone.
        - ``session_expiry``: so long the broker keeps what comes while the bridge is away.
        - ``client_id_property``: the user property in which publishers say who they are, since MQTT
          does not tell.
        - ``deduplicate_by``: a user property that names the message. Of the last 100,000 (in each
          shard) no name is stored twice: for publishers that send again what a broker has lost.
        - ``history``: filters of what clients may ask for at ``request_topic``; see docs/bridge.md.
        - ``durability``: of each commit.

        ImportError without paho-mqtt; TopicError, ValueError for options; ReadOnlyError.
        """
        try:
            import paho.mqtt.client  # noqa: F401
        except ImportError as error:
            raise ImportError("the bridge needs paho-mqtt: pip install topicdb[mqtt]") from error
        self._filters = filter_list(filters) or []
        self._history_filters = filter_list(history) or []
        _check(self._filters, name, qos, protocol, deduplicate_by, self._history_filters)
        _core.check_topic(request_topic)
        self._database = database
        self._address = host, port if port is not None else PORT_TLS if tls else PORT
        self._name = name
        self._qos = qos
        self._keeps_envelope = envelope
        self._protocol = protocol
        self._login = None if username is None else (username, password)
        self._tls = ssl.create_default_context() if tls is True else tls or None
        self._keepalive = keepalive
        self._session_expiry_s = duration_us(session_expiry, what="session_expiry") // 1_000_000
        self._client_id_property = client_id_property
        self._deduplicate_by = deduplicate_by
        self._request_topic = request_topic
        names_max = NAMES_MAX if deduplicate_by else 0
        self._store = Store(database._core, name, durability, names_max)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._status = Status()
        self._history: History | None = None

    def status(self) -> Status:
        """How it stands."""
        history = self._history
        if history is None:
            return self._status
        return replace(self._status, requests=history.requests, replayed=history.replayed)

    def run(self) -> None:
        """Until ``stop`` is called; connects again whenever the connection is lost."""
        pause_s = _PAUSE_MIN_S
        while not self._stopping.is_set():
            before = self._status.received
            try:
                self._serve_connection()
            except _core.ClosedError:
                raise
            except OSError as error:
                self._note(state="waiting", last_error=str(error))
                _logger.warning("bridge %s: %s", self._name, error)
            if self._status.received > before:
                pause_s = _PAUSE_MIN_S
            self._stopping.wait(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)
        self._note(state="stopped")

    def _serve_connection(self) -> None:
        from topicdb.bridge.client import LostError, StoringClient

        self._note(state="connecting")
        client = StoringClient(self._name, self._protocol, self._keepalive)
        if self._login is not None:
            client.username_pw_set(*self._login)
        if self._tls is not None:
            client.tls_set_context(self._tls)
        try:
            client.open(*self._address, self._session_expiry_s, _CONNECT_S)
            self._connected(client)
            while not self._stopping.is_set():
                client.turn(_TURN_S, _BATCH)
                self._take(client)
                if self._history is not None:
                    self._history.publish(client)
        except LostError:
            self._take(client)  # what came before is stored; the broker sends again the rest
            raise
        finally:
            if self._history is not None:
                self._history.close()
                self._history = None
            client.end()

    def _connected(self, client: StoringClient) -> None:
        connections = self._status.connections + 1
        self._note(state="connected", connections=connections, last_error="")
        _logger.info("bridge %s: connected to %s:%s", self._name, *self._address)
        if not client.session_present:
            self._store.forget_session()
        client.ask_for(self._filters, self._qos)
        if self._history_filters:
            from topicdb.bridge.history import History

            if not any(covers(one, self._request_topic) for one in self._filters):
                client.ask_for([self._request_topic], 1)
            self._history = History(self._database, self._history_filters)

    def _take(self, client: StoringClient) -> None:
        """Stores what has arrived, however long that takes, and acknowledges it."""
        if not client.arrived and not client.released:
            return
        messages, client.arrived = client.arrived, []
        released, client.released = client.released, []
        arrivals = []
        for message in messages:
            if self._history is not None and self._is_request(message):
                self._history.ask(message.envelope)
            else:
                arrivals.append(self._arrival(message))
        self._note(received=self._status.received + len(arrivals))
        if not self._store_until_done(arrivals, released):
            return
        for message in messages:
            if message.envelope.qos == 1:
                client.puback(message.mid)
            elif message.envelope.qos == 2:
                client.pubrec(message.mid)
        for mid in released:
            client.pubcomp(mid)

    def _store_until_done(self, arrivals: list[Arrival], released: list[int]) -> bool:
        """Whether it is stored; if not, it was stopped."""
        pause_s = _PAUSE_MIN_S
        while True:
            try:
                outcome = self._store.store(arrivals, released)
                break
            except _core.ClosedError:
                raise
            except _core.Error as error:  # no room, a failing disk
                self._note(state="waiting", last_error=str(error))
                _logger.error("bridge %s cannot store: %s", self._name, error)
            if self._stopping.wait(pause_s):
                return False
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)
        status = self._status
        if outcome.refused:
            _logger.error("bridge %s: a message cannot be stored: %s", self._name, outcome.error)
        self._note(
            state="connected",
            stored=status.stored + outcome.stored,
            duplicates=status.duplicates + outcome.duplicates,
            refused=status.refused + outcome.refused,
            last_error=outcome.error or status.last_error,
        )
        return True

    def _is_request(self, message: Published) -> bool:
        return self._history is not None and message.topic == self._request_topic.encode()

    def _arrival(self, message: Published) -> Arrival:
        topic = message.topic.decode(errors="replace")  # then it is refused
        envelope, name = message.envelope, ""
        mid = message.mid if envelope.qos == 2 else 0
        if envelope.user_properties:
            users = dict(envelope.user_properties)
            envelope = envelope._replace(client_id=users.get(self._client_id_property, ""))
            if self._deduplicate_by is not None:
                name = users.get(self._deduplicate_by, "")
        value = envelope.encode() if self._keeps_envelope else envelope.payload
        return Arrival(topic, value, mid, name, message.dup, envelope.payload)

    def _note(self, **changes: object) -> None:
        self._status = replace(self._status, **changes)  # type: ignore[arg-type]

    def start(self) -> None:
        """Runs it in a thread of its own."""
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

    def stop(self) -> None:
        """Ends it once what has arrived is stored. May be repeated."""
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def close(self) -> None:
        """As ``stop``."""
        self.stop()

    def __enter__(self) -> Bridge:
        self.start()
        return self


def _check(
    filters: Sequence[str],
    name: str,
    qos: int,
    protocol: str,
    deduplicate_by: str | None,
    history: Sequence[str],
) -> None:
    if not filters:
        raise ValueError("filters: at least one topic filter is needed, such as '#'")
    if not name:
        raise ValueError("name: a bridge needs one; the broker keeps its session under it")
    if qos not in (0, 1, 2):
        raise ValueError(f"qos: expected 0, 1 or 2, got {qos!r}")
    if protocol not in ("5", "3.1.1"):
        raise ValueError(f"protocol: expected '5' or '3.1.1', got {protocol!r}")
    if protocol != "5" and (deduplicate_by is not None or history):
        raise ValueError("deduplicate_by and history need protocol='5': they are user properties")
