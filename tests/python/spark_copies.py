"""A database that grows while Spark copies it, and processes of Spark that are killed meanwhile."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from clusters import Driver

import topicdb

ROUNDS = int(os.environ.get("TOPICDB_CRASH_ROUNDS", "2"))


def stored(path: Path) -> Counter[tuple[str, int, bytes]]:
    """Returns how often each message is stored."""
    with topicdb.open(path, mode="r") as database:
        return Counter((m.topic, m.timestamp, m.value) for m in database.scan("#"))


def assert_copied(source: Path, target: Path) -> None:
    """Checks that each message is stored once in both, and that no job is left in the target."""
    topicdb.open(target).close()  # applies what is committed, and sweeps the rest
    want, found = stored(source), stored(target)
    assert found == want
    assert set(found.values()) == {1}
    assert os.listdir(target / "jobs") == []


@contextmanager
def appending(database: topicdb.Database) -> Iterator[None]:
    """Makes about ten commits per second, of 50 messages each, until the end of the block."""
    ended = threading.Event()

    def append() -> None:
        serial = 0
        while not ended.wait(0.1):
            rows = [(f"m/{i % 13}/x", i, b"%d" % i) for i in range(serial, serial + 50)]
            database.append(rows)
            serial += 50

    thread = threading.Thread(target=append)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def kill_one(running: Driver, part: str, chance: random.Random) -> bool:
    """Kills one process with ``part`` in its command; returns whether there was one."""
    found = running.processes(part)
    if found:
        with suppress(ProcessLookupError):
            os.kill(chance.choice(found), signal.SIGKILL)
    return bool(found)


def kill_at_random(running: Driver, part: str, pause_max_s: float) -> None:
    """Kills processes with ``part`` in their command, ROUNDS times, after pauses of any length."""
    chance = random.Random(ROUNDS)

    def kill() -> None:
        until = time.monotonic() + 250
        while not kill_one(running, part, chance):
            assert time.monotonic() < until, f"no {part}"
            time.sleep(0.05)

    at_random(kill, pause_max_s)


def at_random(kill: Callable[[], None], pause_max_s: float) -> None:
    """Calls ``kill`` ROUNDS times, after pauses of any length."""
    chance = random.Random(ROUNDS)
    for _ in range(ROUNDS):
        time.sleep(chance.uniform(0.2, pause_max_s))
        kill()


def kill_drivers(start: Callable[[], AbstractContextManager[Driver]], seed: int) -> None:
    """Starts drivers of one query, ROUNDS / 2 times, and kills each after a pause of any length.

    So kills also come between TopicDB's commit and Spark's own.
    """
    chance = random.Random(seed)
    for _ in range(ROUNDS // 2):
        with start() as running:
            running.await_line("query")
            time.sleep(chance.uniform(0, 6))
            running.kill()
