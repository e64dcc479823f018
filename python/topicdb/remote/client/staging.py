"""Stages messages for a database of a server: in a folder of this machine, whose files go there."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from topicdb import _core
from topicdb._core import UnavailableError
from topicdb.jobs import Committed, Staged
from topicdb.remote.client.connection import Connection
from topicdb.remote.records import record_of

CHUNK_BYTES = 8 << 20
WAIT_US = 500_000
_PAUSE_S = 0.1
_FAILURES_MAX = 20


class RemoteStaging:
    """Stages and commits over a connection, as ``topicdb.cooperating.Staging`` says.

    A database makes one for each writer, commit and abort. One thread at a time uses it.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._folder: TemporaryDirectory[str] | None = None

    def check(self) -> None:
        """Raises AccessError if the token may not stage."""
        self._connection.call("stage.files")

    def open(self, job: str, memory_bytes: int, drop_malformed: bool) -> _core.StagedWriter:
        """Opens a writer in a folder of its own, which has what it needs of the database."""
        files: dict[str, bytes] = self._connection.call("stage.files")
        self._folder = TemporaryDirectory(prefix="topicdb-job-")
        for name, data in files.items():
            (Path(self._folder.name) / name).write_bytes(data)
        return _core.StagedWriter.open(
            self._folder.name, job, memory_bytes_max=memory_bytes, drop_malformed=drop_malformed
        )

    def finished(self, job: str, staged: Staged) -> None:
        """Sends what the writer has staged. The file that lists the others goes last."""
        try:
            if staged.file and self._folder is not None:
                directory = Path(self._folder.name) / "jobs" / job
                pages = sorted(file for file in directory.iterdir() if file.suffix == ".pages")
                self._send_all(job, [*pages, directory / staged.file])
        finally:
            self.discarded()

    def _send_all(self, job: str, files: list[Path]) -> None:
        """Sends files. If there are several sites and one is lost, sends all to another one."""
        failures = 0
        while True:
            try:
                for file in files:
                    self._send(job, file)
                return
            except (UnavailableError, _core.NotFoundError):
                failures += 1
                if not self._connection.has_others or failures > _FAILURES_MAX:
                    raise
                time.sleep(_PAUSE_S)

    def _send(self, job: str, file: Path) -> None:
        chunk_bytes = min(CHUNK_BYTES, self._connection.hello["append_bytes_max"])
        size = file.stat().st_size
        with open(file, "rb") as data:
            offset = 0
            while offset < size:
                chunk = data.read(chunk_bytes)
                self._connection.call("stage.upload", job, file.name, offset, chunk, size)
                offset += len(chunk)

    def discarded(self) -> None:
        """Removes the folder. May be repeated."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def commit(
        self,
        job: str,
        files: list[str],
        sequence: str,
        number: int,
        malformed: int,
        timeout_us: int,
    ) -> Committed:
        """Commits a job.

        If the connection breaks, asks again until the time is over: a job that was committed then
        is ``repeated``.
        """
        deadline = time.monotonic() + timeout_us / 1e6
        first: Committed | None = None
        while True:
            is_over = time.monotonic() >= deadline
            try:
                plain = self._connection.call(
                    "stage.commit", job, files, sequence, number, malformed, WAIT_US
                )
            except (_core.LockedError, UnavailableError):
                if is_over:
                    raise
                time.sleep(_PAUSE_S)
                continue
            found = record_of(Committed, plain)
            first = first or found
            if not found.pending or is_over:
                return replace(found, messages=first.messages, repeated=first.repeated)

    def abort(self, job: str) -> None:
        """Removes what a job has staged at the server."""
        self._connection.call("stage.abort", job)
