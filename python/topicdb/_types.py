"""Small public value types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from topicdb._core import Batch, Iterator


class Message(NamedTuple):
    """One stored message (a topic-time-value triple).

    ``timestamp`` is in microseconds since 1970-01-01 UTC, ``value`` is opaque bytes.
    """

    topic: str
    timestamp: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Receipt:
    """What an append reached.

    ``serials`` maps each shard that was written to the serial of its commit, ``count`` is the
    number of messages, ``durability`` the level that was reached: ``"none"``, ``"os"`` or
    ``"disk"``.
    """

    serials: dict[int, int]
    count: int
    durability: str


@dataclass(frozen=True, slots=True)
class Page:
    """One answer of ``Database.next``: where to go on, what was read, and whether that was all.

    ``end_of_stream`` is true only when a read-only generation has been read to its end. An empty
    batch without it means "nothing yet".
    """

    iterator: Iterator
    batch: Batch
    end_of_stream: bool
