"""Futures of asynchronous appends, and the thread that fulfils them."""

from __future__ import annotations

import atexit
import itertools
import os
import threading
import weakref
from concurrent.futures import Future
from typing import Any

from topicdb import _core
from topicdb.arguments import has_arrow
from topicdb.types import Receipt


class Completer:
    """Hands out futures and fulfils them as the core reports outcomes. Thread-safe.

    The thread starts with the first future; a database without asynchronous appends has none. It
    ends with ``close``, or when ``owner`` is gone and every future is fulfilled. A program that
    ends without closing the database closes it then, so that nothing queued is lost.
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
        """To be called once, by what owns it."""
        weakref.finalize(owner, self._retire).atexit = False

    def start(
        self, messages: Any, durability: str | None, *, escapes: bool, id: str | None
    ) -> Future[Receipt]:
        """As ``AppendQueue.start``."""
        append: Any = (
            self._core.append_arrow_async if has_arrow(messages) else self._core.append_rows_async
        )
        future: Future[Receipt] = Future()
        future.set_running_or_notify_cancel()  # what is queued cannot be taken back
        token = next(self._tokens)
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="topicdb-completions", daemon=True
                )
                self._thread.start()
                _running.add(self)
            self._futures[token] = future
        try:
            append(messages, durability, self._outcomes, token, escapes, id)
        except BaseException:
            with self._lock:
                del self._futures[token]
            raise
        return future

    def close(self) -> None:
        """Ends the thread. The core must have no append left."""
        self._outcomes.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def close_engine(self) -> None:
        """Finishes what is queued, and ends."""
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
                if isinstance(outcome, BaseException):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)
            with self._lock:
                if self._retired and not self._futures:
                    return


_process = os.getpid()
_running: weakref.WeakSet[Completer] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    # Threads that the core wakes up while Python takes itself apart would abort the process.
    if os.getpid() == _process:
        for completer in list(_running):
            completer.close_engine()
