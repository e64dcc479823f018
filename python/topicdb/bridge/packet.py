"""PUBLISH as it comes from a broker; MQTT 5.0, section 3.3, and 3.1.1.

paho's own decoding takes most of a bridge's time: it makes a table of all properties there are for
each message.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from topicdb.replay.envelope import Envelope

_PUBLISH = 3
_PAYLOAD_FORMAT, _EXPIRY, _CONTENT_TYPE = 1, 2, 3
_RESPONSE_TOPIC, _CORRELATION_DATA, _SUBSCRIPTION_ID, _USER_PROPERTY = 8, 9, 11, 38
_U16 = struct.Struct("!H")
_U32 = struct.Struct("!I")


class Published(NamedTuple):
    """A message as it came; ``mid`` is 0 with QoS 0. Its envelope has no ``client_id``."""

    topic: bytes
    mid: int
    dup: bool
    envelope: Envelope


def take_publishes(
    data: bytes, at: int, is_v5: bool, found: list[Published], count_max: int, bytes_max: int
) -> int:
    """Appends to ``found`` the PUBLISH packets that lie whole at the front of ``data[at:]``, but no
    more than ``count_max``, and none after so many bytes. Where what is left begins: another
    packet, or a part of one. ValueError as ``decode_publish``.
    """
    last = min(len(data) - 2, at + bytes_max)
    while count_max > 0 and at <= last and data[at] >> 4 == _PUBLISH:
        size, begin = data[at + 1], at + 2
        if size >= 0x80:
            try:
                size, begin = _varint(data, at + 1)
            except IndexError:
                break
        end = begin + size
        if end > len(data):
            break
        found.append(decode_publish(data[at], data[begin:end], is_v5))
        at, count_max = end, count_max - 1
    return at


def decode_publish(command: int, packet: bytes, is_v5: bool) -> Published:
    """``command``: the first byte of the packet; ``packet``: what follows the remaining length.

    ValueError: it is none; a topic alias, which this client does not allow, too.
    """
    qos = (command >> 1) & 3
    if qos == 3:
        raise ValueError("QoS 3")
    try:
        topic, at = _prefixed(packet, 0)
        mid = 0
        if qos > 0:
            (mid,) = _U16.unpack_from(packet, at)
            at += 2
        retain, dup = bool(command & 1), bool(command & 8)
        if not is_v5:
            return Published(topic, mid, dup, Envelope(bytes(packet[at:]), qos, retain))
        size, at = _varint(packet, at)
        end = at + size
        if end > len(packet):
            raise ValueError("properties are cut off")
        if size == 0:
            return Published(topic, mid, dup, Envelope(bytes(packet[end:]), qos, retain))
        fields, users, numbers = _properties(packet, at, end)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"malformed PUBLISH: {error}") from None
    envelope = Envelope(bytes(packet[end:]), qos, retain, "", *fields, tuple(users), tuple(numbers))
    return Published(topic, mid, dup, envelope)


_Fields = tuple["int | None", "int | None", "str | None", "str | None", "bytes | None"]


def _properties(
    packet: bytes, at: int, end: int
) -> tuple[_Fields, list[tuple[str, str]], list[int]]:
    """In the order of an Envelope."""
    payload_format: int | None = None
    expiry_s: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation: bytes | None = None
    users: list[tuple[str, str]] = []
    numbers: list[int] = []
    while at < end:
        kind = packet[at]
        at += 1
        if kind == _USER_PROPERTY:
            name, at = _prefixed(packet, at)
            value, at = _prefixed(packet, at)
            users.append((name.decode(), value.decode()))
        elif kind == _PAYLOAD_FORMAT:
            payload_format, at = packet[at], at + 1
        elif kind == _EXPIRY:
            (expiry_s,) = _U32.unpack_from(packet, at)
            at += 4
        elif kind == _CONTENT_TYPE:
            text, at = _prefixed(packet, at)
            content_type = text.decode()
        elif kind == _RESPONSE_TOPIC:
            text, at = _prefixed(packet, at)
            response_topic = text.decode()
        elif kind == _CORRELATION_DATA:
            correlation, at = _prefixed(packet, at)
        elif kind == _SUBSCRIPTION_ID:
            number, at = _varint(packet, at)
            numbers.append(number)
        else:
            raise ValueError(f"property {kind} in a PUBLISH")
    if at != end:
        raise ValueError("properties are longer than they say")
    return (payload_format, expiry_s, content_type, response_topic, correlation), users, numbers


def _prefixed(packet: bytes, at: int) -> tuple[bytes, int]:
    (size,) = _U16.unpack_from(packet, at)
    end: int = at + 2 + size
    if end > len(packet):
        raise IndexError("text is cut off")
    return bytes(packet[at + 2 : end]), end


def _varint(packet: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in (0, 7, 14, 21):
        byte = packet[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise ValueError("a number of more than four bytes")
