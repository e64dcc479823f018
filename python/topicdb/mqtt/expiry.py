"""Message expiry of MQTT 5: how long a stored message has still to live."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topicdb.replay.envelope import Envelope

_SECOND_US = 1_000_000


def remaining_s(message_expiry_s: int, received_us: int, now_us: int) -> int:
    """Seconds that are left, begun ones included; 0: it has expired.

    ``message_expiry_s``: what the message had left when it was received. A clock that was set back
    gives it no more than that.
    """
    left_us = received_us + message_expiry_s * _SECOND_US - now_us
    return min(max(0, -(-left_us // _SECOND_US)), message_expiry_s)


def expires_at_us(envelope: Envelope, timestamp_us: int) -> int | None:
    """When a message expires that a bridge has stored with this timestamp; None: never."""
    if envelope.message_expiry_s is None:
        return None
    return received_at_us(envelope, timestamp_us) + envelope.message_expiry_s * _SECOND_US


def received_at_us(envelope: Envelope, timestamp_us: int) -> int:
    """When a message was received: its timestamp, unless that is the device's own time."""
    return timestamp_us if envelope.received is None else envelope.received
