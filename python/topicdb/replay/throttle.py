"""Slows replays down while a program stores messages and the processors cannot do both."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

TICK_S = 0.05
BUSY = 0.75  # the part of the processors above which there is not enough for both
SLOWER, FASTER = 0.35, 1.05  # the limit changes by these factors, at each tick
MESSAGES_PER_S_MIN = 20_000.0
IDLE_S = 0.5  # replays wait no longer for a program that has committed nothing for this long
READ_ROWS = 1_000  # about how many messages an endpoint reads at once
WAIT_S_MIN, WAIT_S_MAX = 0.02, 1.0
_BURST_S = 0.05


def _usable_processors() -> int:
    """Returns how many processors this process may use, as far as the system tells."""
    if hasattr(os, "sched_getaffinity"):  # macOS has none
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class ReadThrottle:
    """Decides how many messages a second all replays of one log may read together.

    Replays may read any number, unless other messages are committed meanwhile and the process uses
    nearly all processors. The log owns this object, which lives as long as the log. Thread-safe.

    Arguments:
        commits: returns the number of commits so far, without those of the log itself.
        cpu_s: returns the processor time that the process has used so far, in seconds.
        clock: returns the seconds of a clock that does not step.
        processors: how many processors the process may use, or None to ask the system.
    """

    def __init__(
        self,
        commits: Callable[[], int],
        cpu_s: Callable[[], float] = time.process_time,
        clock: Callable[[], float] = time.monotonic,
        processors: int | None = None,
    ) -> None:
        self._commits = commits
        self._cpu_s = cpu_s
        self._clock = clock
        self._processors = processors or _usable_processors()
        self._lock = threading.Lock()
        self._per_s: float | None = None
        self._level = 0.0
        self._filled_s = clock()
        self._turn_s = clock()
        self._taken = 0
        self._seen = (clock(), cpu_s(), commits())
        self._committed_s = clock() - IDLE_S

    @property
    def per_s(self) -> float | None:
        """How many messages a second replays may read, or None for any number."""
        return self._per_s

    def wait_s(self) -> float:
        """Returns 0 if a replay may read now, or else the seconds after which it may ask again.

        Each caller gets its own turn. If a hundred endpoints asked again at the same moment, their
        questions would keep a processor busy, and only one of them could read.
        """
        with self._lock:
            self._look()
            if self._per_s is None:
                return 0.0
            now = self._clock()
            self._level += (now - self._filled_s) * self._per_s
            self._level = min(self._level, self._per_s * _BURST_S)
            self._filled_s = now
            if self._level > 0:
                return 0.0
            turn_s = max(self._turn_s, now - self._level / self._per_s)
            if turn_s < now + WAIT_S_MAX:
                self._turn_s = turn_s + READ_ROWS / self._per_s
            return min(max(turn_s - now, WAIT_S_MIN), WAIT_S_MAX)

    def count(self, messages: int) -> None:
        """Counts messages that a replay has read against the limit."""
        with self._lock:
            self._taken += messages
            self._level -= messages

    def _look(self) -> None:
        now = self._clock()
        passed = now - self._seen[0]
        if passed < TICK_S:
            return
        seen = now, self._cpu_s(), self._commits()
        busy = (seen[1] - self._seen[1]) / passed / self._processors
        if seen[2] > self._seen[2]:
            self._committed_s = now
        self._adjust(busy, now - self._committed_s < IDLE_S, self._taken / passed)
        self._seen, self._taken = seen, 0

    def _adjust(self, busy: float, is_ingesting: bool, per_s: float) -> None:
        if not is_ingesting:
            self._per_s = None
        elif busy > BUSY:
            if self._per_s is None:
                self._per_s, self._level, self._filled_s = per_s, 0.0, self._clock()
            self._per_s = max(self._per_s * SLOWER, MESSAGES_PER_S_MIN)
        elif self._per_s is not None:
            self._per_s *= FASTER
