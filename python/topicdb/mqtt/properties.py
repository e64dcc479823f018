"""The MQTT 5 properties of a PUBLISH, as bytes.

Those of paho-mqtt take 70 µs a message, which is as long as all the rest of publishing it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topicdb.mqtt.envelope import Envelope

PAYLOAD_FORMAT, MESSAGE_EXPIRY, CONTENT_TYPE, RESPONSE_TOPIC = 1, 2, 3, 8
CORRELATION_DATA, SUBSCRIPTION_ID, TOPIC_ALIAS, USER_PROPERTY = 9, 11, 35, 38
_TEXT_BYTES_MAX = 65_535
_U32_MAX = (1 << 32) - 1
_U16 = struct.Struct("!H")
_U32 = struct.Struct("!I")


class PublishProperties:
    """The properties of an envelope, in the form that paho-mqtt's ``publish`` takes.

    The expiry is the one given, not the envelope's. Subscription identifiers are left out:
    publishers send none.
    """

    __slots__ = ("_envelope", "_expiry_s", "_packed")

    def __init__(self, envelope: Envelope, message_expiry_s: int | None) -> None:
        self._envelope = envelope
        self._expiry_s = message_expiry_s
        self._packed: bytes | None = None

    def pack(self) -> bytes:
        """Returns the length of the properties, and the properties.

        Raises ValueError if no packet can have one of them, such as a text of more than 65,535
        bytes.
        """
        if self._packed is None:
            self._packed = _packed(self._envelope, self._expiry_s)
        return self._packed


def _packed(envelope: Envelope, expiry_s: int | None) -> bytes:
    out = bytearray()
    if envelope.payload_format is not None:
        out += bytes((PAYLOAD_FORMAT, envelope.payload_format))
    if expiry_s is not None:
        if not 0 <= expiry_s <= _U32_MAX:
            raise ValueError(f"message expiry interval: {expiry_s} s")
        out.append(MESSAGE_EXPIRY)
        out += _U32.pack(expiry_s)
    for kind, text in (
        (CONTENT_TYPE, envelope.content_type),
        (RESPONSE_TOPIC, envelope.response_topic),
    ):
        if text is not None:
            _put(out, kind, text.encode())
    if envelope.correlation_data is not None:
        _put(out, CORRELATION_DATA, envelope.correlation_data)
    for name, value in envelope.user_properties:
        _put(out, USER_PROPERTY, name.encode())
        _put_prefixed(out, value.encode())
    return varint(len(out)) + out


def varint(number: int) -> bytes:
    """Returns ``number`` as a variable byte integer."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _put(out: bytearray, kind: int, data: bytes) -> None:
    out.append(kind)
    _put_prefixed(out, data)


def _put_prefixed(out: bytearray, data: bytes) -> None:
    if len(data) > _TEXT_BYTES_MAX:
        raise ValueError(f"a property of {len(data)} bytes; at most {_TEXT_BYTES_MAX} are allowed")
    out += _U16.pack(len(data))
    out += data
