"""Tests of closing, of use after closing, of threads, garbage collection and pickling."""

from __future__ import annotations

import copy
import gc
import pickle
import shutil
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import CHILD_TIMEOUT_S, PATIENCE_S, Layout, run_child

import topicdb
from topicdb import ClosedError, Database

ROWS = [(f"t/{i % 50}", i, b"%d" % i) for i in range(5_000)]


def uses_of(db: Database) -> dict[str, Callable[[], Any]]:
    """Returns calls of a handle that must be refused once it is closed."""
    [stream, *_] = db.streams("t/1")
    iterator = db.iterator(stream, "t/1")
    slab = db.slabs()[0]
    return {
        "append": lambda: db.append([("a", 1, b"")]),
        "append nothing": lambda: db.append([]),
        "scan": lambda: db.scan().to_list(),
        "count": lambda: db.scan().count(),
        "streams": db.streams,
        "iterator": lambda: db.iterator(stream, "t/1"),
        "next": lambda: db.next(iterator),
        "rotate": db.rotate,
        "slabs": db.slabs,
        "drop_slab": lambda: db.drop_slab(slab),
        "expire": db.expire,
        "structures": db.structures,
        "stats": db.stats,
        "refresh": db.refresh,
        "flush": db.flush,
    }


@pytest.mark.parametrize("mode", ["rw", "r"])
def test_a_closed_handle_refuses_every_call(db_path: Path, mode: Any, layout: Layout) -> None:
    with topicdb.open(db_path, layout=layout) as db:
        db.append(ROWS)
    db = topicdb.open(db_path, mode=mode)
    uses = uses_of(db)
    db.close()
    for use in uses.values():
        with pytest.raises(ClosedError, match=db_path.name):
            use()


def test_a_closed_handle_still_says_what_it_was(db_path: Path) -> None:
    db = topicdb.open(db_path, shards=2)
    assert not db.closed
    db.close()
    assert db.closed
    assert db.path == str(db_path)
    assert db.schema["shards"] == 2
    assert "closed" in repr(db)


def test_the_schema_is_read_without_the_shards(db_path: Path, layout: Layout) -> None:
    with pytest.raises(topicdb.NotFoundError):
        topicdb._core.read_schema(str(db_path))
    with topicdb.open(db_path, shards=2, layout=layout, retention={"a/#": None}) as db:
        schema = db.schema
    shutil.rmtree(db_path / "shards")
    assert topicdb._core.read_schema(str(db_path)) == schema
    assert schema["layout"] == layout


def test_closing_twice_is_fine(db_path: Path) -> None:
    db = topicdb.open(db_path)
    db.close()
    db.close()
    with db:
        pass


def test_a_with_block_closes_also_after_an_error(db_path: Path) -> None:
    db = topicdb.open(db_path)

    def fail_inside() -> None:
        with db:
            db.append([("a", 1, b"kept")])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()
    assert db.closed
    with topicdb.open(db_path) as db:
        assert db.scan().count() == 1


def test_closing_ends_running_scans(db_path: Path, layout: Layout) -> None:
    db = topicdb.open(db_path, layout=layout)
    db.append(ROWS)
    scans = [iter(db.scan(order=order).batches(rows=10)) for order in ("stream", "time")]
    for scan in scans:
        next(scan)
    db.close()
    for scan in scans:
        with pytest.raises(ClosedError):
            next(scan)
    with topicdb.open(db_path) as db:
        assert db.scan().count() == len(ROWS)


def test_a_closed_database_can_be_opened_again_at_once(db_path: Path) -> None:
    for i in range(10):
        with topicdb.open(db_path) as db:
            db.append([("a", i, b"")])
            assert db.scan().count() == i + 1


def test_batches_and_positions_outlive_the_database(db_path: Path, layout: Layout) -> None:
    db = topicdb.open(db_path, layout=layout)
    db.append(ROWS)
    [batch] = db.scan("t/7").batches()
    timestamps = batch.timestamps
    stream = db.streams("t/7")[-1]
    page = db.next(db.iterator(stream, "t/7"), 3)
    slab = db.slabs()[0]
    db.close()
    del db
    gc.collect()
    assert batch.topics == ["t/7"] * 100
    assert timestamps.tolist() == list(range(7, 5_000, 50))
    assert (stream.structure, slab.messages) == ("t/7", len(ROWS))
    assert len(page.batch) == 3
    del batch
    gc.collect()
    assert timestamps[1] == 57


def test_batch_timestamps_cannot_be_changed(db_path: Path) -> None:
    with topicdb.open(db_path) as db:
        db.append(ROWS)
        [batch, *_] = db.scan("t/7").batches()
    with pytest.raises(ValueError, match="read-only"):
        batch.timestamps[0] = 1


