"""Tests of the envelope of messages that a bridge has stored."""

from __future__ import annotations

import zlib
from typing import Any

import hypothesis.strategies as st
import pytest
from envelopes import GOLDEN, envelopes
from hypothesis import given

from topicdb.replay import Envelope

GOLDEN_HEX = (
    "f55444450101020201030670756d702d3704010590 1c060a746578742f706c61696e0704 72652f37 080200ff"
    "0904756e697403c2b0430904756e6974014b0a010aac02 0f0432312e35"
)


def test_golden_bytes() -> None:
    body = bytes.fromhex(GOLDEN_HEX)
    assert GOLDEN.encode() == body + zlib.crc32(body).to_bytes(4, "little")
    assert GOLDEN.encode()[-4:].hex() == "185eae89"
    assert Envelope.decode(GOLDEN.encode()) == GOLDEN


@given(envelopes)
def test_what_is_encoded_is_decoded_again(envelope: Envelope) -> None:
    assert Envelope.decode(envelope.encode()) == envelope


@given(st.binary(max_size=200))
def test_other_values_are_no_envelopes(value: bytes) -> None:
    assert Envelope.decode(value) is None
    assert Envelope.decode(b"\xf5TDE\x01" + value) is None


def test_damage_is_noticed() -> None:
    data = GOLDEN.encode()
    for end in range(len(data)):
        assert Envelope.decode(data[:end]) is None
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        assert Envelope.decode(bytes(damaged)) is None


@pytest.mark.parametrize(
    "body",
    [
        b"\xf5TDE\x02\x0f\x00",  # another version
        b"\xf5TDE\x00\x0f\x00",
        b"\xf5TDE\x01\x0b\x00\x0f\x00",  # an unknown field
        b"\xf5TDE\x01\x00\x0f\x00",  # no field is 0
        b"\xf5TDE\x01\x0f\x05abc",  # a field longer than the rest
        b"\xf5TDE\x01\x0f\x01ab",  # a byte behind the payload
        b"\xf5TDE\x01\x06\x01\xff\x0f\x00",  # no UTF-8
        b"\xf5TDE\x01\x05" + b"\xff" * 10 + b"\x01\x0f\x00",  # a number without end
        b"\xf5TDE\x01\x01\x02",  # no payload
    ],
)
def test_bytes_with_a_right_checksum_that_are_no_envelope(body: bytes) -> None:
    assert Envelope.decode(body + zlib.crc32(body).to_bytes(4, "little")) is None


def test_properties_for_selectors() -> None:
    assert Envelope(b"").properties() == {"mqtt_qos": 0, "mqtt_retain": False}
    assert GOLDEN.properties() == {
        "unit": "K",
        "mqtt_qos": 2,
        "mqtt_retain": True,
        "mqtt_client_id": "pump-7",
        "mqtt_payload_format": 1,
        "mqtt_message_expiry_s": 3_600,
        "mqtt_content_type": "text/plain",
        "mqtt_response_topic": "re/7",
    }


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"received": -1}, ValueError, "received is negative"),
        ({"message_expiry_s": -1}, ValueError, "message_expiry_s is negative"),
        ({"subscription_ids": (1, -1)}, ValueError, "subscription_ids"),
        ({"received": 1 << 63}, TypeError, "does not fit"),
        ({"qos": 256}, TypeError, "does not fit"),
        ({"payload": "text"}, TypeError, "another type"),
    ],
)
def test_fields_that_cannot_be(fields: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Envelope(b"")._replace(**fields).encode()
