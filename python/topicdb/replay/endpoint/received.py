"""What a client receives of an endpoint: messages, one by one or in batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol, TypeAlias

from topicdb import _core
from topicdb._core import Batch
from topicdb.mqtt.envelope import Envelope
from topicdb.replay.endpoint.spool import Lent
from topicdb.replay.ids import MessageId
from topicdb.types import Message


class ReplayMessage(NamedTuple):
    """A message of an endpoint, with its id; made by ``Flow.receive``.

    Attributes:
        topic: the topic.
        timestamp: µs since 1970-01-01 UTC.
        value: the payload.
        id: the id of the message, by which it can be acknowledged, or a replay can be started.
        redelivered: whether a client had the message before and did not acknowledge it. A replay
            does not mark the messages that it brings again.
        envelope: the MQTT properties, if the message was stored with them, or None.
    """

    topic: str
    timestamp: int
    value: bytes
    id: MessageId
    redelivered: bool
    envelope: Envelope | None = None

    @property
    def is_direct(self) -> bool:
        """Whether this is a direct message that was not logged.

        It comes at most once: to acknowledge, reject or release it does nothing.
        """
        return not self.id.is_stored


def message_of(stored: Message, id: MessageId, *, redelivered: bool) -> ReplayMessage:
    """Returns a message that is given as it is stored."""
    topic, timestamp, value = stored
    envelope = Envelope.decode(value)
    payload = _core.payload_of(value) if envelope is None else envelope.payload
    return ReplayMessage(topic, timestamp, payload, id, redelivered, envelope)


class Given(Protocol):
    """Messages that a client was given together, without their contents."""

    def __len__(self) -> int: ...
    def ids(self) -> list[MessageId]: ...
    def redelivered(self) -> list[bool]:
        """Returns for each message whether a client had it before and did not acknowledge it."""
        ...


class LentMessages:
    """Messages of one chunk that were given to a client. Implements Given. Immutable."""

    def __init__(self, lent: Lent, origin: int) -> None:
        self.lent = lent
        self._origin = origin

    def __len__(self) -> int:
        return len(self.lent.indexes)

    def ids(self) -> list[MessageId]:
        held = self.lent.held
        return [MessageId(self._origin, *held.places[index]) for index in self.lent.indexes]

    def redelivered(self) -> list[bool]:
        return [self.lent.held.was_given(index) for index in self.lent.indexes]

    def first(self) -> ReplayMessage:
        """Returns the first of the messages."""
        held, index = self.lent.held, self.lent.indexes[0]
        id = MessageId(self._origin, *held.places[index])
        stored = self.lent.stored.message(index)
        return message_of(stored, id, redelivered=held.was_given(index))

    def batch(self) -> ReplayBatch:
        """Returns the messages, with their contents."""
        if self.lent.is_whole_batch:
            return ReplayBatch(self.lent.stored.batch, self)
        kept = self.lent.stored
        rows = [kept.message(index) for index in self.lent.indexes]
        return ReplayBatch(_core.batch_of_rows(rows), self)


class ListedMessages:
    """Messages whose ids are known one by one. Implements Given. Immutable."""

    def __init__(self, ids: list[MessageId], again: list[bool]) -> None:
        self._ids = ids
        self._again = again

    def __len__(self) -> int:
        return len(self._ids)

    def ids(self) -> list[MessageId]:
        return self._ids

    def redelivered(self) -> list[bool]:
        return self._again


class ReplayBatch:
    """Messages that a client has received at once, as columns; made by ``Flow.receive_batch``.

    ``batch`` has their topics, timestamps and payloads. The client acknowledges the batch as a
    whole, or single messages by their ids. Iterating gives each as a ReplayMessage.
    """

    def __init__(self, stored: Batch, given: Given) -> None:
        """``stored``: the messages as they are stored; ``given``: what else is known of them."""
        self.stored = stored
        self.given = given
        self.batch: Batch = stored.read_as("payload")

    def __len__(self) -> int:
        return len(self.given)

    @property
    def ids(self) -> list[MessageId]:
        """The id of each message."""
        return self.given.ids()

    @property
    def redelivered(self) -> list[bool]:
        """Whether a client had the message before and did not acknowledge it, for each message."""
        return self.given.redelivered()

    def __iter__(self) -> Iterator[ReplayMessage]:
        for message, id, again in zip(self.stored, self.ids, self.redelivered, strict=True):
            yield message_of(message, id, redelivered=again)


Received: TypeAlias = "ReplayMessage | MessageId | ReplayBatch"
