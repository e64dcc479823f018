"""Tests of deletes of any size, which readers see at once and no crash leaves half done."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support import Child, Layout, nothing_written

import topicdb
from topicdb import Database, TopicError

LARGE = 35_000  # more than one batch takes


def fill(db: Database, rows: int = LARGE) -> None:
    db.append([(f"m/{i % 50}/{i % 3}", i, b"%d" % i) for i in range(rows)])


@pytest.mark.parametrize("rows", [500, LARGE], ids=["in_one_batch", "in_steps"])
def test_what_matches_goes_and_nothing_else(sharded_db: Database, rows: int) -> None:
    fill(sharded_db, rows)
    receipt = sharded_db.delete("m/+/1", start=100, end=rows - 100)
    expected = [i for i in range(rows) if not (i % 3 == 1 and 100 <= i < rows - 100)]
    assert receipt.count == rows - len(expected)
    assert [m.timestamp for m in sharded_db.scan(order="time")] == expected
    assert sharded_db.scan("m/7/+").count() == sum(1 for i in expected if i % 50 == 7)
    assert sharded_db.scan("m/+/1").count() == sum(1 for i in expected if i % 3 == 1)


def test_what_is_gone_is_gone_after_reopening(db_path: Path, layout: Layout) -> None:
    with topicdb.open(db_path, layout=layout) as db:
        fill(db)
        db.delete("m/#", end=30_000)
        db.append([("m/1/1", 5, b"written later stays")])
    with topicdb.open(db_path) as db:
        assert db.scan().count() == LARGE - 30_000 + 1
        assert [m.value for m in db.scan("m/1/1", end=6)] == [b"written later stays"]


def test_all_generations_and_classes(db_path: Path, layout: Layout) -> None:
    with topicdb.open(db_path, retention={"alarm/#": "1d"}, layout=layout) as db:
        for value in (b"1", b"2"):
            db.append([("alarm/a", 1, value), ("a", 1, value), ("b", 1, value)])
            db.rotate()
        # In the layout skipstream the second message has replaced the first.
        assert db.delete("#", end=2).count == (6 if layout == "columnar" else 3)
        assert db.scan().count() == 0


def test_readers_that_began_before_see_everything(db: Database) -> None:
    fill(db)
    rows = iter(db.scan(order="time"))
    first = next(rows)
    db.delete("#")
    assert first.timestamp == 0
    assert sum(1 for _ in rows) == LARGE - 1


def test_readers_see_all_of_a_delete_or_nothing(db: Database) -> None:
    """A large delete takes many batches, and other commits come between them."""
    fill(db)
    stop = threading.Event()
    seen: set[int] = set()
    written = 0

    def read() -> None:
        while not stop.is_set():
            seen.add(db.scan("m/#").count())

    def write() -> None:
        nonlocal written
        while not stop.is_set():
            db.append([("other", written, b"")])
            written += 1

    threads = [threading.Thread(target=read), threading.Thread(target=write)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    assert db.delete("m/#").count == LARGE
    assert db.scan("m/#").count() == 0
    stop.set()
    for thread in threads:
        thread.join()
    assert seen <= {LARGE, 0}
    assert db.scan("other").count() == written


def test_a_large_delete_takes_bounded_memory(tmp_path: Path, layout: Layout) -> None:
    """To expand the delete of 400,000 messages at once would take over 100 bytes for each."""
    code = """
        import resource, sys, topicdb
        db = topicdb.open(sys.argv[1], layout=sys.argv[2], write_buffer_bytes=4 << 20)
        for start in range(0, 400_000, 10_000):
            db.append([(f"a/long/topic/with/levels/{i % 100}", i, b"x" * 20)
                       for i in range(start, start + 10_000)])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert db.delete("#").count == 400_000
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert db.scan().count() == 0
        print(after - before)
        print("done")
        sys.stdin.readline()
    """
    with Child(code, tmp_path / "db", layout) as child:
        grown_kib = int(child.read_line())
        child.expect("done")
        child.kill()
    assert grown_kib < 24 << 10


KILLED = """
    import sys, topicdb
    db = topicdb.open(sys.argv[1], layout=sys.argv[2])
    db.append([(f"m/{i % 50}/{i % 3}", i, b"%d" % i) for i in range(60_000)])
    print("filled")
    sys.stdin.readline()
    print("deleting")
    db.delete("m/+/1")
    print("deleted")
    sys.stdin.readline()
"""


def test_one_that_was_killed_halfway_is_finished_or_was_not_begun(
    tmp_path: Path, layout: Layout
) -> None:
    chance = random.Random(7)
    outcomes = set()
    for number in range(6):
        path = tmp_path / f"{number}.db"
        with Child(KILLED, path, layout) as child:
            child.expect("filled")
            child.send()
            child.expect("deleting")
            acknowledged = number == 0 and child.read_line() == "deleted"
            if not acknowledged:
                time.sleep(chance.uniform(0, 0.15))
            child.kill()
            acknowledged |= child.finish()[1] == "deleted\n"
        left = 60_000 - len(range(1, 60_000, 3))
        with topicdb.open(path, mode="r") as reader:
            found = reader.scan("m/+/1").count()
            assert reader.scan("#").count() == left + found
        assert found == 0 if acknowledged else found in (0, 60_000 - left)
        with topicdb.open(path) as db:
            assert db.scan("m/+/1").count() == found
            assert db.scan("m/7/1").count() == (found and len(range(7, 60_000, 150)))
            assert db.scan("#").count() == left + found
            db.append([("m/1/1", 1, b"")])
            assert db.scan("m/1/1", end=2).count() == 1
        outcomes.add(found)
    assert 0 in outcomes


def test_serials_and_receipts(sharded_db: Database) -> None:
    receipt = sharded_db.delete("nothing/here", durability="disk")
    assert receipt == topicdb.Receipt({0: 1, 1: 1, 2: 1}, 0, "disk")


@pytest.mark.parametrize(
    ("use", "error"),
    [
        (lambda db: db.delete("a/#/b"), TopicError),
        (lambda db: db.delete(""), TopicError),
        (lambda db: db.delete("$topicdb/map/#"), TopicError),
        (lambda db: db.delete("a", start=2, end=1), ValueError),
        (lambda db: db.delete("a", start=-1), ValueError),
        (lambda db: db.delete("a", start="yesterday"), ValueError),
        (lambda db: db.delete(5), TypeError),
        (lambda db: db.delete("a", durability="much"), ValueError),
    ],
)
def test_bad_input_deletes_nothing(
    db: Database, use: Callable[[Database], object], error: type[Exception]
) -> None:
    db.append([("a", 1, b"")])
    with nothing_written(db), pytest.raises(error):
        use(db)


def test_dollar_topics_are_deleted_by_their_name_only(db: Database) -> None:
    db.append([("$SYS/a", 1, b""), ("a", 1, b"")])
    db.map("m").close()
    assert db.delete("#").count == 1
    assert db.delete("$SYS/#").count == 1


def test_saved_iterators_go_on_behind_a_delete(db: Database) -> None:
    db.append([("a", t, b"") for t in range(10)])
    page = db.next(db.iterator(db.streams("a")[0]), rows=3)
    db.delete("a", start=2, end=8)
    rest = db.next(page.iterator)
    assert [m.timestamp for m in rest.batch] == [8, 9]
