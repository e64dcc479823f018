"""Databases on disk: whether there is one, which there are, and how one is dropped."""

from __future__ import annotations

from dataclasses import dataclass

from topicdb import _core
from topicdb.creating import settled_path
from topicdb.database.snapshots import PathLike


@dataclass(frozen=True, slots=True)
class DroppedDatabase:
    """What ``drop`` has removed, or would remove.

    Files that a snapshot shares take their space as long as the snapshot is there.

    Attributes:
        path: the directory of the database.
        files: how many files it had.
        bytes: the size of these files.

    Example:
        >>> topicdb.open("old.db").close()
        >>> topicdb.drop("old.db", dry_run=True).bytes > 0
        True
    """

    path: str
    files: int
    bytes: int


def exists(path: PathLike) -> bool:
    """Returns whether there is a database in the directory ``path``, whole or damaged.

    That is a database that ``open`` opens and would not make. One whose making or whose drop was
    cut short does not count.

    Arguments:
        path: a directory.

    Returns:
        True if there is one.

    Raises:
        StorageError: the directory may not be read.
        ValueError: ``path`` is empty.

    Example:
        >>> topicdb.exists("fleet.db")
        True
    """
    return _core.look_at(settled_path(path)) == "database"


def databases(directory: PathLike) -> list[str]:
    """Returns the paths of the databases right below ``directory``, sorted.

    They are those that ``exists`` finds. It leaves out copies that are not complete (their names
    end with ``.partial``), and directories that it may not read.

    Arguments:
        directory: where to look; not below its subdirectories.

    Returns:
        The paths, each with ``directory`` in front.

    Raises:
        NotFoundError: there is no such directory.

    Example:
        >>> [path.rsplit("/", 1)[-1] for path in topicdb.databases(".")]
        ['fleet.db']
    """
    found = _core.databases_in(settled_path(directory))
    return [path for path, state in found if state == "database"]


def drop(path: PathLike, *, dry_run: bool = False) -> DroppedDatabase:
    """Removes the database at ``path`` with all its messages, and its directory. There is no undo.

    It removes only what TopicDB has made there, including damaged shards that a repair has put
    aside. If Ctrl-C, an error or a crash cuts it short, either the whole database is still there,
    or something that ``open`` refuses and names. Call ``drop`` again to finish it then.

    Arguments:
        path: the directory of a database.
        dry_run: removes nothing. It says what would be removed, and raises what the drop would.

    Returns:
        What was removed.

    Raises:
        LockedError: somebody has the database open, for writing or reading, here or in another
            process, or verifies or repairs it or stages a job for it; the text names a process.
            Readers of an older TopicDB are not noticed.
        CorruptionError: something in the directory is not TopicDB's; the text names it.
        NotFoundError: there is no database.
        SchemaError: a newer TopicDB wrote it.
        ValueError: ``path`` is a symbolic link. After these five errors nothing is changed.
        StorageError: the file system failed.

    Example:
        >>> topicdb.open("old.db").close()
        >>> topicdb.drop("old.db").files > 0
        True
    """
    where = settled_path(path)
    files, size = _core.drop(where, dry_run)
    return DroppedDatabase(where, files, size)
