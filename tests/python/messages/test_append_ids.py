"""Tests of appends with an id: a repeated one stores nothing twice."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from brokers import free_port
from served import Process, serving
from support import Child, nothing_written, run_child, topic_in_shard

import topicdb
from topicdb import Database

WINDOW = 65_536
ROWS: list[Any] = [("a", 1, b"one"), ("b", None, b"two"), ("a", 1, b"one")]


def test_a_repeated_append_is_stored_once(db: Database) -> None:
    first = db.append(ROWS, id="x")
    assert not first.repeated
    other = db.append([("c", 1, b"")])
    with nothing_written(db):
        again = db.append(iter(ROWS), id="x")
    assert again.repeated
    assert (again.serials, again.count) == (first.serials, 3)
    assert other.serials[0] > first.serials[0]
    assert not db.append(ROWS, id="y").repeated
    assert not db.append(ROWS).repeated
    found = db.find_append("x")
    assert found is not None
    assert (found.serials, found.count, found.repeated) == (first.serials, 3, True)
    assert db.find_append("z") is None


def test_it_is_known_when_the_database_is_opened_again(db_path: Path, layout: Any) -> None:
    with topicdb.open(db_path, layout=layout) as db:
        first = db.append(ROWS, id="x")
        db.rotate()
        db.drop_slab(db.slabs()[0])
        db.delete("#")
    with topicdb.open(db_path) as db:
        assert db.append(ROWS, id="x").serials == first.serials
        assert db.scan().count() == 0, "what was deleted since stays so"


@pytest.mark.parametrize("durability", ["none", "os", "disk"])
def test_it_survives_being_killed(db_path: Path, durability: str) -> None:
    with Child(
        """
        import sys, time, topicdb
        db = topicdb.open(sys.argv[1], shards=2)
        rows = [(f"t/{i}", i, b"x") for i in range(100)]
        print(db.append(rows, id="x", durability=sys.argv[2]).serials, flush=True)
        time.sleep(1000)
        """,
        db_path,
        durability,
    ) as child:
        serials = child.read_line()
        child.kill()
    with topicdb.open(db_path) as db:
        again = db.append([(f"t/{i}", i, b"x") for i in range(100)], id="x", durability="disk")
        assert (str(again.serials), again.repeated) == (serials, True)
        assert db.scan().count() == 100


def test_other_messages_with_the_same_id_are_refused(sharded_db: Database) -> None:
    db = sharded_db
    topics = [topic_in_shard(shard, 3) for shard in range(3)]
    db.append([(topics[0], 1, b"x"), (topics[1], 1, b"x")], id="x")
    others: list[list[Any]] = [
        [(topics[0], 1, b"x")],
        [(topics[1], 1, b"x"), (topics[0], 1, b"x")],
        [(topics[0], 1, b"x"), (topics[1], 1, b"y")],
        [(topics[0], 1, b"x"), (topics[1], None, b"x")],
        [(topics[0], 1, b"x"), (topics[1], 1, b"x"), (topics[2], 1, b"x")],
        [(topics[2], 1, b"x")],  # in a shard that does not know the id
    ]
    with nothing_written(db):
        for rows in others:
            with pytest.raises(ValueError, match="id 'x' was used for another append, of 2 mess"):
                db.append(rows, id="x")
            with pytest.raises(ValueError, match="id 'x'"):
                db.append_async(rows, id="x")


@pytest.mark.parametrize("durability", ["os", "disk"])  # in turn, and at once
def test_what_was_stored_in_some_shards_only_is_completed(db_path: Path, durability: str) -> None:
    """Files may not grow beyond a limit, so that shard 1 cannot log its large message."""
    small, large = (topic_in_shard(shard, 2) for shard in range(2))
    told = run_child(
        """
        import resource, signal, sys, topicdb
        path, small, large, durability = sys.argv[1:]
        db = topicdb.open(path, shards=2, durability=durability)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, hard))
        try:
            db.append([(small, 1, b"s"), (large, 1, b"l" * (1 << 20))], id="x")
        except topicdb.StorageError as error:
            print(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        """,
        db_path,
        small,
        large,
        durability,
    )
    assert "the messages of shards [0] are stored" in told
    with topicdb.open(db_path) as db:
        assert [message.topic for message in db.scan()] == [small]
        before = db.find_append("x")
        assert before is not None and list(before.serials) == [0]
        completed = db.append([(small, 1, b"s"), (large, 1, b"l" * (1 << 20))], id="x")
        assert not completed.repeated
        assert completed.serials[0] == before.serials[0]
        assert sorted(message.topic for message in db.scan()) == sorted([small, large])
        assert db.append([(small, 1, b"s"), (large, 1, b"l" * (1 << 20))], id="x").repeated
        assert db.scan().count() == 2


def test_arrow_is_the_same_as_rows(db: Database) -> None:
    pa = pytest.importorskip("pyarrow")
    rows = [("a", 1, b"one"), ("b", 2, b"two")]
    topics, times, values = zip(*rows, strict=True)
    table = pa.table({"topic": topics, "timestamp": times, "value": values})
    first = db.append(table, id="x")
    assert db.append(rows, id="x").repeated
    assert db.append(table, id="x") == topicdb.Receipt(first.serials, 2, "os", repeated=True)
    assert db.append_async(table, id="x").result().repeated
    assert db.scan().count() == 2


def test_asynchronous_appends(sharded_db: Database) -> None:
    db = sharded_db
    rows = [(f"t/{i}", i, b"x") for i in range(30)]
    futures = [db.append_async(rows, id="x") for _ in range(20)]
    receipts = [future.result() for future in futures]
    assert sum(not receipt.repeated for receipt in receipts) == 1
    assert len({str(receipt.serials) for receipt in receipts}) == 1
    assert asyncio.run(db.append_await(rows, id="x")).repeated
    assert db.scan().count() == 30


def test_many_threads_with_one_id(db: Database) -> None:
    start = threading.Barrier(8)
    receipts = []

    def append() -> None:
        start.wait()
        for number in range(20):
            receipts.append(db.append([("a", number, b"x")], id=f"id {number}", durability="disk"))

    threads = [threading.Thread(target=append) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(not receipt.repeated for receipt in receipts) == 20
    assert db.scan().count() == 20


def test_the_window_is_bounded(db_path: Path) -> None:
    """An id is forgotten when WINDOW other ids have come after it, in memory and on disk."""
    with topicdb.open(db_path, max_pending_bytes=1 << 30, max_pending=100_000) as db:
        futures = [db.append_async([("a", i, b"")], id=f"{i}") for i in range(WINDOW)]
        assert not any(future.result().repeated for future in futures)
        assert db.append([("a", 0, b"")], id="0").repeated, "a repeated one does not count"
        db.append([("a", 0, b"")], id="one more")
        assert db.find_append("0") is None
        assert db.find_append("1") is not None
    with topicdb.open(db_path) as db:
        assert db.find_append("0") is None
        assert db.append([("a", 1, b"")], id="1").repeated
        assert db.append([("a", 0, b"")], id="one more").repeated
        assert not db.append([("a", 0, b"")], id="0").repeated, "stored again: it is forgotten"
        assert db.find_append("1") is None


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ("", ValueError, "id: it is empty"),
        ("x" * 256, ValueError, "id: it has 256 bytes, at most 255"),
        ("\ud800", topicdb.TopicError, "id"),
        (b"x", TypeError, "id: expected str, got bytes"),
        (7, TypeError, "id: expected str, got int"),
    ],
)
def test_ids_that_are_none(db: Database, wrong: Any, error: Any, says: str) -> None:
    with nothing_written(db):
        for append in (db.append, db.append_async):
            with pytest.raises(error, match=says):
                append([("a", 1, b"")], id=wrong)
    with pytest.raises(error, match=says):
        db.find_append(wrong)
    assert not db.append([("a", 1, b"")], id="ü" * 127).repeated
    assert not db.append([], id="nothing").repeated
    assert db.find_append("nothing") is None


def test_a_reader_does_not_know(db_path: Path) -> None:
    topicdb.open(db_path).close()
    with topicdb.open(db_path, mode="r") as db, pytest.raises(topicdb.ReadOnlyError):
        db.find_append("x")


def test_a_snapshot_and_a_repaired_database_know(db_path: Path, tmp_path: Path) -> None:
    with topicdb.open(db_path) as db:
        db.append(ROWS, id="x")
        db.snapshot(tmp_path / "copy.db")
    with topicdb.open(tmp_path / "copy.db") as copy:
        assert copy.append(ROWS, id="x").repeated
    table = max(tmp_path.joinpath("copy.db").rglob("*.sst"), key=lambda file: file.stat().st_size)
    table.write_bytes(table.read_bytes()[:20] + b"\x00" * 20 + table.read_bytes()[40:])
    topicdb.repair(tmp_path / "copy.db")
    assert topicdb.verify(tmp_path / "copy.db").ok


def test_over_the_network(db_path: Path) -> None:
    pytest.importorskip("pyarrow")
    with topicdb.open(db_path, shards=2) as here, serving(here) as server:
        with topicdb.connect(server.url) as db:
            first = db.append(ROWS, id="x")
            assert db.append(ROWS, id="x") == topicdb.Receipt(first.serials, 3, "os", repeated=True)
            assert db.append_async(ROWS, id="x").result().repeated
            futures = [db.append_async([("a", i, b"")], id=f"{i % 5}") for i in (0, 1, 1, 2, 0)]
            repeated = [future.result().repeated for future in futures]
            assert repeated == [False, False, True, False, True]
            with pytest.raises(ValueError, match="id 'x' was used"):
                db.append([("a", 1, b"")], id="x")
            with pytest.raises(ValueError, match="id 'x' was used"):
                db.append_async([("a", 1, b"")], id="x").result()
            found = db.find_append("x")
            assert found is not None and found.serials == first.serials
        assert here.scan().count() == 6


@pytest.mark.parametrize("how", ["append", "append_async"])
def test_an_append_goes_on_when_the_server_is_back(tmp_path: Path, how: str) -> None:
    """The server is killed; the client repeats an append with an id until a server is back."""
    pytest.importorskip("pyarrow")
    path, port = tmp_path / "db", free_port()
    receipts: list[topicdb.Receipt] = []
    with Process(path, "--listen", f"127.0.0.1:{port}") as process:
        db = topicdb.connect(process.url)
        first = db.append(ROWS, id="x")
        process.kill()

    def repeat() -> None:
        if how == "append":
            receipts.append(db.append(ROWS, id="x"))
        else:
            receipts.append(db.append_async(ROWS, id="x").result())

    thread = threading.Thread(target=repeat)
    thread.start()
    with Process(path, "--listen", f"127.0.0.1:{port}"):
        thread.join()
        assert [(one.serials, one.repeated) for one in receipts] == [(first.serials, True)]
        assert db.scan().count() == 3
        db.close()


def test_killed_between(tmp_path: Path) -> None:
    """After kill -9 and a repetition of unanswered appends, each append is there once."""
    path = tmp_path / "db"
    expected = 0
    for round_number in range(8):
        with Child(
            """
            import sys, topicdb
            path, round_number = sys.argv[1:]
            db = topicdb.open(path, shards=3, seal_bytes=1000)
            print("ready", flush=True)
            i = 0
            while True:
                rows = [(f"{round_number}/{i}/{side}", i, b"x") for side in range(6)]
                level = ("os", "none")[i % 2]
                db.append(rows, id=f"{round_number}/{i}", durability=level)
                print(i, flush=True)
                i += 1
            """,
            path,
            round_number,
        ) as child:
            child.expect("ready")
            for _ in range(20 + round_number):
                last = int(child.read_line())
            child.kill()
            rest = [int(line) for line in child.finish()[1].split("\n")[:-1]]
        acknowledged = max([last, *rest])
        with topicdb.open(path) as db:
            for i in range(acknowledged + 3):
                rows = [(f"{round_number}/{i}/{side}", i, b"x") for side in range(6)]
                receipt = db.append(rows, id=f"{round_number}/{i}")
                assert receipt.repeated or i > acknowledged
            expected += (acknowledged + 3) * 6
            assert db.scan().count() == expected
            assert len({message.topic for message in db.scan()}) == expected
