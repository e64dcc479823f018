"""Copies of a database: snapshots while it is written, and back."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TypeAlias

from topicdb import _core
from topicdb.creating import checked_path, directories_for
from topicdb.engine import Engine

PathLike: TypeAlias = "str | os.PathLike[str]"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy of a database.

    ``serials``: of each shard the last commit in it; empty if it was made by ``restore``. Of
    ``bytes`` in ``files``, ``copied_bytes`` were copied; the rest shares its space with the source
    or with the base.
    """

    path: str
    serials: dict[int, int]
    files: int
    bytes: int
    copied_bytes: int


def snapshot(engine: Engine, path: PathLike, *, base: PathLike | None, copy: bool) -> Snapshot:
    """As ``Database.snapshot``."""
    target = checked_path(path)
    with directories_for(target):
        serials, counts = engine.snapshot(target, _path(base), copy)
    return Snapshot(target, serials, *counts)


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
        return Snapshot(target, {}, *_core.restore(source, target, replace, _path(base), copy))


def _path(path: PathLike | None) -> str | None:
    return None if path is None else os.fspath(path)
