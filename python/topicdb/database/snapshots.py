"""Copies of a database: snapshots while it is written, and back."""

from __future__ import annotations

import os
from typing import TypeAlias

from topicdb import _core
from topicdb.creating import checked_path, directories_for
from topicdb.engine import Engine
from topicdb.results import Snapshot as Snapshot

PathLike: TypeAlias = "str | os.PathLike[str]"


def snapshot(engine: Engine, path: PathLike, *, base: PathLike | None, copy: bool) -> Snapshot:
    """As ``Database.snapshot``."""
    target = checked_path(path)
    with directories_for(target):
        return engine.snapshot(target, _path(base), copy)


def restore(
    snapshot: PathLike,
    path: PathLike,
    *,
    replace: bool = False,
    base: PathLike | None = None,
    copy: bool = False,
) -> Snapshot:
    """Makes a database at ``path`` of a snapshot, which stays as it is.

    Also copies any other database that nobody has open for writing.

    - ``replace``: a database that is at ``path`` gives way to it, at one moment. Readers that have
      it open keep what they see.
    - ``base``, ``copy``: as in ``Database.snapshot``.

    NotFoundError: there is no database at ``snapshot``. ExistsError: there is something at
    ``path``. LockedError: one of them is open for writing; it names the process.
    """
    source, target = checked_path(snapshot), checked_path(path)
    with directories_for(target):
        return _core.restore(source, target, replace, _path(base), copy)


def _path(path: PathLike | None) -> str | None:
    return None if path is None else os.fspath(path)
