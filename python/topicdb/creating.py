"""Makes the directories for a new database or queue."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from topicdb import _core

OWNER = 0o700
MODE_MAX = 0o7777


def checked_path(path: str | os.PathLike[str]) -> str:
    """Returns ``path`` as text. Raises TypeError if it is neither text nor a path."""
    if isinstance(path, (str, os.PathLike)):
        found = os.fspath(path)
        if isinstance(found, str):
            return found
    raise TypeError(f"path: expected str or a path, got {type(path).__name__}")


def settled_path(path: str | os.PathLike[str]) -> str:
    """Returns ``path`` as ``checked_path`` does, but absolute.

    So it leads to the same place after the process has changed its working directory.
    """
    found = checked_path(path)
    if not found:  # nothing; whoever opens it raises the error
        return found
    with suppress(OSError):  # the working directory is gone
        return os.path.join(os.getcwd(), found)
    return found


@contextmanager
def directories_for(path: str, mode: int | None = None) -> Iterator[None]:
    """Makes the missing directories above ``path``, for as long as the block does not fail.

    With ``mode`` it also makes ``path``, if it is missing, with these permissions, whatever the
    umask is. If the block raises, the directories that were made and are still empty are removed
    again. Raises ValueError for a mode that is none, or that would keep the owner out; StorageError
    if the file system fails.
    """
    check_mode(mode)
    if not path or "\0" in path:  # the block, which opens it, raises the error
        yield
        return
    made: list[str] = []
    try:
        for directory in reversed(_missing_above(path)):
            _make(directory, made)
        if mode is not None and not os.path.lexists(path):
            _make(path, made, mode)
        yield
    except BaseException:
        for directory in reversed(made):
            with suppress(OSError):  # somebody else has put something there
                os.rmdir(directory)
        raise


def check_mode(mode: int | None) -> None:
    """Raises ValueError or TypeError for a mode that ``directories_for`` does not take."""
    if mode is None:
        return
    if isinstance(mode, bool) or not isinstance(mode, int):
        raise TypeError(
            f"directory_mode: expected permissions such as 0o700, got {type(mode).__name__}"
        )
    if not 0 <= mode <= MODE_MAX or mode & OWNER != OWNER:
        raise ValueError(
            f"directory_mode: {mode:#o} is no permission for a directory that its owner can use; "
            "write 0o700, 0o750 or the like"
        )


def _missing_above(path: str) -> list[str]:
    """Returns the directories above ``path`` that do not exist, the nearest first."""
    missing = []
    directory = os.path.dirname(os.path.abspath(path))
    while not os.path.lexists(directory):
        missing.append(directory)
        directory = os.path.dirname(directory)
    return missing


def _make(directory: str, made: list[str], mode: int | None = None) -> None:
    try:
        os.mkdir(directory, 0o777 if mode is None else mode)
    except FileExistsError:  # another process was faster
        return
    except OSError as error:
        raise _core.StorageError(f"making {directory}: {error.strerror}") from error
    made.append(directory)
    if mode is not None:
        os.chmod(directory, mode)
    parent = os.open(os.path.dirname(directory), os.O_RDONLY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)
