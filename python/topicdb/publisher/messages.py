"""Messages of a publisher: their checks, and the bytes as which its queue keeps them."""

from __future__ import annotations

import itertools
import re
import secrets
import struct
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Literal, NamedTuple, TypeAlias

from topicdb import _core
from topicdb.arguments.times import duration_us, now_us
from topicdb.arguments.wrong_types import wrong_type
from topicdb.mqtt.envelope import Envelope
from topicdb.mqtt.properties import PublishProperties
from topicdb.queue.codecs import CodecError, CodecLike, codec_of
from topicdb.types import Properties

QoS: TypeAlias = Literal[0, 1, 2]
Expiry: TypeAlias = "float | timedelta | str"
"""How long a message lives: seconds, a timedelta, or text such as ``"1h"``."""
PropertiesLike: TypeAlias = "Properties | Mapping[str, str]"
"""MQTT 5 properties, or user properties alone by their names."""
PayloadCodec: TypeAlias = "CodecLike | Callable[[Any], bytes | str]"

MESSAGE_BYTES_MAX = 268_435_455  # of a PUBLISH, and of an item of a queue
_EXPIRY_S_MAX = (1 << 32) - 1
_ITEM_VERSION = 1
_HEAD = struct.Struct("!BIH")  # version, number, bytes of the topic; docs/internals/format.md
_NUMBERS = 1 << 32
# Brokers may end the connection of a client that sends such characters: MQTT 5, section 1.5.4.
_REFUSED_CHARACTERS = re.compile("[\0-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")


class Will(NamedTuple):
    """What the broker publishes when the connection ends without a goodbye.

    Attributes:
        topic: The topic, without wildcards.
        payload: Bytes, or text, which is sent as UTF-8.
        qos: 0, 1 or 2.
        retain: Whether the broker keeps the message for later subscribers.
    """

    topic: str
    payload: bytes | str = b""
    qos: QoS = 1
    retain: bool = False


class Outgoing(NamedTuple):
    """A message that waits in the queue of a publisher."""

    topic: str
    envelope: Envelope

    @staticmethod
    def decode(item: bytes) -> Outgoing:
        """Returns the message in an item of the queue. Raises ValueError if there is none in it."""
        if len(item) < _HEAD.size or item[0] != _ITEM_VERSION:
            raise ValueError("the item is no message of a publisher")
        _, _, length = _HEAD.unpack_from(item)
        end = _HEAD.size + length
        envelope = Envelope.decode(item[end:])
        if envelope is None or envelope.received is None:
            raise ValueError("the item is no message of a publisher")
        return Outgoing(item[_HEAD.size : end].decode(), envelope)

    @property
    def published(self) -> int:
        """When the message was given to the publisher, in µs since 1970."""
        received = self.envelope.received
        return 0 if received is None else received

    @property
    def properties(self) -> Properties:
        """The message's properties, as reads of a database give them."""
        of = self.envelope
        return Properties(
            qos=of.qos,
            retain=of.retain,
            payload_format=of.payload_format,
            message_expiry_s=of.message_expiry_s,
            content_type=of.content_type,
            response_topic=of.response_topic,
            correlation_data=of.correlation_data,
            user_properties=of.user_properties,
            received=of.received,
        )


class Packer:
    """Checks messages, and makes items of them. Thread-safe.

    The publisher owns it. Each item is unique: a number is part of it.
    """

    def __init__(
        self, codec: PayloadCodec | None, expiry: Expiry | None, *, with_properties: bool
    ) -> None:
        """Raises ValueError or TypeError for an option that cannot be."""
        self._encode = _encoder_of(codec)
        self._expiry_s = None if expiry is None else expiry_seconds(expiry)
        self._with_properties = with_properties
        self._numbers = itertools.count(secrets.randbelow(_NUMBERS))

    def item(
        self,
        topic: str,
        payload: Any,
        qos: int,
        retain: bool,
        expiry: Expiry | None,
        properties: PropertiesLike | None,
    ) -> bytes:
        """Returns the item of a message. Raises TopicError, ValueError, TypeError or CodecError."""
        check_topic(topic)
        check_quality(qos, retain)
        data = self._payload(payload)
        expiry_s = self._expiry_s if expiry is None else expiry_seconds(expiry)
        if properties is None:
            envelope = Envelope(data, qos, retain, message_expiry_s=expiry_s, received=now_us())
        else:
            envelope = self._with(properties, data, qos, retain, expiry_s)
        name = topic.encode()
        item = b"".join(
            (_HEAD.pack(_ITEM_VERSION, self._number(), len(name)), name, envelope.encode())
        )
        if len(item) > MESSAGE_BYTES_MAX:
            raise ValueError(
                f"payload: a message of {len(item)} bytes for topic {topic!r}; MQTT allows at most "
                f"{MESSAGE_BYTES_MAX}"
            )
        return item

    def _number(self) -> int:
        return next(self._numbers) % _NUMBERS

    def _payload(self, payload: Any) -> bytes:
        if self._encode is not None:
            try:
                payload = self._encode(payload)
            except Exception as error:
                raise CodecError(
                    f"payload: the codec cannot encode it: {type(error).__name__}: {error}"
                ) from error
        return payload_bytes(payload, has_codec=self._encode is not None)

    def _with(
        self, properties: PropertiesLike, data: bytes, qos: int, retain: bool, expiry_s: int | None
    ) -> Envelope:
        if not self._with_properties:
            raise ValueError("properties: MQTT 3.1.1 has none; leave protocol='3.1.1' out")
        given = _properties_of(properties)
        envelope = Envelope(
            data,
            qos,
            retain,
            payload_format=given.payload_format,
            message_expiry_s=given.message_expiry_s if expiry_s is None else expiry_s,
            content_type=given.content_type,
            response_topic=given.response_topic,
            correlation_data=given.correlation_data,
            user_properties=tuple(given.user_properties),
            received=now_us(),
        )
        _check_properties(envelope)
        return envelope


