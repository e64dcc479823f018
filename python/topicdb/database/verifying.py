"""Verification of a database on disk."""

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
    """Something on disk that cannot be right; an element of ``Verification.problems``.

    Attributes:
        what: a sentence that names the file, block or record.
        shard: the number of the shard where it is, or None.
        retention_class: the topic filter of the class where it is, or None.
        generation: the generation where it is, or None.
        structures: the structures that messages which cannot be read may have.
        messages: how many messages cannot be read because of it, as far as that is known.
        first_timestamp: the first timestamp of those messages, in µs since 1970; None if not known.
        last_timestamp: the last timestamp of those messages; None if not known.
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
    """The result of a verification; made by ``topicdb.verify``.

    Attributes:
        problems: the damage.
        shards: how many shards were checked.
        slabs: how many slabs were checked.
        blocks: how many blocks were checked.
        pages: how many pages were checked.
        messages: how many messages were checked.
    """

    problems: list[Problem]
    shards: int
    slabs: int
    blocks: int
    pages: int
    messages: int

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.problems


def verify(path: PathLike, *, deep: bool = True, progress: Progress = None) -> Verification:
    """Checks what is on disk of the database at ``path``, on all processors.

    If somebody writes the database meanwhile, it is checked as it was at some moment.

    Arguments:
        path: the directory of a database.
        deep: compares every byte with its checksum, and every message with its block's entry,
            directory, filters and index, and with the structures. Otherwise it reads only those.
        progress: called now and then with (messages done, messages in all). What it raises ends the
            call.

    Returns:
        What was found. Damage is reported there, not raised.

    Raises:
        NotFoundError: there is no database.

    Example:
        >>> topicdb.verify("fleet.db").ok
        True
    """
    return _core.verify(os.fspath(path), deep, progress)
