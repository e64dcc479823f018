"""One run of a forwarder: takes batches from the queue, sends them, and acknowledges them."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from topicdb._core import ClosedError, Error, ForkedError, NotFoundError
from topicdb.forward.interrupts import uninterrupted
from topicdb.forward.options import Options
from topicdb.forward.sink import AsyncSink, PermanentError, PolledSink, failed, has_failed
from topicdb.forward.status import Status
from topicdb.queue.consumer import Consumer, Ref

_logger = logging.getLogger(__name__)
IDLE_SECONDS = 0.1  # how long it waits without looking for anything else
BUSY_SECONDS = 0.02  # how long while both new items and confirmations may come


@dataclass(slots=True)
class Batch:
    """Items in flight. ``future`` is None while they are not with the sink."""

    items: list[bytes]
    ref: Ref
    future: Future[None] | None = None
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class StopRequest:
    """A request of ``Forwarder.stop``."""

    deadline: float  # by time.monotonic()
    drain: bool


class _EndError(Exception):
    """Ends the run: with an error, or (None) because the queue was closed or the run given up."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error


@contextmanager
def _queue_call() -> Iterator[None]:
    """Turns errors of the forwarder's queue into ``_EndError``, which errors of the sink are not.

    The sink may use a queue or database of its own.
    """
    try:
        yield
    except ClosedError:
        raise _EndError(None) from None
    except (NotFoundError, ForkedError) as error:
        raise _EndError(error) from None


