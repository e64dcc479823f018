"""Decodes PUBLISH packets of a broker; MQTT 5.0, section 3.3, and 3.1.1.

paho's own decoding would take most of a bridge's time: for each message it makes a table of all
properties of MQTT.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from topicdb.bridge.rules import PacketError, prefixed, protocol_error, text, varint
from topicdb.mqtt.envelope import Envelope

_PUBLISH = 3
_PAYLOAD_FORMAT, _EXPIRY, _CONTENT_TYPE = 1, 2, 3
_RESPONSE_TOPIC, _CORRELATION_DATA, _SUBSCRIPTION_ID, _USER_PROPERTY = 8, 9, 11, 38
_U16 = struct.Struct("!H")
_U32 = struct.Struct("!I")


class Published(NamedTuple):
    """A message as it came; ``mid`` is 0 with QoS 0. Its envelope has no ``client_id``.

    The topic may be one that MQTT does not allow. Whoever takes the message refuses it: if the
    connection ended for that, the broker would send the message again and again.
    """

    topic: bytes
    mid: int
    dup: bool
    envelope: Envelope


def take_publishes(
    data: bytes, at: int, is_v5: bool, found: list[Published], count_max: int, bytes_max: int
) -> int:
    """Appends to ``found`` the PUBLISH packets that lie whole at the front of ``data[at:]``.

    Appends at most ``count_max``, and none that begins behind ``bytes_max``. Returns where the rest
    begins: another packet, or a part of one. Raises PacketError as ``decode_publish`` does.
    """
    last = min(len(data) - 2, at + bytes_max)
    while count_max > 0 and at <= last and data[at] >> 4 == _PUBLISH:
        size, begin = data[at + 1], at + 2
        if size >= 0x80:
            if at + 5 > len(data) and all(byte >= 0x80 for byte in data[at + 1 :]):
                break  # the rest of the length has not come
            size, begin = varint(data, at + 1)
        end = begin + size
        if end > len(data):
            break
        found.append(decode_publish(data[at], data[begin:end], is_v5))
        at, count_max = end, count_max - 1
    return at


def decode_publish(command: int, packet: bytes, is_v5: bool) -> Published:
    """Decodes a packet.

    ``command`` is its first byte, ``packet`` what follows the remaining length.

    Raises PacketError if it breaks a rule, or has a topic alias, which this client does not allow.
    """
    qos = (command >> 1) & 3
    if qos == 3:
        raise PacketError("PUBLISH: QoS 3")
    retain, dup = bool(command & 1), bool(command & 8)
    if dup and qos == 0:
        protocol_error("PUBLISH: DUP with QoS 0")
    try:
        topic, at = prefixed(packet, 0)
        mid = 0
        if qos > 0:
            mid = int.from_bytes(packet[at : at + 2], "big")
            at += 2
            if at > len(packet):
                raise PacketError("the packet identifier is cut off")
            if mid == 0:
                protocol_error("packet identifier 0")
        if not is_v5:
            return Published(topic, mid, dup, Envelope(bytes(packet[at:]), qos, retain))
        size, at = varint(packet, at)
        end = at + size
        if end > len(packet):
            raise PacketError("properties are cut off")
        if size == 0:
            return Published(topic, mid, dup, Envelope(bytes(packet[end:]), qos, retain))
        fields, users, numbers = _properties(packet[:end], at)
    except PacketError as error:
        raise PacketError(f"PUBLISH: {error}", error.reason) from None
    envelope = Envelope(bytes(packet[end:]), qos, retain, "", *fields, tuple(users), tuple(numbers))
    return Published(topic, mid, dup, envelope)


_Fields = tuple["int | None", "int | None", "str | None", "str | None", "bytes | None"]


def _properties(packet: bytes, at: int) -> tuple[_Fields, list[tuple[str, str]], list[int]]:
    """Returns the properties in the order of an Envelope. ``packet`` ends behind them."""
    payload_format: int | None = None
    expiry_s: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation: bytes | None = None
    users: list[tuple[str, str]] = []
    numbers: list[int] = []
    while at < len(packet):
        kind = packet[at]
        at += 1
        if kind == _USER_PROPERTY:
            name, at = text(packet, at)
            value, at = text(packet, at)
            users.append((name, value))
        elif kind == _PAYLOAD_FORMAT:
            _check_first(payload_format, "payload format indicator")
            payload_format, at = _payload_format(packet, at), at + 1
        elif kind == _EXPIRY:
            _check_first(expiry_s, "message expiry interval")
            if at + 4 > len(packet):
                raise PacketError("message expiry interval: cut off")
            (expiry_s,) = _U32.unpack_from(packet, at)
            at += 4
        elif kind == _CONTENT_TYPE:
            _check_first(content_type, "content type")
            content_type, at = text(packet, at)
        elif kind == _RESPONSE_TOPIC:
            _check_first(response_topic, "response topic")
            response_topic, at = _response_topic(packet, at)
        elif kind == _CORRELATION_DATA:
            _check_first(correlation, "correlation data")
            correlation, at = prefixed(packet, at)
        elif kind == _SUBSCRIPTION_ID:
            number, at = varint(packet, at)
            if number == 0:
                protocol_error("subscription identifier 0")
            numbers.append(number)
        else:
            protocol_error(f"property {kind} has no place in it")
    return (payload_format, expiry_s, content_type, response_topic, correlation), users, numbers


def _check_first(known: object, what: str) -> None:
    if known is not None:
        protocol_error(f"{what}: it is there twice")


def _payload_format(packet: bytes, at: int) -> int:
    if at >= len(packet):
        raise PacketError("payload format indicator: cut off")
    if packet[at] > 1:
        protocol_error(f"payload format indicator: {packet[at]}")
    return packet[at]


def _response_topic(packet: bytes, at: int) -> tuple[str, int]:
    topic, end = text(packet, at)
    if not topic or "+" in topic or "#" in topic:
        protocol_error(f"response topic: {topic!r} is no topic")
    return topic, end
