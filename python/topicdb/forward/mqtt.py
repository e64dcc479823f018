"""A sink that delivers to an MQTT broker, with paho-mqtt."""

from __future__ import annotations

import secrets
import socket
import ssl
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from topicdb import _core
from topicdb.arguments.wrong_types import wrong_type
from topicdb.forward.options import Seconds, finite_seconds
from topicdb.forward.sink import PermanentError
from topicdb.mqtt.address import broker_of, named
from topicdb.mqtt.polling import turn

if TYPE_CHECKING:
    from paho.mqtt.client import Client
    from paho.mqtt.properties import Properties
    from paho.mqtt.reasoncodes import ReasonCode

Topic: TypeAlias = "str | Callable[[bytes], str | tuple[str, bytes]]"
KEEPALIVE_MAX = 65_535
PACKET_IDS = 65_535  # how many there are, and the most messages that may be unconfirmed
# Topic name invalid, packet too large, payload format invalid: the message itself is at fault.
# What the broker may allow later, such as a message that is not authorized, is retried.
REASONS_PERMANENT = {0x90, 0x95, 0x99}
CLOSE_SECONDS = 1.0


class MqttSink:
    """Publishes each item to an MQTT broker. Serves one forwarder.

    An item is confirmed by PUBACK (``qos=1``) or PUBCOMP (``qos=2``). With ``qos=0`` it is
    confirmed when it is written to the socket, so items on their way are lost with the connection.
    Messages of one connection keep their order. A lost connection is a failed attempt: after its
    pause the forwarder connects again, with the same client id, and sends what is not confirmed.

    Example:
        >>> sink = MqttSink("mqtts://broker.example", topic="plant/events")  # doctest: +SKIP
        >>> with topicdb.Forwarder(queue, sink):  # doctest: +SKIP
        ...     queue.append([b"started"])
    """

    def __init__(
        self,
        host: str,
        port: int | None = None,
        *,
        topic: Topic,
        qos: Literal[0, 1, 2] = 1,
        retain: bool = False,
        client_id: str | None = None,
        username: str | None = None,
        password: str | None = None,
        tls: bool | ssl.SSLContext = False,
        protocol: Literal["5", "3.1.1"] = "5",
        clean_start: bool = True,
        keepalive: int = 60,
        connect_timeout: Seconds = 5.0,
        unconfirmed_max: int = 20,
    ) -> None:
        """Checks the options. ``open`` connects.

        Arguments:
            host: a name, an address, or a URL that may also have the port, the login and TLS, such
                as ``mqtts://user:password@broker.example:8884``.
            port: None: 1883, or 8883 with TLS.
            topic: of every message; or a function that is called with the item and returns the
                topic, or (topic, payload), a payload as bytes or text. It is a PermanentError if
                the function raises, if MQTT does not allow the topic, or if the payload is
                something else.
            qos: of every message, 0 to 2.
            retain: of every message.
            client_id: None: a random one. Two clients with the same id end each other's
                connections.
            username: the login.
            password: the login.
            tls: True, or a context of your own.
            protocol: ``"5"`` or ``"3.1.1"``, with which a broker cannot say that it refuses a
                message: it confirms it, or disconnects.
            clean_start: False keeps what the broker knows of the client id (needs ``client_id``).
                Not with ``qos=2``: a broker that remembers packet identifiers of an earlier
                connection would take new messages for repeated ones, and lose them.
            keepalive: seconds, up to 65,535; a connection is given up when nothing is heard for
                somewhat longer. 0: never.
            connect_timeout: how many seconds the broker may take to accept the connection.
            unconfirmed_max: the most messages on their way at once; fewer if the broker says so.

        Raises:
            ImportError: a paho-mqtt that fits is missing: install ``topicdb[mqtt]``.
            ValueError, TypeError: a bad option.
        """
        try:
            import paho.mqtt.client  # noqa: F401
        except ImportError as error:
            raise ImportError("MqttSink needs paho-mqtt: pip install topicdb[mqtt]") from error
        from topicdb.mqtt.publishing import check_publishing

        check_publishing()
        _check(qos, protocol, client_id, clean_start, unconfirmed_max)
        _check_topic(topic)
        if not 0 <= keepalive <= KEEPALIVE_MAX:
            raise ValueError(f"keepalive: expected 0 to {KEEPALIVE_MAX}, got {keepalive}")
        self._broker = broker_of(host, port, tls, username, password)
        self._topic = topic
        self._qos = qos
        self._retain = retain
        self._client_id = client_id or f"topicdb-{secrets.token_hex(8)}"
        self._v5 = protocol == "5"
        self._clean_start = clean_start
        self._keepalive = keepalive
        self._connect_seconds = finite_seconds(connect_timeout, "connect_timeout")
        self._unconfirmed_max = unconfirmed_max
        self._connection: _Connection | None = None

    def open(self) -> None:
        """Connects to the broker.

        Raises:
            OSError: the connection is refused, the host is unknown, or it takes too long.
                ssl.SSLError is one, too.
        """
        connection = self._connect(self._unconfirmed_max)
        if connection.receive_max < self._unconfirmed_max:  # the broker says it when it accepts
            self.close()
            self._unconfirmed_max = connection.receive_max
            self._connect(self._unconfirmed_max)

    def begin(self, items: list[bytes]) -> Future[None]:
        if self._connection is None:
            raise ConnectionError("the sink is not open")
        messages = [self._message(item) for item in items]
        return self._connection.publish(messages, self._qos, self._retain)

    def poll(self, timeout: float) -> None:
        if self._connection is not None:
            self._connection.poll(timeout)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _connect(self, unconfirmed_max: int) -> _Connection:
        client = self._new_client()
        client.max_inflight_messages_set(unconfirmed_max)
        self._connection = _Connection(client, self._broker.address)
        start: dict[str, Any] = {"clean_start": self._clean_start} if self._v5 else {}
        try:
            client.connect(self._broker.host, self._broker.port, self._keepalive, **start)
            self._connection.wait_until_accepted(self._connect_seconds)
        except OSError as error:
            # After a failed TLS handshake only the traceback's frames hold paho's socket. They
            # would keep it open for as long as somebody keeps the error.
            raise named(error, self._broker.address).with_traceback(None) from None
        return self._connection

    def _new_client(self) -> Client:
        from paho.mqtt.client import MQTTv5, MQTTv311
        from paho.mqtt.enums import CallbackAPIVersion

        from topicdb.mqtt.publishing import PublishingClient

        client = PublishingClient(
            CallbackAPIVersion.VERSION2,
            client_id=self._client_id,
            protocol=MQTTv5 if self._v5 else MQTTv311,
            clean_session=None if self._v5 else self._clean_start,
            reconnect_on_failure=False,  # the forwarder reconnects, and sends again in order
        )
        client.connect_timeout = self._connect_seconds
        if self._broker.login is not None:
            client.username_pw_set(*self._broker.login)
        if self._broker.tls is not None:
            client.tls_set_context(self._broker.tls)
        return client

    def _message(self, item: bytes) -> tuple[str, bytes]:
        try:
            found = self._topic if isinstance(self._topic, str) else self._topic(item)
            topic, payload = (found, item) if isinstance(found, str) else found
            _core.check_topic(topic)
            if not isinstance(payload, bytes):
                payload = payload.encode() if isinstance(payload, str) else _bytes(payload)
        except Exception as error:
            raise PermanentError(f"no topic or payload for an item: {error!r}") from error
        return topic, payload


