"""Asynchronous appends and commits to any engine, by a thread."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeAlias

from topicdb import _core
from topicdb.arguments.wrong_types import has_arrow
from topicdb.engine import Engine, TransactionEngine
from topicdb.engines.columns import split_keys
from topicdb.engines.values import Row, checked_arrow, checked_keys, checked_rows
from topicdb.types import CommitKnown, Keys, Receipt
from topicdb.waiting import wait_for

PENDING_MAX = 10_000
PENDING_BYTES_MAX = 64 << 20
IDLE_S = 0.05

_logger = logging.getLogger(__name__)


def fulfil(future: Future[Receipt], outcome: Receipt | BaseException) -> None:
    """Gives a future its receipt or its error.

    ``Future`` passes on what a callback raises that is no Exception, such as the SystemExit of
    ``sys.exit``. That would end the thread, and futures behind this one would wait for ever.
    """
    try:
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
    except BaseException:
        _logger.exception("a callback of an append or a commit ended with an error")


@dataclass(eq=False)
class _Append:
    """An append that waits."""

    rows: list[Row]
    keys: list[bytes | None] | None
    size_bytes: int
    durability: str | None
    id: str | None
    future: Future[Receipt]

    def store(self, engine: Engine) -> Receipt:
        """Stores it in the engine."""
        return engine.append_rows(self.rows, self.durability, False, self.id, self.keys)


@dataclass(eq=False)
class _Commit:
    """A commit that waits. What its transaction writes is in memory in any case."""

    transaction: TransactionEngine
    future: Future[Receipt]
    size_bytes = 0

    def store(self, _engine: Engine) -> Receipt:
        """Stores it in the engine, of which the transaction is."""
        return self.transaction.commit()


_Work: TypeAlias = "_Append | _Commit"


class AppendThread:
    """Stores appends one by one, for an engine without a queue; made by ``Database.over``.

    It implements ``topicdb.engine.AppendQueue``. The database owns it. It gives the engine one
    append or commit after the other, in the order in which they came, and so gathers none. Its
    thread begins with the first, and ends when none came for a while. If the program ends before
    the database is closed, an exit handler closes it, so that nothing queued is lost. Thread-safe.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._changed = threading.Condition()
        self._queue: deque[_Work] = deque()
        self._running: _Work | None = None  # what is being stored
        self._pending = self._bytes = 0  # of what is not stored yet
        self._thread: threading.Thread | None = None
        self._closed = False

    def start(
        self,
        messages: Any,
        durability: str | None,
        *,
        escapes: bool,
        id: str | None,
        key: Keys | None = None,
    ) -> Future[Receipt]:
        """Queues an append, as ``AppendQueue.start`` says."""
        if has_arrow(messages):
            messages, key = split_keys(messages, key)
            rows = checked_arrow(messages, escapes)
        else:
            rows = checked_rows(messages, escapes)
        keys = checked_keys(key, len(rows), self._engine.schema, self._engine.path)
        size = sum(len(topic.encode()) + len(value) for topic, _, value in rows)
        with self._changed:
            wait_for(self._changed, self._has_room)
            return self._queued(_Append(rows, keys, size, durability, id, _promised()))

    def commit(
        self,
        transaction: TransactionEngine,
        /,
        *,
        urgent: bool = False,
        room_us: int | None = None,
    ) -> Future[Receipt] | None:
        """Begins to commit, as ``AppendQueue.commit`` says. Each goes as soon as it can."""
        with self._changed:
            room_s = None if room_us is None else room_us / 1e6
            if not wait_for(self._changed, self._has_room, room_s):
                transaction.rollback()
                return None
            if not transaction.open:
                raise _core.ClosedError("the transaction is over")
            return self._queued(_Commit(transaction, _promised()))

    def give_up(self, transaction: TransactionEngine, /) -> CommitKnown:
        """Withdraws a commit, as ``AppendQueue.give_up`` says.

        A commit that is being applied, or is over, is unknown: only its future tells.
        """
        with self._changed:
            waiting = next((work for work in self._queue if _is_of(work, transaction)), None)
            if waiting is not None:
                self._queue.remove(waiting)
                self._settle(waiting)
            elif _is_of(self._running, transaction) or not transaction.open:
                return "unknown"
            transaction.rollback()  # within the lock, so that no commit begins meanwhile
        if waiting is not None:
            fulfil(waiting.future, _core.ClosedError("this commit was withdrawn"))
        return "not stored"

    def close_engine(self) -> None:
        """Stores what is queued, and closes the engine. May be repeated."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._engine.close()

    def _has_room(self) -> bool:
        is_full = self._pending >= PENDING_MAX or self._bytes >= PENDING_BYTES_MAX
        return not is_full or self._closed

    def _queued(self, work: _Work) -> Future[Receipt]:
        """Queues work, and returns its future. REQUIRES: ``_changed`` is held."""
        if self._closed or self._engine.closed:
            raise _core.ClosedError(f"{self._engine.path} is closed")
        self._queue.append(work)
        self._pending += 1
        self._bytes += work.size_bytes
        self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="topicdb-appends", daemon=True)
            self._thread.start()
            _running.add(self)
        return work.future

    def _settle(self, work: _Work) -> None:
        """Makes room for other work. REQUIRES: ``_changed`` is held."""
        self._pending -= 1
        self._bytes -= work.size_bytes
        self._changed.notify_all()

    def _run(self) -> None:
        while (work := self._next()) is not None:
            outcome: Receipt | BaseException
            try:
                outcome = work.store(self._engine)
            except BaseException as error:
                outcome = error
            with self._changed:
                self._running = None
                self._settle(work)
            fulfil(work.future, outcome)

    def _next(self) -> _Work | None:
        """Returns what comes next, or None if the thread is to end."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._queue) or self._closed, IDLE_S)
            if self._queue:
                self._running = self._queue.popleft()
                return self._running
            self._thread = None
            return None


def _promised() -> Future[Receipt]:
    future: Future[Receipt] = Future()
    future.set_running_or_notify_cancel()  # only ``give_up`` takes back what is queued
    return future


def _is_of(work: _Work | None, transaction: TransactionEngine) -> bool:
    return isinstance(work, _Commit) and work.transaction is transaction


_process = os.getpid()
_running: weakref.WeakSet[AppendThread] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    if os.getpid() == _process:
        for appends in list(_running):
            appends.close_engine()
