"""A tail gives every message once, in the order of commits, whatever happens meanwhile."""

from __future__ import annotations

import itertools
import random
import threading
import time
from pathlib import Path

import pytest
from support import PATIENCE_S

import topicdb

SEAL = pytest.mark.parametrize("seal_bytes", [1, 16 << 20], ids=["sealed at once", "fresh"])


def values(tail: topicdb.Tail) -> list[bytes]:
    return [message.value for message in tail]


@SEAL
def test_commit_order_whatever_the_timestamps(tmp_path: Path, seal_bytes: int) -> None:
    with topicdb.open(tmp_path / "db", retention={"b/#": None}, seal_bytes=seal_bytes) as db:
        for commit in range(20):
            db.append(
                [(f"{'ab'[i % 2]}/{i}", 99 - commit, b"%d.%d" % (commit, i)) for i in range(9)]
            )
        db.rotate()
        db.append([("a/1", 0, b"last")])
        expected = [b"%d.%d" % (commit, i) for commit in range(20) for i in range(9)]
        assert values(db.tail(timeout=0)) == [*expected, b"last"]
        assert values(db.tail("b/+", timeout=0)) == [
            b"%d.%d" % (c, i) for c in range(20) for i in (1, 3, 5, 7)
        ]
        db.flush()
        assert values(db.tail(timeout=0)) == [*expected, b"last"]


@SEAL
def test_it_goes_on_after_the_serials_of_a_receipt_or_a_tail(
    tmp_path: Path, seal_bytes: int
) -> None:
    with topicdb.open(tmp_path / "db", shards=3, seal_bytes=seal_bytes) as db:
        receipts = [
            db.append([(f"t/{i}", 5, b"%d.%d" % (c, i)) for i in range(10)]) for c in range(9)
        ]
        rest = values(db.tail(after=receipts[5].serials, timeout=0))
        assert sorted(rest) == sorted(b"%d.%d" % (c, i) for c in range(6, 9) for i in range(10))
        seen: list[bytes] = []
        serials: dict[int, int] = {}
        while True:  # a new tail for each batch, as after a crash of the reader
            with db.tail(after=serials, timeout=0) as tail:
                batches = tail.batches(rows=4)
                batch = next(batches, None)
                if batch is None:
                    break
                seen += [message.value for message in batch]
                assert tail.serials == {shard: serials.get(shard, 0) for shard in range(3)}
                next(batches, None)  # only now the tail counts the batch as read
                serials = tail.serials
        assert sorted(seen) == sorted(b"%d.%d" % (c, i) for c in range(9) for i in range(10))


