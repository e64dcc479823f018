"""Defers signals whose handlers raise, such as Ctrl-C, where they would lose something."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Runs the handlers of Ctrl-C and SIGTERM after the block instead of within it.

    Python runs handlers in the main thread only; in other threads this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []

    def defer(number: int, frame: FrameType | None) -> None:
        came.append((number, frame))

    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    of_python = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in of_python:
        signal.signal(number, defer)
    try:
        yield
    finally:
        for number, handler in of_python.items():
            signal.signal(number, handler)
        for which, frame in came:
            of_python[signal.Signals(which)](which, frame)
