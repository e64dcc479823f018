"""Tests that TopicDB packs properties as paho does."""

from __future__ import annotations

import pytest
from hypothesis import given
from mqtt_packets import envelopes, properties_of
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from topicdb.mqtt.properties import PublishProperties
from topicdb.replay import Envelope


@given(envelopes)
def test_they_are_those_of_paho(envelope: Envelope) -> None:
    envelope = envelope._replace(subscription_ids=())
    packed = PublishProperties(envelope, envelope.message_expiry_s).pack()
    found, size = Properties(PacketTypes.PUBLISH).unpack(packed)  # type: ignore[no-untyped-call]
    expected, _ = Properties(PacketTypes.PUBLISH).unpack(  # type: ignore[no-untyped-call]
        properties_of(envelope)
    )
    assert size == len(packed) and found.json() == expected.json()


@pytest.mark.parametrize(
    "envelope",
    [
        Envelope(b"", content_type="x" * 65_536),
        Envelope(b"", user_properties=(("x" * 65_536, ""),)),
    ],
)
def test_what_no_packet_can_have(envelope: Envelope) -> None:
    with pytest.raises(ValueError, match="65536 bytes"):
        PublishProperties(envelope, None).pack()
    with pytest.raises(ValueError, match="expiry"):
        PublishProperties(Envelope(b""), 1 << 32).pack()