@pytest.mark.parametrize("first", ["database", "scan", "batch"])
def test_garbage_may_be_collected_in_any_order(db_path: Path, first: str, layout: Layout) -> None:
    db = topicdb.open(db_path, layout=layout)
    db.append(ROWS)
    scan = db.scan()
    batches = scan.batches(rows=10)
    alive: dict[str, Any] = {"database": db, "scan": (scan, batches), "batch": next(batches)}
    del db, scan, batches
    del alive[first]
    gc.collect()
    alive.clear()
    gc.collect()
    with topicdb.open(db_path) as again:  # the lock is gone
        assert again.scan().count() == len(ROWS)


def test_a_forgotten_handle_closes_itself(db_path: Path, layout: Layout) -> None:
    db = topicdb.open(db_path, layout=layout)
    db.append([("a", 1, b"")], durability="none")
    gone = weakref.ref(db)
    del db
    gc.collect()
    assert gone() is None
    with topicdb.open(db_path) as again:
        assert again.scan().count() == 1


def test_a_handle_that_is_open_at_exit_is_no_crash(db_path: Path) -> None:
    code = """
        import sys, topicdb
        db = topicdb.open(sys.argv[1])
        db.append([("a", 1, b"")])
        batches = db.scan("#").batches()
        first = next(batches)
        sys.modules["keep"] = (db, batches, first)
        print("done")
    """
    assert run_child(code, db_path) == "done\n"
    with topicdb.open(db_path) as db:
        assert db.scan().count() == 1


def test_a_database_cannot_be_pickled_or_copied(db: Database) -> None:
    for attempt in (lambda: pickle.dumps(db), lambda: copy.copy(db), lambda: copy.deepcopy(db)):
        with pytest.raises(TypeError, match="path"):
            attempt()


def test_reading_and_writing_from_many_threads(db_path: Path, layout: Layout) -> None:
    writers, batches, rows = 4, 30, 20
    with topicdb.open(db_path, shards=2, thresholds=[3], layout=layout) as db:

        def write(writer: int) -> None:
            for batch in range(batches):
                db.append([(f"w/{writer}/{batch}/{i}", i, b"") for i in range(rows)])

        def read() -> None:
            while any(t.is_alive() for t in threads):
                assert db.scan("w/+/+/0").count() <= writers * batches
                db.stats(), db.slabs(), db.structures(), db.streams("w/1/#")

        errors: list[BaseException] = []
        threads = [
            threading.Thread(target=collecting(errors, write), args=(n,)) for n in range(writers)
        ]
        for thread in threads:
            thread.start()
        collecting(errors, read)()
        for thread in threads:
            thread.join(CHILD_TIMEOUT_S)
        assert errors == []
        assert db.scan("#").count() == writers * batches * rows


def test_closing_under_load_ends_every_thread_with_closed_error(
    db_path: Path, layout: Layout
) -> None:
    for _ in range(5):
        db = topicdb.open(db_path, shards=2, layout=layout)
        db.append(ROWS)
        ended: list[BaseException] = []
        busy = threading.Barrier(5)

        def hammer(use: Callable[[], Any], busy: threading.Barrier = busy) -> None:
            use()
            busy.wait(CHILD_TIMEOUT_S)
            while True:
                use()

        uses = uses_of(db)
        threads = [
            threading.Thread(target=collecting(ended, hammer), args=(uses[name],))
            for name in ("append", "scan", "next", "stats")
        ]
        for thread in threads:
            thread.start()
        busy.wait(CHILD_TIMEOUT_S)
        db.close()
        for thread in threads:
            thread.join(CHILD_TIMEOUT_S)
            assert not thread.is_alive()
        assert [type(error) for error in ended] == [ClosedError] * 4


def test_many_threads_may_close(db_path: Path) -> None:
    db = topicdb.open(db_path)
    db.append(ROWS)
    errors: list[BaseException] = []
    threads = [threading.Thread(target=collecting(errors, db.close)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(CHILD_TIMEOUT_S)
        assert not thread.is_alive()
    assert errors == []
    topicdb.open(db_path).close()


def test_the_gil_is_free_while_a_call_waits(db_path: Path) -> None:
    """If the tail held the GIL, nothing could be appended before its wait is over."""
    with topicdb.open(db_path) as db:
        begun = threading.Event()
        found: list[topicdb.Message] = []

        def wait_for_a_message() -> None:
            with db.tail("#", timeout=PATIENCE_S) as tail:
                begun.set()
                found.append(next(iter(tail)))

        thread = threading.Thread(target=wait_for_a_message)
        thread.start()
        begun.wait()
        db.append([("a", 1, b"x")])
        thread.join()
    assert [message.topic for message in found] == ["a"]


def collecting(errors: list[BaseException], call: Callable[..., Any]) -> Callable[..., None]:
    """Returns a function for a thread that runs ``call`` and adds what it raises to ``errors``."""

    def run(*arguments: Any) -> None:
        try:
            call(*arguments)
        except BaseException as error:
            errors.append(error)

    return run
