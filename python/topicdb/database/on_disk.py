"""Databases on disk: whether there is one, which there are, and how one is dropped."""

from __future__ import annotations

from dataclasses import dataclass

from topicdb import _core
from topicdb.creating import settled_path
from topicdb.database.snapshots import PathLike


@dataclass(frozen=True, slots=True)
class DroppedDatabase:
    """What ``drop`` has removed, or would remove: so many files, and their bytes.

    Files that a snapshot shares take their space as long as the snapshot is there.
    """

    path: str
    files: int
    bytes: int


def exists(path: PathLike) -> bool:
    """Returns whether there is a database in the directory ``path``, whole or damaged.

    It is one that ``open`` opens and would not make. A database whose making or whose drop was cut
    short is none.

    Raises StorageError if the directory may not be looked into; ValueError if ``path`` is empty.

    >>> topicdb.exists("fleet.db")                                  # doctest: +SKIP
    True
    """
    return _core.look_at(settled_path(path)) == "database"


def databases(directory: PathLike) -> list[str]:
    """Returns the paths of the databases right below ``directory``, sorted.

    They are those that ``exists`` finds. It leaves out copies that are not complete (their names
    end with ``.partial``), and directories that may not be looked into.

    Raises NotFoundError if there is no such directory.

    >>> topicdb.databases("/var/lib/fleet")                         # doctest: +SKIP
    ['/var/lib/fleet/north.db', '/var/lib/fleet/south.db']
    """
    found = _core.databases_in(settled_path(directory))
    return [path for path, state in found if state == "database"]


def drop(path: PathLike, *, dry_run: bool = False) -> DroppedDatabase:
    """Removes the database at ``path`` with all its messages, and its directory. There is no undo.

    It removes only what TopicDB has made there, damaged shards that a repair has put aside
    included. If it is cut short, by Ctrl-C, an error or a crash, there is either the whole database
    still, or something that ``open`` refuses and names; calling ``drop`` again finishes it then.

    - ``dry_run``: only says what would be removed, and raises what the drop would.

    Returns what was removed.

    Raises LockedError, which names a process, while the database is open anywhere, for writing or
    for reading, here or in another process, or while somebody verifies or repairs it or stages a
    job for it. It knows nothing of readers of an older TopicDB. Raises CorruptionError, which names
    it, if anything in the directory is not TopicDB's; NotFoundError if there is no database;
    SchemaError if a newer TopicDB wrote it; ValueError if ``path`` is a symbolic link. Then nothing
    is changed. Raises StorageError if the file system failed.

    >>> topicdb.drop("old.db").files                                # doctest: +SKIP
    57
    """
    where = settled_path(path)
    files, size = _core.drop(where, dry_run)
    return DroppedDatabase(where, files, size)
