"""Appends to a database in another process, for which nobody waits."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from topicdb import _core
from topicdb._core import UnavailableError
from topicdb.engines.appends import fulfil
from topicdb.remote.client.appending import (
    REPEAT_PAUSE_S,
    REPEAT_S,
    append,
    error_after,
    id_for,
)
from topicdb.remote.client.committing import Committer
from topicdb.remote.client.connection import Connection
from topicdb.remote.client.outgoing import check_topics, packed, table_of
from topicdb.remote.client.reading import RemoteTransaction
from topicdb.remote.errors import unpacked
from topicdb.remote.records import record_of
from topicdb.types import CommitKnown, Keys, Receipt
from topicdb.waiting import wait_for

PENDING_BYTES_MAX = 64 << 20
GATHER_S = 0.001
TOGETHER_MAX = 1_000
TOGETHER_BYTES_MAX = 4 << 20
# A server takes 64 KiB of JSON with a call, which here has the count and the id of each append.
TOGETHER_JSON_BYTES_MAX = 32 << 10
JSON_BYTES_OF_APPEND = 32  # at most, without the id
IDLE_S = 0.05


@dataclass(eq=False)
class _Queued:
    batch: pa.RecordBatch
    bytes: int
    durability: str | None
    future: Future[Receipt]
    id: str | None
    give_up_at: float  # until then it is sent again, if it has an id, while the server is away
    is_doubtful: bool = False  # whether an attempt was not answered

    @property
    def json_bytes(self) -> int:
        """Returns how much JSON it adds to a call, at most."""
        return JSON_BYTES_OF_APPEND + (0 if self.id is None else len(json.dumps(self.id)))


class Appender:
    """Sends appends one after the other, without keeping the caller waiting. Thread-safe.

    The database that ``topicdb.connect`` returns owns it. Its thread begins with the first append,
    and ends when none came for a while. Commits go through a queue of their own.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # A call has some bytes beside its messages, for which the other half is more than enough.
        self._together_max = min(TOGETHER_BYTES_MAX, connection.hello["append_bytes_max"] // 2)
        self._changed = threading.Condition()
        self._queue: deque[_Queued] = deque()
        self._bytes = 0
        self._thread: threading.Thread | None = None
        self._closed = False
        self._commits = Committer(connection)

    def commit(
        self, transaction: RemoteTransaction, *, urgent: bool = False, room_us: int | None = None
    ) -> Future[Receipt] | None:
        """Begins to commit a transaction, as ``AppendQueue.commit`` says."""
        return self._commits.commit(transaction, urgent=urgent, room_us=room_us)

    def give_up(self, transaction: RemoteTransaction) -> CommitKnown:
        """Withdraws a commit, as ``AppendQueue.give_up`` says."""
        return transaction.give_up()

    def start(
        self,
        messages: Any,
        durability: str | None,
        *,
        escapes: bool,
        id: str | None,
        key: Keys | None = None,
    ) -> Future[Receipt]:
        """Queues an append as ``AppendQueue.start`` does."""
        table = table_of(messages, escapes=escapes, key=key)
        check_topics(table)
        future: Future[Receipt] = Future()
        future.set_running_or_notify_cancel()  # what is queued cannot be taken back
        if table.num_rows == 0:
            future.set_result(append(self._connection, table, durability))
            return future
        (batch,) = table.combine_chunks().to_batches()
        size = batch.nbytes
        with self._changed:
            self._connection.check_open()
            wait_for(self._changed, lambda: self._bytes < PENDING_BYTES_MAX or self._closed)
            if self._closed:
                raise _core.ClosedError(f"the connection to {self._connection.url} is closed")
            give_up_at = time.monotonic() + REPEAT_S
            id = id_for(self._connection) if id is None else id
            self._queue.append(_Queued(batch, size, durability, future, id, give_up_at))
            self._bytes += size
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="topicdb-appender", daemon=True
                )
                self._thread.start()
        return future

    def close(self) -> None:
        """Waits until everything that is queued is sent; no more can be queued."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._commits.close()

    def close_engine(self) -> None:
        """Waits until everything that is queued is sent, and closes the connection."""
        self.close()
        self._connection.close()

    def _run(self) -> None:
        while some := self._next():
            self._send(some)

    def _next(self) -> list[_Queued]:
        """Returns the appends that go together in one call, or none if the thread is to end.

        Several go together only as far as the server takes them. One that is too large goes alone.
        """
        with self._changed:
            self._changed.wait_for(lambda: bool(self._queue) or self._closed, IDLE_S)
            if not self._queue:
                self._thread = None
                return []
        time.sleep(GATHER_S)  # what comes meanwhile goes with it
        some: list[_Queued] = []
        size = json_bytes = 0
        with self._changed:
            while self._queue and len(some) < TOGETHER_MAX:
                first, queued = some[0] if some else self._queue[0], self._queue[0]
                size += queued.bytes
                json_bytes += queued.json_bytes
                is_like = queued.durability == first.durability
                if not is_like or not queued.batch.schema.equals(first.batch.schema):
                    break
                is_large = size > self._together_max or json_bytes > TOGETHER_JSON_BYTES_MAX
                if some and is_large:
                    break
                some.append(self._taken_locked())
        return some

    def _send(self, some: list[_Queued]) -> None:
        """Sends appends in one call, and gives each future its outcome."""
        counts = [queued.batch.num_rows for queued in some]
        table = pa.Table.from_batches([queued.batch for queued in some]).combine_chunks()
        try:
            data = packed(self._connection, table)
            ids = [queued.id for queued in some]
            more = [ids] if any(ids) else []
            told = self._connection.call("append_async", some[0].durability, counts, data, *more)
            for number, is_error, outcome in told:
                queued = some[number]
                if is_error:
                    fulfil(queued.future, error_after(unpacked(outcome), queued.is_doubtful))
                else:
                    fulfil(queued.future, record_of(Receipt, outcome))
        except Exception as error:
            for queued in self._put_back(some, error):
                fulfil(queued.future, error_after(error, queued.is_doubtful))

    def _put_back(self, sent: list[_Queued], error: Exception) -> list[_Queued]:
        """Queues appends again that may be repeated, and returns those whose outcome is unknown."""
        now = time.monotonic()
        is_broken = isinstance(error, UnavailableError)
        lost = [queued for queued in sent if not queued.future.done()]
        again = [one for one in lost if is_broken and one.id is not None and now < one.give_up_at]
        if not isinstance(error, _core.NoQuorumError):
            for queued in again:
                queued.is_doubtful = True
        with self._changed:
            self._queue.extendleft(reversed(again))
            self._bytes += sum(queued.bytes for queued in again)
        if again:
            time.sleep(REPEAT_PAUSE_S)
        return [queued for queued in lost if queued not in again]

    def _taken_locked(self) -> _Queued:
        queued = self._queue.popleft()
        self._bytes -= queued.bytes
        self._changed.notify_all()
        return queued
