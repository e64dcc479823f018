"""The thread that stores for engines without a queue of their own: what waits can be withdrawn."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future

import pytest
from conforming import ROOT  # noqa: F401 - it lets the example be found
from support import PATIENCE_S, wait_until

import topicdb
from examples.memory_engine.engine import MemoryEngine
from topicdb import Database, Receipt
from topicdb.engine import TransactionEngine
from topicdb.engines import AppendThread, appends


@pytest.fixture
def engine() -> Iterator[MemoryEngine]:
    """An engine that stores nothing while a test holds ``changed``."""
    engine = MemoryEngine("memory", 1)
    yield engine
    engine.close()


@pytest.fixture
def queue(engine: MemoryEngine) -> Iterator[AppendThread]:
    queue = AppendThread(engine)
    yield queue
    queue.close_engine()


def times(engine: MemoryEngine) -> list[int]:
    return [message.timestamp for message in Database.over(engine).scan("a")]


def begin_append(queue: AppendThread, timestamp: int) -> Future[Receipt]:
    """Begins an append, and waits until it is being stored."""
    future = queue.start([("a", timestamp, b"")], None, escapes=True, id=None)
    wait_until(lambda: queue._running is not None)
    return future


def written(engine: MemoryEngine, timestamp: int) -> TransactionEngine:
    transaction = engine.begin(0, None, None)
    transaction.write("a", timestamp, b"")
    return transaction


def test_a_commit_that_waits_is_withdrawn(engine: MemoryEngine, queue: AppendThread) -> None:
    transaction = written(engine, 2)
    with engine.changed:
        first = begin_append(queue, 1)
        commit, behind = queue.commit(transaction), queue.commit(written(engine, 3))
        assert commit is not None and behind is not None
        assert queue.give_up(transaction) == "not stored"
        assert not transaction.open
        with pytest.raises(topicdb.ClosedError, match="withdrawn"):
            commit.result(0)
        with pytest.raises(topicdb.ClosedError, match="over"):
            queue.commit(transaction)
    assert [one.result(PATIENCE_S).count for one in (first, behind)] == [1, 1]
    assert times(engine) == [1, 3]


def test_one_that_is_being_applied_is_not(engine: MemoryEngine, queue: AppendThread) -> None:
    transaction = written(engine, 1)
    with engine.changed:
        commit = queue.commit(transaction)
        wait_until(lambda: queue._running is not None)
        assert queue.give_up(transaction) == "unknown"
    assert commit is not None and commit.result(PATIENCE_S).count == 1
    assert queue.give_up(transaction) == "unknown", "it is over"
    assert times(engine) == [1]


def test_without_room_nothing_is_stored(
    engine: MemoryEngine, queue: AppendThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appends, "PENDING_MAX", 1)
    transaction = written(engine, 2)
    with engine.changed:
        first = begin_append(queue, 1)
        assert queue.commit(transaction, room_us=1_000) is None
        assert not transaction.open
    assert first.result(PATIENCE_S).count == 1
    third = queue.commit(written(engine, 3), room_us=None)
    assert third is not None and third.result(PATIENCE_S).count == 1
    assert times(engine) == [1, 3]


def test_room_that_a_withdrawn_commit_had_is_free(
    engine: MemoryEngine, queue: AppendThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appends, "PENDING_MAX", 2)
    one, two = written(engine, 2), written(engine, 3)
    with engine.changed:
        begin_append(queue, 1)
        assert queue.commit(one) is not None
        queue.give_up(one)
        later = queue.commit(two, room_us=0)
    assert later is not None and later.result(PATIENCE_S).count == 1


def test_a_timeout_says_so(engine: MemoryEngine) -> None:
    with Database.over(engine) as db:
        transaction = db.transaction()
        transaction.write("a", 2, b"")
        with engine.changed:
            first = db.append_async([("a", 1, b"")])
            queue = db._appends
            assert isinstance(queue, AppendThread)
            wait_until(lambda: queue._running is not None)
            with pytest.raises(topicdb.CommitTimeoutError, match="nothing is stored") as late:
                transaction.commit(timeout=0.01)
            assert (late.value.known, late.value.outcome) == ("not stored", None)
            assert not transaction.open
        assert first.result(PATIENCE_S).count == 1
        assert db.scan("a").count() == 1


def test_closing_stores_what_waits(engine: MemoryEngine) -> None:
    with Database.over(engine) as db:
        futures: list[Future[Receipt]] = []
        with engine.changed:
            for n in range(20):
                transaction = db.transaction()
                transaction.write("a", n, b"")
                futures.append(transaction.commit_async())
        assert not engine.closed
    assert [future.result(0).count for future in futures] == [1] * 20


def test_a_column_of_keys_is_that_of_an_append(engine: MemoryEngine, queue: AppendThread) -> None:
    pa = pytest.importorskip("pyarrow")
    rows = {"topic": ["a", "a"], "timestamp": [1, 2], "value": [b"", b""]}
    table = pa.table({**rows, "key": ["client", None]})
    with pytest.raises(topicdb.SchemaError, match="sharded by topic"):
        queue.start(table, None, escapes=True, id=None)
    with pytest.raises(ValueError, match="not both"):
        queue.start(table, None, escapes=True, id=None, key="client")
    with pytest.raises(ValueError, match="column 'key': expected binary or string, got int64"):
        numbers = pa.table({**rows, "key": [1, 2]})
        queue.start(numbers, None, escapes=True, id=None)
    future = queue.start(pa.table(rows), None, escapes=True, id=None)
    assert future.result(PATIENCE_S).count == 2
    assert times(engine) == [1, 2]
