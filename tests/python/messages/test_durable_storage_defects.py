"""Defects that were found in another durable storage for MQTT, each under its own name.

TopicDB has none of these defects, and must not get one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support import Child, Layout, newest, wait_until

import topicdb
from topicdb import ConflictError, Database, PreconditionError, ReadOnlyError


def test_commits_of_one_flush_are_not_applied_in_reverse(db_path: Path, layout: Layout) -> None:
    """Of two blind writes to one key in one group, the later write is the newest."""
    with topicdb.open(
        db_path, layout=layout, flush_interval="10s", idle_flush_interval="300ms"
    ) as db:
        db.append([("gone", 1, b"old")])
        futures = [db.append_async([("key", 1, b"%d" % i)]) for i in range(100)]
        assert [f.result().serials[0] for f in futures] == list(range(2, 102))
        assert newest(db, "key", 1) == b"99"
        written = [b"%d" % i for i in range(100)]
        kept = written if layout == "columnar" else written[-1:]
        assert [m.value for m in db.scan("key")] == kept


def test_transactions_of_many_threads_in_one_group_are_applied_in_order(db: Database) -> None:
    start = threading.Barrier(8)
    serial_of: dict[int, int] = {}

    def work(number: int) -> None:
        start.wait()
        for i in range(20):
            tx = db.transaction(durability="disk")
            tx.delete("key")
            tx.write("key", 1, b"%d" % (100 * number + i))
            while True:
                try:
                    serial_of[100 * number + i] = tx.commit().serials[0]
                    break
                except ConflictError:  # the delete conflicts
                    tx = db.transaction(durability="disk")
                    tx.write("key", 1, b"%d" % (100 * number + i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    last = max(serial_of, key=lambda number: serial_of[number])
    assert newest(db, "key", 1) == b"%d" % last


def test_structures_learned_by_a_commit_that_failed_are_learned_again(
    db_path: Path, layout: Layout
) -> None:
    """Structures of a refused commit must not count as stored."""
    with topicdb.open(db_path, layout=layout) as db:
        with pytest.raises((TypeError, ValueError)):
            db.append([("x/y", 1, b"good"), ("x/z", 1, "bad")])  # type: ignore[list-item]
        tx = db.transaction()
        tx.require("x/y", 1, b"is not there")
        tx.write("x/y", 1, b"refused")
        with pytest.raises(PreconditionError):
            tx.commit()
        lost = db.transaction()
        lost.get("k", 1)
        lost.write("x/w", 1, b"lost")
        db.append([("k", 1, b"")])
        with pytest.raises(ConflictError):
            lost.commit()
        assert set(db.structures()) == {"k"}
        db.append([("x/y", 1, b"good"), ("x/w", 2, b"good")])
    with topicdb.open(db_path) as db:
        assert db.scan("x/+").count() == 2
        assert [m.value for m in db.scan("x/y")] == [b"good"]


def test_no_message_comes_into_a_generation_that_is_closed(db: Database) -> None:
    """A closed generation gets no more messages: commits on their way go to the next one."""
    stop = threading.Event()
    written = [0, 0, 0]

    def write(number: int) -> None:
        while not stop.is_set():
            db.append_async([(f"w{number}", written[number], b"")]).result()
            written[number] += 1

    def written_since(before: int) -> Callable[[], bool]:
        return lambda: sum(written) > before

    threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    closed: dict[int, int] = {}
    for _ in range(20):
        # Each thread may still count a message that was stored before the last rotation.
        wait_until(written_since(sum(written) + len(written)))
        db.rotate()
        for slab in db.slabs():
            if slab.read_only:
                streams = [s for s in db.streams() if s.generation == slab.generation]
                count = db.scan(streams=streams).count() if streams else 0
                assert closed.setdefault(slab.generation, count) == count
    stop.set()
    for thread in threads:
        thread.join()
    assert len(closed) == 20 and all(closed.values())
    tx = db.transaction(generation=21)
    tx.write("late", 1, b"")
    db.rotate()
    with pytest.raises(ReadOnlyError):
        tx.commit()


def test_dollar_words_at_learned_levels_are_found_by_wildcards(
    db_path: Path, layout: Layout
) -> None:
    with topicdb.open(db_path, structures=["devices/+"], layout=layout) as db:
        db.append([("devices/$dev1", 1, b"")])
        for count, filter in enumerate(("devices/+", "devices/#", "#", "devices/$dev1"), 1):
            assert db.scan(filter).count() == count, filter
            tx = db.transaction()
            assert tx.scan(filter).count() == count, filter
            tx.write("out", 1, b"")
            db.append([("devices/$dev1", 1 + count, b"")])
            with pytest.raises(ConflictError):
                tx.commit()
        db.delete("devices/+")
        assert db.scan("devices/$dev1").count() == 0


def test_reads_conflict_with_writes_whose_time_is_assigned(db: Database) -> None:
    for filter in ("clock", "+", "#"):
        tx = db.transaction()
        assert tx.scan(filter, start=0).count() == db.scan(filter).count()
        tx.write("out", 1, b"")
        db.append([("clock", None, b"")])
        with pytest.raises(ConflictError):
            tx.commit()
    other = db.transaction()
    other.scan("#", start=0).to_list()
    other.write("out", 1, b"")
    with db.transaction() as tx:
        tx.write("clock", None, b"")
    with pytest.raises(ConflictError):
        other.commit()


def look_and_write(tx: topicdb.Transaction) -> None:
    tx.scan("a/+").to_list()
    tx.write("a/out", 1, b"")


def test_old_deletes_are_no_conflicts_for_ever(db_path: Path) -> None:
    with topicdb.open(db_path, conflict_window="100ms") as db:
        for _ in range(5):
            db.append([("a/1", 1, b"")])
            with db.transaction():  # an open transaction makes the database remember the delete
                db.delete("a/#")
            time.sleep(0.15)
            # Some attempts may take too long if the machine stalls.
            db.transact(look_and_write, retries=50)


def test_times_of_other_writes_are_not_merged_into_one_interval(db: Database) -> None:
    tx = db.transaction()
    tx.get("a", 50)
    tx.scan("b/+", start=40, end=60).to_list()
    tx.write("out", 1, b"")
    db.append([("a", 0, b""), ("a", 100, b""), ("b/1", 0, b""), ("b/2", 100, b"")])
    tx.commit()


def test_topics_below_a_wildcard_delete_are_not_merged(db: Database) -> None:
    db.append([("a/1", 1, b""), ("b/1", 1, b"")])
    tx = db.transaction()
    tx.get("a/1", 100)
    tx.get("b/1", 1)
    tx.write("out", 1, b"")
    db.delete("a/+", end=50)
    tx.commit()


def test_an_absent_key_with_a_delete_under_way_is_no_failed_precondition(db: Database) -> None:
    """A committed delete counts as done in the preconditions of the next transaction."""
    for _ in range(20):
        db.append([("a", 1, b"")])
        with db.transaction() as delete:
            delete.delete("a")
        with db.transaction() as tx:
            tx.require_absent("a", 1)
            tx.write("b", 1, b"")


@pytest.mark.parametrize("timestamp_bytes", [0, 8])
def test_the_end_of_time_is_a_bound(db_path: Path, timestamp_bytes: int) -> None:
    """Ranges may be [0, 1) in a database without times, or end at the largest time."""
    with topicdb.open(db_path, timestamp_bytes=timestamp_bytes) as db:  # type: ignore[arg-type]
        db.append([("a", 0, b"")])
        for end in (1, 2**63 - 1):
            assert db.scan(end=end).count() == 1
            with db.transaction() as tx:
                assert tx.scan("a", start=0, end=end).count() == 1
        db.delete("a", start=0, end=1)
        assert db.scan().count() == 0
        if timestamp_bytes:
            db.append([("a", 2**63 - 1, b"last")])
            with db.transaction() as tx:
                assert tx.get("a", 2**63 - 1) == b"last"
            db.delete("a", start=2**63 - 1)
            assert db.scan().count() == 0


def test_deletes_take_the_index_entries_with_them(db_path: Path, layout: Layout) -> None:
    """Deletes remove the index entries of all varying levels, not only of the first."""
    with topicdb.open(db_path, structures=["+/+/+"], layout=layout) as db:
        rows = [(f"{a}/{b}/{c}", 1, b"") for a in "ab" for b in "cd" for c in "ef"]
        db.append(rows)
        db.delete("+/c/+")
        for filter in ("a/+/+", "+/d/+", "+/+/e", "a/d/e", "+/c/+", "a/c/e", "#"):
            wanted = sorted(t for t, _, _ in rows if "/c/" not in t)
            found = sorted(m.topic for m in db.scan(filter))
            assert found == [t for t in wanted if topicdb.topic_matches(filter, t)], filter


def test_serial_data_and_clock_are_one_step(tmp_path: Path, layout: Layout) -> None:
    """After a kill at any moment, stored messages agree with the serial and the clock."""
    code = """
        import sys, topicdb
        db = topicdb.open(sys.argv[1], layout=sys.argv[2])
        print("open")
        while True:
            with db.transaction() as tx:
                tx.write("serial", None, topicdb.SERIAL)
            print(tx.receipt.serials[0])
    """
    path = tmp_path / "db"
    last_serial, last_time = 0, 0
    for round_number in range(5):
        with Child(code, path, layout) as child:
            child.expect("open")
            acknowledged = [int(child.read_line()) for _ in range(5 + round_number)]
            child.kill()
        with topicdb.open(path, mode="r") as reader:
            clock = reader.stats()["shards"][0]["clock"]
            assert clock == max(m.timestamp for m in reader.scan("serial"))
        with topicdb.open(path) as db:
            rows = [(int.from_bytes(m.value, "big"), m.timestamp) for m in db.scan("serial")]
            assert set(acknowledged) <= {serial for serial, _ in rows}
            assert rows == sorted(set(rows))
            assert db.stats()["shards"][0]["serial"] >= rows[-1][0]
            new = [row for row in rows if row[0] > last_serial]
            assert new[0][1] > last_time
            last_serial, last_time = rows[-1]
