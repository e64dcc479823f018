"""Futures of asynchronous appends and commits, and the thread that fulfils them."""

from __future__ import annotations

import atexit
import itertools
import os
import threading
import weakref
from concurrent.futures import Future
from typing import Any

from topicdb import _core
from topicdb.arguments.wrong_types import has_arrow
from topicdb.engines.appends import fulfil
from topicdb.types import CommitKnown, Keys, Receipt


class Completer:
    """Hands out futures and fulfils them as the core reports outcomes. Thread-safe.

    A Database owns it. The thread starts with the first future; a database without asynchronous
    appends and commits has none. The thread ends with ``close``, or when the owner is gone and
    every future is fulfilled. If the program ends before the database is closed, an exit handler
    closes it, so that nothing queued is lost.
    """

    def __init__(self, core: _core.Database) -> None:
        self._core = core
        self._outcomes = _core.Completions()
        self._tokens = itertools.count(1)
        self._futures: dict[int, Future[Receipt]] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._retired = False

    def retire_with(self, owner: object) -> None:
        """Ends the thread when ``owner`` is gone and nothing is queued. The owner calls it once."""
        weakref.finalize(owner, self._retire).atexit = False

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
        append: Any = (
            self._core.append_arrow_async if has_arrow(messages) else self._core.append_rows_async
        )
        token, future = self._promised()
        try:
            append(messages, durability, self._outcomes, token, escapes, id, key)
        except BaseException:
            self._forget(token)
            raise
        return future

    def commit(
        self, transaction: _core.Transaction, *, urgent: bool = False, room_us: int | None = None
    ) -> Future[Receipt] | None:
        """Begins to commit a transaction, as ``AppendQueue.commit`` says."""
        token, future = self._promised()
        try:
            begun = transaction.commit_async(self._outcomes, token, urgent, room_us)
        except BaseException:
            self._forget(token)
            raise
        if begun:
            return future
        self._forget(token)
        return None

    def give_up(self, transaction: _core.Transaction) -> CommitKnown:
        """Withdraws a commit, as ``AppendQueue.give_up`` says."""
        return transaction.give_up()

    def _promised(self) -> tuple[int, Future[Receipt]]:
        """Returns a new future, and the token with which the core reports its outcome."""
        future: Future[Receipt] = Future()
        future.set_running_or_notify_cancel()  # what is queued cannot be cancelled
        token = next(self._tokens)
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="topicdb-completions", daemon=True
                )
                self._thread.start()
                _running.add(self)
            self._futures[token] = future
        return token, future

    def _forget(self, token: int) -> None:
        with self._lock:
            del self._futures[token]

    def close(self) -> None:
        """Ends the thread. REQUIRES of ``close``: the core has nothing queued any more."""
        self._outcomes.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def close_engine(self) -> None:
        """Finishes what is queued, closes the core, and ends the thread."""
        try:
            self._core.close()
        finally:
            self.close()

    def _retire(self) -> None:
        with self._lock:
            self._retired = True
            if not self._futures:
                self._outcomes.close()

    def _run(self) -> None:
        while outcomes := self._outcomes.take():
            for token, outcome in outcomes:
                with self._lock:
                    future = self._futures.pop(token)
                fulfil(future, outcome)
            with self._lock:
                if self._retired and not self._futures:
                    return


_process = os.getpid()
_running: weakref.WeakSet[Completer] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    # A thread that the core wakes up while the interpreter shuts down would abort the process.
    if os.getpid() == _process:
        for completer in list(_running):
            completer.close_engine()
