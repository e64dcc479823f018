"""Commits of transactions in another process, for which no caller waits."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from topicdb import _core
from topicdb.engines.appends import fulfil
from topicdb.remote.client.connection import Connection
from topicdb.remote.client.reading import Changes, RemoteTransaction
from topicdb.remote.errors import unpacked
from topicdb.remote.records import record_of
from topicdb.types import Receipt
from topicdb.waiting import wait_for

PENDING_MAX = 1_000
TOGETHER_MAX = 1_000
TOGETHER_BYTES_MAX = 4 << 20
TOGETHER_JSON_BYTES_MAX = 1 << 20
GATHER_S = 0.001
IDLE_S = 0.05


@dataclass(eq=False)
class _Waiting:
    """A commit that was not sent yet."""

    transaction: RemoteTransaction
    changes: Changes
    urgent: bool
    future: Future[Receipt]


class Committer:
    """Sends commits one call after the other, in their order, several together. Thread-safe.

    The database that ``topicdb.connect`` returns owns it. Its thread begins with the first commit,
    and ends when none came for a while.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # A call has some bytes beside its values, for which the other half is more than enough.
        self._bytes_max = min(TOGETHER_BYTES_MAX, connection.hello["append_bytes_max"] // 2)
        self._changed = threading.Condition()
        self._queue: deque[_Waiting] = deque()
        self._thread: threading.Thread | None = None
        self._closed = False

    def commit(
        self, transaction: RemoteTransaction, *, urgent: bool, room_us: int | None
    ) -> Future[Receipt] | None:
        """Begins to commit, as ``AppendQueue.commit`` says."""
        self._connection.check_open()
        future: Future[Receipt] = Future()
        future.set_running_or_notify_cancel()  # only ``give_up`` takes a commit back
        with self._changed:
            room_s = None if room_us is None else room_us / 1e6
            if not wait_for(self._changed, self._has_room, room_s):
                transaction.leave()
                return None
            if self._closed:
                raise _core.ClosedError(f"the connection to {self._connection.url} is closed")
            waiting = _Waiting(transaction, transaction.begin_commit(), urgent, future)
            transaction.withdraw = self._withdrawal_of(waiting)
            self._queue.append(waiting)
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="topicdb-committer", daemon=True
                )
                self._thread.start()
        return future

    def _has_room(self) -> bool:
        return len(self._queue) < PENDING_MAX or self._closed

    def _withdrawal_of(self, waiting: _Waiting) -> Callable[[], bool]:
        def withdraw() -> bool:
            """Takes back a commit that was not sent; returns whether it did."""
            with self._changed:
                try:
                    self._queue.remove(waiting)
                except ValueError:
                    return False
                self._changed.notify_all()
            waiting.transaction.leave()
            fulfil(waiting.future, _core.ClosedError("this commit was withdrawn"))
            return True

        return withdraw

    def close(self) -> None:
        """Waits until everything that is queued is committed; no more can be queued."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while some := self._next():
            self._send(some)

    def _next(self) -> list[_Waiting]:
        """Returns the commits that go together in one call, or none if the thread is to end.

        Several go together only as far as a server takes them. A large one goes alone.
        """
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._queue) or self._closed, IDLE_S)
                if not self._queue:
                    self._thread = None
                    return []
                gathers = not self._closed and not any(waiting.urgent for waiting in self._queue)
            if gathers:
                time.sleep(GATHER_S)  # what comes meanwhile goes with it
            with self._changed:
                if some := self._taken():
                    self._changed.notify_all()
                    return some  # else all were withdrawn meanwhile

    def _taken(self) -> list[_Waiting]:
        """Takes the first commits out of the queue. REQUIRES: ``_changed`` is held."""
        some: list[_Waiting] = []
        size = json_bytes = 0
        while self._queue and len(some) < TOGETHER_MAX:
            first = self._queue[0]
            size += first.changes.bytes
            json_bytes += first.changes.json_bytes
            is_large = size > self._bytes_max or json_bytes > TOGETHER_JSON_BYTES_MAX
            is_of_another = bool(some) and first.transaction.lease is not some[0].transaction.lease
            if some and (is_large or is_of_another):
                break
            some.append(self._queue.popleft())
        return some

    def _send(self, some: list[_Waiting]) -> None:
        """Commits in one call, and gives each future its outcome."""
        outcomes: dict[int, Receipt | BaseException] = {}
        try:
            lease = some[0].transaction.lease
            plain = [[one.transaction.number, one.changes.items] for one in some]
            for number, is_error, outcome in lease.call("transaction.commit_each", plain):
                outcomes[number] = unpacked(outcome) if is_error else record_of(Receipt, outcome)
        except Exception as error:
            for number in range(len(some)):
                outcomes.setdefault(number, error)
        for number, one in enumerate(some):
            outcome = outcomes[number]
            if isinstance(outcome, _core.QuotaError):  # perhaps the call was not let in
                one.transaction.leave()
            one.transaction.ended()
            fulfil(one.future, outcome)
