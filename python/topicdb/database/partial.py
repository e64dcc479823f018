"""Reads that leave out missing shards, and the warning in the log about them.

docs/concepts/partial.md says what a missing shard is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Protocol, TypeVar

from topicdb.engine import Engine, Filters

_log = logging.getLogger(__name__)
_lock = Lock()
_told: set[tuple[str, tuple[int, ...]]] = set()


class _LeavesOut(Protocol):
    """A cursor that knows which shards it leaves out."""

    def missing_shards(self) -> dict[int, str]: ...


Cursor = TypeVar("Cursor", bound=_LeavesOut)


def opened(core: Engine, open: Callable[[Engine], Cursor], *, partial: bool) -> Cursor:
    """Returns the cursor that ``open`` makes with the engine that it is given.

    With ``partial`` that engine leaves out missing shards, and the log tells of them.
    """
    if not partial:
        return open(core)
    cursor = open(core.partial())
    tell_of_missing(core.path, cursor.missing_shards())
    return cursor


def reading(core: Engine, filters: Filters, *, partial: bool) -> Engine:
    """Returns the engine for a read of what ``filters`` match, which begins at once.

    With ``partial`` it leaves out missing shards, and the log tells of them.
    """
    if not partial:
        return core
    tell_of_missing(core.path, core.missing_shards(filters))
    return core.partial()


def tell_of_missing(path: str, missing: Mapping[int, str]) -> None:
    """Warns in the log if shards are missing; once for each database and set of them. Thread-safe.

    Another warning follows when others are missing, so nobody reads on from part of a database that
    has become smaller without a word.
    """
    if not missing:
        return
    shards = tuple(sorted(missing))
    with _lock:
        if (path, shards) in _told:
            return
        _told.add((path, shards))
    _log.warning("%s: a partial read leaves out %s", path, named(missing))


def named(missing: Mapping[int, str]) -> str:
    """Returns the missing shards with the reasons, for people: ``shard 1 (…), shard 3 (…)``."""
    return ", ".join(f"shard {shard} ({missing[shard]})" for shard in sorted(missing))
