"""Repair of a damaged database."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from topicdb import _core
from topicdb.database.snapshots import PathLike
from topicdb.database.verifying import Problem

RepairProgress: TypeAlias = "Callable[[str, int, int], object] | None"
"""Is told the phase (verify, rebuild, check) and how much of it is done, of how much."""


@dataclass(frozen=True, slots=True)
class Repair:
    """The result of a repair; made by ``topicdb.repair``.

    Attributes:
        shards: the numbers of the shards that were built anew.
        messages: how many messages these shards have.
        quarantine: the directory where the damaged shards are now; None if nothing was mended.
        problems: what was damaged; ``Problem.messages`` says how many messages are lost by it.
        remaining: damage that is still there.
    """

    shards: list[int]
    messages: int
    quarantine: str | None
    problems: list[Problem]
    remaining: list[Problem]

    @property
    def ok(self) -> bool:
        """Whether no damage is left. Messages may be lost all the same."""
        return not self.remaining

    @property
    def lost(self) -> int:
        """How many messages are lost, as far as that is known."""
        return sum(problem.messages for problem in self.problems)


def repair(
    path: PathLike, *, progress: RepairProgress = None, replace_missing: bool = False
) -> Repair:
    """Builds the damaged shards of the database at ``path`` anew, from all that can be read.

    It first verifies the database (``topicdb.verify``). Shards without damage stay as they are.
    Messages keep their serials, generations and structures. Indexes, filters and counters are made
    anew from the messages. Once a new shard is complete, the damaged one is moved to
    ``<path>/quarantine/<time>``. So a repair takes as much space again as the shard has. Remove
    that directory when you miss nothing.

    Arguments:
        path: the directory of a database that nobody has open for writing.
        progress: called now and then with (phase, done, total); the phase is "verify", "rebuild" or
            "check".
        replace_missing: makes empty shards in the place of those whose directories are gone. By
            default they are among ``remaining``, since a directory may only be somewhere else.

    Returns:
        What was built anew, and what is lost.

    Raises:
        LockedError: a handle has the database open for writing.
        CorruptionError: the file ``TOPICDB`` or ``retention`` is damaged: restore a snapshot.
        NotFoundError: there is no database.

    Example:
        >>> topicdb.open("old.db").close()
        >>> topicdb.repair("old.db").ok
        True
    """
    return _core.repair(os.fspath(path), progress, replace_missing)
