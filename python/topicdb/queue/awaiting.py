"""Calls of a queue for asyncio: in threads of the queue's own, and waits that take no thread."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

from topicdb import _core

_APPENDS_MAX = 32  # appends that wait for the disk at the same time share an fsync
_TAKES_MAX = 4  # they do not wait, and those of one cursor come one after the other

Found = TypeVar("Found")
Returned = TypeVar("Returned")


class _Waiting:
    """One call that waits for items. Only the thread of its event loop uses it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ready = loop.create_future()
        self.is_over = False

    def begin(self) -> None:
        """Begins a look for items: what ``wake`` tells from now on ends the next ``wait``."""
        if self._ready.done():
            self._ready = self._loop.create_future()

    async def wait(self) -> None:
        """Waits until ``wake`` or ``end``."""
        await self._ready

    def wake(self) -> bool:
        """Wakes the call, and returns whether it was not woken before."""
        if self._ready.done():
            return False
        with suppress(RuntimeError):  # the loop is closed: nobody waits there any more
            self._ready.set_result(None)
        return True

    def end(self) -> None:
        """Wakes the call for the last time: its time is over."""
        self.is_over = True
        self.wake()


class _Line:
    """The calls of one event loop that wait for items of one cursor, in their order.

    ``Awaiting`` keeps it while it has calls. Only the thread of the event loop uses it.
    """

    def __init__(self) -> None:
        self.calls: list[_Waiting] = []

    def wake(self) -> None:
        """Wakes the first call that is not woken yet; when that one leaves, it wakes the next."""
        for call in self.calls:
            if call.wake():
                return


class Awaiting:
    """Makes the calls of a queue for event loops. Thread-safe.

    A queue has one, which its cursors share, and closes it. Calls run in threads of the queue's
    own, so that nothing else in a program keeps them from running: appends in some, which may wait
    for room, and takes of items in others, which do not wait. A call that waits for items has no
    thread meanwhile. Whatever adds items calls ``wake``.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._closed = False
        self._lock = threading.Lock()  # guards changes of _lines, not the reading of it
        # Never changed, but replaced, so that ``wake`` needs no lock.
        self._lines: dict[tuple[int, asyncio.AbstractEventLoop], _Line] = {}
        self._appends = ThreadPoolExecutor(_APPENDS_MAX, "topicdb-queue-append")
        self._takes = ThreadPoolExecutor(_TAKES_MAX, "topicdb-queue-take")

    async def append(self, call: Callable[[], Returned]) -> Returned:
        """Returns what ``call`` returns, which may wait for room or for the disk."""
        return await asyncio.wrap_future(self._submit(self._appends, call))

    async def first(
        self,
        cursor: int,
        take: Callable[[], Found | None],
        give_back: Callable[[Found], object],
        timeout_us: int | None,
    ) -> Found | None:
        """Returns the first thing that ``take`` returns, or None if the time is over before.

        ``take`` is called in another thread, and again after ``wake``. ``cursor`` is the number of
        the cursor that it takes items from. If the task is cancelled, ``give_back`` gets what
        ``take`` has returned, maybe in that thread.
        """
        found = await self._taken(take, give_back)
        if found is not None or timeout_us == 0:
            return found
        with self._waiting(cursor, timeout_us) as waiting:
            while not waiting.is_over:
                waiting.begin()
                found = await self._taken(take, give_back)
                if found is not None:
                    return found
                await waiting.wait()
        return None

    def wake(self) -> None:
        """Lets one call of each cursor and event loop look for items. It never waits."""
        if not self._lines or os.getpid() != self._pid:
            return
        for (_, loop), line in self._lines.items():
            with suppress(RuntimeError):  # the loop is closed: nobody waits there any more
                loop.call_soon_threadsafe(line.wake)

    def close(self) -> None:
        """Ends the threads when they have nothing more to do, and wakes the calls that wait."""
        if os.getpid() != self._pid:
            return  # a forked child has no such threads, and locks of theirs may be taken
        self._closed = True
        self._appends.shutdown(wait=False)
        self._takes.shutdown(wait=False)
        self.wake()

    @contextmanager
    def _waiting(self, cursor: int, timeout_us: int | None) -> Iterator[_Waiting]:
        """Has a call in its line within the block. At its end the next call gets its turn."""
        loop = asyncio.get_running_loop()
        call = _Waiting(loop)
        key = cursor, loop
        with self._lock:
            line = self._lines.get(key) or _Line()
            line.calls.append(call)
            self._lines = {**self._lines, key: line}
        timer = None if timeout_us is None else loop.call_later(timeout_us / 1e6, call.end)
        try:
            yield call
        finally:
            if timer is not None:
                timer.cancel()
            with self._lock:
                line.calls.remove(call)
                if not line.calls:
                    self._lines = {k: one for k, one in self._lines.items() if one is not line}
            line.wake()

    async def _taken(
        self, take: Callable[[], Found | None], give_back: Callable[[Found], object]
    ) -> Found | None:
        future = self._submit(self._takes, take)
        try:
            return await asyncio.wrap_future(future)
        except BaseException:
            future.cancel()
            future.add_done_callback(partial(_give_back, give_back))
            raise

    def _submit(
        self, threads: ThreadPoolExecutor, call: Callable[[], Returned]
    ) -> Future[Returned]:
        if os.getpid() == self._pid:
            try:
                return threads.submit(call)
            except RuntimeError:
                if not self._closed:
                    raise
        future: Future[Returned] = Future()
        try:
            future.set_result(call())  # it raises ClosedError or ForkedError
        except Exception as error:
            future.set_exception(error)
        return future


def _give_back(give_back: Callable[[Found], object], future: Future[Found | None]) -> None:
    if future.cancelled() or future.exception() is not None:
        return
    found = future.result()
    if found is not None:
        with suppress(_core.Error):  # once the queue is closed, they come when it is opened again
            give_back(found)
