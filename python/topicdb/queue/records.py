"""What calls of a queue return and tell: receipts, drops, damage, statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class QueueReceipt:
    """The result of an append to a queue; made by ``Queue.append``.

    Attributes:
        sequences: the numbers of its items, in order.
        durability: the level that was reached: ``"none"``, ``"os"`` or ``"disk"``.
    """

    sequences: range
    durability: str

    @property
    def count(self) -> int:
        """The number of items."""
        return len(self.sequences)


class Drop(NamedTuple):
    """Items that a cursor will not deliver; ``on_drop`` of a queue gets it.

    Attributes:
        reason: ``"overflow"`` (no room), ``"memory"`` (the system is short of it), ``"purge"``, or
            ``"damage"`` (they cannot be read).
        cursor: the name of the cursor.
        sequences: the numbers of the items.
        bytes: what they counted for the limits: their stored bytes, with headers, or what the
            ``sizer`` said; 0 if not known.

    Example:
        >>> drops = []
        >>> with topicdb.Queue.open("out.q", on_drop=drops.append) as queue:
        ...     receipt = queue.append([b"first", b"second"])
        ...     queue.purge()
        >>> drops[0].reason, drops[0].sequences
        ('purge', range(1, 3))
    """

    reason: str
    cursor: str
    sequences: range
    bytes: int


class Damage(NamedTuple):
    """Damage on disk, and the items that were lost by it; an element of ``QueueStats.damage``.

    Attributes:
        path: the damaged file.
        what: a sentence about the damage.
        sequences: the numbers of the items.
    """

    path: str
    what: str
    sequences: range


@dataclass(frozen=True, slots=True)
class CursorStats:
    """How far a cursor is; made by ``Cursor.stats``.

    Attributes:
        name: the name of the cursor.
        waiting: how many items can be popped.
        in_flight: how many were popped and not acknowledged.
        bytes: what both count for the limits: their stored bytes, with headers, or what the
            ``sizer`` said when they were appended.
        next_sequence: the number of the first item that was never popped.
        low_water: every item with a smaller number is acknowledged.
        dropped_items: how many items were dropped since the queue was opened, by ``Drop.reason``.
        dropped_bytes: how many bytes were dropped since then, by ``Drop.reason``.
    """

    name: str
    waiting: int
    in_flight: int
    bytes: int
    next_sequence: int
    low_water: int
    dropped_items: dict[str, int]
    dropped_bytes: dict[str, int]


@dataclass(frozen=True, slots=True)
class QueueStats:
    """How a queue stands; made by ``Queue.stats``.

    Attributes:
        next_sequence: the number that the next item gets.
        segments: how many segment files there are.
        disk_bytes: the bytes of these files.
        bytes: what counts against ``max_total_bytes``: the bytes of the slowest cursor.
        on_disk: whether the next append goes to a file.
        cursors: how each cursor stands, by name.
        damage: what was found since the queue was opened.
    """

    next_sequence: int
    segments: int
    disk_bytes: int
    bytes: int
    on_disk: bool
    cursors: dict[str, CursorStats]
    damage: list[Damage]
