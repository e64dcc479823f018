"""Names of stored messages, which have an order."""

from __future__ import annotations

import re
from typing import NamedTuple

from topicdb.follow.positions import Place
from topicdb.replay.errors import IdsNotComparableError

_TEXT = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{8})")


class MessageId(NamedTuple):
    """Of a message: its database (``origin``, a random number), its commit, its place in that.

    Ids of one database have the order in which messages were stored, and so have their texts
    (``str``). Comparing those of different databases is an IdsNotComparableError.
    """

    origin: int
    serial: int
    row: int

    @staticmethod
    def parse(text: str) -> MessageId:
        """The id with this text. ValueError: it is none."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(
                f"{text!r} is no message id; expected three hexadecimal numbers of 16, 16 and 8 "
                "digits, with '-' between"
            )
        return MessageId(*(int(part, 16) for part in match.groups()))

    @property
    def place(self) -> Place:
        """Where it is in the log of commits."""
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
