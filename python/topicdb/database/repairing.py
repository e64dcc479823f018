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
    """The result of a repair.

    - ``shards``: the shards that were built anew; ``messages``: how many messages they have.
    - ``quarantine``: the directory where the damaged shards are now; None if nothing was mended.
    - ``problems``: what was damaged; ``Problem.messages`` says how many messages are lost by it.
    - ``remaining``: damage that is still there.
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

    It first verifies the database (``topicdb.verify``); shards without damage stay as they are.
    Messages keep their serials, generations and structures. Indexes, filters and counters are made
    anew from the messages. Once a new shard is complete, the damaged one is moved to
    ``<path>/quarantine/<time>``, so a repair takes as much space again as the shard has. Remove
    that directory when you miss nothing.

    - ``progress(phase, done, total)`` is called now and then; the phase is "verify", "rebuild" or
      "check".
    - ``replace_missing``: makes empty shards in the place of those whose directories are gone.
      Otherwise they are among ``remaining``, since a directory may only be somewhere else.

    Raises LockedError if a handle has the database open for writing; CorruptionError if the file
    ``TOPICDB`` or ``retention`` is damaged (restore a snapshot); NotFoundError if there is no
    database.
    """
    return _core.repair(os.fspath(path), progress, replace_missing)
