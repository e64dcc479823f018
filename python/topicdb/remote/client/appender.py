"""Appends to a database in another process, for which nobody waits."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pyarrow as pa

from topicdb import _core
from topicdb._core import UnavailableError
from topicdb.remote.client.appending import REPEAT_PAUSE_S, append
from topicdb.remote.client.bundles import Bundle, Bundler, Waiting, table_of_bundles
from topicdb.remote.client.committing import Committer
from topicdb.remote.client.connection import Connection
from topicdb.remote.client.outgoing import packed
from topicdb.remote.client.reading import RemoteTransaction
from topicdb.remote.errors import unpacked
from topicdb.remote.records import record_of
from topicdb.types import CommitKnown, Keys, Receipt
from topicdb.waiting import wait_for

PENDING_BYTES_MAX = 64 << 20
GATHER_S = 0.001
IDLE_S = 0.05


class Appender:
    """Sends appends one after the other, without keeping the caller waiting. Thread-safe.

    The database that ``topicdb.connect`` returns owns it. Its thread begins with the first append,
    and ends when none came for a while. Commits go through a queue of their own.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._bundler = Bundler(connection)
        self._changed = threading.Condition()
        self._queue: deque[Waiting] = deque()
        self._bundles: deque[Bundle] = deque()  # of appends before those of the queue
        self._bytes = 0  # of both
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
        waiting = self._bundler.waiting(messages, durability, escapes=escapes, id=id, key=key)
        future = waiting.future
        if waiting.rows == 0:
            nothing = pa.record_batch(waiting.messages)
            future.set_result(append(self._connection, nothing, durability))
            return future
        with self._changed:
            self._connection.check_open()
            wait_for(self._changed, lambda: self._bytes < PENDING_BYTES_MAX or self._closed)
            if self._closed:
                raise _core.ClosedError(f"the connection to {self._connection.url} is closed")
            waiting.since = time.monotonic()
            self._queue.append(waiting)
            self._bytes += waiting.bytes
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

    def _next(self) -> list[Bundle]:
        """Returns what goes into the next call, or nothing if the thread is to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_work_locked() or self._closed, IDLE_S)
            if not self._has_work_locked():
                self._thread = None
                return []
            is_new = not self._bundles
        if is_new:
            time.sleep(GATHER_S)  # what comes meanwhile goes with it
        with self._changed:
            if not self._bundles:
                self._bundles.extend(self._bundler.bundles_of(self._queue))
            some = self._bundler.call_of(self._bundles)
            self._bytes -= sum(bundle.bytes for bundle in some)
            self._changed.notify_all()
        return some

    def _send(self, some: Sequence[Bundle]) -> None:
        """Sends bundles in one call, and gives each append its outcome."""
        again: list[Bundle] = []
        try:
            data = packed(self._connection, table_of_bundles(some))
            counts, ids = [bundle.rows for bundle in some], [bundle.id for bundle in some]
            more = [ids] if any(ids) else []
            durability = some[0].members[0].durability
            told = self._connection.call("append_async", durability, counts, data, *more)
            for number, is_error, outcome in told:
                bundle = some[number]
                if not is_error:
                    bundle.succeed(record_of(Receipt, outcome))
                elif bundle.is_fault_of_one(error := unpacked(outcome)):
                    bundle.is_over = True
                    again += [self._bundler.bundle([one]) for one in bundle.members]
                else:
                    bundle.fail(error)
        except Exception as error:
            again += self._to_repeat(some, error)
            repeated = set(again)
            for bundle in some:
                if not bundle.is_over and bundle not in repeated:
                    bundle.fail(error)
            if again:
                time.sleep(REPEAT_PAUSE_S)
        with self._changed:
            self._bundles.extendleft(reversed(again))
            self._bytes += sum(bundle.bytes for bundle in again)

    def _to_repeat(self, sent: Sequence[Bundle], error: Exception) -> list[Bundle]:
        """Returns the bundles of a call that failed which may be sent again."""
        if not isinstance(error, UnavailableError):
            return []
        now = time.monotonic()
        again = [
            one for one in sent if not one.is_over and one.id is not None and now < one.give_up_at
        ]
        if not isinstance(error, _core.NoQuorumError):
            for bundle in again:
                bundle.is_doubtful = True
        return again

    def _has_work_locked(self) -> bool:
        return bool(self._queue) or bool(self._bundles)
