"""Direct messages that are not logged: they wait in memory for clients that are connected."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from topicdb import _core
from topicdb.follow.positions import Place
from topicdb.replay.endpoint.received import ReplayBatch, ReplayMessage, message_of
from topicdb.replay.ids import MessageId
from topicdb.types import Message

MESSAGES_MAX = 1_000
BYTES_MAX = 8 << 20
_ROWS = 1 << 32  # so many numbers an id has room for; then they begin anew


class DirectMessage(NamedTuple):
    """A direct message that was not logged.

    Attributes:
        place: the message comes after everything that was committed before this place.
        stored: the message, with its value as it would be stored.
    """

    place: Place
    stored: Message


class DirectGiven:
    """Direct messages that were given to a client together. Implements Given. Immutable.

    Their ids tell them apart, and need no acknowledgement.
    """

    def __init__(self, messages: Sequence[Message], origin: int, first: int) -> None:
        """``first``: how many direct messages the endpoint has given before."""
        self._messages = messages
        self._origin = origin
        self._first = first

    def __len__(self) -> int:
        return len(self._messages)

    def ids(self) -> list[MessageId]:
        numbers = range(self._first, self._first + len(self._messages))
        return [MessageId.of_direct(self._origin, number % _ROWS) for number in numbers]

    def redelivered(self) -> list[bool]:
        return [False] * len(self._messages)

    def first(self) -> ReplayMessage:
        """Returns the first of the messages."""
        return message_of(self._messages[0], self.ids()[0], redelivered=False)

    def batch(self) -> ReplayBatch:
        """Returns the messages, with their contents."""
        return ReplayBatch(_core.batch_of_rows(self._messages), self)


class DirectMessages:
    """The direct messages that wait at one endpoint for its clients.

    They are nowhere but here. If more than ``MESSAGES_MAX`` wait, or more than ``BYTES_MAX`` bytes
    of them, the oldest ones go. All go when the last client leaves or a replay starts. The
    endpoint's ``Contents`` own this object, and the endpoint's lock is held for every call.
    """

    def __init__(self, origin: int) -> None:
        self._origin = origin
        self._waiting: deque[DirectMessage] = deque()
        self._nbytes = 0
        self._given = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, messages: Sequence[DirectMessage]) -> int:
        """Keeps messages, the newest last. Returns how many had to go for want of room."""
        before = len(self._waiting)
        for message in messages:
            self._waiting.append(message)
            self._nbytes += _size(message)
        while len(self._waiting) > MESSAGES_MAX or self._nbytes > BYTES_MAX:
            self._nbytes -= _size(self._waiting.popleft())
        return before + len(messages) - len(self._waiting)

    def first(self, accepts: Callable[[Message], bool] | None) -> Place | None:
        """Returns the place of the first message that a client accepts, or None without any."""
        for place, stored in self._waiting:
            if accepts is None or accepts(stored):
                return place
        return None

    def take(
        self, rows: int, until: Place, accepts: Callable[[Message], bool] | None
    ) -> DirectGiven:
        """Takes the first messages that a client accepts, at most ``rows``, up to ``until``.

        REQUIRES: ``first`` is not behind ``until``.
        """
        taken: list[Message] = []
        left: deque[DirectMessage] = deque()
        for message in self._waiting:
            is_due = len(taken) < rows and message.place <= until
            if is_due and (accepts is None or accepts(message.stored)):
                taken.append(message.stored)
                self._nbytes -= _size(message)
            else:
                left.append(message)
        self._waiting = left
        given = DirectGiven(taken, self._origin, self._given)
        self._given += len(taken)
        return given

    def clear(self) -> int:
        """Lets all messages go. Returns how many there were."""
        count = len(self._waiting)
        self._waiting.clear()
        self._nbytes = 0
        return count


def _size(message: DirectMessage) -> int:
    topic, _, value = message.stored
    return len(topic) + len(value)
