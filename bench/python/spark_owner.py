"""A process that has a database open for writing and appends to it all the time (row 5).

python bench/python/spark_owner.py DATABASE: for each line of its input it prints, of the appends
since the line before, the longest and the median in ms, and their number.
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
    """Appends ten messages every 2 ms: ``run`` does so, in a thread of its own, until ``stop``."""

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
        """Returns how many ms each append since the last call has taken."""
        took, self._took_ms = self._took_ms, []
        return took

    def stop(self) -> None:
        self._stop.set()


class Owner:
    """Talks with the process that appends; ``owner`` makes it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def report(self) -> tuple[float, float, int]:
        """Returns of the appends since the last report the longest and median in ms, and the count.

        Waits until the process has opened the database.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        longest, middle, count = self._process.stdout.readline().split()
        return float(longest), float(middle), int(count)


@contextmanager
def owner(database: Path) -> Iterator[Owner]:
    """Runs a process that appends to the database while the block runs."""
    command = [sys.executable, __file__, str(database)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        found = Owner(process)
        found.report()  # returns once the database is open
        yield found
        assert process.stdin is not None
        process.stdin.close()  # ends the process
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
