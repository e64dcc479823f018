"""Defers signals whose handlers raise, such as Ctrl-C, where they would lose something."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TypeAlias

Handler: TypeAlias = "Callable[[int, FrameType | None], object]"


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Runs the handlers of Ctrl-C and SIGTERM after the block instead of within it.

    Python runs handlers in the main thread only; in other threads this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    interrupt, terminate = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    of_python: dict[int, Handler] = {
        number: handler
        for number, handler in ((signal.SIGINT, interrupt), (signal.SIGTERM, terminate))
        if callable(handler)
    }
    is_over = False

    def defer(number: int, frame: FrameType | None) -> None:
        if is_over:  # the program's own handler is not yet back in its place
            of_python[number](number, frame)
        else:
            came.append((number, frame))

    # A handler that is not replaced yet, or is back already, may raise between any two lines here.
    try:
        for number in of_python:
            signal.signal(number, defer)
        yield
    finally:
        is_over = True
        try:
            _restore(signal.SIGINT, of_python)
        finally:
            try:
                _restore(signal.SIGTERM, of_python)
            finally:
                _run(came, of_python)


def _restore(number: int, handlers: Mapping[int, Handler]) -> None:
    if number in handlers:
        signal.signal(number, handlers[number])


def _run(came: list[tuple[int, FrameType | None]], handlers: Mapping[int, Handler]) -> None:
    """Runs the handlers of all signals that came, also if some of them raise."""
    if not came:
        return
    number, frame = came.pop(0)
    try:
        handlers[number](number, frame)
    finally:
        _run(came, handlers)
