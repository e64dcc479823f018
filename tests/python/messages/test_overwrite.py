"""The layout skipstream keeps one message per topic and timestamp, wherever it was stored."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import Child

import topicdb
from topicdb import Retention, jobs

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:
    pa = None

Row = tuple[str, int, bytes]
Step = Callable[[topicdb.Database], Any]


@pytest.fixture(params=[8, 0])
def timestamp_bytes(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def time_of(timestamp_bytes: int) -> Callable[[int], int]:
    """Returns a function that gives a timestamp, or 0 if the database stores none."""
    return lambda timestamp: timestamp if timestamp_bytes else 0


def opened(path: Path, **options: Any) -> topicdb.Database:
    return topicdb.open(path, **{"layout": "skipstream", "maintenance_interval": None, **options})


def stored(db: topicdb.Database) -> list[Row]:
    return sorted((m.topic, m.timestamp, m.value) for m in db.scan("#"))


def ends(db: topicdb.Database) -> None:
    db.rotate()


def moves(db: topicdb.Database) -> None:
    """Moves the topic to another class."""
    db.set_retention({"a/b": "30d", "#": None})


def moves_and_returns(db: topicdb.Database) -> None:
    moves(db)
    db.append([("a/b", 0, b"in between")])
    db.set_retention({"#": None})


@pytest.mark.parametrize("change", [ends, moves, moves_and_returns])
def test_one_message_of_one_key(
    db_path: Path, timestamp_bytes: int, time_of: Callable[[int], int], change: Step
) -> None:
    """Every way of reading gives only the new message, even after the database was reopened."""
    at = time_of(0)
    with opened(db_path, timestamp_bytes=timestamp_bytes, structures=["a/+"]) as db:
        db.append([("a/b", at, b"old"), ("a/c", at, b"other")])
        change(db)
        db.append([("a/b", at, b"new")])
        expected = [("a/b", at, b"new"), ("a/c", at, b"other")]
        assert stored(db) == expected
        assert sorted(db.scan("a/b", order="time")) == expected[:1]
        assert [tuple(m) for m in db.last("#")] == expected
        read = [
            message
            for stream in db.streams("a/+")
            for message in db.next(db.iterator(stream, "a/+"), 10).batch
        ]
        assert sorted(read) == expected
        assert db.scan("#").count() == 2
        with db.transaction(key="a/b") as tx:
            assert tx.get("a/b", at) == b"new"
    with opened(db_path, mode="r") as reader:
        assert stored(reader) == expected
        assert reader.verify(deep=True).ok
    with opened(db_path) as db:
        assert db.delete("a/b").count == 1
        assert stored(db) == expected[1:]


def test_however_often_and_in_whatever_order(db_path: Path) -> None:
    """Each generation stores every topic and time again, times in descending order."""
    with opened(db_path, shards=2) as db:
        for generation in range(6):
            for key in range(20):
                db.append([(f"k/{key % 4}", 100 - key, b"%d %d" % (generation, key))])
            db.rotate()
            assert stored(db) == sorted(
                (f"k/{key % 4}", 100 - key, b"%d %d" % (generation, key)) for key in range(20)
            )
        assert [slab.messages for slab in db.slabs() if slab.messages]


def test_an_append_in_one_batch_with_what_it_replaces(db_path: Path) -> None:
    with opened(db_path) as db:
        db.append([("a", 1, b"1"), ("a", 2, b"2")])
        db.rotate()
        db.append([("a", 1, b"3"), ("a", 1, b"4"), ("a", 3, b"5")])
        assert stored(db) == [("a", 1, b"4"), ("a", 2, b"2"), ("a", 3, b"5")]


def test_a_transaction_replaces_too(db_path: Path) -> None:
    with opened(db_path) as db:
        db.append([("a", 1, b"old")])
        db.rotate()
        with db.transaction(key="a") as tx:
            tx.require("a", 1, b"old")
            tx.write("a", 1, b"new")
            assert [m.value for m in tx.scan("a")] == [b"new"]
        assert stored(db) == [("a", 1, b"new")]
        with pytest.raises(topicdb.PreconditionError), db.transaction(key="a") as tx:
            tx.require("a", 1, b"old")


def test_who_reads_an_older_moment_sees_the_older_message(db_path: Path) -> None:
    with opened(db_path) as db:
        db.append([("a", n, b"old") for n in range(3)])
        db.rotate()
        scan = iter(db.scan("a").batches(rows=1))
        first = list(next(scan))
        db.append([("a", n, b"new") for n in range(3)])
        rest = [message for batch in scan for message in batch]
        assert [m.value for m in first + rest] == [b"old"] * 3
        assert [m.value for m in db.scan("a")] == [b"new"] * 3


def test_columnar_keeps_both(db_path: Path) -> None:
    with opened(db_path, layout="columnar") as db:
        db.append([("a", 1, b"1")])
        db.rotate()
        db.append([("a", 1, b"2")])
        assert stored(db) == [("a", 1, b"1"), ("a", 1, b"2")]


def test_of_a_job(db_path: Path) -> None:
    with opened(db_path) as db:
        db.append([("a", 1, b"old"), ("b", 1, b"other")])
        db.rotate()
        with jobs.StagedWriter(db_path, "job") as writer:
            writer.append([("a", 1, b"new")])
        jobs.commit(db_path, "job", [writer.staged])
        assert stored(db) == [("a", 1, b"new"), ("b", 1, b"other")]


KILLED = """
import os, sys, topicdb
db = topicdb.open(sys.argv[1], maintenance_interval=None)
db.append([("a", 1, b"second")], durability="none")
db.append([("a", 1, b"third")])
print("stored", flush=True)
sys.stdin.readline()
"""


def test_after_a_crash(db_path: Path) -> None:
    """A logged commit replaces the first message even if the commit between them is lost."""
    with opened(db_path) as db:
        db.append([("a", 1, b"first")])
        db.rotate()
    with Child(KILLED, db_path) as child:
        child.expect("stored")
        child.kill()
    with opened(db_path) as db:
        assert stored(db) == [("a", 1, b"third")]


def test_exports_and_slices(db_path: Path, tmp_path: Path) -> None:
    if pa is None:
        pytest.skip("needs pyarrow")
    with opened(db_path) as db:
        db.append([("a", 1, b"old"), ("b", 1, b"other")])
        db.rotate()
        db.append([("a", 1, b"new")])
        db.export_parquet(tmp_path / "out")
        rows = pq.read_table(tmp_path / "out").to_pylist()
        assert sorted((row["topic"], row["value"]) for row in rows) == [
            ("a", b"new"),
            ("b", b"other"),
        ]
        sliced = db.scan_slices(db.slices("#"))
        assert sorted(message.value for message in sliced) == [b"new", b"other"]


def test_what_is_kept_as_the_last_is_replaced(db_path: Path) -> None:
    """Kept messages are replaced even while they are being merged."""
    with opened(db_path, retention={"#": Retention(keep_last=2, rotate="1h")}) as db:
        db.append([(f"t/{n}", 1, b"old") for n in range(2_000)])
        db.rotate()
        merging = threading.Thread(target=db.maintain)
        merging.start()
        for n in range(0, 2_000, 10):
            db.append([(f"t/{n + i}", 1, b"new") for i in range(10)])
        merging.join()
        db.maintain()
        assert {message.value for message in db.scan("#")} == {b"new"}
        assert db.scan("#").count() == 2_000
