"""Runs both sides of a comparison in turns and reports medians of CPU time."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROUNDS = 5


@dataclass
class Timing:
    """CPU seconds, over all threads of the process, and wall seconds: one of each for a round."""

    cpu_s: list[float] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)

    @property
    def cpu(self) -> float:
        return statistics.median(self.cpu_s)

    @property
    def wall(self) -> float:
        return statistics.median(self.wall_s)


def interleaved(
    sides: Mapping[str, Callable[[], object]], rounds: int = ROUNDS
) -> dict[str, Timing]:
    """Runs each side once in every round, so that a slow minute of the machine hits all of them.

    Every round begins with another side, so that no side always comes first.
    """
    timings = {name: Timing() for name in sides}
    names = list(sides)
    for round_number in range(rounds):
        first = round_number % len(names)
        for name in names[first:] + names[:first]:
            once(sides[name], timings[name])
    return timings


def once(side: Callable[[], object], timing: Timing) -> None:
    """Runs a side and adds to its timing; frees the side's result after the clock has stopped."""
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    result = side()
    timing.wall_s.append(time.perf_counter() - wall)
    timing.cpu_s.append(time.process_time() - cpu)
    del result


def rss_bytes() -> int:
    """Returns the resident memory at this moment."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_rss_bytes() -> int:
    """Returns the peak of resident memory since this program started or the peak was reset.

    getrusage would also count the memory of the parent process.
    """
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024
