"""The ids of stored messages, which are ordered as the messages were stored."""

from __future__ import annotations

import re
from typing import NamedTuple

from topicdb.follow.positions import Place
from topicdb.replay.errors import IdsNotComparableError

_TEXT = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{8})")


class MessageId(NamedTuple):
    """The id of a stored message.

    Ids of one database are ordered as their messages were stored, and so are their texts (``str``).
    Comparing ids of different databases with ``<``, ``<=``, ``>`` or ``>=`` raises
    IdsNotComparableError.

    Attributes:
        origin: a random number that stands for the database.
        serial: the serial of the commit that brought the message.
        row: the index of the message in the commit.

    Example:
        >>> from topicdb.replay import MessageId
        >>> first, second = MessageId(7, 1, 0), MessageId(7, 1, 1)
        >>> first < second, MessageId.parse(str(first)) == first
        (True, True)
    """

    origin: int
    serial: int
    row: int

    @staticmethod
    def parse(text: str) -> MessageId:
        """Returns the id that has this text.

        Arguments:
            text: ``str`` of an id.

        Returns:
            The id.

        Raises:
            ValueError: the text is no id.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(
                f"{text!r} is no message id; expected three hexadecimal numbers of 16, 16 and 8 "
                "digits, with '-' between"
            )
        return MessageId(*(int(part, 16) for part in match.groups()))

    @staticmethod
    def of_direct(origin: int, number: int) -> MessageId:
        """Returns an id for a direct message that is not stored.

        It is smaller than the id of any message that is stored.

        Arguments:
            origin: as in ``MessageId``.
            number: tells it from other direct messages.

        Returns:
            The id.
        """
        return MessageId(origin, 0, number)

    @property
    def is_stored(self) -> bool:
        """Whether this is the id of a stored message, and not of a direct one."""
        return self.serial > 0

    @property
    def place(self) -> Place:
        """The place of the message in the log of commits."""
        return Place(self.serial, self.row)

    def __str__(self) -> str:
        return f"{self.origin:016x}-{self.serial:016x}-{self.row:08x}"

    def _comparable(self, other: object) -> Place:
        if not isinstance(other, MessageId):
            raise TypeError(f"a message id has no order with {type(other).__name__}")
        if other.origin != self.origin:
            raise IdsNotComparableError(
                f"message ids {self} and {other} are of different databases: they have no order"
            )
        return other.place

    def __lt__(self, other: object) -> bool:
        return self.place < self._comparable(other)

    def __le__(self, other: object) -> bool:
        return self.place <= self._comparable(other)

    def __gt__(self, other: object) -> bool:
        return self.place > self._comparable(other)

    def __ge__(self, other: object) -> bool:
        return self.place >= self._comparable(other)
