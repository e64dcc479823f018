"""The calls of a server for jobs: what tasks have staged elsewhere arrives, and is committed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from topicdb import _core
from topicdb.engine import Engine
from topicdb.engines.features import require
from topicdb.engines.staging import staging_of
from topicdb.jobs import Committed, Staged
from topicdb.remote.server.handles import Caller

FAMILY = "stage"
"""The names of these calls begin with this word and a dot."""
UPLOAD = "stage.upload"
"""The one of them that brings values."""
FILES = ("TOPICDB", "retention")
"""The files of a database that a writer of staged files needs; the second one may be missing."""

_WAIT_US_MAX = 500_000  # a call waits at most this long; the client repeats it
_LIST = ".staged"  # the end of the name of the file that lists the others; it comes last
_FILE = re.compile(r"[0-9a-f]{16}(\.staged|-[0-9]{1,10}-[0-9]{1,10}\.pages)")
_JOB = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")


class Staging:
    """Takes over staged files, and commits and aborts jobs. Thread-safe; a ``Service`` owns it.

    The files come into the directory of the job, as if a task had staged them there. A file that
    has not arrived as a whole has another name. Nothing is kept between calls, so a client may go
    at any time: what it leaves is removed as what tasks of this machine leave.
    """

    def __init__(self, core: Engine) -> None:
        self._core = core
        self.calls: dict[str, Callable[..., Any]] = {
            "stage.files": self._files,
            UPLOAD: self._upload,
            "stage.commit": self._commit,
            "stage.abort": self._abort,
        }

    def _directory(self) -> Path:
        require(self._core, "directory", "jobs")
        return Path(self._core.path)

    def _files(self, caller: Caller) -> dict[str, bytes]:
        """Returns what a database's directory must have, so that tasks can stage for it."""
        caller.access.check_everything()
        directory = self._directory()
        return {name: (directory / name).read_bytes() for name in FILES if _exists(directory, name)}

    def _upload(
        self, caller: Caller, job: str, name: str, offset: int, data: bytes, size: int
    ) -> None:
        """Adds bytes to a file of a job, which is complete and on disk when it has ``size``."""
        caller.access.check_everything()
        if not isinstance(name, str) or not _FILE.fullmatch(name):
            raise ValueError(f"{UPLOAD}: {name!r} is no name of a staged file")
        if not all(type(one) is int for one in (offset, size)) or not isinstance(data, bytes):
            raise TypeError(f"{UPLOAD}: expected two numbers and bytes")
        end = offset + len(data)
        if not 0 <= offset <= end <= size:
            raise ValueError(f"{UPLOAD}: bytes {offset} to {end} are not in a file of {size}")
        jobs = self._directory() / "jobs"
        directory = jobs / _checked(job)
        part = directory / f"{name}.part"
        if offset == 0:
            jobs.mkdir(exist_ok=True)
            directory.mkdir(exist_ok=True)
        elif not part.exists():
            raise _core.NotFoundError(f"job {job!r} was aborted while {name} was on its way")
        with open(part, "wb" if offset == 0 else "r+b") as file:
            if file.seek(0, os.SEEK_END) < offset:
                raise ValueError(f"{UPLOAD}: what stands before byte {offset} of {name} is missing")
            file.seek(offset)
            file.write(data)
            if end == size:
                file.truncate()
                file.flush()
                os.fsync(file.fileno())
        if end == size:
            part.rename(directory / name)
            for folder in (directory, jobs):
                _sync(folder)
            if name.endswith(_LIST):
                self._share(job, name)

    def _share(self, job: str, name: str) -> None:
        """Brings what a task has staged to the other sites, if there are any."""
        staging_of(self._core).finished(job, Staged(name, 0, 0, 0))

    def _commit(
        self,
        caller: Caller,
        job: str,
        files: list[str],
        sequence: str,
        number: int,
        malformed: int,
        wait_us: int,
    ) -> Committed:
        caller.access.check_everything()
        return staging_of(self._core).commit(
            job, files, sequence, number, malformed, max(0, min(wait_us, _WAIT_US_MAX))
        )

    def _abort(self, caller: Caller, job: str) -> None:
        caller.access.check_everything()
        staging_of(self._core).abort(job)


def _checked(job: str) -> str:
    if not isinstance(job, str) or not _JOB.fullmatch(job) or ".intent" in job or ".shard-" in job:
        raise ValueError(f"job: expected 1 to 128 letters, digits, '-', '_' or '.', got {job!r}")
    return job


def _exists(directory: Path, name: str) -> bool:
    return name == FILES[0] or (directory / name).exists()


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
