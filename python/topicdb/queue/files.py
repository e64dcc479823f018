"""The files of a queue: inspecting and repairing them without opening the queue."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from topicdb import _core
from topicdb.queue.records import Damage


class Segment(NamedTuple):
    """One file of items.

    - ``number``: of the segment. ``sequences``: the numbers of its items.
    - ``bytes``: up to the end of its last item.
    - ``sealed``: whether it is complete.
    """

    path: str
    number: int
    sequences: range
    bytes: int
    sealed: bool


class StoredCursor(NamedTuple):
    """A cursor as it is stored.

    - ``low_water``: every item with a smaller number is acknowledged.
    - ``next_sequence``: the number of the first item that was never popped.
    - ``unacknowledged``: how many items were popped and not acknowledged.
    """

    name: str
    low_water: int
    next_sequence: int
    unacknowledged: int


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """The content of the directory of a queue.

    ``format`` is ``"topicdb"`` or ``"replayq"``. ``closed``: the queue was closed, not killed.
    """

    format: str
    closed: bool
    segments: list[Segment]
    cursors: list[StoredCursor]
    damage: list[Damage]

    @property
    def items(self) -> int:
        """How many items are stored, with acknowledged ones in segments that are not freed yet."""
        return sum(len(segment.sequences) for segment in self.segments)


def inspect(path: str | os.PathLike[str], *, deep: bool = False) -> QueueInfo:
    """Returns what is in a queue's directory. ``deep`` reads and checks every item.

    It changes nothing and takes no lock. Beside a process that has the queue open, the end of the
    last segment may look torn. Raises CorruptionError if the directory is no queue; NotFoundError;
    StorageError.
    """
    inspector = _core.QueueInspector(os.fspath(path))
    while deep and inspector.next():
        pass
    return inspector.info()


def stored_items(path: str | os.PathLike[str]) -> Iterator[tuple[int, bytes]]:
    """Gives (number, item) of everything that can be read, acknowledged or not.

    Takes no lock, and raises what ``inspect`` raises.
    """
    inspector = _core.QueueInspector(os.fspath(path))
    while items := inspector.next():
        yield from items


def repair(path: str | os.PathLike[str]) -> list[Damage]:
    """Repairs a queue whose file ``QUEUE`` is damaged or missing, from its segments.

    It treats other damage as opening the queue does. Returns the damage that it found.
    """
    return _core.repair_queue(os.fspath(path))
