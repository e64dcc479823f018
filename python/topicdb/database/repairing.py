"""Making a damaged database whole again."""

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
    """What was mended, and what is lost.

    - ``shards``: those that were made anew; ``messages``: how many they have.
    - ``quarantine``: the directory where the damaged ones are now; None if nothing was mended.
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
        """Nothing is damaged (any more); messages may be lost."""
        return not self.remaining

    @property
    def lost(self) -> int:
        """Messages that are lost, as far as that is known."""
        return sum(problem.messages for problem in self.problems)


def repair(path: PathLike, *, progress: RepairProgress = None) -> Repair:
    """Makes shards that are damaged anew, from all that can be read of them.

    The database at ``path`` is verified first (``topicdb.verify``); shards without damage stay as
    they are. Messages keep their serials, generations and structures; indexes, filters and counters
    are made of the messages. A damaged shard is moved to ``<path>/quarantine/<time>`` once the new
    one is complete, so that takes as much space as it has; remove it when you miss nothing.

    LockedError: a handle has the database open for writing. CorruptionError: the file ``TOPICDB``
    or ``retention`` is damaged: restore a snapshot. NotFoundError: there is no database.
    """
    return _core.repair(os.fspath(path), progress)
