"""The files of a queue, without opening it: what is there, what is damaged; and repair."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from topicdb import _core
from topicdb.queue.queue import Damage


class Segment(NamedTuple):
    """One file of items. ``bytes`` is up to the end of its last item."""

    path: str
    number: int
    sequences: range
    bytes: int
    sealed: bool


class StoredCursor(NamedTuple):
    """What is stored of a cursor: below ``low_water`` everything is acknowledged, and from
    ``next_sequence`` on nothing was popped. ``unacknowledged``: items popped, not acknowledged.
    """

    name: str
    low_water: int
    next_sequence: int
    unacknowledged: int


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """``format`` is ``"topicdb"`` or ``"replayq"``; ``closed``: it was closed, not killed."""

    format: str
    closed: bool
    segments: list[Segment]
    cursors: list[StoredCursor]
    damage: list[Damage]

    @property
    def items(self) -> int:
        """Stored items, acknowledged ones in segments that are not yet freed included."""
        return sum(len(segment.sequences) for segment in self.segments)


def inspect(path: str | os.PathLike[str], *, deep: bool = False) -> QueueInfo:
    """What is in a queue's directory. ``deep`` reads and checks every item.

    Changes nothing and takes no lock. Beside a process that has it open, the end of the last
    segment may look torn. Errors: CorruptionError if it is no queue; StorageError.
    """
    inspector = _core.QueueInspector(os.fspath(path))
    while deep and inspector.next():
        pass
    return inspector.info()


def stored_items(path: str | os.PathLike[str]) -> Iterator[tuple[int, bytes]]:
    """(number, item) of everything that can be read, acknowledged or not; as ``inspect``."""
    inspector = _core.QueueInspector(os.fspath(path))
    while items := inspector.next():
        yield from items


def repair(path: str | os.PathLike[str]) -> list[Damage]:
    """Makes a queue usable whose file ``QUEUE`` is damaged or missing, from its segments, and has
    other damage dealt with as opening it does. What was found.
    """
    return _core.repair_queue(os.fspath(path))
