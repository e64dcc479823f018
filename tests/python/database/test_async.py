"""Tests of asynchronous appends: futures, asyncio, gathering, back-pressure and closing."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE_S, Child, Layout, fork_and_run, nothing_written, wait_until

import topicdb
from topicdb import ClosedError, Database, ForkedError, Receipt, TopicError


def test_a_future_gives_the_receipt(sharded_db: Database) -> None:
    rows = [(f"t/{i}", i, b"%d" % i) for i in range(100)]
    receipt = sharded_db.append_async(rows, durability="disk").result(PATIENCE_S)
    assert receipt == Receipt({0: 1, 1: 1, 2: 1}, 100, "disk")
    assert sharded_db.scan().count() == 100


def test_arrow(db: Database) -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"topic": ["a", "b"], "timestamp": [1, 2], "value": [b"1", b"2"]})
    future = db.append_async(table)
    del table
    assert future.result(PATIENCE_S).count == 2
    assert [tuple(m) for m in db.scan(order="time")] == [("a", 1, b"1"), ("b", 2, b"2")]


def test_they_gather_and_stay_in_order(db_path: Path, layout: Layout) -> None:
    with topicdb.open(
        db_path, flush_interval="10s", idle_flush_interval="100ms", layout=layout
    ) as db:
        futures = [db.append_async([("key", None, b"%d" % i)]) for i in range(1_000)]
        assert [f.result(PATIENCE_S).serials[0] for f in futures] == list(range(1, 1_001))
        assert [m.value for m in db.scan("key")] == [b"%d" % i for i in range(1_000)]


def test_the_oldest_waits_no_longer_than_flush_interval(db_path: Path) -> None:
    """The queue is flushed even if new appends keep coming, so that it is never idle."""
    with topicdb.open(db_path, flush_interval="100ms", idle_flush_interval="10s") as db:
        first = db.append_async([("a", 1, b"")])

        def is_done() -> bool:
            db.append_async([("a", 2, b"")])
            return first.done()

        wait_until(is_done)


def test_an_idle_queue_is_flushed_at_once(db_path: Path) -> None:
    with topicdb.open(db_path, flush_interval="1h", idle_flush_interval="10ms") as db:
        assert db.append_async([("a", 1, b"")]).result(PATIENCE_S)


def test_a_full_queue_is_flushed_and_makes_callers_wait(db_path: Path) -> None:
    with topicdb.open(db_path, flush_interval="1h", idle_flush_interval="1h", max_pending=10) as db:
        futures = [db.append_async([("a", i, b"")]) for i in range(95)]
        done, _ = wait(futures[:90], timeout=PATIENCE_S)
        assert len(done) == 90
        # A synchronous append also commits what waits.
        db.append([("a", 100, b"")])
        assert all(f.result(PATIENCE_S) for f in futures)


def test_back_pressure_by_bytes(db_path: Path) -> None:
    with topicdb.open(
        db_path, flush_interval="1h", idle_flush_interval="1h", max_pending_bytes=100_000
    ) as db:
        futures = [db.append_async([("a", i, bytes(30_000))]) for i in range(30)]
        assert all(f.result(PATIENCE_S) for f in futures[:27])
        # A batch that is larger than the bound is committed alone.
        db.append([("a", 100, bytes(200_000))])
    assert all(f.done() for f in futures)


def test_bad_rows_raise_at_once(db: Database) -> None:
    with nothing_written(db):
        with pytest.raises(TopicError, match="row 1"):
            db.append_async([("a", 1, b""), ("a/#", 1, b"")])
        with pytest.raises(TypeError):
            db.append_async([("a", 1, "text")])  # type: ignore[list-item]
        with pytest.raises(ValueError, match="durability"):
            db.append_async([("a", 1, b"")], durability="much")  # type: ignore[arg-type]


def test_what_the_caller_changes_afterwards_changes_nothing(db_path: Path) -> None:
    with topicdb.open(db_path, flush_interval="1h", idle_flush_interval="200ms") as db:
        value = bytearray(b"before")
        rows: list[Any] = [("a", 1, value)]
        future = db.append_async(rows)
        value[:] = b"behind"
        rows.clear()
        future.result(PATIENCE_S)
        assert [m.value for m in db.scan()] == [b"before"]


def test_closing_finishes_what_is_queued(db_path: Path) -> None:
    db = topicdb.open(db_path, flush_interval="1h", idle_flush_interval="1h")
    futures = [db.append_async([("a", i, b"")]) for i in range(50)]
    assert not any(f.done() for f in futures)
    db.close()
    assert all(f.result(0).count == 1 for f in futures)
    with pytest.raises(ClosedError):
        db.append_async([("a", 1, b"")])
    with topicdb.open(db_path) as db:
        assert db.scan().count() == 50


def test_an_empty_batch(db: Database) -> None:
    assert db.append_async([]).result(PATIENCE_S) == Receipt({}, 0, "os")


def test_it_cannot_be_cancelled(db: Database) -> None:
    future = db.append_async([("a", 1, b"")])
    assert not future.cancel()
    future.result(PATIENCE_S)


def test_asyncio(db: Database) -> None:
    async def work() -> list[Receipt]:
        return await asyncio.gather(
            *(db.append_await([("a", i, b"")], durability="disk") for i in range(200))
        )

    receipts = asyncio.run(work())
    assert sorted(r.serials[0] for r in receipts) == list(range(1, 201))
    assert db.scan("a").count() == 200


def test_the_loop_goes_on_while_it_waits(db_path: Path) -> None:
    async def work(db: Database) -> None:
        task = asyncio.ensure_future(db.append_await([("a", 1, b"")]))
        for _ in range(2):
            await asyncio.sleep(0)  # lets the task run until it waits
            assert not task.done()
        db.append([("a", 2, b"")])  # also commits what waits
        assert (await asyncio.wait_for(task, PATIENCE_S)).count == 1

    with topicdb.open(db_path, flush_interval="1h", idle_flush_interval="1h") as db:
        asyncio.run(work(db))


def test_a_cancelled_task_does_not_take_its_messages_back(db_path: Path) -> None:
    async def work(db: Database) -> None:
        task = asyncio.ensure_future(db.append_await([("a", 1, b"")]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with topicdb.open(db_path, idle_flush_interval="100ms", flush_interval="1s") as db:
        asyncio.run(work(db))
    with topicdb.open(db_path) as db:
        assert db.scan().count() == 1


def test_many_threads(sharded_db: Database) -> None:
    futures: list[Future[Receipt]] = []
    lock = threading.Lock()

    def work(number: int) -> None:
        for i in range(100):
            future = sharded_db.append_async([(f"t/{number}", i, b"")])
            with lock:
                futures.append(future)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(f.result(PATIENCE_S).count for f in futures) == 600
    assert sharded_db.scan("t/+").count() == 600


def test_done_callbacks_may_append(db: Database) -> None:
    finished = threading.Event()

    def go_on(_: Future[Receipt]) -> None:
        db.append_async([("a", 2, b"")]).add_done_callback(lambda _: finished.set())

    db.append_async([("a", 1, b"")]).add_done_callback(go_on)
    assert finished.wait(PATIENCE_S)
    assert db.scan().count() == 2


def test_a_callback_that_exits_holds_up_no_other_future(db: Database) -> None:
    called = threading.Event()

    def leave(_: Future[Receipt]) -> None:
        called.set()
        sys.exit(1)

    with suppress(SystemExit):  # if it is done already, the callback is called here
        db.append_async([("a", 1, b"")]).add_done_callback(leave)
    assert called.wait(PATIENCE_S)
    assert db.append_async([("a", 2, b"")]).result(PATIENCE_S).count == 1


def test_after_a_fork(db: Database) -> None:
    db.append_async([("a", 1, b"")]).result(PATIENCE_S)

    def use() -> str:
        with pytest.raises(ForkedError):
            db.append_async([("a", 2, b"")])
        return "refused"

    assert fork_and_run(use) == "refused"
    db.append_async([("a", 3, b"")]).result(PATIENCE_S)


def test_a_program_that_ends_without_closing_does_not_hang(tmp_path: Path) -> None:
    code = """
        import sys, topicdb
        db = topicdb.open(sys.argv[1], flush_interval="1h", idle_flush_interval="1h")
        future = db.append_async([("a", 1, b"")])
        print("ending")
    """
    with Child(code, tmp_path / "db") as child:
        code_returned, out, err = child.finish()
    assert (code_returned, out, err) == (0, "ending\n", "")
    with topicdb.open(tmp_path / "db") as db:
        assert db.scan().count() == 1


def test_a_database_that_is_forgotten_leaves_no_thread(db_path: Path) -> None:
    db = topicdb.open(db_path)
    future = db.append_async([("a", 1, b"")])
    del db
    gc.collect()
    assert future.result(PATIENCE_S).count == 1
    wait_until(lambda: all(t.name != "topicdb-completions" for t in threading.enumerate()))
    with topicdb.open(db_path) as again:
        assert again.scan().count() == 1


@pytest.mark.parametrize(
    "options",
    [
        {"flush_interval": "-1ms"},
        {"flush_interval": "soon"},
        {"flush_interval": 5},
        {"idle_flush_interval": "x"},
        {"max_pending": 0},
        {"max_pending": -1},
        {"max_pending_bytes": 0},
        {"conflict_window": "-5s"},
    ],
)
def test_bad_options(db_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        topicdb.open(db_path, **options)
    assert not db_path.exists()