def _bytes(payload: object) -> bytes:
    try:
        return bytes(memoryview(payload))  # type: ignore[arg-type]
    except TypeError:
        raise wrong_type("payload", "bytes or str", payload) from None


class Tally:
    """Counts the messages of a batch that are not confirmed yet.

    The forwarder waits for its future. One thread uses the rest.
    """

    __slots__ = ("_left", "future")

    def __init__(self, count: int) -> None:
        self._left = count
        self.future: Future[None] = Future()

    def confirm(self) -> None:
        self._left -= 1
        if self._left == 0 and not self.future.done():
            self.future.set_result(None)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class _Connection:
    """One connection with a client of its own, so that nothing of an earlier connection is left.

    One thread uses it. The client's callbacks are called in that thread, too: from ``poll``, and
    from the client's methods that write.
    """

    def __init__(self, client: Client, address: str) -> None:
        self._address = address
        self.receive_max = PACKET_IDS
        self._packet_bytes_max: int | None = None
        self._client = client
        self._accepted = False
        self._lost: Exception | None = None
        self._unconfirmed: dict[int, Tally] = {}  # by packet identifier
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_publish = self._on_publish

    def wait_until_accepted(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not self._accepted:
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{self._address} did not answer within {timeout} s")
            self.poll(min(0.1, timeout))

    def publish(self, messages: list[tuple[str, bytes]], qos: int, retain: bool) -> Future[None]:
        tally = Tally(len(messages))
        for topic, payload in messages:
            self._check_size(topic, payload)
            while len(self._unconfirmed) >= PACKET_IDS:
                self.poll(1.0)
            try:
                info = self._client.publish(topic, payload, qos, retain)
            except ValueError as error:  # too long
                raise PermanentError(f"topic {topic!r}: {error}") from error
            if self._lost is not None:
                raise self._lost
            if info.rc != 0:
                raise ConnectionError(f"publishing failed: {info.rc!r}")
            if info.is_published():  # qos 0, when the socket took it at once
                tally.confirm()
            else:
                self._unconfirmed[info.mid] = tally
        return tally.future

    def poll(self, timeout: float) -> None:
        """Reads and writes. If the connection is lost, all futures fail; without any, it raises."""
        self._turn(timeout)
        if self._lost is None:
            return
        if not self._unconfirmed:
            raise self._lost
        self._fail_all(self._lost)

    def _turn(self, timeout: float) -> None:
        """Reads and writes, and notes if the connection is lost."""
        try:
            code = turn(self._client, timeout)
        except ConnectionError as error:
            self._lost = self._lost or named(error, self._address)
            return
        if code != 0 and self._lost is None:
            self._lost = ConnectionError(f"{self._address}: the connection is lost: {code!r}")

    def close(self) -> None:
        """Disconnects. If messages are unconfirmed, it cuts the connection instead.

        So none of these messages goes out any more.
        """
        if not self._unconfirmed:
            self._client.disconnect()
            self._await_goodbye()
        self._cut()
        self._fail_all(ConnectionError("the sink was closed"))
        self._let_client_go()

    def _await_goodbye(self) -> None:
        """Waits for at most ``CLOSE_SECONDS`` until what says goodbye is on its way."""
        deadline = time.monotonic() + CLOSE_SECONDS
        while self._client.socket() is not None and time.monotonic() < deadline:
            self._turn(0.1)
            if self._lost is not None:
                break

    def _cut(self) -> None:
        """Ends the connection, if there still is one, without a goodbye."""
        if (left := self._client.socket()) is not None:
            with suppress(OSError):
                socket.socket.shutdown(left, socket.SHUT_RDWR)  # type: ignore[arg-type]
            self._turn(0)  # notices that the connection is gone

    def _let_client_go(self) -> None:
        """Removes callbacks: they make a circle, and sockets would wait for the collector."""
        self._client.on_connect = self._client.on_disconnect = self._client.on_publish = None

    def _fail_all(self, error: Exception) -> None:
        for tally in self._unconfirmed.values():
            tally.fail(error)
        self._unconfirmed.clear()

    def _check_size(self, topic: str, payload: bytes) -> None:
        limit = self._packet_bytes_max
        size = len(topic.encode()) + len(payload) + 10  # fixed header 5, lengths 2 + 1, id 2
        if limit is not None and size > limit:
            raise PermanentError(f"a message of {size} bytes; the broker takes {limit}")

    def _on_connect(
        self,
        client: Client,
        data: Any,
        flags: Any,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        if reason.is_failure:
            self._lost = ConnectionRefusedError(
                f"{self._address}: the broker refused the connection: {reason}"
            )
            return
        self._accepted = True
        self.receive_max = getattr(properties, "ReceiveMaximum", PACKET_IDS)
        self._packet_bytes_max = getattr(properties, "MaximumPacketSize", None)

    def _on_disconnect(
        self,
        client: Client,
        data: Any,
        flags: Any,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        if self._lost is None:
            self._lost = _error_of(reason, f"{self._address}: the broker ended the connection")

    def _on_publish(
        self, client: Client, data: Any, mid: int, reason: ReasonCode, properties: Properties | None
    ) -> None:
        tally = self._unconfirmed.pop(mid, None)
        if tally is None:
            return
        if reason.is_failure:
            tally.fail(_error_of(reason, f"{self._address}: the broker refused a message"))
        else:
            tally.confirm()


def _error_of(reason: ReasonCode, what: str) -> Exception:
    kind = PermanentError if reason.value in REASONS_PERMANENT else ConnectionError
    return kind(f"{what}: {reason}")


def _check(
    qos: int, protocol: str, client_id: str | None, clean_start: bool, unconfirmed_max: int
) -> None:
    if qos not in (0, 1, 2):
        raise ValueError(f"qos: expected 0, 1 or 2, got {qos!r}")
    if protocol not in ("5", "3.1.1"):
        raise ValueError(f"protocol: expected '5' or '3.1.1', got {protocol!r}")
    if not 1 <= unconfirmed_max <= PACKET_IDS:
        raise ValueError(f"unconfirmed_max: expected 1 to {PACKET_IDS}, got {unconfirmed_max}")
    if not clean_start and (client_id is None or qos == 2):
        raise ValueError("clean_start=False needs a client_id, and a qos other than 2")


def _check_topic(topic: object) -> None:
    """Checks the topic of every message: a wrong one is no fault of the items."""
    if isinstance(topic, str):
        _core.check_topic(topic)
    elif not callable(topic):
        raise wrong_type("topic", "a topic (str) or a function", topic)
