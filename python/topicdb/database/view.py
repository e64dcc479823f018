"""How a read sees the database: which shards it may leave out, and what it waits for.

docs/concepts/partial.md says what a missing shard is, and docs/concepts/clusters.md why a read may
have to wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, NamedTuple, Protocol, TypeVar

from topicdb.arguments.at_least import Needs, needs_of
from topicdb.engine import Engine, Filters
from topicdb.types import AtLeastLike

_log = logging.getLogger(__name__)
_lock = Lock()
_told: set[tuple[str, tuple[int, ...]]] = set()


class View(NamedTuple):
    """How a read sees the database.

    Attributes:
        partial: whether it leaves out missing shards.
        at_least: what it must see, as the read was given it.
        needs: the same, checked; None: nothing in particular.
    """

    partial: bool = False
    at_least: AtLeastLike | None = None
    needs: Needs | None = None

    def of(self, core: Engine) -> Engine:
        """Returns the engine for a read that begins at once."""
        seen = core.partial() if self.partial else core
        return seen if self.needs is None else seen.seeing(*self.needs)

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of the read, for its ``repr``."""
        return {"partial": self.partial, "at_least": self.at_least}


def view_of(core: Engine, *, partial: bool, at_least: AtLeastLike | None) -> View:
    """Returns the view that the arguments of a read ask for.

    Raises TypeError or ValueError, which name what is wrong with ``at_least``.
    """
    needs = None if at_least is None else needs_of(at_least, core.schema)
    return View(partial, at_least, needs)


class _LeavesOut(Protocol):
    """A cursor that knows which shards it leaves out."""

    def missing_shards(self) -> dict[int, str]: ...


Cursor = TypeVar("Cursor", bound=_LeavesOut)


def opened(core: Engine, open: Callable[[Engine], Cursor], view: View) -> Cursor:
    """Returns the cursor that ``open`` makes with the engine that it is given.

    If the view is partial, the log tells of missing shards.
    """
    cursor = open(view.of(core))
    if view.partial:
        tell_of_missing(core.path, cursor.missing_shards())
    return cursor


def reading(core: Engine, filters: Filters, view: View) -> Engine:
    """Returns the engine for a read of what ``filters`` match, which begins at once.

    If the view is partial, the log tells of missing shards.
    """
    if view.partial:
        tell_of_missing(core.path, core.missing_shards(filters))
    return view.of(core)


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
