"""A process that has a database open for writing and appends to it all the time (row 5).

python bench/python/spark_owner.py DATABASE: for each line that it reads it prints the longest and
the median append since the last one, in ms, and their number.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import topicdb

PAUSE_SECONDS = 0.002
TOPICS = 50


class Appender:
    """Appends ten messages every 2 ms."""

    def __init__(self, database: topicdb.Database) -> None:
        self._database = database
        self._took_ms: list[float] = []
        self._stop = threading.Event()

    def run(self) -> None:
        number = 0
        while not self._stop.wait(PAUSE_SECONDS):
            rows = [(f"owner/{(number + i) % TOPICS}", None, b"%d" % number) for i in range(10)]
            began = time.perf_counter()
            self._database.append(rows)
            self._took_ms.append((time.perf_counter() - began) * 1e3)
            number += 10

    def take(self) -> list[float]:
        took, self._took_ms = self._took_ms, []
        return took

    def stop(self) -> None:
        self._stop.set()


class Owner:
    """Talks with such a process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def report(self) -> tuple[float, float, int]:
        """Longest and median append since the last report, in ms; how many."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        longest, middle, count = self._process.stdout.readline().split()
        return float(longest), float(middle), int(count)


@contextmanager
def owner(database: Path) -> Iterator[Owner]:
    command = [sys.executable, __file__, str(database)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        found = Owner(process)
        found.report()  # it is open
        yield found
        assert process.stdin is not None
        process.stdin.close()  # its end
        if process.wait(60):
            raise SystemExit("the owner of the database failed")


def main() -> None:
    with topicdb.open(sys.argv[1]) as database:
        appender = Appender(database)
        thread = threading.Thread(target=appender.run)
        thread.start()
        for _ in sys.stdin:
            took = appender.take() or [0.0]
            print(max(took), statistics.median(took), len(took), flush=True)
        appender.stop()
        thread.join()


if __name__ == "__main__":
    main()
