"""Message expiry of MQTT 5: how long a stored message has left to live."""

from __future__ import annotations

from typing import TYPE_CHECKING

from topicdb import _core
from topicdb._core import Batch

if TYPE_CHECKING:
    from topicdb.mqtt.envelope import Envelope
    from topicdb.types import Properties


_SECOND_US = 1_000_000


def remaining_s(message_expiry_s: int, received_us: int, now_us: int) -> int:
    """Returns how many seconds are left, rounded up; 0 if the message has expired.

    ``message_expiry_s``: how many it had left when it was received. It never gets more than that,
    even if the clock was set back.
    """
    left_us = received_us + message_expiry_s * _SECOND_US - now_us
    return min(max(0, -(-left_us // _SECOND_US)), message_expiry_s)


def expires_at_us(properties: Envelope | Properties, timestamp_us: int) -> int | None:
    """Returns when a message expires that a bridge has stored with this timestamp; None: never."""
    if properties.message_expiry_s is None:
        return None
    received_us = received_at_us(properties, timestamp_us)
    return received_us + properties.message_expiry_s * _SECOND_US


def received_at_us(properties: Envelope | Properties, timestamp_us: int) -> int:
    """Returns when a message was received: its timestamp, unless that is the device's own time."""
    return timestamp_us if properties.received is None else properties.received


def left_s(properties: Envelope | Properties, timestamp_us: int, now_us: int) -> int | None:
    """Returns how many seconds a message has left; 0 if it has expired, None if it never does."""
    if properties.message_expiry_s is None:
        return None
    received_us = received_at_us(properties, timestamp_us)
    return remaining_s(properties.message_expiry_s, received_us, now_us)


def without_expired(stored: Batch, now_us: int) -> tuple[Batch, int]:
    """Returns a batch without its expired messages, and how many these are.

    ``stored`` has its messages as they are stored. Most batches have no expired messages, and are
    returned unchanged.
    """
    if stored.read_as("payload") is stored:  # no message in it has properties
        return stored, 0
    kept = [row for row in stored if not _has_expired(row.value, row.timestamp, now_us)]
    if len(kept) == len(stored):
        return stored, 0
    return _core.batch_of_rows(kept), len(stored) - len(kept)


def _has_expired(stored: bytes, timestamp_us: int, now_us: int) -> bool:
    from topicdb.mqtt.envelope import Envelope

    envelope = Envelope.decode(stored)
    return envelope is not None and left_s(envelope, timestamp_us, now_us) == 0
