"""Hypothesis strategies for envelopes, envelopes that golden files hold, and messages with them."""

from __future__ import annotations

import hypothesis.strategies as st

from topicdb import Properties
from topicdb.replay import Envelope

texts = st.text(max_size=20)
numbers = st.integers(0, 1 << 32)

envelopes = st.builds(
    Envelope,
    payload=st.binary(max_size=300),
    qos=st.sampled_from([0, 1, 2]),
    retain=st.booleans(),
    client_id=texts,
    payload_format=st.none() | st.sampled_from([0, 1]),
    message_expiry_s=st.none() | numbers,
    content_type=st.none() | texts,
    response_topic=st.none() | texts,
    correlation_data=st.none() | st.binary(max_size=20),
    user_properties=st.lists(st.tuples(texts, texts), max_size=4).map(tuple),
    subscription_ids=st.lists(numbers, max_size=3).map(tuple),
    received=st.none() | st.integers(0, (1 << 63) - 1),
)


GOLDEN = Envelope(
    b"21.5",
    qos=2,
    retain=True,
    client_id="pump-7",
    payload_format=1,
    message_expiry_s=3_600,
    content_type="text/plain",
    response_topic="re/7",
    correlation_data=b"\x00\xff",
    user_properties=(("unit", "°C"), ("unit", "K")),
    subscription_ids=(1, 300),
)

NOTHING = Properties()


PAYLOADS = [b"value", b"21.5", b"plain"]


FULL = Properties(
    qos=2,
    retain=True,
    client_id="pump-7",
    payload_format=1,
    message_expiry_s=3_600,
    content_type="text/plain",
    response_topic="re/7",
    correlation_data=b"\x00\xff",
    user_properties=(("unit", "°C"), ("unit", "K")),
    subscription_ids=(1, 300),
    received=2,
)
PROPERTIES = [NOTHING, FULL, Properties(1, False, received=77)]

PLAIN = Envelope(b"plain", qos=1, received=77)
ROWS: list[tuple[str, int, bytes]] = [
    ("a/1", 1, b"value"),
    ("a/2", 2, GOLDEN.encode()),
    ("a/3", 3, PLAIN.encode()),
]
