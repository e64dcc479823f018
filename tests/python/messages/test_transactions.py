"""Tests of transactions on one shard: what they see, what they apply, what makes them fail."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import Layout, fork_and_run, newest, nothing_written, topic_in_shard

import topicdb
from topicdb import (
    SERIAL,
    ClosedError,
    ConflictError,
    Database,
    ForkedError,
    NotFoundError,
    PreconditionError,
    ReadOnlyError,
    TopicError,
    Transaction,
)


def messages(source: Any) -> list[tuple[str, int, bytes]]:
    return [tuple(message) for message in source]


def test_everything_is_applied_at_commit_and_nothing_before(db: Database) -> None:
    db.append([("a", 1, b"old"), ("gone", 1, b"")])
    with db.transaction() as tx:
        tx.write("a", 2, b"new")
        tx.write("b", 3, bytearray(b"b"))
        tx.delete("gone")
        assert messages(db.scan()) == [("a", 1, b"old"), ("gone", 1, b"")]
        assert tx.open and tx.receipt is None
    assert messages(db.scan(order="time")) == [("a", 1, b"old"), ("a", 2, b"new"), ("b", 3, b"b")]
    assert not tx.open
    assert tx.receipt == topicdb.Receipt({0: 2}, 2, "os")


def test_an_error_in_the_block_rolls_back(db: Database) -> None:
    with pytest.raises(KeyError), nothing_written(db), db.transaction() as tx:
        tx.write("a", 1, b"")
        raise KeyError
    assert not tx.open


def test_own_writes_and_deletes_are_seen_as_in_other_embedded_databases(db: Database) -> None:
    db.append([("a", 1, b"1"), ("a", 2, b"2"), ("b", 2, b"b")])
    with db.transaction() as tx:
        tx.write("a", 3, b"own")
        tx.write("c", 0, b"c")
        tx.write("c", 2, b"d")
        assert tx.get("a", 3) == b"own"
        assert messages(tx.scan()) == [
            ("c", 0, b"c"),
            ("a", 1, b"1"),
            ("a", 2, b"2"),
            ("b", 2, b"b"),
            ("c", 2, b"d"),  # of equal times, the last one written is read last
            ("a", 3, b"own"),
        ]
        tx.delete("a", start=2)
        assert tx.get("a", 2) is None
        assert messages(tx.scan("a")) == [("a", 1, b"1")]
        assert tx.scan("#", end=1).count() == 1
        tx.write("a", 2, b"again")
        assert messages(tx.scan("a/#")) == [("a", 1, b"1"), ("a", 2, b"again")]
    assert messages(db.scan("a")) == [("a", 1, b"1"), ("a", 2, b"again")]


def test_own_writes_replace_what_is_stored_in_skipstream(db_path: Path) -> None:
    with topicdb.open(db_path, layout="skipstream") as db:
        db.append([("a", 1, b"old"), ("b", 1, b"b")])
        with db.transaction() as tx:
            tx.write("a", 1, b"own")
            assert messages(tx.scan()) == [("b", 1, b"b"), ("a", 1, b"own")]
            tx.write("a", 1, b"last")
            assert tx.get("a", 1) == b"last"
            assert messages(tx.scan("a")) == [("a", 1, b"last")]
        assert messages(db.scan("a")) == [("a", 1, b"last")]


@pytest.mark.parametrize("flush", [False, True], ids=["fresh", "sealed"])
def test_own_writes_come_after_what_is_stored_in_columnar(db_path: Path, flush: bool) -> None:
    with topicdb.open(db_path, layout="columnar") as db:
        stored = [("a", 1, b"1"), ("a", 1, b"2"), ("b", 1, b"b")]
        db.append(stored)
        if flush:
            db.flush()
        with db.transaction() as tx:
            tx.write("a", 1, b"own")
            assert messages(tx.scan()) == [*stored, ("a", 1, b"own")]
            tx.write("a", 1, b"last")  # a transaction has one message per topic and time
            assert tx.get("a", 1) == b"last"
            assert messages(tx.scan()) == [*stored, ("a", 1, b"last")]
            assert messages(tx.scan("a", start=1, end=2)) == [*stored[:2], ("a", 1, b"last")]
        assert messages(db.scan()) == [*stored, ("a", 1, b"last")]
        with db.transaction() as tx:
            assert tx.get("a", 1) == b"last"
            tx.write("b", 1, b"taken by the delete")
            tx.delete("+", 1, 2)
            tx.write("a", 1, b"alone")
            assert messages(tx.scan()) == [("a", 1, b"alone")]
        assert messages(db.scan()) == [("a", 1, b"alone")]


@pytest.mark.parametrize("flush", [False, True], ids=["fresh", "sealed"])
def test_requirements_look_at_the_newest_in_columnar(db_path: Path, flush: bool) -> None:
    with topicdb.open(db_path, layout="columnar") as db:
        db.append([("a", 1, b"1"), ("a", 1, b"2")])
        if flush:
            db.flush()
        for value in (b"2", b"3", b"1"):
            with db.transaction() as tx:
                tx.require("a", 1, value)
                tx.write("a", 1, b"%d" % (int(value) % 3 + 1))
        with pytest.raises(PreconditionError) as caught, db.transaction() as tx:
            tx.require("a", 1, b"1")
        assert caught.value.failures == [("a", 1, b"1", b"2")]
        assert [m.value for m in db.scan("a")] == [b"1", b"2", b"3", b"1", b"2"]


def test_reads_are_of_the_moment_it_began(db: Database) -> None:
    db.append([("a", 1, b"1")])
    with db.transaction() as tx:
        db.append([("a", 1, b"2"), ("a", 2, b"2")])
        assert tx.get("a", 1) == b"1"
        assert messages(tx.scan("a")) == [("a", 1, b"1")]


def test_a_transaction_that_only_reads_always_commits(db: Database) -> None:
    with db.transaction() as tx:
        assert tx.get("a", 1) is None
        db.append([("a", 1, b"1")])
    assert tx.receipt == topicdb.Receipt({}, 0, "os")


def test_what_is_assigned_at_commit(db: Database) -> None:
    before = time.time_ns() // 1000
    with db.transaction() as tx:
        tx.write("time", None, b"t")
        tx.write("serial", 5, SERIAL)
        tx.write("both", None, SERIAL)
        assert messages(tx.scan()) == [], "not known yet"
        assert tx.get("serial", 5) is None
    assert tx.receipt is not None
    serial = tx.receipt.serials[0].to_bytes(8, "big")
    found = {m.topic: (m.timestamp, m.value) for m in db.scan()}
    assert found["serial"] == (5, serial)
    assert found["both"][1] == serial
    assert before <= found["time"][0] < found["both"][0]


@pytest.mark.parametrize(
    "read",
    [
        lambda tx: tx.get("a/1", 5),
        lambda tx: tx.scan("a/+").to_list(),
        lambda tx: tx.scan("#", start=5, end=6).to_list(),
        lambda tx: tx.delete("a/#", 5, 6),
        lambda tx: tx.require_absent("a/1", 5),
        lambda tx: tx.require_present("a/1", 5),
    ],
    ids=["get", "scan", "range", "delete", "require_absent", "require_present"],
)
def test_a_change_of_what_it_read_is_a_conflict(
    db: Database, read: Callable[[Transaction], object]
) -> None:
    tx = db.transaction()
    read(tx)
    tx.write("out", 1, b"")
    receipt = db.append([("a/1", 5, b"changed")])
    with nothing_written(db), pytest.raises(ConflictError, match="commit 1") as caught:
        tx.commit()
    ((_filter, start, _end, serial),) = caught.value.conflicts
    assert serial == receipt.serials[0] and (start or 0) <= 5
    assert not tx.open
    with pytest.raises(ClosedError):
        tx.commit()


@pytest.mark.parametrize(
    "read",
    [
        lambda tx: tx.get("a/1", 4),
        lambda tx: tx.scan("a/+/#", start=6).to_list(),
        lambda tx: tx.scan("b/#", end=6).to_list(),
        lambda tx: tx.delete("a/1", end=5),
        lambda tx: tx.require_absent("a/2", 5),
        lambda tx: tx.require_present("there", 5),
        lambda tx: tx.write("a/1", 5, b"own"),  # a blind write: the last commit wins
    ],
    ids=["get", "scan", "range", "delete", "require_absent", "require_present", "write"],
)
def test_a_change_beside_what_it_read_is_none(
    db: Database, read: Callable[[Transaction], object]
) -> None:
    db.append([("there", 5, b"")])
    tx = db.transaction()
    read(tx)
    tx.write("out", 1, b"")
    db.append([("a/1", 5, b"changed")])
    tx.commit()
    assert db.scan("out").count() == 1


def test_all_conflicts_are_told(db: Database) -> None:
    tx = db.transaction()
    tx.get("a", 1), tx.scan("b/#", start=3, end=9).to_list(), tx.get("c", 1)
    tx.write("x", 0, b"")
    db.append([("a", 1, b"")])
    db.append([("b/1", 8, b"")])
    with pytest.raises(ConflictError) as caught:
        tx.commit()
    assert caught.value.conflicts == [("a", 1, 2, 1), ("b/#", 3, 9, 2)]


def test_requirements_are_checked_at_commit(db: Database) -> None:
    db.append([("a", 1, b"is")])
    with db.transaction() as tx:
        tx.require("a", 1, b"is")
        tx.require_absent("a", 2)
        tx.write("b", 1, b"")
    tx = db.transaction()
    tx.require("a", 1, b"other")
    tx.require("a", 3, b"there")
    tx.require_absent("b", 1)
    tx.write("c", 1, b"")
    with nothing_written(db), pytest.raises(PreconditionError, match="'a' at 1") as caught:
        tx.commit()
    assert caught.value.failures == [
        ("a", 1, b"other", b"is"),
        ("a", 3, b"there", None),
        ("b", 1, None, b""),
    ]


def test_presence_is_required_whatever_the_value(db: Database) -> None:
    db.append([("a", 1, b"is"), ("empty", 1, b"")])
    with db.transaction() as tx:
        tx.require_present("a", 1)
        tx.require_present("empty", 1)
        tx.write("b", 1, b"")
    assert db.scan("b").count() == 1
    tx = db.transaction()
    tx.require_present("a", 2)
    tx.require_present("a", 1)
    tx.require("a", 1, b"other")
    tx.require_present("none", 1)
    tx.write("c", 1, b"")
    message = "'a' at 2: expected a message, found none"
    with nothing_written(db), pytest.raises(PreconditionError, match=message) as caught:
        tx.commit()
    assert caught.value.failures == [
        ("a", 2, True, None),
        ("a", 1, b"other", b"is"),
        ("none", 1, True, None),
    ]


def test_presence_counts_what_was_deleted_as_absent(db: Database) -> None:
    db.append([("a", 1, b"is"), ("old", 1, b"")])
    db.delete("a")
    db.rotate()
    with db.transaction() as tx:
        tx.require_present("old", 1)  # of an older generation
    with pytest.raises(PreconditionError), db.transaction() as tx:
        tx.require_present("a", 1)
    with pytest.raises(PreconditionError), db.transaction(generation=2) as tx:
        tx.require_present("old", 1)


def test_requirements_look_at_what_was_stored_before_the_commit(db: Database) -> None:
    with db.transaction() as tx:
        tx.write("a", 1, b"own")
        tx.require_absent("a", 1)
    assert db.scan("a").count() == 1
    with nothing_written(db), pytest.raises(PreconditionError), db.transaction() as tx:
        tx.write("b", 1, b"own")
        tx.require_present("b", 1)


def test_deletes_come_before_the_writes_that_follow_them(db: Database) -> None:
    db.append([("a", t, b"old") for t in range(3)])
    with db.transaction() as tx:
        tx.write("a", 0, b"taken by the delete")
        tx.delete("a")
        tx.write("a", 1, b"first")
        tx.write("a", 1, b"last in program order")
    assert messages(db.scan("#")) == [("a", 1, b"last in program order")]


def test_on_commit_runs_in_order_after_success_only(db: Database) -> None:
    calls: list[int] = []
    tx = db.transaction()
    tx.on_commit(lambda: calls.append(db.scan("a").count()))
    tx.on_commit(lambda: calls.append(2))
    tx.write("a", 1, b"")
    assert not calls
    tx.commit()
    assert calls == [1, 2]

    lost = db.transaction()
    lost.get("a", 1)
    lost.write("a", 1, b"")
    lost.on_commit(lambda: calls.append(3))
    db.append([("a", 1, b"")])
    with pytest.raises(ConflictError):
        lost.commit()
    with pytest.raises(ZeroDivisionError), db.transaction() as rolled_back:
        rolled_back.on_commit(lambda: calls.append(4))
        raise ZeroDivisionError
    assert calls == [1, 2]


def test_an_error_of_on_commit_comes_out_and_undoes_nothing(db: Database) -> None:
    calls: list[int] = []

    def fail() -> None:
        raise OSError("mine")

    with pytest.raises(OSError, match="mine"), db.transaction() as tx:
        tx.write("a", 1, b"")
        tx.on_commit(fail)
        tx.on_commit(lambda: calls.append(1))
    assert calls == [1] and db.scan("a").count() == 1


def test_several_are_open_on_one_thread(db: Database) -> None:
    one, two, three = (db.transaction() for _ in range(3))
    for value, tx in zip((b"1", b"2", b"3"), (one, two, three), strict=True):
        tx.write("same", 1, value)
    three.commit(), one.commit(), two.commit()
    assert newest(db, "same", 1) == b"2", "the last commit wins"


def check_closed(tx: Transaction) -> None:
    uses: list[Callable[[], object]] = [
        lambda: tx.write("a", 1, b""),
        lambda: tx.delete("#"),
        lambda: tx.get("a", 1),
        lambda: tx.scan().to_list(),
        lambda: tx.require_absent("a", 1),
        lambda: tx.require_present("a", 1),
        lambda: tx.commit(),
    ]
    for use in uses:
        with pytest.raises(ClosedError):
            use()


def test_use_after_the_end_is_an_error(db: Database) -> None:
    committed, rolled_back = db.transaction(), db.transaction()
    committed.commit()
    rolled_back.rollback()
    rolled_back.rollback()
    db_closed = db.transaction()
    db.close()
    for tx in (committed, rolled_back, db_closed):
        check_closed(tx)
        tx.rollback()
        assert not tx.open


def test_transact_runs_again_after_a_conflict(db: Database) -> None:
    db.append([("n", 0, b"0")])
    attempts: list[int] = []

    def add(tx: Transaction) -> int:
        number = int(tx.get("n") or 0)
        attempts.append(number)
        if len(attempts) < 4:
            db.append([("n", 0, b"%d" % (number + 10))])
        tx.write("n", 0, b"%d" % (number + 1))
        return number + 1

    assert db.transact(add) == 31
    assert attempts == [0, 10, 20, 30]
    assert newest(db, "n") == b"31"


def test_transact_gives_up_after_its_retries(db: Database) -> None:
    attempts: list[int] = []

    def never(tx: Transaction) -> None:
        tx.scan().to_list()
        tx.write("n", 0, b"")
        attempts.append(1)
        db.append([("n", 0, b"%d" % len(attempts))])

    with pytest.raises(ConflictError):
        db.transact(never, retries=2)
    assert len(attempts) == 3
    with pytest.raises(ValueError, match="retries"):
        db.transact(never, retries=-1)
    with pytest.raises(PreconditionError):
        db.transact(lambda tx: tx.require_absent("n", 0))


def test_counters_of_many_threads_lose_nothing(db: Database) -> None:
    def add(tx: Transaction) -> None:
        tx.write("n", 0, b"%d" % (int(tx.get("n") or 0) + 1))

    def work() -> None:
        for _ in range(25):
            db.transact(add, retries=10_000)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert newest(db, "n") == b"100"


def test_shards(sharded_db: Database) -> None:
    topic = topic_in_shard(2, 3)
    with sharded_db.transaction(key=topic) as tx:
        tx.write(topic, 1, b"")
        tx.write("anything", 1, b"goes to that shard")
    assert tx.receipt is not None and set(tx.receipt.serials) == {2}
    assert sharded_db.scan("anything").count() == 1, "found wherever it is"
    with sharded_db.transaction(shard=1) as tx:
        assert tx.scan().to_list() == []
        assert tx.get("anything", 1) is None


def test_which_shard_must_be_said_and_exist(sharded_db: Database) -> None:
    for arguments, text in (
        ({}, "key= or shard="),
        ({"key": "a", "shard": 1}, "not both"),
        ({"shard": 3}, "no shard 3"),
    ):
        with pytest.raises(ValueError, match=text):
            sharded_db.transaction(**arguments)
    for shard in (-1, 2**32):
        with pytest.raises((ValueError, TypeError)):
            sharded_db.transaction(shard=shard)


def test_a_shard_that_is_not_open_here(db_path: Path, layout: Layout) -> None:
    with topicdb.open(db_path, shards=2, layout=layout):
        pass
    with topicdb.open(db_path, only_shards=[1]) as db:
        with pytest.raises(ReadOnlyError, match="shard 0"):
            db.transaction(shard=0)
        with db.transaction(shard=1) as tx:
            tx.write("a", 1, b"")


def test_generations(db: Database) -> None:
    db.append([("a", 0, b"zero"), ("a", 1, b"one")])
    db.rotate()
    db.append([("a", 1, b"two"), ("b", 1, b"")])
    with db.transaction() as tx:
        assert tx.get("a", 1) == b"two", "of the newest that has it"
        keeps_all = db.schema["layout"] == "columnar"
        assert tx.scan("a").count() == (3 if keeps_all else 2)
    with db.transaction(generation=1) as old:
        assert old.get("a", 0) == b"zero"
        assert old.get("a", 1) == (b"one" if keeps_all else None)
        assert old.scan().count() == (2 if keeps_all else 1)
        old.delete("a")
    assert [m.value for m in db.scan("a")] == [b"two"]
    with pytest.raises(NotFoundError, match="generation 3"):
        db.transaction(generation=3)


def test_a_generation_that_was_closed_takes_no_messages(db: Database) -> None:
    tx = db.transaction(generation=1)
    tx.write("a", 1, b"")
    db.rotate()
    with nothing_written(db), pytest.raises(ReadOnlyError, match="generation 1"):
        tx.commit()


def test_a_dropped_generation_may_have_been_read(db: Database) -> None:
    db.append([("a", 1, b"one")])
    db.rotate()
    tx = db.transaction()
    assert tx.get("a", 1) == b"one"
    tx.write("b", 1, b"")
    db.drop_slab(db.slabs()[0])
    with pytest.raises(ConflictError, match="dropped"):
        tx.commit()


def test_one_that_was_open_for_too_long_fails_and_never_passes(
    db_path: Path, layout: Layout
) -> None:
    with topicdb.open(db_path, conflict_window="50ms", layout=layout) as db:
        tx, reader, blind = (db.transaction() for _ in range(3))
        tx.get("a", 1)
        reader.get("a", 1)
        for one in (tx, blind):
            one.write("b", 1, b"")
        time.sleep(0.06)
        with nothing_written(db), pytest.raises(ConflictError, match="conflict_window") as caught:
            tx.commit()
        assert caught.value.conflicts == [("#", None, None, 0)]
        reader.commit()
        with pytest.raises(ConflictError):
            blind.commit()


@pytest.mark.parametrize(
    ("use", "error"),
    [
        (lambda tx: tx.write("a/#", 1, b""), TopicError),
        (lambda tx: tx.write("", 1, b""), TopicError),
        (lambda tx: tx.write("$topicdb/map/a/b", 0, b""), TopicError),
        (lambda tx: tx.write("a", -1, b""), ValueError),
        (lambda tx: tx.write("a", 1, "text"), TypeError),
        (lambda tx: tx.write("a", 1, None), TypeError),
        (lambda tx: tx.write("a", 1, 5), TypeError),
        (lambda tx: tx.write(5, 1, b""), TypeError),
        (lambda tx: tx.delete("a/#/b"), TopicError),
        (lambda tx: tx.delete("$topicdb/#"), TopicError),
        (lambda tx: tx.delete("a", 5, 4), ValueError),
        (lambda tx: tx.delete("a", -1), ValueError),
        (lambda tx: tx.scan("a/#/b"), TopicError),
        (lambda tx: tx.get("a/+", 1), TopicError),
        (lambda tx: tx.get("a", None), TypeError),
        (lambda tx: tx.require("a", 1, None), TypeError),
        (lambda tx: tx.require("a", 1, "text"), TypeError),
        (lambda tx: tx.require("a/+", 1, b""), TopicError),
        (lambda tx: tx.require_absent("a", -5), ValueError),
        (lambda tx: tx.require_present("a", -5), ValueError),
        (lambda tx: tx.require_present("a", None), TypeError),
        (lambda tx: tx.require_present("a/+", 1), TopicError),
        (lambda tx: tx.on_commit(5), TypeError),
    ],
)
def test_bad_arguments_change_nothing(
    db: Database, use: Callable[[Any], object], error: type[Exception]
) -> None:
    with db.transaction() as tx:
        with pytest.raises(error):
            use(tx)
        tx.write("good", 1, b"")
    assert messages(db.scan()) == [("good", 1, b"")]


@pytest.mark.parametrize("value", [b"x", None])
def test_a_negative_timestamp_is_not_assigned(db: Database, value: bytes | None) -> None:
    """As a client may send it to a server past the checks of ``Transaction.write``."""
    transaction = db._core.begin(0, None, None)
    for timestamp in (-1, -2):
        with pytest.raises(ValueError, match=f"timestamp {timestamp} is outside 0 <= t"):
            transaction.write("a", timestamp, value)
    transaction.write("good", 1, b"")
    transaction.commit()
    assert messages(db.scan()) == [("good", 1, b"")]


def test_closing_ends_a_scan_of_a_transaction(db: Database) -> None:
    db.append([("a", t, b"") for t in range(20_000)])
    tx = db.transaction()
    rows = iter(tx.scan())
    next(rows)
    db.close()
    with pytest.raises(ClosedError):
        list(rows)


def test_a_scan_goes_on_after_the_commit(db: Database) -> None:
    db.append([("a", t, b"") for t in range(25_000)])
    with db.transaction() as tx:
        rows = iter(tx.scan())
        next(rows)
        tx.delete("a")
    assert sum(1 for _ in rows) == 24_999, "what it began with"
    assert db.scan().count() == 0


def test_arrow_of_a_transaction(db: Database) -> None:
    pa = pytest.importorskip("pyarrow")
    db.append([("a", 1, b"1"), ("b", 2, b"2")])
    with db.transaction() as tx:
        tx.write("c", 0, b"3")
        assert pa.table(tx.scan()).column("topic").to_pylist() == ["c", "a", "b"]


def test_timestamps_may_be_absent_from_a_database(db_path: Path) -> None:
    with topicdb.open(db_path, timestamp_bytes=0) as db:
        with db.transaction() as tx:
            tx.write("key", 0, b"1")
            tx.write("assigned", None, b"2")
        with db.transaction() as tx:
            assert tx.get("key") == b"1"
            tx.delete("+", 0, 1)
            assert tx.get("key") is None
        assert db.scan().count() == 0
        with db.transaction() as tx, pytest.raises(ValueError, match="timestamp_bytes=0"):
            tx.write("key", 1, b"")


def test_durability(db: Database) -> None:
    for level in ("none", "os", "disk"):
        with db.transaction(durability=level) as tx:
            tx.write("a", 1, level.encode())
        assert tx.receipt is not None and tx.receipt.durability == level
    with pytest.raises(ValueError, match="durability"):
        db.transaction(durability="much")  # type: ignore[arg-type]


def test_after_a_fork(db: Database) -> None:
    tx = db.transaction()
    tx.write("a", 1, b"")

    def use() -> str:
        with pytest.raises(ForkedError):
            tx.get("a", 1)
        with pytest.raises(ForkedError):
            tx.commit()
        tx.rollback()
        return "refused"

    assert fork_and_run(use) == "refused"
    tx.commit()
    assert db.scan("a").count() == 1


def test_a_large_one_is_one_commit(db: Database) -> None:
    with db.transaction() as tx:
        for i in range(30_000):
            tx.write(f"t/{i % 7}", i, b"%d" % i)
        assert tx.scan("t/3", start=100, end=200).count() == len(range(101, 200, 7))
    assert tx.receipt is not None and tx.receipt.serials == {0: 1}
    assert db.scan().count() == 30_000
