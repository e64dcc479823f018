"""Hypothesis strategies for envelopes, and the MQTT 5 properties that paho makes of them."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from topicdb.replay import Envelope

texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20
)
envelopes = st.builds(
    Envelope,
    payload=st.binary(max_size=300),
    qos=st.sampled_from([0, 1, 2]),
    retain=st.booleans(),
    client_id=st.just(""),
    payload_format=st.none() | st.sampled_from([0, 1]),
    message_expiry_s=st.none() | st.integers(0, (1 << 32) - 1),
    content_type=st.none() | texts,
    response_topic=st.none() | texts,
    correlation_data=st.none() | st.binary(max_size=20),
    user_properties=st.lists(st.tuples(texts, texts), max_size=4).map(tuple),
    subscription_ids=st.lists(st.integers(1, 268_435_455), max_size=3).map(tuple),
    received=st.none(),
)
NAMES = {
    "payload_format": "PayloadFormatIndicator",
    "message_expiry_s": "MessageExpiryInterval",
    "content_type": "ContentType",
    "response_topic": "ResponseTopic",
    "correlation_data": "CorrelationData",
}


def properties_of(envelope: Envelope) -> bytes:
    properties: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    for name, theirs in NAMES.items():
        if (value := getattr(envelope, name)) is not None:
            setattr(properties, theirs, value)
    if envelope.user_properties:
        properties.UserProperty = list(envelope.user_properties)
    for number in envelope.subscription_ids:
        properties.SubscriptionIdentifier = number
    packed: bytes = properties.pack()
    return packed
