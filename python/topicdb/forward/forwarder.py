"""The forwarder: delivers items from a queue to a sink, at least once."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from topicdb._core import Error
from topicdb.closing import first_error
from topicdb.forward.options import (
    OnError,
    Options,
    Poison,
    Seconds,
    finite_seconds,
    seconds,
)
from topicdb.forward.pump import Pump
from topicdb.forward.sink import AnySink, as_async
from topicdb.forward.status import Health, Metrics, Status
from topicdb.queue.consumer import Consumer
from topicdb.queue.queue import Queue

# A run that ends at most this long after the deadline of a stop is still waited for. If it takes
# longer, the sink hangs.
GRACE_SECONDS = 0.5


class Forwarder:
    """Takes items from a queue and delivers them to a sink, at least once and in their order.

    An item is acknowledged when the sink has confirmed it. If an attempt fails, the item and those
    that were sent behind it are sent again, in order, until the sink confirms them. So an item may
    come twice, but never stays behind newer ones. Items that are not confirmed when the forwarder
    stops remain in the queue. The order is that of the cursor; if the cursor has other consumers,
    that of the items that the forwarder gets.

    Use it in ``with``, call ``start`` and ``stop``, or call ``run`` in a thread of your own. You
    may start it again. Thread-safe. A program that ends without ``stop`` stops it.

    Example:
        >>> with topicdb.Queue.open("out.q") as queue:
        ...     receipt = queue.append([b"started"])
        ...     topicdb.Forwarder(queue, print).run(until_empty=True)
        [b'started']
    """

    def __init__(
        self,
        queue: Consumer,
        sink: AnySink,
        *,
        cursor: str | None = None,
        batch_count: int = 1000,
        batch_bytes: int = 2_000_000,
        in_flight_max: int = 4,
        retry_min: Seconds = 0.1,
        retry_max: Seconds = 30.0,
        retry_jitter: float = 1.0,
        confirm_timeout: Seconds | None = 120.0,
        stop_timeout: Seconds = 10.0,
        poison: Poison = "stop",
        on_error: OnError | None = None,
    ) -> None:
        """Checks the options. ``start`` or ``run`` begins to forward.

        Arguments:
            queue: a queue or one of its cursors. The forwarder does not close it.
            sink: see ``topicdb.forward``; or a function that is called with each batch, a list of
                bytes, and returns when it is delivered. A sink serves one forwarder.
            cursor: the name of the queue's cursor to use, which is made if there is none.
            batch_count: the most items of a batch.
            batch_bytes: the most bytes of a batch, which has at least one item.
            in_flight_max: how many batches a sink with confirmations may have at a time.
            retry_min: the pause after a failed attempt, in seconds. It doubles with each further
                failure in a row.
            retry_max: the longest pause, in seconds.
            retry_jitter: 0 to 1: a random share of the pause, at most this one, is left out.
            confirm_timeout: an attempt fails if nothing is confirmed for this many seconds; None:
                no limit. There is no limit for a function, or a sink with ``deliver``.
            stop_timeout: how many seconds ``stop`` and the end of ``with`` wait.
            poison: what happens to an item for which the sink raises PermanentError. ``"stop"``:
                the item stays, and the forwarder ends as failed. ``"drop"``: the item goes. A
                function is called with [item] and the error, and may put the item elsewhere; if it
                raises, it is called again after a pause. Batches are halved to find the item, so
                others may come twice.
            on_error: is called with the error of each failed attempt, by the forwarder's thread.

        Raises:
            ValueError, TypeError: a bad option. What ``Queue.cursor`` raises comes through, too.
        """
        if cursor is not None:
            if not isinstance(queue, Queue):
                raise ValueError("cursor= names a cursor of a queue; this is no queue")
            queue = queue.cursor(cursor)
        self._source = queue
        self._sink = as_async(sink)
        self._options = Options(
            batch_count=batch_count,
            batch_bytes=batch_bytes,
            in_flight_max=in_flight_max,
            retry_min=finite_seconds(retry_min, "retry_min"),
            retry_max=finite_seconds(retry_max, "retry_max"),
            retry_jitter=retry_jitter,
            confirm_timeout=seconds(confirm_timeout, "confirm_timeout"),
            stop_timeout=finite_seconds(stop_timeout, "stop_timeout"),
            poison=poison,
            on_error=on_error,
        )
        self._status = Status()
        self._lock = threading.RLock()
        self._pump: Pump | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts to forward, in a thread of its own.

        Raises:
            RuntimeError: it runs already.
        """
        with self._lock:
            pump = self._new_pump(until_empty=False)
            self._thread = threading.Thread(
                target=_run_quietly, args=[pump], name="topicdb-forwarder", daemon=True
            )
            _running.add(pump)
            self._thread.start()

    def run(self, *, until_empty: bool = False) -> None:
        """Forwards in this thread until ``stop`` is called or the queue is closed.

        After Ctrl-C, items that are not confirmed are back in the queue.

        Arguments:
            until_empty: also ends when no item waits.

        Raises:
            PermanentError: the sink will not take an item (``poison="stop"``).
            NotFoundError: the cursor was removed.
            RuntimeError: the forwarder runs already.
        """
        with self._lock:
            pump = self._new_pump(until_empty)
            self._thread = None
        pump.run()

    def stop(self, timeout: Seconds | None = None, drain: bool = False) -> bool:
        """Takes no more items, waits until those in flight are confirmed, and ends.

        You may call it again. In the forwarder's own thread (a callback or a signal handler) it
        only asks for the end, and returns False.

        Arguments:
            timeout: how many seconds to wait; None: ``stop_timeout``. Then items that are not
                confirmed go back into the queue. They go back at once if an attempt has failed and
                ``drain`` is not given. If the sink hangs, its thread is left behind; a later call
                says whether it has ended.
            drain: first forwards until no item waits.

        Returns:
            Whether all of these items were confirmed.
        """
        with self._lock:
            pump, thread = self._pump, self._thread
        if pump is None:
            return True
        if pump.process_id != os.getpid():
            return False  # it runs in the parent of this process
        deadline = pump.default_deadline()
        if timeout is not None:
            deadline = time.monotonic() + finite_seconds(timeout, "timeout")
        pump.request_stop(deadline, drain)
        if pump.is_own_thread and not pump.ended:
            return False
        if not pump.wait_until_ended(deadline + GRACE_SECONDS):
            pump.give_up()
            return False
        if thread is not None:
            thread.join()
        return pump.complete

    def wait_for(self, predicate: Callable[[], bool], timeout: Seconds | None = None) -> bool:
        """Waits until ``predicate()`` is true, and returns whether it is.

        Arguments:
            predicate: a function that returns whether the wait is over. It is called at once, and
                after whatever the forwarder does: an item was taken, confirmed or given back, an
                attempt failed, the state changed. It must not wait itself.
            timeout: how many seconds to wait; None: for ever.

        Returns:
            What ``predicate`` has returned last.

        Example:
            >>> forwarder.wait_for(lambda: len(queue) == 0, timeout=10)       # doctest: +SKIP
        """
        return self._status.wait_for(predicate, seconds(timeout, "timeout"))

    @property
    def health(self) -> Health:
        """Its state, since when it has that, and the last error."""
        return self._status.health

    def metrics(self) -> Metrics:
        """Returns what it has delivered, and how much waits."""
        waiting: int | None
        try:
            waiting = len(self._source)
        except Error:  # closed, or the cursor was removed
            waiting = None
        return self._status.metrics(waiting)

    def _new_pump(self, until_empty: bool) -> Pump:
        if self._pump is not None and not self._pump.ended:
            raise RuntimeError("the forwarder runs already, or its sink hangs since it was stopped")
        self._pump = Pump(self._source, self._sink, self._options, self._status, until_empty)
        self._status.enter("idle")
        return self._pump

    def __enter__(self) -> Forwarder:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with first_error(error):
            self.stop()

    def __repr__(self) -> str:
        return f"<topicdb.Forwarder of {self._source!r}: {self.health.state}>"


def _run_quietly(pump: Pump) -> None:
    with suppress(Exception):  # Forwarder.health has the error
        try:
            pump.run()
        finally:
            _running.discard(pump)


_process = os.getpid()
_running: set[Pump] = set()  # those with a thread of their own


@atexit.register
def _stop_all() -> None:
    # A thread that still runs while the interpreter shuts down would abort the process.
    if os.getpid() != _process:
        return
    pumps = list(_running)
    for pump in pumps:
        pump.request_stop(pump.default_deadline(), drain=False)
    for pump in pumps:
        pump.wait_until_ended(pump.default_deadline() + GRACE_SECONDS)
