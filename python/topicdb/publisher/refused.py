"""Messages that the broker refused: a second queue beside that of the publisher keeps them."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from topicdb.forward.sink import PermanentError
from topicdb.publisher.messages import Outgoing
from topicdb.queue.queue import Queue
from topicdb.types import Properties

_LENGTH = struct.Struct("!H")
_REASON_BYTES_MAX = 2_000


class RefusedMessage(NamedTuple):
    """A message that the broker refused.

    Attributes:
        topic: Its topic.
        payload: Its payload, as bytes.
        qos: Its QoS.
        retain: Whether it was to be retained.
        properties: Its MQTT 5 properties.
        published: When ``publish`` took it, in µs since 1970.
        reason: What the broker, or the check before sending, said.
    """

    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: Properties
    published: int
    reason: str


class Refused:
    """The refused messages of one publisher, which owns this object. Thread-safe.

    The queue is opened when it is needed, so that no directory is made for nothing.
    """

    def __init__(self, path: Path | None, open_queue: Callable[[Path | None], Queue]) -> None:
        """Opens the queue if there is one at ``path``."""
        self._path = path
        self._open = open_queue
        self._lock = threading.Lock()
        self._queue: Queue | None = None
        if path is not None and path.exists():
            self._queue = open_queue(path)

    @property
    def queue(self) -> Queue:
        """The queue, whose items are RefusedMessages."""
        with self._lock:
            if self._queue is None:
                self._queue = self._open(self._path)
            return self._queue

    @property
    def count(self) -> int:
        """How many messages it has; 0 once it is closed."""
        return 0 if self._queue is None or self._queue.closed else len(self._queue)

    def keep(self, item: bytes, error: PermanentError) -> None:
        """Adds a message, durably as the queue is. Raises StorageError."""
        self.queue.append([(item, str(error))])

    def give_back(self, append: Callable[[bytes], object]) -> int:
        """Appends the items of the messages that there are now, and forgets them.

        Returns how many. Raises what ``append`` raises; the rest of the messages is still there.
        """
        queue, count = self.queue, 0
        end = queue.stats().next_sequence  # those that are refused again meanwhile stay
        while (popped := queue.pop(1, raw=True)).ref is not None:
            if popped.ref.sequences[0] >= end:
                queue.nack(popped.ref)
                break
            try:
                append(item_of(popped.items[0]))
            except BaseException:
                queue.nack(popped.ref)
                raise
            queue.ack(popped.ref)
            count += 1
        return count

    def close(self) -> None:
        with self._lock:
            if self._queue is not None:
                self._queue.close()


def encode(refused: tuple[bytes, str]) -> bytes:
    """Returns the bytes to store for an item of the publisher's queue and the reason."""
    item, reason = refused
    text = reason.encode(errors="replace")[:_REASON_BYTES_MAX]
    return _LENGTH.pack(len(text)) + text + item


def item_of(stored: bytes) -> bytes:
    """Returns the item of the publisher's queue in what ``encode`` made."""
    (length,) = _LENGTH.unpack_from(stored)
    return stored[_LENGTH.size + length :]


def decode(stored: bytes) -> RefusedMessage:
    """Returns the message in what ``encode`` made. Raises ValueError."""
    (length,) = _LENGTH.unpack_from(stored)
    reason = stored[_LENGTH.size : _LENGTH.size + length].decode(errors="replace")
    message = Outgoing.decode(item_of(stored))
    envelope = message.envelope
    return RefusedMessage(
        message.topic,
        envelope.payload,
        envelope.qos,
        envelope.retain,
        message.properties,
        message.published,
        reason,
    )
