"""Tests of Spark on hosts that do not see the directory of the database: they go over servers.

Driver and executors run in mount namespaces of their own, in which the directory is empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from clusters import EXECUTOR, Driver, driver, java_that_does_not_see, spark_home
from served import Process, serving
from spark_copies import (
    ROUNDS,
    appending,
    assert_copied,
    at_random,
    kill_at_random,
    kill_drivers,
    stored,
)

import topicdb

CLUSTER = "local-cluster[2,1,1024]"
pytestmark = pytest.mark.timeout(1800 + 60 * ROUNDS)


class Hosts:
    """Spark that sees none of ``data``. A test's fixture owns it."""

    def __init__(self, place: Path) -> None:
        self.data = place / "data"
        self.checkpoint = place / "checkpoint"
        self.data.mkdir()
        self._home = spark_home(place / "spark")
        self._java = java_that_does_not_see(self.data, place / "java")

    def driver(self, *arguments: object) -> AbstractContextManager[Driver]:
        """Starts a driver with two executors."""
        environment = {"JAVA_HOME": str(self._java)}
        return driver(self._home, CLUSTER, *arguments, environment=environment)


class ServedCopying:
    """A served database that grows, and another one to which a query copies it over its server."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._source, self._target = hosts.data / "source", hosts.data / "target"
        self._stop = hosts.checkpoint.with_name("stop")
        topicdb.open(self._target, shards=2).close()
        self._server = Process(self._target)
        self.address = self._server.url
        self._serving = ExitStack()
        database = self._serving.enter_context(topicdb.open(self._source, shards=3))
        self._source_address = self._serving.enter_context(serving(database)).url
        self._appending = ExitStack()
        self._appending.enter_context(appending(database))

    def __enter__(self) -> ServedCopying:
        return self

    def __exit__(self, *_: object) -> None:
        self._appending.close()
        self._serving.close()
        self._server.__exit__()

    def driver(self) -> AbstractContextManager[Driver]:
        """Starts a driver, which begins the query or goes on with it."""
        addresses = (self._source_address, self.address)
        return self._hosts.driver("copy", *addresses, self._hosts.checkpoint, self._stop)

    def kill_server(self) -> None:
        """Kills the server of the target, and starts it again at the same address."""
        self._server.kill()
        self._server = Process(self._target, "--listen", urlsplit(self.address).netloc)

    def finish(self, last: Driver) -> None:
        """Lets the driver copy what is left, and compares."""
        self._appending.close()
        self._stop.touch()
        last.finish()
        self._server.kill()
        self._serving.close()
        assert_copied(self._source, self._target)


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    return Hosts(tmp_path)


@pytest.fixture
def copying(hosts: Hosts) -> Iterator[ServedCopying]:
    with ServedCopying(hosts) as made:
        yield made


@pytest.mark.long
def test_tasks_that_fail_and_are_repeated(hosts: Hosts, tmp_path: Path) -> None:
    target, attempts = hosts.data / "db", tmp_path / "attempts"
    attempts.mkdir()
    topicdb.open(target, shards=3).close()
    with Process(target) as server, hosts.driver("save", server.url, 3_000, 6, attempts) as running:
        assert running.finish() == ["saved"]
    assert stored(target) == Counter((f"m/{i % 7}", i, b"%d" % i) for i in range(3_000))
    assert {"0-1", "3-1"} <= {path.name for path in attempts.iterdir()}


@pytest.mark.long
def test_a_query_from_server_to_server(copying: ServedCopying) -> None:
    with copying.driver() as running:
        running.await_line("query")
        copying.finish(running)


@pytest.mark.crash
def test_killed_executors(copying: ServedCopying) -> None:
    with copying.driver() as running:
        running.await_line("query")
        kill_at_random(running, EXECUTOR, 8)
        copying.finish(running)


@pytest.mark.crash
def test_killed_drivers(copying: ServedCopying) -> None:
    kill_drivers(copying.driver, seed=4)
    with copying.driver() as running:
        copying.finish(running)


@pytest.mark.crash
def test_killed_servers(copying: ServedCopying) -> None:
    """Kills may come while files are uploaded, and between a commit and its answer."""
    with copying.driver() as running:
        running.await_line("query")
        at_random(copying.kill_server, 5)
        copying.finish(running)
