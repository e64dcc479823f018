"""Tests of the rules for packets of a broker, with vectors of the standards and with paho."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from paho.mqtt.client import MQTTv5, MQTTv311

from topicdb.bridge.packet import decode_publish
from topicdb.bridge.rules import PacketError, check_packet

CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 0x20, 0x30, 0x40, 0x50, 0x62, 0x70
SUBACK, UNSUBACK, PINGRESP, DISCONNECT = 0x90, 0xB0, 0xD0, 0xE0

# Properties of MQTT 5.0, section 2.2.2.2, each with a value that is allowed.
VALUES: dict[int, bytes] = {
    1: b"\1",
    2: b"\0\0\0\x3c",
    3: b"\0\4text",
    8: b"\0\5reply",
    9: b"\0\2\0\xff",
    11: b"\x81\1",
    17: b"\0\0\1\0",
    18: b"\0\2id",
    19: b"\0\x3c",
    21: b"\0\1m",
    22: b"\0\1\0",
    23: b"\1",
    24: b"\0\0\0\1",
    25: b"\0",
    26: b"\0\4info",
    28: b"\0\5other",
    31: b"\0\3why",
    33: b"\0\x14",
    34: b"\0\0",
    35: b"\0\1",
    36: b"\1",
    37: b"\1",
    38: b"\0\4name\0\5value",
    39: b"\0\1\0\0",
    40: b"\1",
    41: b"\0",
    42: b"\1",
}
TEXTS = {3, 8, 18, 21, 26, 28, 31}
REPEATED = {38}
OF_ANSWERS = {31, 38}
OF_CONNACK = {17, 18, 19, 21, 22, 26, 28, 31, 33, 34, 36, 37, 38, 39, 40, 41, 42}
OF_PUBLISH = {1, 2, 3, 8, 9, 11, 38}
CODES = {
    CONNACK: {0, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, *range(0x9A, 0x9E), 0x9F},
    PUBACK: {0, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99},
    PUBREC: {0, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99},
    PUBREL: {0, 0x92},
    PUBCOMP: {0, 0x92},
    SUBACK: {0, 1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2},
    UNSUBACK: {0, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91},
    DISCONNECT: {0, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x90}
    | set(range(0x93, 0xA3)),
}
NUMBERED = (PUBACK, PUBREC, PUBREL, PUBCOMP)


class Vector(NamedTuple):
    """A packet of MQTT 5 or 3.1.1, and whether a broker may send it."""

    command: int
    packet: bytes
    is_v5: bool
    is_allowed: bool


def properties(*kinds: int, **changed: bytes) -> bytes:
    """Packs properties with their length; ``p31=`` gives another value of property 31."""
    found = b"".join(bytes([kind]) + changed.get(f"p{kind}", VALUES[kind]) for kind in kinds)
    return bytes([len(found)]) + found


def around(command: int, props: bytes) -> bytes:
    """Returns a packet of MQTT 5 with these properties."""
    if command == PUBLISH:
        return b"\0\1a" + props + b"payload"
    if command == CONNACK:
        return b"\1\0" + props
    if command in NUMBERED:
        return b"\0\7\0" + props
    if command == DISCONNECT:
        return b"\0" + props
    return b"\0\7" + props + b"\0"


def allowed_properties(command: int) -> set[int]:
    if command == PUBLISH:
        return OF_PUBLISH
    if command == CONNACK:
        return OF_CONNACK
    return {*OF_ANSWERS, 28} if command == DISCONNECT else OF_ANSWERS


def vectors_of_properties() -> Iterator[Vector]:
    """Yields each property in each packet: once, twice, cut off, and with bad values."""
    bad: dict[int, list[bytes]] = {kind: [b"\0\1\xff", b"\0\3a\0b"] for kind in TEXTS}
    bad |= {1: [b"\2", b"\xff"], 36: [b"\2"], 37: [b"\2"], 40: [b"\2"], 41: [b"\xff"], 42: [b"\3"]}
    bad |= {33: [b"\0\0"], 39: [b"\0\0\0\0"], 11: [b"\0", b"\x80\0", b"\xff\xff\xff\xff\1"]}
    bad |= {8: [*bad[8], b"\0\0", b"\0\3a/+", b"\0\1#"]}
    bad |= {38: [b"\0\1\xff\0\1a", b"\0\1a\0\1\xff", b"\0\1\0\0\1a", b"\0\1a"]}
    for command in (CONNACK, PUBLISH, *NUMBERED, SUBACK, UNSUBACK, DISCONNECT):
        allowed = allowed_properties(command)
        yield Vector(command, around(command, properties()), True, True)
        yield Vector(command, around(command, properties(*sorted(allowed))), True, True)
        for kind, value in VALUES.items():
            may = kind in allowed
            yield Vector(command, around(command, properties(kind)), True, may)
            twice = may and (kind in REPEATED or (kind == 11 and command == PUBLISH))
            yield Vector(command, around(command, properties(kind, kind)), True, twice)
            for cut in range(len(value)):
                short = properties(kind, **{f"p{kind}": value[:cut]})
                yield Vector(command, around(command, short), True, False)
            for other in bad.get(kind, []):
                changed = properties(kind, **{f"p{kind}": other})
                yield Vector(command, around(command, changed), True, False)
        yield Vector(command, around(command, b"\x80\0"), True, False)  # a length of two bytes
        yield Vector(command, around(command, b"\x7f"), True, False)
        for kind in (0, 4, 10, 27, 43, 0x7F, 0xFF):
            yield Vector(command, around(command, b"\2" + bytes([kind, 1])), True, False)


def vectors_of_codes() -> Iterator[Vector]:
    for code in range(256):
        for command, allowed in CODES.items():
            may = code in allowed
            if command == CONNACK:
                yield Vector(command, bytes([0, code, 0]), True, may)
                yield Vector(command, bytes([1, code, 0]), True, code == 0)
            elif command in NUMBERED:
                yield Vector(command, bytes([0, 7, code]), True, may)
                yield Vector(command, bytes([0, 7, code, 0]), True, may)
            elif command == DISCONNECT:
                yield Vector(command, bytes([code]), True, may)
            else:
                yield Vector(command, bytes([0, 7, 0, code]), True, may)
                yield Vector(command, bytes([0, 7, 0, 0, code]), True, may)
        yield Vector(CONNACK, bytes([0, code]), False, code <= 5)
        # A broker that speaks 3.1.1 only answers like this.
        yield Vector(CONNACK, bytes([0, code]), True, code == 1)
        yield Vector(CONNACK, bytes([code, 0, 0]), True, code <= 1)
        yield Vector(CONNACK, bytes([code, 0]), False, code <= 1)
        yield Vector(SUBACK, bytes([0, 7, code]), False, code in (0, 1, 2, 0x80))


def vectors_of_sizes() -> Iterator[Vector]:
    """Yields packets with identifiers, and packets that are too short or too long."""
    for command in NUMBERED:
        for is_v5 in (True, False):
            yield Vector(command, b"", is_v5, False)
            yield Vector(command, b"\7", is_v5, False)
            yield Vector(command, b"\0\0", is_v5, False)
            yield Vector(command, b"\0\1", is_v5, True)
            yield Vector(command, b"\xff\xff", is_v5, True)
        yield Vector(command, b"\0\1\0", False, False)
        yield Vector(command, b"\0\1\0\0x", True, False)
    for command in (SUBACK, UNSUBACK):
        for packet in (b"", b"\7", b"\0\7", b"\0\7\0", b"\0\0\0\0"):
            yield Vector(command, packet, True, False)
    for packet, may in ((b"", False), (b"\7", False), (b"\0\7", True), (b"\0\7\0", False)):
        yield Vector(UNSUBACK, packet, False, may)
    for packet in (b"", b"\7", b"\0\7", b"\0\0\1"):
        yield Vector(SUBACK, packet, False, False)
    for is_v5 in (True, False):
        yield Vector(PINGRESP, b"", is_v5, True)
        yield Vector(PINGRESP, b"\0", is_v5, False)
        yield Vector(DISCONNECT, b"", is_v5, is_v5)
        for packet in (b"", b"\0", b"\0\0\0\0x"):
            yield Vector(CONNACK, packet, is_v5, False)


def vectors_of_commands() -> Iterator[Vector]:
    """Yields every first byte, with a packet that is right for its kind."""
    right = {CONNACK: b"\0\0\0", SUBACK: b"\0\7\0\0", UNSUBACK: b"\0\7\0\0"}
    right |= {PINGRESP: b"", DISCONNECT: b"", **dict.fromkeys(NUMBERED, b"\0\7")}
    for command in range(256):
        if command >> 4 != PUBLISH >> 4:
            yield Vector(command, right.get(command, b"\0\7"), True, command in right)
        else:
            qos, dup = command >> 1 & 3, command & 8
            may = qos < 2 + 1 and not (dup and qos == 0)
            mid = b"\0\7" if qos else b""
            yield Vector(command, b"\0\1a" + mid + b"\0x", True, may)
            yield Vector(command, b"\0\1a" + mid + b"x", False, may)
            if qos:
                yield Vector(command, b"\0\1a\0\0\0x", True, False)
                yield Vector(command, b"\0\1a\0\0x", False, False)
    for cut in range(6):
        yield Vector(0x32, b"\0\1a\0\7\0"[:cut], True, False)
    for cut in range(5):
        yield Vector(0x32, b"\0\1a\0\7"[:cut], False, False)


VECTORS = [
    *vectors_of_properties(),
    *vectors_of_codes(),
    *vectors_of_sizes(),
    *vectors_of_commands(),
]


def check(command: int, packet: bytes, is_v5: bool) -> None:
    if command >> 4 == PUBLISH >> 4:
        decode_publish(command, packet, is_v5)
    else:
        check_packet(command, packet, is_v5)


def error_of(vector: Vector) -> PacketError | None:
    try:
        check(vector.command, vector.packet, vector.is_v5)
    except PacketError as error:
        return error
    return None


def test_the_vectors() -> None:
    wrong, reasons = [], set()
    for vector in VECTORS:
        error = error_of(vector)
        if (error is None) != vector.is_allowed:
            wrong.append(vector)
        if error is not None:
            reasons.add(error.reason)
    assert wrong == [] and reasons == {0x81, 0x82}
    assert len(VECTORS) > 3_000


# paho-mqtt's decoder is laxer: it reads what is allowed here, and reads it in the same way.


def decoded_by_paho(command: int, packet: bytes, is_v5: bool) -> Any:
    decoders = pytest.importorskip("paho.mqtt._packet", reason="paho-mqtt before 2.2 has none")
    names = {2: "connack", 3: "publish", 4: "puback", 5: "pubrec", 6: "pubrel", 7: "pubcomp"}
    names |= {9: "suback", 11: "unsuback", 14: "disconnect"}
    decode = getattr(decoders, f"decode_{names[command >> 4]}")
    return decode(command, packet, MQTTv5 if is_v5 else MQTTv311)


def compare(command: int, packet: bytes, is_v5: bool) -> None:
    if command >> 4 == PINGRESP >> 4 or (command == CONNACK and packet[1:2] == b"\x99"):
        return  # paho has no decoder for PINGRESP, and does not know this code of CONNACK
    try:
        check(command, packet, is_v5)
    except PacketError:
        return
    theirs = decoded_by_paho(command, packet, is_v5)
    if command >> 4 == PUBLISH >> 4:
        ours = decode_publish(command, packet, is_v5)
        assert (ours.topic, ours.mid, ours.dup) == (theirs.topic, theirs.mid, theirs.dup)
        envelope = ours.envelope
        assert envelope.payload == bytes(theirs.payload)
        assert (envelope.qos, envelope.retain) == (theirs.qos, theirs.retain)
        if theirs.properties is not None:
            found = vars(theirs.properties)
            assert found.get("PayloadFormatIndicator") == envelope.payload_format
            assert found.get("MessageExpiryInterval") == envelope.message_expiry_s
            assert found.get("ContentType") == envelope.content_type
            assert found.get("ResponseTopic") == envelope.response_topic
            assert found.get("CorrelationData") == envelope.correlation_data
            assert tuple(found.get("UserProperty", ())) == envelope.user_properties
            assert tuple(found.get("SubscriptionIdentifier", ())) == envelope.subscription_ids
    elif command >> 4 not in (CONNACK >> 4, DISCONNECT >> 4):
        assert theirs.mid == struct.unpack_from("!H", packet)[0]


def test_paho_reads_what_is_allowed() -> None:
    for vector in VECTORS:
        if vector.is_allowed:
            compare(vector.command, vector.packet, vector.is_v5)


@settings(max_examples=1_000, deadline=None)
@given(st.sampled_from(VECTORS), st.data())
def test_paho_reads_what_is_allowed_of_mutations(vector: Vector, data: st.DataObject) -> None:
    packet = bytearray(vector.packet)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(packet)))
        way = data.draw(st.sampled_from(["change", "insert", "remove"]))
        if way == "insert":
            packet.insert(at, data.draw(st.integers(0, 255)))
        elif at < len(packet):
            if way == "change":
                packet[at] = data.draw(st.integers(0, 255))
            else:
                del packet[at]
    compare(vector.command, bytes(packet), vector.is_v5)
