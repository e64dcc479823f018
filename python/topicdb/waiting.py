"""Waiting for other threads without missing signals."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

SLICE_S = 0.5
"""The kernel may give a signal to any thread of the process. Python runs its handler in the main
thread, when that next runs: so often a thread that waits wakes up."""


def wait_for(
    changed: threading.Condition, is_so: Callable[[], bool], timeout_s: float | None = None
) -> bool:
    """Waits like ``Condition.wait_for``, and lets signal handlers run meanwhile.

    One of them is that of Ctrl-C.
    """
    end = None if timeout_s is None else time.monotonic() + timeout_s
    while not (found := is_so()):
        left = SLICE_S if end is None else min(SLICE_S, end - time.monotonic())
        if left <= 0:
            break
        changed.wait(left)
    return found
