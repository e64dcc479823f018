"""SIGTERM and Ctrl-C, for every command that runs until it is told to end.

The kernel may give a signal to any thread of the process. While threads of gRPC or RocksDB are
busy, or after SIGSTOP and SIGCONT, that is often not the main thread. Python notes the signal
there, and runs its handler when the main thread runs next, which a main thread that waits for a
lock never does. So the main thread waits for a pipe, into which Python writes in whichever thread
the signal arrives.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)
_READ_BYTES = 4_096


class Stopping:
    """Says whether the command is to end, and waits for that.

    One thread at a time calls ``is_set`` and ``wait``; any thread and signal handlers may call
    ``set``.
    """

    def __init__(self) -> None:
        self._read_end, self._write_end = os.pipe()
        for end in (self._read_end, self._write_end):
            os.set_blocking(end, False)
        self._poll = select.poll()
        self._poll.register(self._read_end, select.POLLIN)
        self._is_set = False

    @property
    def write_end(self) -> int:
        """Returns the pipe's end that wakes up ``wait``; a byte in it is the number of a signal."""
        return self._write_end

    def set(self) -> None:
        """Says that the command is to end."""
        self._is_set = True
        with suppress(BlockingIOError):  # the pipe is full: ``wait`` wakes up anyway
            os.write(self._write_end, bytes([signal.SIGTERM]))

    def is_set(self) -> bool:
        """Returns whether the command is to end."""
        self._take(0.0)
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Waits up to ``timeout`` seconds; returns whether the command is to end."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._is_set:
            left = None if end is None else max(0.0, end - time.monotonic())
            self._take(left)
            if left == 0.0:
                break
        return self._is_set

    def _take(self, timeout: float | None) -> None:
        """Reads which signals came; other signals that Python handles arrive here as well."""
        if self._is_set or not self._poll.poll(None if timeout is None else timeout * 1e3):
            return
        with suppress(BlockingIOError):
            numbers = os.read(self._read_end, _READ_BYTES)
            self._is_set = self._is_set or any(number in SIGNALS for number in numbers)

    def close(self) -> None:
        """Frees the pipe."""
        os.close(self._read_end)
        os.close(self._write_end)


@contextmanager
def stopped_by_signals() -> Iterator[Stopping]:
    """Lets SIGTERM and Ctrl-C end the command in the block, instead of the process.

    Outside of the main thread, where Python handles no signals, only ``Stopping.set`` does.
    """
    stopping = Stopping()
    try:
        if threading.current_thread() is threading.main_thread():
            with _handled(stopping):
                yield stopping
        else:
            yield stopping
    finally:
        stopping.close()


@contextmanager
def _handled(stopping: Stopping) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()

    descriptor = signal.set_wakeup_fd(stopping.write_end, warn_on_full_buffer=False)
    handlers = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(descriptor)
