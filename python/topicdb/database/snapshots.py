"""Snapshots: copies of a database, made while it is written, and databases made of them."""

from __future__ import annotations

import os
from typing import TypeAlias

from topicdb import _core
from topicdb.creating import checked_path, directories_for
from topicdb.engine import Engine
from topicdb.results import Snapshot as Snapshot

PathLike: TypeAlias = "str | os.PathLike[str]"


def snapshot(engine: Engine, path: PathLike, *, base: PathLike | None, copy: bool) -> Snapshot:
    """Copies the database, as ``Database.snapshot`` says."""
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
    """Makes a database at ``path`` from a snapshot, which stays as it is.

    It also copies any other database that nobody has open for writing.

    Arguments:
        snapshot: the directory of the snapshot.
        path: where the database will be.
        replace: replaces a database that is at ``path``, at one moment. Readers that have the old
            one open keep what they see.
        base: an earlier copy, as in ``Database.snapshot``.
        copy: copies every byte, as in ``Database.snapshot``.

    Returns:
        A ``Snapshot`` that describes the new database; its ``serials`` are empty.

    Raises:
        NotFoundError: there is no database at ``snapshot``.
        ExistsError: there is something at ``path``.
        LockedError: one of the two is open for writing; the text names the process.

    Example:
        >>> copied = db.snapshot("backup/monday")
        >>> topicdb.restore("backup/monday", "restored.db").files == copied.files
        True
    """
    source, target = checked_path(snapshot), checked_path(path)
    with directories_for(target):
        return _core.restore(source, target, replace, _path(base), copy)


def _path(path: PathLike | None) -> str | None:
    return None if path is None else os.fspath(path)