def test_a_batch_has_whole_commits(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db") as db:
        for commit in range(6):
            db.append([("t", 1, b"%d" % commit)] * 5)
        with db.tail(timeout=0) as tail:
            sizes = [len(batch) for batch in tail.batches(rows=7)]
            assert sizes == [10, 10, 10]
            assert tail.serials == {0: 6}


@pytest.mark.long
def test_a_batch_has_no_more_bytes_than_its_offsets_reach(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db") as db:
        for i in range(12):
            db.append([("a", i, bytes(100 << 20))])
        tail = db.tail("#", timeout=0)
        rows = [len(batch) for batch in tail.batches(1_000_000, bytes_max=4 << 30)]
    assert rows == [11, 1]


def test_it_waits_for_more_and_ends_after_the_timeout(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db") as db:
        db.append([("t", 1, b"0")])

        def later() -> None:
            for number in range(1, 4):
                time.sleep(0.1)
                db.append([("t", 5 - number, b"%d" % number), ("other", 1, b"")])

        thread = threading.Thread(target=later)
        thread.start()
        found = [m.value for m in itertools.islice(db.tail("t", timeout=PATIENCE_S), 4)]
        assert found == [b"0", b"1", b"2", b"3"]
        thread.join()
        assert values(db.tail("t", timeout=0.1)) == [b"0", b"1", b"2", b"3"]
        assert values(db.tail("t", after={0: 4}, timeout=0)) == []


def test_writers_sealing_and_deletes_beside_it(tmp_path: Path) -> None:
    """Each message comes once and in order beside writers, sealing, deletes and rotations."""
    writers, commits = 3, 120
    with topicdb.open(tmp_path / "db", seal_bytes=2_000) as db:

        def write(writer: int) -> None:
            chance = random.Random(writer)
            for commit in range(commits):
                rows = [
                    (f"w/{writer}/{i % 7}", chance.randrange(10**6), b"%d.%d" % (commit, i))
                    for i in range(chance.randrange(1, 9))
                ]
                db.append([*rows, ("junk/x", 1, b"")])
                if commit % 10 == 0:
                    db.delete("junk/#")
                if commit % 40 == 39:
                    db.rotate()

        threads = [threading.Thread(target=write, args=(n,)) for n in range(writers)]
        for thread in threads:
            thread.start()
        seen: dict[str, list[tuple[int, int]]] = {}
        tail = db.tail("w/#", timeout=0)  # ends where no more is stored, then goes on
        is_over = False
        while not is_over:
            is_over = not any(thread.is_alive() for thread in threads)
            for message in tail:
                commit, _, index = message.value.partition(b".")
                seen.setdefault(message.topic.split("/")[1], []).append((int(commit), int(index)))
        for thread in threads:
            thread.join()
        for writer in range(writers):
            found = seen[str(writer)]
            assert found == sorted(set(found)), "in order, none twice"
            assert sorted({commit for commit, _ in found}) == list(range(commits))
        assert sum(map(len, seen.values())) == db.scan("w/#").count()


def test_a_reader_beside_the_writer_follows_too(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db") as db:
        db.append([("t", 1, b"0")])
        with topicdb.open(tmp_path / "db", mode="r") as reader:
            timer = threading.Timer(0.2, lambda: db.append([("t", 1, b"1")]))
            timer.start()
            tail = reader.tail(timeout=PATIENCE_S)
            messages = iter(tail)
            assert [next(messages).value, next(messages).value] == [b"0", b"1"]
            timer.join()


def test_what_was_deleted_before_it_came_is_left_out(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db") as db:
        db.append([(f"t/{i}", i, b"%d" % i) for i in range(6)])
        db.delete("t/2")
        assert values(db.tail(timeout=0)) == [b"0", b"1", b"3", b"4", b"5"]


def test_closing_ends_a_tail_that_waits(tmp_path: Path) -> None:
    db = topicdb.open(tmp_path / "db")
    failure: list[BaseException] = []

    def follow() -> None:
        try:
            values(db.tail())
        except topicdb.ClosedError as error:
            failure.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    time.sleep(0.2)
    db.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive() and failure
    with pytest.raises(topicdb.ClosedError):
        db.tail()


def test_bad_arguments(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db") as db:
        with pytest.raises(ValueError, match="there is no shard 3"):
            db.tail(after={3: 1})
        with pytest.raises(ValueError, match="timeout"):
            db.tail(timeout=-1)
        with pytest.raises(ValueError, match="timeout"):
            db.tail(timeout=float("nan"))
        with pytest.raises(topicdb.TopicError):
            db.tail("a/#/b")
        with pytest.raises(ValueError, match="rows"):
            next(db.tail().batches(rows=0))
    with (
        topicdb.open(tmp_path / "keys", layout="skipstream") as db,
        pytest.raises(ValueError, match="no commit log"),
    ):
        db.tail()


def test_explain_counts_what_a_scan_does(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db", structures=["m/+/cpu"], seal_bytes=64 << 10) as db:
        for start in range(0, 20_000, 1_000):
            db.append([(f"m/h{i % 50}/cpu", start + i, b"v" * 20) for i in range(1_000)])
        db.flush()
        everything = db.explain()
        assert everything["rows_matched"] == everything["rows_examined"] == 20_000
        assert everything["blocks"] > 3 and everything["pages_read"] == everything["pages"]
        one = db.explain("m/h7/cpu")
        assert one["rows_matched"] == 400 and one["streams"] == one["slabs"] == 1
        assert (
            one["pages_skipped_by_topic"] > 0 and one["bytes_read"] < everything["bytes_read"] / 5
        )
        late = db.explain("m/+/cpu", start=19_000)
        assert late["rows_matched"] == 1_000 and late["blocks_skipped_by_time"] > 0
        nobody = db.explain("m/nobody/cpu")
        assert nobody["rows_matched"] == nobody["pages_read"] == 0
        assert nobody["blocks_skipped_by_word"] == nobody["blocks"]
        before = db.stats()["shards"][0]["reads"]["rows_matched"]
        assert db.scan("m/h7/cpu").count() == 400
        assert db.stats()["shards"][0]["reads"]["rows_matched"] == before + 400
