"""An MQTT client that acknowledges what it is told to, and nothing else.

The one place that knows how paho-mqtt works inside. By itself it answers a PUBLISH of QoS 2 with
PUBREC as it comes: then the broker forgets the message, which nobody has stored yet.
"""

from __future__ import annotations

import select
import struct
from typing import TYPE_CHECKING, Any

from paho.mqtt.client import Client, MQTTv5, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from topicdb.bridge.packet import Published, decode_publish

if TYPE_CHECKING:
    from paho.mqtt.reasoncodes import ReasonCode

_NEEDED = (
    "_handle_publish",
    "_handle_pubrel",
    "_send_puback",
    "_send_pubcomp",
    "_send_pubrec",
    "_sock_recv",
    "_sock_send",
)
_READ_BYTES = 1 << 16
RECEIVE_MAXIMUM = 65_535


class LostError(ConnectionError):
    """The connection is lost, or was refused."""


class StoringClient(Client):
    """One connection. What comes is in ``arrived`` (PUBLISH) and ``released`` (ids of PUBREL) until
    somebody takes it from there. To be used by one thread."""

    def __init__(self, client_id: str, protocol: str, keepalive_s: int) -> None:
        for name in _NEEDED:
            if not hasattr(Client, name):
                raise ImportError(
                    f"this version of paho-mqtt has no Client.{name}; the bridge is known to work "
                    "with 2.0 to 2.2"
                )
        self.arrived: list[Published] = []
        self.released: list[int] = []
        self.session_present = False
        self._is_v5 = protocol == "5"
        self._read: bytes = b""
        self._read_at = 0
        self._failure: str | None = None
        self._is_accepted = False
        self._keepalive_s = keepalive_s
        super().__init__(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=MQTTv5 if self._is_v5 else MQTTv311,
            clean_session=None if self._is_v5 else False,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        self.on_connect = self._note_connect
        self.on_disconnect = self._note_disconnect
        self.on_subscribe = self._note_subscribe
        self._subscribing: dict[int, list[str]] = {}

    # What paho does otherwise.

    def _handle_publish(self) -> MQTTErrorCode:
        packet = self._in_packet
        try:
            found = decode_publish(packet["command"], bytes(packet["packet"]), self._is_v5)
        except ValueError as error:
            self._failure = f"the broker has sent what is no PUBLISH: {error}"
            return MQTTErrorCode.MQTT_ERR_PROTOCOL
        self.arrived.append(found)
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _handle_pubrel(self) -> MQTTErrorCode:
        (mid,) = struct.unpack_from("!H", self._in_packet["packet"])
        self.released.append(mid)
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _sock_recv(self, bufsize: int) -> bytes:
        # paho reads a packet in three or four pieces: that many system calls are most of its time.
        if self._read_at == len(self._read):
            self._read = super()._sock_recv(_READ_BYTES)
            self._read_at = 0
        begin = self._read_at
        self._read_at = min(begin + bufsize, len(self._read))
        return self._read[begin : self._read_at]

    def _sock_send(self, buf: bytes | bytearray) -> int:
        # When the other end is gone paho would close the socket, and with it what was received
        # and not read: messages that the broker may have confirmed to their publisher.
        try:
            return int(super()._sock_send(buf))
        except BlockingIOError:
            raise
        except OSError:
            return len(buf)  # reading comes to the end, too

    # For the bridge.

    def open(self, host: str, port: int, session_expiry_s: int, timeout_s: float) -> None:
        """Connects, and waits until the broker has accepted. OSError; LostError."""
        options: dict[str, Any] = {}
        if self._is_v5:
            properties: Any = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.SessionExpiryInterval = session_expiry_s
            properties.ReceiveMaximum = RECEIVE_MAXIMUM
            options = {"clean_start": False, "properties": properties}
        self.connect_timeout = timeout_s
        try:
            self.connect(host, port, self._keepalive_s, **options)
        except OSError as error:
            # paho leaves the socket of a TLS handshake that fails to the traceback's frames.
            raise error.with_traceback(None) from None
        left_s = timeout_s
        while not self._is_accepted:
            self.turn(0.1)
            left_s -= 0.1
            if left_s <= 0:
                raise LostError(f"the broker did not answer within {timeout_s} s")

    def ask_for(self, filters: list[str], qos: int) -> None:
        """Subscribes; a filter that the broker refuses is a LostError of a later ``turn``."""
        if self._is_v5:  # not what the bridge publishes itself
            options = [(one, SubscribeOptions(qos, noLocal=True)) for one in filters]
            code, mid = self.subscribe(options)
        else:
            code, mid = self.subscribe([(one, qos) for one in filters])
        if code != MQTTErrorCode.MQTT_ERR_SUCCESS or mid is None:
            raise LostError(f"subscribing failed: {code!r}")
        self._subscribing[mid] = filters

    def turn(self, timeout_s: float, messages_max: int = 1_000) -> None:
        """Waits for something to read, and reads it. LostError: see ``arrived`` all the same."""
        self._exchange(timeout_s)
        seen = -1
        while seen != len(self.arrived) + len(self.released) < messages_max:
            seen = len(self.arrived) + len(self.released)
            self._raise_if(self.loop_read())
        if self._failure is not None:
            raise LostError(self._failure)

    def _exchange(self, timeout_s: float) -> None:
        """As the client's own, but that what it has read ahead counts as readable."""
        sock = self.socket()
        if sock is None:
            raise LostError(self._failure or "the connection is lost")
        ahead = self._read_at < len(self._read)
        writable = [sock] if self.want_write() else []
        try:
            readable, writable, _ = select.select([sock], writable, [], 0 if ahead else timeout_s)
        except (ValueError, OSError) as error:  # closed meanwhile
            raise LostError(f"the connection is lost: {error}") from error
        if readable or ahead:
            self._raise_if(self.loop_read())
        if writable:
            self._raise_if(self.loop_write())
        self._raise_if(self.loop_misc())

    def _raise_if(self, code: MQTTErrorCode) -> None:
        if code != MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise LostError(self._failure or f"the connection is lost: {code!r}")

    def puback(self, mid: int) -> None:
        self._send_puback(mid)

    def pubrec(self, mid: int) -> None:
        self._send_pubrec(mid)

    def pubcomp(self, mid: int) -> None:
        self._send_pubcomp(mid)

    def end(self) -> None:
        """Says goodbye if it can; the session stays."""
        if self.socket() is not None:
            self.disconnect()
            self.loop_write()
        self._reset_sockets()
        # They refer to this object: its sockets would wait for a collection.
        self.on_connect = self.on_disconnect = self.on_subscribe = None

    def _note_connect(
        self, client: Client, data: Any, flags: Any, reason: ReasonCode, properties: Any
    ) -> None:
        if reason.is_failure:
            self._failure = f"the broker refused the connection: {reason}"
            return
        self.session_present = bool(flags.session_present)
        self._is_accepted = True

    def _note_disconnect(
        self, client: Client, data: Any, flags: Any, reason: ReasonCode, properties: Any
    ) -> None:
        self._failure = self._failure or f"the broker ended the connection: {reason}"

    def _note_subscribe(
        self, client: Client, data: Any, mid: int, reasons: list[ReasonCode], properties: Any
    ) -> None:
        filters = self._subscribing.pop(mid, [])
        refused = [
            f"{one!r} ({reason})"
            for one, reason in zip(filters, reasons, strict=False)
            if reason.is_failure
        ]
        if refused:
            self._failure = f"the broker refused the filters {', '.join(refused)}"
