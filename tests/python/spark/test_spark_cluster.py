"""Tests of Spark with real executors and workers, of which any may be killed.

A streaming query copies one database to another, and both must be equal in the end.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest
from clusters import EXECUTOR, Driver, driver, spark_home, standalone
from spark_copies import ROUNDS, appending, assert_copied, kill_at_random, kill_drivers, stored

import topicdb

PYTHON = "-m pyspark."  # workers of tasks, the worker that plans the stream, and the daemon
pytestmark = pytest.mark.timeout(1800 + 60 * ROUNDS)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return spark_home(tmp_path / "spark")


class Copying:
    """A database that grows, and the target of the query that copies it, perhaps with an owner."""

    def __init__(self, directory: Path, home: Path, master: str, *, owned: bool) -> None:
        self._source, self._target = directory / "source", directory / "target"
        self._stop = directory / "stop"
        self._arguments = (self._source, self._target, directory / "checkpoint", self._stop)
        self._home, self._master = home, master
        topicdb.open(self._source, shards=3).close()
        topicdb.open(self._target, shards=2).close()
        self._owner = ExitStack()
        if owned:
            self._owner.enter_context(topicdb.open(self._target))
        self._appending = ExitStack()
        self._appending.enter_context(
            appending(self._appending.enter_context(topicdb.open(self._source)))
        )

    def __enter__(self) -> Copying:
        return self

    def __exit__(self, *_: object) -> None:
        self._appending.close()
        self._owner.close()

    def driver(self) -> AbstractContextManager[Driver]:
        """Starts a driver, which begins the query or goes on with it."""
        return driver(self._home, self._master, "copy", *self._arguments)

    def finish(self, last: Driver) -> list[str]:
        """Lets the driver copy what is left, compares, and returns the lines that it printed."""
        self._appending.close()
        self._stop.touch()
        lines = last.finish()
        self._owner.close()
        assert_copied(self._source, self._target)
        return lines


@pytest.mark.crash
@pytest.mark.parametrize("owned", [False, True], ids=["alone", "with an owner"])
def test_killed_drivers(tmp_path: Path, home: Path, owned: bool) -> None:
    with Copying(tmp_path, home, "local[2]", owned=owned) as copying:
        kill_drivers(copying.driver, seed=3)
        with copying.driver() as running:
            copying.finish(running)


@pytest.mark.crash
@pytest.mark.parametrize(
    ("master", "part", "owned", "pause_max_s"),
    [
        pytest.param("local[2,8]", PYTHON, True, 3, id="Python workers"),
        # An executor needs some seconds to start.
        pytest.param("local-cluster[2,1,1024]", EXECUTOR, False, 8, id="executors"),
    ],
)
def test_killed_tasks(
    tmp_path: Path, home: Path, master: str, part: str, owned: bool, pause_max_s: float
) -> None:
    with Copying(tmp_path, home, master, owned=owned) as copying, copying.driver() as running:
        running.await_line("query")
        kill_at_random(running, part, pause_max_s)
        copying.finish(running)


def saved_once(directory: Path, home: Path, master: str) -> set[str]:
    """Runs a job of six tasks, checks what it stored, and returns its attempts by name."""
    target, attempts = directory / "db", directory / "attempts"
    attempts.mkdir()
    topicdb.open(target, shards=3).close()
    with driver(home, master, "save", target, 3_000, 6, attempts) as running:
        assert running.finish() == ["saved"]
    assert stored(target) == Counter((f"m/{i % 7}", i, b"%d" % i) for i in range(3_000))
    assert os.listdir(target / "jobs") == []
    return set(os.listdir(attempts))


@pytest.mark.long
def test_tasks_that_fail_and_are_repeated(tmp_path: Path, home: Path) -> None:
    attempts = saved_once(tmp_path, home, "local[2,4]")
    assert attempts == {*(f"{task}-0" for task in range(6)), "0-1", "3-1"}


@pytest.mark.long
def test_speculative_tasks(tmp_path: Path, home: Path) -> None:
    """A second attempt of a stalled task, on another host, wins; the first one is killed."""
    with standalone(home, ["127.0.0.2", "127.0.0.3"]) as master:
        assert "0-1" in saved_once(tmp_path, home, master)
