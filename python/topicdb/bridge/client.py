"""An MQTT client that acknowledges messages only when it is told to.

Only this module and ``topicdb.mqtt.publishing`` know how paho-mqtt works inside. By itself it
answers a PUBLISH of QoS 2 with PUBREC as the message comes: then the broker forgets the message,
which nobody has stored yet.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Iterable
from typing import Any

from paho.mqtt.client import Client, MQTTv5, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from topicdb.arguments.filters import SHARED
from topicdb.bridge.packet import Published, decode_publish, take_publishes
from topicdb.bridge.rules import PROTOCOL_ERROR, PacketError, check_packet
from topicdb.mqtt.polling import read, wait_for
from topicdb.mqtt.publishing import check_methods

_NEEDED = ("_packet_handle", "_packet_queue", "_sock_recv", "_sock_send")
_READ_BYTES = 1 << 16
_PUBLISH, _PUBREL = 3, 6
_PUBACK, _PUBREC, _PUBCOMP = 0x40, 0x50, 0x70
_ACKNOWLEDGEMENT = struct.Struct("!BBH")
_PROTOCOL_ERROR = ReasonCode(PacketTypes.DISCONNECT, identifier=PROTOCOL_ERROR)
RECEIVE_MAXIMUM = 65_535
# Subscription identifiers. The first SUBSCRIBE of a new filter brings copies of the messages that
# the broker retains. The second one follows at once, replaces the first, and brings no copies.
_COPIES, _LIVE = 1, 2
_SEND_IF_NEW, _DO_NOT_SEND = 1, 2  # what the broker does with retained messages at SUBSCRIBE


class LostError(ConnectionError):
    """The connection is lost, or was refused."""


class StoringClient(Client):
    """One connection to a broker, which keeps what comes until ``take``. Not thread-safe."""

    def __init__(self, client_id: str, protocol: str, keepalive_s: int) -> None:
        check_methods(*_NEEDED)
        self._arrived: list[Published] = []
        self._arrived_bytes = 0
        self._released: list[int] = []
        self.session_present = False
        self.tells_retained = False  # whether each message has its retain flag, not only copies
        self._is_v5 = protocol == "5"
        self._read: bytes = b""
        self._read_at = 0
        self._failure: str | None = None
        self._goodbye: int | None = None  # the reason code to end the connection with
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
        self.on_unsubscribe = self._note_unsubscribe
        self._asked: dict[int, list[str]] = {}  # filters that are not answered, by packet id

    # Methods of paho's client that this one replaces.

    def _packet_handle(self) -> MQTTErrorCode:
        packet = self._in_packet
        command, content = packet["command"], bytes(packet["packet"])
        try:
            if command >> 4 == _PUBLISH:
                self._arrived.append(decode_publish(command, content, self._is_v5))
                self._arrived_bytes += len(content)
                return MQTTErrorCode.MQTT_ERR_SUCCESS
            check_packet(command, content, self._is_v5)
        except PacketError as error:
            raise self._refused(error) from None
        if command >> 4 == _PUBREL:
            (mid,) = struct.unpack_from("!H", content)
            self._released.append(mid)
            return MQTTErrorCode.MQTT_ERR_SUCCESS
        return super()._packet_handle()

    def _refused(self, error: PacketError) -> LostError:
        """Returns the error for a packet, for which the connection is to be ended."""
        self._goodbye = error.reason
        self._failure = self._failure or f"the broker has sent what it may not: {error}"
        return LostError(self._failure)

    def _sock_recv(self, bufsize: int) -> bytes:
        # paho reads a packet in three or four pieces. These system calls would be most of its time.
        if self._read_at == len(self._read):
            self._read = super()._sock_recv(_READ_BYTES)
            self._read_at = 0
        begin = self._read_at
        self._read_at = min(begin + bufsize, len(self._read))
        return self._read[begin : self._read_at]

    def _sock_send(self, buf: bytes | bytearray) -> int:
        # When the other end is gone, paho would close the socket. What was received and not read
        # would be lost: messages that the broker may have confirmed to their publisher.
        try:
            return int(super()._sock_send(buf))
        except BlockingIOError:
            raise
        except OSError:
            return len(buf)  # reading finds the end of the connection, too

    # For the bridge.

    def open(self, host: str, port: int, session_expiry_s: int, timeout_s: float) -> None:
        """Connects, and waits until the broker has accepted. Raises OSError or LostError."""
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
            # After a failed TLS handshake the traceback's frames would keep paho's socket open.
            raise error.with_traceback(None) from None
        left_s = timeout_s
        while not self._is_accepted:
            self.turn(0.1, messages_max=1)
            left_s -= 0.1
            if left_s <= 0:
                raise LostError(f"the broker did not answer within {timeout_s} s")

    def ask_for(self, filters: list[str], qos: int, known: Container[str]) -> None:
        """Subscribes to filters. If the broker refuses one, a later ``turn`` raises LostError.

        ``known``: filters that the session certainly has, subscribed to as this method does it.
        """
        if not self._is_v5:
            self._expect_answer(
                "subscribing", filters, *self.subscribe([(f, qos) for f in filters])
            )
            return
        new = [one for one in filters if one not in known and not one.startswith(SHARED)]
        if self.tells_retained and new:
            self._subscribe(new, qos, _COPIES, lambda one: _SEND_IF_NEW)
        first = _DO_NOT_SEND if self.tells_retained else _SEND_IF_NEW
        self._subscribe(filters, qos, _LIVE, lambda one: first if one in new else _SEND_IF_NEW)

    def _subscribe(
        self, filters: list[str], qos: int, identifier: int, handling: Callable[[str], int]
    ) -> None:
        options = [
            (
                one,
                SubscribeOptions(
                    qos,
                    # Leaves out what the bridge publishes itself; shared filters cannot do that.
                    noLocal=not one.startswith(SHARED),
                    retainAsPublished=self.tells_retained,
                    retainHandling=handling(one),
                ),
            )
            for one in filters
        ]
        properties: Any = None
        if self.tells_retained:
            properties = Properties(PacketTypes.SUBSCRIBE)  # type: ignore[no-untyped-call]
            properties.SubscriptionIdentifier = identifier
        code, mid = self.subscribe(options, properties=properties)
        self._expect_answer("subscribing", filters, code, mid)

    def is_copy(self, message: Published) -> bool:
        """Returns whether the broker sends a message that it retains, as for a new subscription."""
        return message.envelope.retain and _LIVE not in message.envelope.subscription_ids

    def give_up(self, filters: list[str]) -> None:
        """Unsubscribes. It is no error if there was no such subscription."""
        self._expect_answer("unsubscribing", filters, *self.unsubscribe(list(filters)))

    def _expect_answer(
        self, what: str, filters: list[str], code: MQTTErrorCode, mid: int | None
    ) -> None:
        if code != MQTTErrorCode.MQTT_ERR_SUCCESS or mid is None:
            raise LostError(f"{what} failed: {code!r}")
        self._asked[mid] = filters

    @property
    def is_answered(self) -> bool:
        """Whether the broker has answered each ``ask_for`` and ``give_up``."""
        return not self._asked

    @property
    def unconfirmed(self) -> int:
        """How many messages that were published here the broker has not confirmed."""
        return len(self._out_messages)

    def turn(self, timeout_s: float, messages_max: int = 1_000, bytes_max: int = 1 << 24) -> None:
        """Waits for something to read, and reads until there is no more or a limit is reached.

        Raises LostError; ``take`` then still gives what came before.
        """
        self._exchange(timeout_s)
        before = -1
        while (seen := len(self._arrived) + len(self._released)) != before:
            before = seen
            self._take_ahead(messages_max - seen, bytes_max - self._arrived_bytes)
            if len(self._arrived) >= messages_max or self._arrived_bytes >= bytes_max:
                break
            self._read_packet()
        if self._failure is not None:
            raise LostError(self._failure)

    def _take_ahead(self, messages_max: int, bytes_max: int) -> None:
        """Decodes messages that were read already, without paho, which takes longer for each."""
        if self._in_packet["command"] != 0:  # paho has a part of a packet
            return
        begin = self._read_at
        try:
            self._read_at = take_publishes(
                self._read, begin, self._is_v5, self._arrived, messages_max, bytes_max
            )
        except PacketError as error:
            raise self._refused(error) from None
        self._arrived_bytes += self._read_at - begin

    def take(self) -> tuple[list[Published], list[int]]:
        """Returns messages that came (PUBLISH), and ids that are released (PUBREL), in order."""
        taken = self._arrived, self._released
        self._arrived, self._released, self._arrived_bytes = [], [], 0
        return taken

    def _exchange(self, timeout_s: float) -> None:
        """Does what the client's own loop does; what was read ahead counts as readable."""
        sock = self.socket()
        if sock is None:
            raise LostError(self._failure or "the connection is lost")
        ahead = self._read_at < len(self._read)
        try:
            readable, writable = wait_for(sock, self.want_write(), 0 if ahead else timeout_s)
        except (ValueError, OSError) as error:  # closed meanwhile
            raise LostError(f"the connection is lost: {error}") from error
        if readable or ahead:
            self._read_packet()
        if writable:
            self._raise_if(self.loop_write())
        self._raise_if(self.loop_misc())

    def _read_packet(self) -> None:
        try:
            code = read(self)
        except ConnectionError as error:
            raise LostError(self._failure or str(error)) from error
        self._raise_if(code)

    def _raise_if(self, code: MQTTErrorCode) -> None:
        if code != MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise LostError(self._failure or f"the connection is lost: {code!r}")

    def acknowledge(self, messages: Iterable[Published], released: Iterable[int]) -> None:
        """Sends PUBACK or PUBREC for each message, as its QoS wants, and PUBCOMP for each id.

        It sends them in one piece, since each system call takes as long as decoding a message.
        """
        packets = [
            _ACKNOWLEDGEMENT.pack(_PUBACK if message.envelope.qos == 1 else _PUBREC, 2, message.mid)
            for message in messages
            if message.envelope.qos > 0
        ]
        packets += [_ACKNOWLEDGEMENT.pack(_PUBCOMP, 2, mid) for mid in released]
        if packets:
            self._packet_queue(_PUBACK, b"".join(packets), 0, 1)

    def end(self) -> None:
        """Disconnects if it can; the session stays at the broker."""
        if self.socket() is not None:
            reason: Any = None
            if self._goodbye is not None and self._is_v5:
                reason = ReasonCode(PacketTypes.DISCONNECT, identifier=self._goodbye)
            self.disconnect(reasoncode=reason)
            self.loop_write()
        self._reset_sockets()
        # These callbacks make a circle of references, and sockets would wait for the collector.
        self.on_connect = self.on_disconnect = self.on_subscribe = self.on_unsubscribe = None

    def _note_connect(
        self, client: Client, data: Any, flags: Any, reason: ReasonCode, properties: Any
    ) -> None:
        if reason.is_failure:
            self._failure = f"the broker refused the connection: {reason}"
            return
        self.session_present = bool(flags.session_present)
        has_identifiers = getattr(properties, "SubscriptionIdentifierAvailable", 1)
        self.tells_retained = self._is_v5 and bool(has_identifiers)
        self._is_accepted = True

    def _note_disconnect(
        self, client: Client, data: Any, flags: Any, reason: ReasonCode, properties: Any
    ) -> None:
        if flags.is_disconnect_packet_from_server:
            self._failure = self._failure or f"the broker ended the connection: {reason}"
        elif reason == _PROTOCOL_ERROR:  # most faults of packets are found before
            self._failure = self._failure or (
                "the broker has sent a packet that cannot be read: its length has more than four "
                "bytes, or paho-mqtt does not know its reason code"
            )
        else:
            self._failure = self._failure or f"the connection is lost: {reason}"

    def _note_subscribe(
        self, client: Client, data: Any, mid: int, reasons: list[ReasonCode], properties: Any
    ) -> None:
        filters = self._asked.pop(mid, [])
        if filters and len(reasons) != len(filters):
            self._goodbye = PROTOCOL_ERROR
            self._failure = (
                f"the broker has answered {len(filters)} filters with {len(reasons)} reason codes"
            )
        refused = [
            f"{one!r} ({reason})"
            for one, reason in zip(filters, reasons, strict=False)
            if reason.is_failure
        ]
        if refused:
            self._failure = f"the broker refused the filters {', '.join(refused)}"

    def _note_unsubscribe(
        self, client: Client, data: Any, mid: int, reasons: Any, properties: Any
    ) -> None:
        self._asked.pop(mid, None)
