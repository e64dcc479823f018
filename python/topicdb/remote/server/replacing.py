"""Replaces a file that several processes change: one after the other, and each time as a whole."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import time
from contextlib import suppress
from pathlib import Path

from topicdb import _core
from topicdb.closing import Closing

WAIT_S = 30.0
_LOOK_INTERVAL_S = 0.02
# The end of the name of a temporary file. What is before it names the file that is replaced, so no
# two files have a temporary file of the same name.
_TEMPORARY = re.compile(r"\.(.*)\.[0-9a-f]{16}\.replacing", re.DOTALL)


class Replacing(Closing):
    """Holds the lock of a file, and replaces the file. Not thread-safe.

    The constructor waits for the lock, and raises LockedError after 30 s. The lock is that of
    another file beside it, ``.NAME.lock``, which stays, since each change makes the file itself a
    new one. A symbolic link stays one: the file that it leads to is replaced. New content is
    written to ``.NAME.….replacing`` first; the constructor raises ValueError for a file with such a
    name.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._target = Path(os.path.realpath(path))
        if _TEMPORARY.fullmatch(self._target.name):
            raise ValueError(f"{path}: temporary files have such names; choose another one")
        lock = self._target.parent / f".{self._target.name}.lock"
        self._lock = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._wait(lock)
            self._tidy()
        except BaseException:
            os.close(self._lock)
            raise

    def _wait(self, lock: Path) -> None:
        end = time.monotonic() + WAIT_S
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise _core.LockedError(
                        f"{self._path}: another process changes it since {WAIT_S:.0f} s or more; "
                        f"it holds the lock of {lock}"
                    ) from None
            time.sleep(_LOOK_INTERVAL_S)

    def _tidy(self) -> None:
        """Removes files that a process left behind when it was killed."""
        for left in self._target.parent.iterdir():
            match = _TEMPORARY.fullmatch(left.name)
            if match is not None and match[1] == self._target.name:
                with suppress(OSError):
                    left.unlink()

    def replace(self, content: bytes) -> None:
        """Gives the file new content, at once or not at all, also if the power fails.

        A file that is there keeps its owner, mode and attributes; only its owner can read a new
        one. Raises PermissionError if they cannot be kept.
        """
        target = self._target
        temporary = target.parent / f".{target.name}.{secrets.token_hex(8)}.replacing"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(temporary, flags, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                if target.exists():
                    self._keep(temporary)
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        _sync_directory(target.parent)

    def _keep(self, temporary: Path) -> None:
        status = self._target.stat()
        made = os.stat(temporary)
        if (made.st_uid, made.st_gid) != (status.st_uid, status.st_gid):
            try:
                os.chown(temporary, status.st_uid, status.st_gid)
            except PermissionError:
                raise PermissionError(
                    f"{self._path} belongs to user {status.st_uid} and group {status.st_gid}, "
                    "which this process cannot give to the file that is to replace it: change it "
                    "as that user"
                ) from None
        shutil.copystat(self._target, temporary)
        os.utime(temporary)

    def close(self) -> None:
        """Frees the lock."""
        os.close(self._lock)


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
