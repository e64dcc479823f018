"""The packets of MQTT sessions, and the messages that they are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from topicdb._core import Batch
from topicdb.arguments.times import now_us
from topicdb.engine import SubscriptionCursor
from topicdb.follow.positions import Place
from topicdb.follow.session_state import InFlight, Qos
from topicdb.mqtt.expiry import left_s
from topicdb.types import Properties, PropertyMessage

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Packet(NamedTuple):
    """A PUBLISH to be sent to the client; made by ``Session.poll``.

    Attributes:
        id: its packet id; 0 with QoS 0.
        topic: the topic of the message.
        timestamp: µs since 1970-01-01 UTC.
        value: the payload.
        qos: the QoS of the client's subscription.
        dup: whether it was sent before.
        properties: those that a bridge has stored with the message.
        message_expiry_s: how many seconds it has left to live (MQTT 5); None if it never expires.
    """

    id: int
    topic: str
    timestamp: int
    value: bytes
    qos: Qos
    dup: bool
    properties: Properties = Properties()
    message_expiry_s: int | None = None


def packet_of(
    id: int, message: PropertyMessage, qos: Qos, left: int | None, *, dup: bool
) -> Packet:
    """Returns the packet of a message; ``left`` is what it has left to live, in seconds."""
    topic, timestamp, value, properties = message
    return Packet(id, topic, timestamp, value, qos, dup, properties, left)


def placed(batch: Batch, rows: npt.NDArray[np.uint32]) -> Iterator[tuple[PropertyMessage, Place]]:
    """Gives each message of a batch and its place; ``rows`` are their numbers in the commits."""
    serials = batch.serials
    assert serials is not None
    found = batch.read_as("properties")
    for message, serial, row in zip(found, serials.tolist(), rows.tolist(), strict=True):
        assert isinstance(message, PropertyMessage)
        yield message, Place(serial, row)


def packets_again(
    reading: SubscriptionCursor, in_flight: Mapping[int, InFlight]
) -> tuple[list[Packet], list[InFlight]]:
    """Reads what is to be sent again: what is in flight and had no PUBREC, in its order.

    Returns:
        The packets; and those in flight whose message was deleted, or dropped with its generation.
    """
    found: dict[int, Packet] = {}
    missing: list[InFlight] = []
    by_shard: dict[int, dict[Place, list[InFlight]]] = {}
    for one in in_flight.values():
        if not one.received:
            by_shard.setdefault(one.shard, {}).setdefault(one.place, []).append(one)
    for shard, places in by_shard.items():
        batch, rows = reading.find(shard, list(places))
        for message, place in placed(batch, rows):
            left = left_s(message.properties, message.timestamp, now_us())
            for one in places.pop(place):
                found[one.id] = packet_of(one.id, message, one.qos, left, dup=True)
        for gone in places.values():
            missing += gone
    return [found[id] for id in in_flight if id in found], missing
