"""Checking a database on disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from topicdb import _core
from topicdb.database.snapshots import PathLike

Progress: TypeAlias = "Callable[[int, int], object] | None"
"""Is told how much is done, of how much; what it raises ends the call."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that cannot be right.

    - ``what``: a sentence that names the file, block or record.
    - ``shard``, ``retention_class``, ``generation``: where, if it is in one.
    - ``messages``: how many cannot be read because of it, as far as that is known; their first and
      last timestamp, and the structures of which they may be.
    """

    what: str
    shard: int | None
    retention_class: str | None
    generation: int | None
    structures: list[str]
    messages: int
    first_timestamp: int | None
    last_timestamp: int | None

    def __str__(self) -> str:
        place = "" if self.shard is None else f"shard {self.shard}"
        if self.retention_class is not None:
            place += f", class '{self.retention_class}', generation {self.generation}"
        lost = f" ({self.messages} messages cannot be read)" if self.messages else ""
        return f"{place}: {self.what}{lost}" if place else f"{self.what}{lost}"


@dataclass(frozen=True, slots=True)
class Verification:
    """What a check has found, and how much was checked."""

    problems: list[Problem]
    shards: int
    slabs: int
    blocks: int
    pages: int
    messages: int

    @property
    def ok(self) -> bool:
        """Nothing was found."""
        return not self.problems


def verify(path: PathLike, *, deep: bool = True, progress: Progress = None) -> Verification:
    """Checks what is on disk of the database at ``path``, all processors at work.

    ``deep``: every byte has its checksum compared, and every message is compared with its block's
    entry, directory, filters and index, and with the structures; otherwise only those are read.
    A database that is written meanwhile, here or in another process, is checked as it was at some
    moment. ``progress(done, total)`` is called now and then, with messages.

    Damage is not raised but reported. NotFoundError: there is no database.
    """
    return _core.verify(os.fspath(path), deep, progress)
