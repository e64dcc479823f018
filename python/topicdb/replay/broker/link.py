"""A connection to a broker, and how a stored message is published there with its properties."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from topicdb.arguments.times import now_us
from topicdb.forward.mqtt import PACKET_IDS, MqttSink, _Connection, _error_of
from topicdb.forward.sink import PermanentError
from topicdb.mqtt.address import named
from topicdb.mqtt.envelope import Envelope
from topicdb.mqtt.expiry import expires_at_us, left_s
from topicdb.mqtt.properties import PublishProperties
from topicdb.replay.broker.marks import marked
from topicdb.types import Message

if TYPE_CHECKING:
    from paho.mqtt.client import Client
    from paho.mqtt.properties import Properties
    from paho.mqtt.reasoncodes import ReasonCode

Naming = Callable[[str], str]


class Outgoing:
    """A message that is to be published, and what has become of it. Not thread-safe."""

    __slots__ = (
        "envelope",
        "error",
        "expires_at_us",
        "is_done",
        "is_expired",
        "qos",
        "retain",
        "timestamp",
        "topic",
        "with_properties",
    )

    def __init__(
        self,
        timestamp: int,
        topic: str,
        envelope: Envelope,
        qos: int,
        retain: bool,
        expires_at_us: int | None,
        with_properties: bool,
    ) -> None:
        self.timestamp = timestamp
        self.topic = topic
        self.envelope = envelope
        self.qos = qos
        self.retain = retain
        self.expires_at_us = expires_at_us  # None: it never expires
        self.with_properties = with_properties
        self.is_done = False  # whether the broker has confirmed it
        self.is_expired = False  # whether it had expired when it was to be sent
        self.error: PermanentError | None = None  # why the broker will never take it

    @property
    def is_settled(self) -> bool:
        """Whether the message need not be sent again."""
        return self.is_done or self.is_expired or self.error is not None

    def properties(self, now_us: int) -> PublishProperties | None:
        """Returns the properties to send at this time, or None for MQTT 3.1.1.

        Their expiry interval is what the message has left of it, or begins anew if the replay
        wants that.
        """
        if not self.with_properties:
            return None
        if self.expires_at_us is None:  # it has no expiry interval, or the interval begins anew
            return PublishProperties(self.envelope, self.envelope.message_expiry_s)
        return PublishProperties(self.envelope, left_s(self.envelope, self.timestamp, now_us))


class Publishing(NamedTuple):
    """The options that say how a replay publishes stored messages.

    Attributes:
        qos: of all messages, or None for that of each message as a bridge has stored it.
        retain: of all messages, or None for that of each message as a bridge has stored it.
        naming: gives a topic the name under which it is published.
        with_properties: whether messages have properties, as in MQTT 5.
        mark: the id of the replay, with which messages are marked, or None for no mark.
        expiry_anew: whether messages that have expired are published, too. The expiry intervals of
            all messages then begin anew.
    """

    qos: int | None
    retain: bool | None
    naming: Naming
    with_properties: bool
    mark: str | None = None
    expiry_anew: bool = False

    def outgoing(self, message: Message) -> Outgoing:
        """Returns what is to be published of a stored message.

        If a bridge has stored the message with its MQTT properties, it has these. If not, it has
        its value as payload, QoS 1 if nothing else was asked for, and is not retained.
        """
        topic, timestamp, value = message
        envelope = Envelope.read(value, qos=1)
        topic = self.naming(topic)
        if self.mark is not None:
            users = marked(envelope.user_properties, self.mark)
            envelope = envelope._replace(user_properties=users)
        return Outgoing(
            timestamp,
            topic,
            envelope,
            envelope.qos if self.qos is None else self.qos,
            envelope.retain if self.retain is None else self.retain,
            None if self.expiry_anew else expires_at_us(envelope, timestamp),
            self.with_properties,
        )


class Link(_Connection):
    """One connection to a broker; ``Work`` owns it. Not thread-safe: one thread uses it.

    Once the connection is lost, ``send`` and ``poll`` raise an error.
    """

    _unconfirmed: dict[int, Any]  # the values are Outgoing, the keys packet identifiers

    def __init__(self, client: Client, address: str, unconfirmed_max: int) -> None:
        super().__init__(client, address)
        self._unconfirmed_max = unconfirmed_max

    @property
    def room(self) -> int:
        """How many messages may be sent now, so that paho-mqtt never has to hold one back."""
        return min(self._unconfirmed_max, self.receive_max) - len(self._unconfirmed)

    def send(self, message: Outgoing) -> None:
        """Sends a message, and sets ``is_done`` once the broker has confirmed it.

        A message that has expired, or that the broker will never take, is not sent: this sets
        ``is_expired`` or ``error``. Raises OSError or PermanentError if the connection is lost.
        REQUIRES: there is ``room``.
        """
        now = now_us()
        if message.expires_at_us is not None and message.expires_at_us <= now:
            message.is_expired = True
            return
        try:
            properties = message.properties(now)
            self._check_packet(message, properties)
            info = self._client.publish(
                message.topic,
                message.envelope.payload,
                message.qos,
                message.retain,
                properties,  # type: ignore[arg-type]  # paho-mqtt calls nothing but its pack()
            )
        except OSError:
            raise
        except Exception as error:  # it is too long, or has a property that no packet can have
            message.error = PermanentError(str(error))
            return
        if self._lost is not None:
            raise self._lost
        if info.rc != 0:
            raise ConnectionError(f"publishing failed: {info.rc!r}")
        if info.is_published():  # QoS 0, when the socket took it at once
            message.is_done = True
        else:
            self._unconfirmed[info.mid] = message

    def _check_packet(self, message: Outgoing, properties: PublishProperties | None) -> None:
        # A property that no packet can have is to be found here: paho-mqtt would find it after it
        # has put the message among those on their way, and would keep it there.
        beside = b"" if properties is None else properties.pack()
        if self._packet_bytes_max is not None:
            self._check_size(message.topic, message.envelope.payload + beside)

    def poll(self, timeout: float) -> None:
        self._turn(timeout)
        if self._lost is not None:
            raise self._lost

    def _on_publish(
        self, client: Client, data: Any, mid: int, reason: ReasonCode, properties: Properties | None
    ) -> None:
        message: Outgoing | None = self._unconfirmed.pop(mid, None)
        if message is None:
            return
        if not reason.is_failure:
            message.is_done = True
            return
        error = _error_of(reason, f"{self._address}: the broker refused a message")
        if isinstance(error, PermanentError):
            message.error = error
        else:
            self._lost = self._lost or error

    def _fail_all(self, error: Exception) -> None:
        self._unconfirmed.clear()


class Target(MqttSink):
    """A broker to connect to; it has the options of MqttSink."""

    def connect(self) -> Link:
        """Returns a new connection.

        Raises OSError if it is refused, the host is unknown or does not answer in time, and
        ssl.SSLError.
        """
        client = self._new_client()
        client.max_inflight_messages_set(PACKET_IDS)
        link = Link(client, self.address, self._unconfirmed_max)
        start: dict[str, Any] = {"clean_start": True} if self._v5 else {}
        try:
            client.connect(self._broker.host, self._broker.port, self._keepalive, **start)
            link.wait_until_accepted(self._connect_seconds)
        except BaseException as error:
            link.close()
            if isinstance(error, OSError):
                named(error, self.address)
            # The frames of the traceback would keep the socket of a TLS handshake that failed: see
            # MqttSink.
            raise error.with_traceback(None) from None
        return link

    @property
    def place(self) -> tuple[str, int]:
        """The host and the port."""
        return self._broker.host, self._broker.port

    @property
    def address(self) -> str:
        """Host and port as text, for people."""
        return self._broker.address
