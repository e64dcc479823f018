"""A message with its MQTT properties, as the value under which a bridge stores it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

_MAGIC = b"\xf5TDE"  # 0xf5 begins no UTF-8 text
_VERSION = 1
_QOS, _RETAIN, _CLIENT_ID, _PAYLOAD_FORMAT, _EXPIRY, _CONTENT_TYPE = range(1, 7)
_RESPONSE_TOPIC, _CORRELATION_DATA, _USER_PROPERTY, _SUBSCRIPTION_ID = range(7, 11)
_PAYLOAD = 15
_CRC_BYTES = 4


class Envelope(NamedTuple):
    """What was published: the ``payload``, how, and the MQTT 5 properties; None or empty where
    there was nothing. ``client_id``: of the publisher, where the bridge was told."""

    payload: bytes
    qos: int = 0
    retain: bool = False
    client_id: str = ""
    payload_format: int | None = None
    message_expiry_s: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    user_properties: tuple[tuple[str, str], ...] = ()
    subscription_ids: tuple[int, ...] = ()

    def encode(self) -> bytes:
        """The bytes that are stored; docs/format.md draws them."""
        out = bytearray(_MAGIC)
        out.append(_VERSION)
        if self.qos:
            out += bytes((_QOS, self.qos))
        if self.retain:
            out += bytes((_RETAIN, 1))
        if self.client_id:
            _put(out, _CLIENT_ID, self.client_id.encode())
        if self.payload_format is not None:
            out += bytes((_PAYLOAD_FORMAT, self.payload_format))
        if self.message_expiry_s is not None:
            out.append(_EXPIRY)
            _put_varint(out, self.message_expiry_s)
        if self.content_type is not None:
            _put(out, _CONTENT_TYPE, self.content_type.encode())
        if self.response_topic is not None:
            _put(out, _RESPONSE_TOPIC, self.response_topic.encode())
        if self.correlation_data is not None:
            _put(out, _CORRELATION_DATA, self.correlation_data)
        for name, value in self.user_properties:
            _put(out, _USER_PROPERTY, name.encode())
            _put_bytes(out, value.encode())
        for number in self.subscription_ids:
            out.append(_SUBSCRIPTION_ID)
            _put_varint(out, number)
        _put(out, _PAYLOAD, self.payload)
        out += zlib.crc32(out).to_bytes(_CRC_BYTES, "little")
        return bytes(out)

    @staticmethod
    def decode(value: bytes) -> Envelope | None:
        """The envelope, or None: the value is none, or is damaged."""
        if not value.startswith(_MAGIC) or len(value) < len(_MAGIC) + 1 + _CRC_BYTES:
            return None
        body = memoryview(value)[:-_CRC_BYTES]
        if zlib.crc32(body) != int.from_bytes(value[-_CRC_BYTES:], "little"):
            return None
        if body[len(_MAGIC)] != _VERSION:
            return None
        try:
            return _decoded(_Cursor(bytes(body), len(_MAGIC) + 1))
        except (IndexError, ValueError):
            return None

    def properties(self) -> dict[str, str | int | bool]:
        """For selectors: user properties by name (of several the last), and ``mqtt_qos``,
        ``mqtt_retain``, ``mqtt_client_id``, ``mqtt_payload_format``, ``mqtt_message_expiry_s``,
        ``mqtt_content_type``, ``mqtt_response_topic``, where there are such."""
        found: dict[str, str | int | bool] = dict(self.user_properties)
        found["mqtt_qos"] = self.qos
        found["mqtt_retain"] = self.retain
        for name, value in (
            ("mqtt_client_id", self.client_id or None),
            ("mqtt_payload_format", self.payload_format),
            ("mqtt_message_expiry_s", self.message_expiry_s),
            ("mqtt_content_type", self.content_type),
            ("mqtt_response_topic", self.response_topic),
        ):
            if value is not None:
                found[name] = value
        return found


class _Cursor:
    """Reads on in bytes. IndexError, ValueError: they are no envelope."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
            if shift > 63:
                raise ValueError

    def prefixed(self) -> bytes:
        size = self.varint()
        begin = self.at
        self.at += size
        if self.at > len(self.data):
            raise IndexError
        return self.data[begin : self.at]

    def text(self) -> str:
        return self.prefixed().decode()


def _decoded(cursor: _Cursor) -> Envelope:
    fields: dict[str, Any] = {}
    users: list[tuple[str, str]] = []
    subscriptions: list[int] = []
    for tag in _tags(cursor):
        if tag in (_QOS, _RETAIN, _PAYLOAD_FORMAT):
            value = cursor.byte()
            name = {_QOS: "qos", _RETAIN: "retain", _PAYLOAD_FORMAT: "payload_format"}[tag]
            fields[name] = bool(value) if tag == _RETAIN else value
        elif tag == _EXPIRY:
            fields["message_expiry_s"] = cursor.varint()
        elif tag in _TEXTS:
            fields[_TEXTS[tag]] = cursor.text()
        elif tag == _CORRELATION_DATA:
            fields["correlation_data"] = cursor.prefixed()
        elif tag == _USER_PROPERTY:
            users.append((cursor.text(), cursor.text()))
        elif tag == _SUBSCRIPTION_ID:
            subscriptions.append(cursor.varint())
        else:
            raise ValueError  # of a later version, which would have another version byte
    payload = cursor.prefixed()
    if cursor.at != len(cursor.data):
        raise ValueError
    return Envelope(
        payload, user_properties=tuple(users), subscription_ids=tuple(subscriptions), **fields
    )


_TEXTS = {
    _CLIENT_ID: "client_id",
    _CONTENT_TYPE: "content_type",
    _RESPONSE_TOPIC: "response_topic",
}


def _tags(cursor: _Cursor) -> Iterator[int]:
    while (tag := cursor.byte()) != _PAYLOAD:
        yield tag


def _put(out: bytearray, tag: int, value: bytes) -> None:
    out.append(tag)
    _put_bytes(out, value)


def _put_bytes(out: bytearray, value: bytes) -> None:
    _put_varint(out, len(value))
    out += value


def _put_varint(out: bytearray, number: int) -> None:
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
