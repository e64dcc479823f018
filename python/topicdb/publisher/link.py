"""A connection of a publisher to its broker, which can be taken up after it was lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from topicdb.forward.mqtt import _Connection
from topicdb.forward.sink import PermanentError
from topicdb.publisher.messages import Outgoing

if TYPE_CHECKING:
    from paho.mqtt.client import Client
    from paho.mqtt.properties import Properties
    from paho.mqtt.reasoncodes import ReasonCode

    from topicdb.mqtt.properties import PublishProperties
    from topicdb.publisher.sink import Sent

_HEADER_BYTES = 9  # fixed header 5, length of the topic 2, packet identifier 2
# An answer to PUBREL: the broker has the message, and has ended the exchange before.
_UNKNOWN_PACKET_ID = 0x92
# Malformed packet, protocol error, topic name invalid, packet too large, payload format invalid,
# retain not supported, QoS not supported: a message was at fault if a broker ends the connection.
_FAULTS_OF_MESSAGES = {0x81, 0x82, 0x90, 0x95, 0x99, 0x9A, 0x9B}

Acknowledged = Callable[["Sent", "PermanentError | None", int], None]


class SessionLostError(ConnectionError):
    """The broker does not know the session that was to be taken up."""


class Link(_Connection):
    """One session at a broker, over one connection after another. One thread uses it.

    ``unconfirmed`` has the messages that were sent and not answered, by packet identifier. While
    the link is suspended paho-mqtt keeps them, and sends them again with the next connection.
    """

    _unconfirmed: dict[int, Any]  # the values are of class Sent

    def __init__(self, client: Client, address: str, acknowledged: Acknowledged) -> None:
        super().__init__(client, address)
        self.client = client
        self._acknowledged = acknowledged
        self._in_flight_max = 1
        self._qos_max = 2
        self._takes_retained = True

    @property
    def unconfirmed(self) -> dict[int, Sent]:
        return self._unconfirmed

    @property
    def lost(self) -> Exception | None:
        """Why the connection has ended; None while it has not."""
        return self._lost

    @property
    def is_connected(self) -> bool:
        return self._accepted and self._lost is None

    @property
    def room(self) -> int:
        """How many messages may be sent now."""
        return min(self._in_flight_max, self.receive_max) - len(self._unconfirmed)

    def begin(self, in_flight_max: int) -> None:
        """Gets ready for another connection."""
        self._in_flight_max = in_flight_max
        self._accepted = False
        self._lost = None

    def turn(self, timeout: float) -> None:
        """Reads and writes; ``lost`` says whether the connection has ended."""
        self._turn(timeout)

    def poll(self, timeout: float) -> None:
        """Reads and writes. Raises an error if the connection has ended."""
        self._turn(timeout)
        if self._lost is not None:
            raise self._lost

    def obstacle(self, message: Outgoing, properties: bytes) -> PermanentError | None:
        """Returns why this broker will never take the message; None if it may."""
        envelope = message.envelope
        if envelope.qos > self._qos_max:
            return PermanentError(
                f"{self._address}: the broker takes messages with QoS {self._qos_max} at most, and "
                f"this one for topic {message.topic!r} has QoS {envelope.qos}"
            )
        if envelope.retain and not self._takes_retained:
            return PermanentError(
                f"{self._address}: the broker takes no retained messages, and this one for topic "
                f"{message.topic!r} is to be retained"
            )
        size = len(message.topic.encode()) + len(envelope.payload) + len(properties) + _HEADER_BYTES
        limit = self._packet_bytes_max
        if limit is not None and size > limit:
            return PermanentError(
                f"{self._address}: the broker takes packets of at most {limit} bytes, and this "
                f"message for topic {message.topic!r} has {size}"
            )
        return None

    def publish_message(
        self, message: Outgoing, properties: PublishProperties | None, sent: Sent
    ) -> bool:
        """Sends a message. Returns whether it is done already, as with QoS 0. REQUIRES: ``room``.

        Raises OSError if the connection is lost.
        """
        from paho.mqtt.enums import MQTTErrorCode

        envelope = message.envelope
        info = self.client.publish(
            message.topic,
            envelope.payload,
            envelope.qos,
            envelope.retain,
            properties,  # type: ignore[arg-type]  # paho-mqtt calls nothing but its pack()
        )
        if envelope.qos == 0 and info.rc == 0 and info.is_published():
            return True
        is_kept = info.rc != MQTTErrorCode.MQTT_ERR_QUEUE_SIZE and envelope.qos > 0
        if is_kept or info.rc == 0:  # paho-mqtt has it, even if the connection is lost
            sent.packet_id = info.mid
            self._unconfirmed[info.mid] = sent
        if self._lost is not None:
            raise self._lost
        if info.rc != 0:
            raise ConnectionError(f"{self._address}: publishing failed: {info.rc!r}")
        return False

    def suspend(self) -> None:
        """Cuts the connection; what is on its way is sent again with the next one."""
        self._cut()
        for packet_id in [id for id, one in self._unconfirmed.items() if _is_qos_0(one)]:
            self._unconfirmed.pop(packet_id).packet_id = None  # paho-mqtt keeps none with QoS 0
        self._lost = self._lost or ConnectionError("the connection was cut")

    def close(self) -> None:
        """Says goodbye, so that the broker forgets the session, or cuts the connection."""
        if not self._unconfirmed and self.is_connected:
            self._say_goodbye()
        self._unconfirmed.clear()
        self._cut()
        self._let_client_go()

    def _say_goodbye(self) -> None:
        from paho.mqtt.client import MQTTv5
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        if self.client.protocol == MQTTv5:
            forgotten: Any = Properties(PacketTypes.DISCONNECT)  # type: ignore[no-untyped-call]
            forgotten.SessionExpiryInterval = 0
            self.client.disconnect(properties=forgotten)
        else:
            self.client.disconnect()
        self._await_goodbye()

    def _on_connect(
        self,
        client: Client,
        data: Any,
        flags: Any,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        super()._on_connect(client, data, flags, reason, properties)
        if reason.is_failure:
            return
        self._qos_max = getattr(properties, "MaximumQoS", 2)
        self._takes_retained = bool(getattr(properties, "RetainAvailable", 1))
        if self._unconfirmed and not flags.session_present:
            # paho-mqtt would go on with the exchange of messages that the broker knows nothing of.
            self._lost = SessionLostError(f"{self._address}: the broker has lost the session")
            raise self._lost

    def _on_disconnect(
        self,
        client: Client,
        data: Any,
        flags: Any,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        if self._lost is None and self._accepted and reason.value in _FAULTS_OF_MESSAGES:
            self._lost = PermanentError(
                f"{self._address}: the broker ended the connection: {reason}"
            )
        super()._on_disconnect(client, data, flags, reason, properties)

    def _on_publish(
        self, client: Client, data: Any, mid: int, reason: ReasonCode, properties: Properties | None
    ) -> None:
        sent: Sent | None = self._unconfirmed.pop(mid, None)
        if sent is None:
            return
        if not reason.is_failure or reason.value == _UNKNOWN_PACKET_ID:
            self._acknowledged(sent, None, 0)
            return
        topic = "" if sent.message is None else f" for topic {sent.message.topic!r}"
        error = PermanentError(f"{self._address}: the broker refused a message{topic}: {reason}")
        self._acknowledged(sent, error, reason.value)


def _is_qos_0(sent: Sent) -> bool:
    return sent.message is not None and sent.message.envelope.qos == 0