def check_topic(topic: str, what: str = "topic") -> None:
    """Raises TopicError for a topic that MQTT does not allow, ValueError for one that it may not.

    A broker may end the connection for a topic with control characters.
    """
    _core.check_topic(topic)
    if not topic.isprintable() and (found := _REFUSED_CHARACTERS.search(topic)) is not None:
        raise _core.TopicError(
            f"{what} {topic!r}: contains the character {found[0]!r}, which brokers may refuse"
        )


def check_quality(qos: object, retain: object) -> None:
    """Raises ValueError or TypeError for a QoS or a retain flag that cannot be."""
    if isinstance(qos, bool) or qos not in (0, 1, 2):
        raise ValueError(f"qos: expected 0, 1 or 2, got {qos!r}")
    if not isinstance(retain, bool):
        raise wrong_type("retain", "bool", retain)


def payload_bytes(payload: Any, *, has_codec: bool = False) -> bytes:
    """Returns a payload as bytes. Raises TypeError or ValueError."""
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, str):
        try:
            return payload.encode()
        except UnicodeEncodeError:
            raise ValueError("payload: has lone surrogates, so it is no valid UTF-8") from None
    if payload is None and not has_codec:
        return b""
    if isinstance(payload, (bytearray, memoryview)):
        return bytes(payload)
    if has_codec:
        raise CodecError(f"payload: the codec made {type(payload).__name__} of it, not bytes")
    raise TypeError(
        f"payload: expected bytes, str or None, got {type(payload).__name__}; with codec='json' "
        "the publisher sends such objects as JSON"
    )


def expiry_seconds(expiry: Expiry) -> int:
    """Returns the whole seconds, rounded up, that a message lives. Raises ValueError, TypeError."""
    if isinstance(expiry, (str, timedelta)):
        us = duration_us(expiry, what="expiry")
    elif isinstance(expiry, (int, float)) and not isinstance(expiry, bool):
        if not 0 < expiry <= _EXPIRY_S_MAX:
            raise ValueError(f"expiry: expected more than 0 and less than 2**32 s, got {expiry}")
        us = round(expiry * 1_000_000)
    else:
        raise wrong_type("expiry", "seconds, a timedelta or text such as '1h'", expiry)
    seconds = max(1, -(-us // 1_000_000))
    if seconds > _EXPIRY_S_MAX:
        raise ValueError(f"expiry: expected less than 2**32 s, got {expiry!r}")
    return seconds


def _encoder_of(codec: PayloadCodec | None) -> Callable[[Any], Any] | None:
    if codec is None:
        return None
    if callable(codec) and not hasattr(codec, "encode"):
        return codec
    found = codec_of(codec)  # type: ignore[arg-type]  # it raises TypeError for what is no codec
    return None if found is None else found.encode


def _properties_of(properties: object) -> Properties:
    if isinstance(properties, Properties):
        return properties
    if isinstance(properties, Mapping):
        return Properties(user_properties=tuple(properties.items()))
    raise wrong_type("properties", "topicdb.Properties or a mapping of str to str", properties)


def _check_properties(envelope: Envelope) -> None:
    """Raises ValueError or TypeError for properties that a broker would take for malformed."""
    if envelope.content_type is not None:
        _check_text("content_type", envelope.content_type)
    if envelope.response_topic is not None:
        check_topic(envelope.response_topic, "response_topic")
    for name, value in envelope.user_properties:
        _check_text("the name of a user property", name)
        _check_text(f"user property {name!r}", value)
    if envelope.payload_format not in (None, 0, 1):
        raise ValueError(f"payload_format: expected 0 or 1, got {envelope.payload_format!r}")
    if envelope.payload_format == 1:
        try:
            envelope.payload.decode()
        except UnicodeDecodeError:
            raise ValueError("payload_format: 1 stands for UTF-8; the payload is none") from None
    PublishProperties(envelope, envelope.message_expiry_s).pack()


def _check_text(what: str, text: object) -> None:
    if not isinstance(text, str):
        raise wrong_type(f"properties: {what}", "str", text)
    if (found := _REFUSED_CHARACTERS.search(text)) is not None:
        raise ValueError(f"properties: {what}: contains {found[0]!r}, which brokers may refuse")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"properties: {what}: has lone surrogates") from None