class Pump:
    """One run of a forwarder, in the thread that calls ``run``.

    The window and the sink belong to that thread. Other threads may call ``request_stop``,
    ``wait_until_ended`` and ``give_up``; signal handlers may call ``request_stop``.

    The window has the batches in flight, oldest first. Only its head is ever acknowledged. When the
    head fails, the sink is closed, which gives up the batches behind it, and all are sent again: so
    no item can arrive behind a newer one and stay there.
    """

    def __init__(
        self, source: Consumer, sink: AsyncSink, options: Options, status: Status, until_empty: bool
    ) -> None:
        self._source = source
        self._sink = sink
        self._polled = sink if isinstance(sink, PolledSink) else None
        self._options = options
        self._status = status
        self._until_empty = until_empty
        self._window: deque[Batch] = deque()
        self._window_max = options.in_flight_max
        self._count = options.batch_count  # the most items of the next batch
        self._opened = False
        self._empty = False  # nothing waits, and nothing is in flight
        self._failures = 0  # in a row
        self._progress_at = 0.0  # when the head became the head, or was sent
        self._stop: StopRequest | None = None
        self._given_up = False
        self._ended = False
        self._thread: int | None = None
        self.process_id = os.getpid()
        self.complete = False  # once ended: whether everything it had to confirm was confirmed
        self._wake = threading.Condition()  # with an RLock, as signal handlers need it
        self._lock = threading.RLock()  # held for steps that give_up must not interrupt

    # For other threads.

    @property
    def ended(self) -> bool:
        return self._ended

    @property
    def is_own_thread(self) -> bool:
        return self._thread == threading.get_ident()

    def default_deadline(self) -> float:
        return time.monotonic() + self._options.stop_timeout

    def request_stop(self, deadline: float, drain: bool) -> None:
        with self._wake:
            self._stop = StopRequest(deadline, drain)
            self._wake.notify_all()

    def wait_until_ended(self, deadline: float) -> bool:
        with self._wake:
            return self._wake.wait_for(lambda: self._ended, max(0.0, deadline - time.monotonic()))

    def give_up(self) -> None:
        """Leaves a thread that hangs in the sink behind; its items can be popped again at once."""
        with self._lock:
            if self._ended or self._given_up:
                return
            self._given_up = True
            self._give_back()
        self._status.enter("stopped", TimeoutError("the sink did not return while stopping"))

    # For its own thread.

    def run(self) -> None:
        """Runs until it is to end or the queue is closed; raises any other error that ends it."""
        self._thread = threading.get_ident()
        error: BaseException | None = None
        try:
            while not self._is_finished():
                self._attempt()
        except _EndError as end:
            error = end.error
        except BaseException as other:  # Ctrl-C in the user's thread, or our own mistake
            error = other
        try:
            self._end(error)
        finally:
            with self._wake:
                self._ended = True
                self._wake.notify_all()
        if error is not None:
            raise error

    @property
    def _drains(self) -> bool:
        """Whether it ends when no item waits."""
        return self._until_empty or (self._stop is not None and self._stop.drain)

    def _is_finished(self) -> bool:
        stop = self._stop
        if self._given_up:
            return True
        if stop is None:
            return self._until_empty and self._empty
        if time.monotonic() >= stop.deadline:
            return True
        if stop.drain:
            return self._empty
        return all(batch.future is None for batch in self._window)

    def _attempt(self) -> None:
        try:
            self._step()
        except _EndError:
            raise
        except Exception as error:
            self._retry(error)

    def _step(self) -> None:
        if not self._opened and (self._window or not self._drains):
            self._opened = True  # even if open raises: the sink may have to be closed then
            self._sink.open()
        self._send()
        self._settle()
        if self._may_take() and self._take():
            return
        self._wait()

    def _may_take(self) -> bool:
        if self._stop is not None and not self._stop.drain:
            return False
        if any(batch.future is None or has_failed(batch.future) for batch in self._window):
            return False  # it would only be sent again
        return len(self._window) < self._window_max

    def _take(self) -> bool:
        with uninterrupted():  # a signal must not come between pop and the window
            return self._pop()

    def _pop(self) -> bool:
        waits = not self._window and not self._drains
        with _queue_call():
            popped = self._source.pop(
                self._count,
                self._options.batch_bytes,
                timeout=IDLE_SECONDS if waits else 0,
                raw=True,
            )
        if popped.ref is None:
            self._empty = not self._window
            if self._empty:
                self._status.enter("idle")
            return False
        with self._lock:
            if self._given_up:
                with _queue_call():
                    self._source.nack(popped.ref)
                raise _EndError(None)
            self._window.append(Batch(popped.items, popped.ref))
            self._status.took(len(popped.items))
        self._empty = False
        return True

    def _send(self) -> None:
        for batch in list(self._window):
            future = batch.future or self._begin(batch)
            if has_failed(future):
                return  # nothing must get ahead of it

    def _begin(self, batch: Batch) -> Future[None]:
        if batch is self._window[0]:
            self._progress_at = time.monotonic()
        if batch.attempts > 0:
            self._status.sends_again()
        batch.attempts += 1
        try:
            future = self._sink.begin(batch.items)
        except Exception as error:
            future = failed(error)
        batch.future = future
        if self._polled is None:
            future.add_done_callback(self._notify)
        return future

    def _notify(self, _: Future[None]) -> None:
        with self._wake:
            self._wake.notify_all()

    def _settle(self) -> None:
        """Acknowledges what is confirmed, in order; raises if the head of the window has failed."""
        while self._window:
            head = self._window[0]
            if head.future is None or not head.future.done():
                return
            try:
                head.future.result()
            except PermanentError as error:
                self._refused(head, error)
                return
            with uninterrupted():
                self._leave(head)
                self._status.delivered(len(head.items), sum(map(len, head.items)))
            self._failures = 0
            self._count = min(self._options.batch_count, 2 * self._count)
            if self._count == self._options.batch_count:
                self._window_max = self._options.in_flight_max

    def _leave(self, head: Batch) -> None:
        """Acknowledges the head of the window and removes it."""
        with self._lock:
            if self._given_up:
                raise _EndError(None)
            with _queue_call():
                self._source.ack(head.ref)
            self._window.popleft()
        self._progress_at = time.monotonic()

    def _refused(self, head: Batch, error: PermanentError) -> None:
        """Halves batches until the refused item is alone, then does as ``poison`` says."""
        self._status.failed(error)
        self._tell(error)
        if self._options.poison == "stop":
            raise _EndError(error)
        alone = len(self._window) == 1
        self._close_sink()
        if len(head.items) > 1 or not alone:  # some sinks cannot say which batch is at fault
            self._count = max(1, len(head.items) // 2)
            self._window_max = 1
            with uninterrupted(), self._lock:
                self._give_back()
                self._window.clear()
            return
        if callable(self._options.poison):
            self._options.poison(head.items, error)  # an error of it is a failed attempt
        with uninterrupted():
            self._leave(head)
            self._status.dropped(len(head.items))

    def _retry(self, error: Exception) -> None:
        """Pauses after a failed attempt; then everything in the window is sent again."""
        self._failures += 1
        self._status.failed(error)
        self._tell(error)
        self._close_sink()
        until = time.monotonic() + self._options.pause(self._failures)
        with self._wake:
            while not self._is_finished() and (rest := until - time.monotonic()) > 0:
                stop = self._stop
                if stop is not None:
                    rest = min(rest, max(0.0, stop.deadline - time.monotonic()))
                self._wake.wait(rest)

    def _wait(self) -> None:
        """Waits until something is confirmed, or for a moment."""
        future = self._window[0].future if self._window else None
        if future is not None:
            self._check_overdue()
        timeout = 0.0 if future is None else BUSY_SECONDS if self._may_take() else IDLE_SECONDS
        if self._polled is not None:
            self._polled.poll(timeout)
        elif future is not None:
            stop = self._stop
            with self._wake:
                self._wake.wait_for(lambda: future.done() or self._stop is not stop, timeout)

    def _check_overdue(self) -> None:
        limit = self._options.confirm_timeout
        if limit is not None and time.monotonic() - self._progress_at > limit:
            raise TimeoutError(f"the sink has confirmed nothing for {limit} s (confirm_timeout)")

    def _tell(self, error: Exception) -> None:
        if self._options.on_error is None:
            return
        try:
            self._options.on_error(error)
        except Exception:
            _logger.exception("on_error of a forwarder")

    def _close_sink(self) -> None:
        """Closes the sink, which gives up what is not confirmed."""
        for batch in self._window:
            batch.future = None
        if not self._opened:
            return
        self._opened = False
        try:
            self._sink.close()
        except Exception:
            _logger.exception("closing the sink of a forwarder")

    def _give_back(self) -> None:
        with suppress(Error):  # a queue that is closed gives them again when it is opened
            for batch in self._window:
                self._source.nack(batch.ref)
        self._status.gave_back(sum(len(batch.items) for batch in self._window))

    def _end(self, error: BaseException | None) -> None:
        self.complete = error is None and (self._empty if self._drains else not self._window)
        self._close_sink()
        with self._lock:
            if self._given_up:
                return
            self._give_back()
        if error is None or isinstance(error, KeyboardInterrupt):
            self._status.enter("stopped")
        else:
            self._status.enter("failed", error)
