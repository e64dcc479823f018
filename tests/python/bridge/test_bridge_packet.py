"""Tests of the bridge's decoder of PUBLISH packets, with properties that paho has made."""

from __future__ import annotations

from contextlib import suppress

import hypothesis.strategies as st
import pytest
from hypothesis import given
from mqtt_packets import envelopes, properties_of, texts

from topicdb.bridge.packet import Published, decode_publish, take_publishes
from topicdb.replay import Envelope


def packet_of(topic: bytes, mid: int, envelope: Envelope, is_v5: bool) -> bytes:
    head = len(topic).to_bytes(2, "big") + topic
    if envelope.qos > 0:
        head += mid.to_bytes(2, "big")
    return head + (properties_of(envelope) if is_v5 else b"") + envelope.payload


@given(texts, st.integers(1, 65_535), envelopes, st.booleans())
def test_what_paho_makes_is_decoded(topic: str, mid: int, envelope: Envelope, dup: bool) -> None:
    dup = dup and envelope.qos > 0
    command = 0x30 | dup << 3 | envelope.qos << 1 | envelope.retain
    found = decode_publish(command, packet_of(topic.encode(), mid, envelope, True), True)
    assert found == (topic.encode(), mid if envelope.qos else 0, dup, envelope)
    plain = Envelope(envelope.payload, envelope.qos, envelope.retain)
    found = decode_publish(command, packet_of(topic.encode(), mid, envelope, False), False)
    assert found == (topic.encode(), mid if envelope.qos else 0, dup, plain)


def framed(command: int, packet: bytes) -> bytes:
    size, length = len(packet), bytearray()
    while size >= 0x80:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([command, *length, size]) + packet


@given(
    st.lists(envelopes, max_size=6),
    st.sampled_from([b"", b"\x62\2\0\7", b"\x30", b"\x30\xff"]),
    st.integers(0, 8),
    st.data(),
)
def test_whole_packets_in_front_are_taken(
    messages: list[Envelope], end: bytes, count_max: int, data: st.DataObject
) -> None:
    packets = [
        framed(0x30 | envelope.qos << 1 | envelope.retain, packet_of(b"a", 1, envelope, True))
        for envelope in messages
    ]
    whole = b"zz" + b"".join(packets) + end
    cut = whole[: data.draw(st.integers(2, len(whole)))]
    found: list[Published] = []
    at = take_publishes(cut, 2, True, found, count_max, 1 << 20)
    assert at == 2 + sum(len(packet) for packet in packets[: len(found)])
    assert [one.envelope for one in found] == messages[: len(found)]
    left = packets[len(found) :]
    assert len(found) == count_max or not left or len(cut) < at + len(left[0])
    some: list[Published] = []
    take_publishes(cut, 2, True, some, count_max, 0)
    assert len(some) == min(len(found), 1)


def test_a_broken_packet_among_others_is_told() -> None:
    good, bad = framed(0x30, b"\0\1a\0x"), framed(0x30, b"\0\5a")
    found: list[Published] = []
    with pytest.raises(ValueError, match="cut off"):
        take_publishes(good + bad, 0, True, found, 10, 1 << 20)
    assert len(found) == 1
    with pytest.raises(ValueError, match="four bytes"):
        take_publishes(b"\x30\xff\xff\xff\xff\x01x", 0, True, found, 10, 1 << 20)


@given(st.integers(0, 255), st.binary(max_size=60), st.booleans())
def test_anything_is_decoded_or_refused(command: int, packet: bytes, is_v5: bool) -> None:
    with suppress(ValueError):
        assert decode_publish(command, packet, is_v5).envelope.payload in packet


@pytest.mark.parametrize(
    ("command", "packet"),
    [
        (0x36, b"\0\1a\0\1\0"),  # QoS 3
        (0x30, b"\0\5a"),  # a topic that is cut off
        (0x32, b"\0\1a\0"),  # no id
        (0x30, b"\0\1a"),  # no properties
        (0x30, b"\0\1a\5"),  # properties that are cut off
        (0x30, b"\0\1a\3\x23\0\1x"),  # a topic alias
        (0x30, b"\0\1a\2\x02\0x"),  # a number that is longer than the properties
        (0x30, b"\0\1a\xff\xff\xff\xff\1x"),  # a length of five bytes
        (0x30, b"\0\1a\4\x03\0\1\xffx"),  # no UTF-8
    ],
)
def test_malformed_packets(command: int, packet: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        decode_publish(command, packet, True)
