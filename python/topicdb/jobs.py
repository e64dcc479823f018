"""Jobs: many processes prepare messages, and one commit makes all of them part of a database.

For Spark, Dask, Ray, or a pool of processes of your own. Tasks *stage*: any number at the same time
sort, compress and index their messages in files beside the shards, without opening the database.
``commit`` takes the staged files that count. Readers see all of a shard's part at once, and a crash
leaves everything or nothing. Meanwhile another process may have the database open for writing.

>>> from topicdb import jobs
>>> def task(messages):                                               # doctest: +SKIP
...     with jobs.StagedWriter("fleet.db", "backfill-2025") as writer:
...         writer.append(messages)
...     return writer.staged
>>> jobs.commit("fleet.db", "backfill-2025", pool.map(task, parts))   # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from topicdb import _core
from topicdb.arguments.times import timeout_us
from topicdb.arguments.wrong_types import has_arrow
from topicdb.cooperating import Directory, Staging

if TYPE_CHECKING:
    from topicdb.database.database import Database
    from topicdb.types import Keys

MEMORY_BYTES = 64 << 20
COMMIT_TIMEOUT_SECONDS = 60.0
Place: TypeAlias = "str | os.PathLike[str] | Database | Directory"
"""The directory of a database, or a database that is open: at a site, or by ``topicdb.connect``."""


@dataclass(frozen=True, slots=True)
class Staged:
    """The messages that one task has staged; made by ``StagedWriter.finish``.

    Give it to ``commit``. It is small, and can be pickled.

    Attributes:
        file: the name of the staged file.
        messages: how many messages it has.
        bytes: the bytes of their topics and values.
        malformed: how many messages were left out, with ``drop_malformed``.
    """

    file: str
    messages: int
    bytes: int
    malformed: int


@dataclass(frozen=True, slots=True)
class Committed:
    """The result of committing a job; made by ``commit``.

    Attributes:
        serials: for each shard the serial of the job's last commit.
        messages: how many messages the job has stored.
        pending: shards that another process has open and has not applied the job to yet. That
            process will, or the next one that opens them.
        repeated: whether the job was committed before, and this call did nothing.
    """

    serials: dict[int, int]
    messages: int
    pending: list[int]
    repeated: bool


@dataclass(frozen=True, slots=True)
class Applied:
    """The last job of a sequence that a shard has applied, or one without a sequence.

    A job without a sequence is remembered for a week. Made by ``applied``.

    Attributes:
        shard: the number of the shard.
        sequence: as given to ``commit``; for a job without a sequence, its name.
        number: as given to ``commit``; for a job without a sequence, 0.
        first_serial: the job's first commit in this shard.
        last_serial: the job's last commit in this shard.
        messages: how many messages it stored in this shard.
        malformed: how many messages the whole job left out.
        applied_at: µs since 1970-01-01 UTC.
    """

    shard: int
    sequence: str
    number: int
    first_serial: int
    last_serial: int
    messages: int
    malformed: int
    applied_at: int


def _staging_of(place: Place) -> Staging:
    if isinstance(place, Directory):
        return place
    return Directory(place) if isinstance(place, (str, os.PathLike)) else place._staging()


class StagedWriter:
    """Stages the messages of one attempt of one task; a context manager. Thread-safe.

    At the end of ``with`` the files are complete and on disk, and ``staged`` describes them; after
    an exception they are removed. An attempt whose ``staged`` is not given to ``commit`` does not
    count.
    """

    def __init__(
        self,
        path: Place,
        job: str,
        *,
        memory_bytes: int = MEMORY_BYTES,
        drop_malformed: bool = False,
    ) -> None:
        """Begins an attempt.

        Arguments:
            path: the directory of an existing database, or a database that is open. At a site,
                ``finish`` brings the files to all sites. For a database of ``topicdb.connect`` the
                writer stages in a temporary folder of this machine, and ``finish`` sends the files
                to the server. The token needs ``--everything``.
            job: 1 to 128 letters, digits, ``-``, ``_`` or ``.``; the same in all tasks of a job and
                in no other job.
            memory_bytes: how many bytes of messages it holds before it writes them (default 64
                MiB).
            drop_malformed: leaves out messages that ``Database.append`` would refuse, and counts
                them in ``staged.malformed``.

        Raises:
            NotFoundError: there is no database.
            ValueError: a bad option.

        Example:
            >>> from topicdb import jobs
            >>> with jobs.StagedWriter("fleet.db", "backfill-2025") as writer:
            ...     writer.append([("metrics/h1/cpu", 1_735_689_600_000_000, b"40")])
            >>> writer.staged.messages
            1
        """
        if memory_bytes < 1:
            raise ValueError(f"memory_bytes must be at least 1, got {memory_bytes}")
        self._job = job
        self._staging = _staging_of(path)
        try:
            self._core: _core.StagedWriter | None = self._staging.open(
                job, memory_bytes, drop_malformed
            )
        except BaseException:
            self._staging.discarded()
            raise
        self._staged: Staged | None = None

    def append(self, messages: Any, *, key: Keys | None = None, raw: bool = False) -> None:
        """Stages messages, which are copied.

        Arguments:
            messages: as in ``Database.append``.
            key: as in ``Database.append``.
            raw: as in ``Database.append``.

        Raises:
            TopicError, ValueError, TypeError: a row is malformed; nothing of ``messages`` is
                staged.
            ClosedError: after ``finish`` or ``discard``.
        """
        core = self._open()
        if has_arrow(messages):
            core.append_arrow(messages, not raw, key)
        else:
            core.append_rows(messages, not raw, key)

    def finish(self) -> Staged:
        """Completes the files, makes them safe from loss of power, and describes them.

        Returns:
            What to give to ``commit``.
        """
        staged = self._open().finish()
        self._core = None
        self._staging.finished(self._job, staged)
        self._staged = staged
        return staged

    def discard(self) -> None:
        """Removes what was staged, unless it is finished. May be repeated."""
        self._core = None
        self._staging.discarded()

    @property
    def staged(self) -> Staged:
        """The result of ``finish``.

        Raises:
            RuntimeError: the writer is not finished.
        """
        if self._staged is None:
            raise RuntimeError("the staged writer is not finished")
        return self._staged

    def _open(self) -> _core.StagedWriter:
        if self._core is None:
            raise _core.ClosedError("the staged writer is finished")
        return self._core

    def __enter__(self) -> StagedWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self.discard()
        elif self._staged is None:
            self.finish()


def commit(
    path: Place,
    job: str,
    staged: Iterable[Staged],
    *,
    sequence: str | None = None,
    number: int = 0,
    timeout: float | timedelta = COMMIT_TIMEOUT_SECONDS,
) -> Committed:
    """Makes what the tasks of a job have staged part of the database, and removes the rest of it.

    Once this returns, the job is committed for good; likewise if it raises an error that says so.
    Before that, nothing of the job is committed. Shards that no process has open are opened for it.
    If a process has a shard open, that process applies the job, and this call waits for it.

    Arguments:
        path: as given to ``StagedWriter``.
        job: as given to ``StagedWriter``.
        staged: the attempts that count, one for each task.
        sequence: for jobs that follow each other, such as the batches of a stream: the name of the
            sequence.
        number: the number of the job in its sequence, from 1. If it is not above the last committed
            one, the job does nothing: so a repeated job is stored once.
        timeout: how many seconds to wait for other processes; then their shards are ``pending``.

    Returns:
        What was committed.

    Raises:
        CorruptionError, NotFoundError: staged files are damaged or gone.
        LockedError: other processes commit or abort jobs for all of the ``timeout``.

    Example:
        >>> from topicdb import jobs
        >>> with jobs.StagedWriter("fleet.db", "backfill-2025") as writer:
        ...     writer.append([("metrics/h1/cpu", 1_735_689_600_000_000, b"40")])
        >>> jobs.commit("fleet.db", "backfill-2025", [writer.staged]).messages
        1
    """
    waits_us = timeout_us(timeout, what="timeout")
    if waits_us is None:
        raise ValueError("timeout: expected seconds, got None")
    tasks = list(staged)
    files = [task.file for task in tasks]
    malformed = sum(task.malformed for task in tasks)
    return _staging_of(path).commit(job, files, sequence or "", number, malformed, waits_us)


def abort(path: Place, job: str) -> None:
    """Removes what a job has staged. Does nothing if the job is committed or unknown.

    Another process may commit the job meanwhile: it is then committed as a whole or not at all.

    Arguments:
        path: as given to ``StagedWriter``.
        job: as given to ``StagedWriter``.

    Raises:
        LockedError: other processes commit jobs of the database for a whole minute.

    Example:
        >>> from topicdb import jobs
        >>> jobs.abort("fleet.db", "backfill-2025")
    """
    _staging_of(path).abort(job)


def applied(database: Database) -> list[Applied]:
    """Returns the jobs that a database has applied, by shard and sequence.

    Arguments:
        database: an open database.

    Returns:
        One entry for each shard and sequence.

    Example:
        >>> from topicdb import jobs
        >>> jobs.applied(db)
        []
    """
    return database._core.jobs()
