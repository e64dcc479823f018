"""What processes that read or write a database together need of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from topicdb import _core
from topicdb.creating import settled_path

if TYPE_CHECKING:
    from topicdb.jobs import Committed, Staged


@dataclass(frozen=True, slots=True)
class Extent:
    """How far a database reaches at a moment: what the driver of many readers has to know.

    Attributes:
        database: the id of the database, 32 hexadecimal digits; "" if its engine has none, or if it
            is open in this process.
        serials: the last serial of each shard.
        slabs: shard, class and generation of each slab.
        current: those of the slabs to which messages are written now.
    """

    database: str
    serials: dict[int, int]
    slabs: list[tuple[int, str, int]]
    current: list[tuple[int, str, int]]


class Staging(Protocol):
    """How messages are staged for a database, and jobs committed. One thread at a time uses it.

    The methods are those of ``Directory``, which says what they do.
    """

    def check(self) -> None: ...

    def open(self, job: str, memory_bytes: int, drop_malformed: bool) -> _core.StagedWriter: ...

    def finished(self, job: str, staged: Staged) -> None: ...

    def discarded(self) -> None: ...

    def commit(
        self,
        job: str,
        files: list[str],
        sequence: str,
        number: int,
        malformed: int,
        timeout_us: int,
    ) -> Committed: ...

    def abort(self, job: str) -> None: ...


class Directory:
    """Stages beside the shards of a database in a directory, and commits there. Thread-safe."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path

    def check(self) -> None:
        """Raises AccessError if the caller may not stage; here everybody may try."""

    def open(self, job: str, memory_bytes: int, drop_malformed: bool) -> _core.StagedWriter:
        """Opens a writer for one attempt."""
        return _core.StagedWriter.open(
            settled_path(self._path),
            job,
            memory_bytes_max=memory_bytes,
            drop_malformed=drop_malformed,
        )

    def finished(self, job: str, staged: Staged) -> None:
        """Brings the files of a finished writer to the database: here they are there already."""

    def discarded(self) -> None:
        """Forgets the files of a writer, which has removed them itself. May be repeated."""

    def commit(
        self,
        job: str,
        files: list[str],
        sequence: str,
        number: int,
        malformed: int,
        timeout_us: int,
    ) -> Committed:
        """Commits a job; no sequence is ""."""
        return _core.commit_job(
            os.fspath(self._path),
            job,
            files,
            sequence=sequence,
            number=number,
            malformed=malformed,
            timeout_us=timeout_us,
        )

    def abort(self, job: str) -> None:
        """Removes what a job has staged."""
        _core.abort_job(os.fspath(self._path), job)


class SiteDirectory(Directory):
    """Stages beside the shards of a site, and commits at all sites of its cluster. Thread-safe.

    A finished writer brings its files to all sites. So the tasks of a job may stage at different
    sites, and none of these need be there when the job is committed.
    """

    def __init__(self, core: _core.Database) -> None:
        super().__init__(core.path)
        self._core = core

    def finished(self, job: str, staged: Staged) -> None:
        """Brings the files of a finished writer to the shards, and removes them here."""
        if staged.file:
            self._core.share_staged(job, staged.file)

    def commit(
        self,
        job: str,
        files: list[str],
        sequence: str,
        number: int,
        malformed: int,
        timeout_us: int,
    ) -> Committed:
        """Commits a job; no sequence is ""."""
        return self._core.commit_job(
            job,
            files,
            sequence=sequence,
            number=number,
            malformed=malformed,
            timeout_us=timeout_us,
        )

    def abort(self, job: str) -> None:
        """Removes what a job has staged."""
        self._core.abort_job(job)
