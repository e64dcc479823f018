"""The engine of a client keeps the promises, whatever engine its server has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conforming import check

import topicdb
from examples.memory_engine import open_memory
from examples.memory_engine.engine import MemoryEngine
from topicdb.conformance import Promise, Subject, promises
from topicdb.conformance.ours import REMOTE
from topicdb.engine import Engine
from topicdb.engines import lacks_of

pytest.importorskip("pyarrow.flight")


@contextmanager
def served_memory(path: str) -> Iterator[Engine]:
    """Opens the example, and a server for it, and connects to that."""
    with (
        topicdb.Database.over(open_memory(path)) as database,
        topicdb.serve(database) as server,
        topicdb.connect(server.url) as client,
    ):
        yield client.engine


SERVED = Subject("a server of the example", served_memory)


@pytest.mark.parametrize("promise", promises(), ids=str)
def test_a_server_of_a_database(promise: Promise) -> None:
    check(promise, REMOTE, frozenset())


@pytest.mark.long
@pytest.mark.parametrize("promise", promises(), ids=str)
def test_a_server_of_the_example(promise: Promise) -> None:
    check(promise, SERVED, frozenset({"persistence", "retention", "snapshots", "jobs"}))


def test_a_client_is_told_what_the_engine_of_the_server_lacks(tmp_path: Path) -> None:
    with served_memory(str(tmp_path)) as engine:
        assert lacks_of(engine) == lacks_of(MemoryEngine("here", 1))
        database = topicdb.Database.over(engine)
        with pytest.raises(NotImplementedError, match="retention"):
            engine.retention()
        with pytest.raises(NotImplementedError, match="verify"):
            database.verify()
