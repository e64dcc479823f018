"""What a publisher says about itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from topicdb.forward.forwarder import Forwarder
from topicdb.forward.status import State
from topicdb.publisher.sink import PublisherSink
from topicdb.queue.consumer import DEFAULT_CURSOR
from topicdb.queue.queue import Queue
from topicdb.queue.records import CursorStats


class Pending(NamedTuple):
    """What the broker has not acknowledged yet.

    Attributes:
        items: How many messages.
        bytes: How many bytes they count for ``max_bytes``, with the headers of the queue.
    """

    items: int
    bytes: int


@dataclass(frozen=True, slots=True)
class PublisherStats:
    """How a publisher stands. Counts begin when it is opened.

    Attributes:
        state: ``"idle"`` (nothing is pending), ``"forwarding"``, ``"retrying"`` (the last attempt
            failed), ``"stopped"`` (closed) or ``"failed"``.
        since: When this state began.
        connected: Whether a broker has accepted the connection that is there now.
        error: The last error, which may be over; None if there was none.
        pending_items: How many messages the broker has not acknowledged.
        pending_bytes: How many bytes these count for ``max_bytes``.
        acknowledged: How many messages the broker has acknowledged; with QoS 0, how many were
            written to the connection.
        refused: How many messages the broker refused; ``Publisher.refused`` has them.
        refused_waiting: How many refused messages are kept now.
        expired: How many messages expired before they could be sent.
        dropped_items: How many messages were dropped for want of room, or because files are
            damaged.
        dropped_bytes: How many bytes these counted.
        connections: How many connections brokers have accepted.
        failures: How many attempts to connect or to send failed.
    """

    state: State
    since: datetime
    connected: bool
    error: BaseException | None
    pending_items: int
    pending_bytes: int
    acknowledged: int
    refused: int
    refused_waiting: int
    expired: int
    dropped_items: int
    dropped_bytes: int
    connections: int
    failures: int


def cursor_of(queue: Queue) -> CursorStats:
    """Returns how far the publisher's cursor is. Raises ClosedError and ForkedError."""
    return queue.stats().cursors[DEFAULT_CURSOR]


def pending_of(queue: Queue) -> Pending:
    """Returns what is not acknowledged. Raises ClosedError and ForkedError."""
    cursor = cursor_of(queue)
    return Pending(cursor.waiting + cursor.in_flight, cursor.bytes)


def stats_of(
    queue: Queue | None,
    forwarder: Forwarder,
    sink: PublisherSink,
    *,
    refused: int,
    refused_waiting: int,
) -> PublisherStats:
    """Returns how a publisher stands that consists of these. ``queue``: None once it is closed."""
    health, metrics, counts = forwarder.health, forwarder.metrics(), sink.counts
    cursor = None if queue is None else cursor_of(queue)
    pending = Pending(0, 0) if queue is None else pending_of(queue)
    return PublisherStats(
        state=health.state,
        since=health.since,
        connected=sink.connected,
        error=health.error,
        pending_items=pending.items,
        pending_bytes=pending.bytes,
        acknowledged=counts.acknowledged,
        refused=refused,
        refused_waiting=refused_waiting,
        expired=counts.expired,
        dropped_items=0 if cursor is None else sum(cursor.dropped_items.values()),
        dropped_bytes=0 if cursor is None else sum(cursor.dropped_bytes.values()),
        connections=counts.connections,
        failures=metrics.failures,
    )
