"""Jobs: many processes prepare messages, one commit makes all of them part of a database.

For Spark, Dask, Ray, or a pool of processes of your own. Tasks *stage*: they sort, compress and
index their messages in files beside the shards, without opening the database, any number at the
same time. ``commit`` takes what counts; readers see all of a shard's part at once, and a crash
leaves everything or nothing. The database may be open for writing elsewhere meanwhile.

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
from typing import TYPE_CHECKING, Any

from topicdb import _core
from topicdb.arguments import has_arrow
from topicdb.times import timeout_us

if TYPE_CHECKING:
    from topicdb.database.database import Database

MEMORY_BYTES = 64 << 20
COMMIT_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Staged:
    """What a task has staged, for ``commit``. Small, and may travel pickled.

    ``malformed``: messages that were left out (``drop_malformed``). ``bytes``: topics and values.
    """

    file: str
    messages: int
    bytes: int
    malformed: int


@dataclass(frozen=True, slots=True)
class Committed:
    """What a job has brought.

    ``serials``: of each shard the last one. ``pending``: shards that another process has open and
    has not applied it to yet; it will, or whoever opens them next. ``repeated``: the job was
    committed before, and nothing was done.
    """

    serials: dict[int, int]
    messages: int
    pending: list[int]
    repeated: bool


@dataclass(frozen=True, slots=True)
class Applied:
    """The last job of a sequence that a shard has applied; or a job without one, for a week.

    ``sequence``: or the job's name, with ``number`` 0. ``messages``: in this shard. ``malformed``:
    left out by the whole job. ``applied_at``: µs since the epoch.
    """

    shard: int
    sequence: str
    number: int
    first_serial: int
    last_serial: int
    messages: int
    malformed: int
    applied_at: int


class StagedWriter:
    """Stages the messages of one attempt of one task; a context manager. Thread-safe.

    At the end of ``with`` the files are complete and on the disk, and ``staged`` says what they
    are; after an exception they are removed. Attempts whose ``staged`` is not given to ``commit``
    do not count.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        job: str,
        *,
        memory_bytes: int = MEMORY_BYTES,
        drop_malformed: bool = False,
    ) -> None:
        """
        - ``path``: of a database that exists. ``job``: 1 to 128 letters, digits, ``-``, ``_`` or
          ``.``; the same in all tasks of a job and in no other job.
        - ``memory_bytes``: what it holds of messages before it writes them.
        - ``drop_malformed``: leaves out messages that ``Database.append`` would refuse, and counts
          them in ``staged.malformed``.

        Raises NotFoundError without a database, ValueError for options.
        """
        if memory_bytes < 1:
            raise ValueError(f"memory_bytes must be at least 1, got {memory_bytes}")
        self._core: _core.StagedWriter | None = _core.StagedWriter.open(
            os.fspath(path), job, memory_bytes_max=memory_bytes, drop_malformed=drop_malformed
        )
        self._staged: Staged | None = None

    def append(self, messages: Any, *, raw: bool = False) -> None:
        """Stages messages, given as to ``Database.append``. They are copied.

        Raises what that raises; nothing of ``messages`` is staged then.
        """
        core = self._open()
        if has_arrow(messages):
            core.append_arrow(messages, not raw)
        else:
            core.append_rows(messages, not raw)

    def finish(self) -> Staged:
        """Completes the files and makes them safe from loss of power."""
        self._staged = self._open().finish()
        self._core = None
        return self._staged

    def discard(self) -> None:
        """Removes what was staged, unless it is finished. May be repeated."""
        self._core = None

    @property
    def staged(self) -> Staged:
        """RuntimeError before ``finish``."""
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
    path: str | os.PathLike[str],
    job: str,
    staged: Iterable[Staged],
    *,
    sequence: str | None = None,
    number: int = 0,
    timeout: float | timedelta = COMMIT_TIMEOUT_SECONDS,
) -> Committed:
    """Makes what the tasks of a job have staged part of the database, and removes the rest of it.

    Once this returns, and if it raises an error that says so, the job is committed for good.
    Before, nothing of it is. Shards that no process has open are opened for it; where one has, that
    process applies it, for which this waits ``timeout`` seconds.

    ``sequence``, ``number``: jobs that follow each other, such as the batches of a stream. A job
    with a number (from 1) that is not above the last committed one of its sequence does nothing:
    so what is repeated is stored once.

    Raises CorruptionError and NotFoundError for staged files that are damaged or gone.
    """
    waits_us = timeout_us(timeout, what="timeout")
    if waits_us is None:
        raise ValueError("timeout: expected seconds, got None")
    tasks = list(staged)
    return _core.commit_job(
        os.fspath(path),
        job,
        [task.file for task in tasks],
        sequence=sequence or "",
        number=number,
        malformed=sum(task.malformed for task in tasks),
        timeout_us=waits_us,
    )


def abort(path: str | os.PathLike[str], job: str) -> None:
    """Removes what a job has staged. Does nothing if it is committed, or was never there."""
    _core.abort_job(os.fspath(path), job)


def applied(database: Database) -> list[Applied]:
    """The jobs that a database has applied, by shard and sequence."""
    return database._core.jobs()
