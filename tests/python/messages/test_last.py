"""Tests of ``last`` and ``state_at``, which give the newest message of each topic.

The stateful test compares their results with the model; these tests cover the rest.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from support import Layout, topic_in_shard

import topicdb
from topicdb import CorruptionError, Database, Message, TopicError, jobs


def plain(messages: Iterable[Message]) -> list[tuple[str, int, bytes]]:
    return [(m.topic, m.timestamp, m.value) for m in messages]


def values(messages: Iterable[Message]) -> list[bytes]:
    return [message.value for message in messages]


def test_the_newest_of_each_topic_comes_by_topic(db: Database) -> None:
    db.append([("b", 1, b"1"), ("a/x", 5, b"2"), ("é", 2, b"3"), ("a", 3, b"4"), ("b", 9, b"5")])
    db.append([("a", 2, b"late"), ("a/x", 6, b"6")])
    expected = [("a", 3, b"4"), ("a/x", 6, b"6"), ("b", 9, b"5"), ("é", 2, b"3")]
    assert plain(db.last()) == expected
    assert plain(db.last("a/#")) == expected[:2]
    assert plain(db.last("a")) == expected[:1]
    assert plain(db.last("+")) == [expected[0], *expected[2:]]
    assert plain(db.last("none/#")) == []


def test_the_state_at_a_moment_has_what_came_at_it(db: Database) -> None:
    db.append([("a", 10, b"1"), ("a", 20, b"2"), ("b", 15, b"3")])
    assert values(db.state_at(9)) == []
    assert values(db.state_at(10)) == [b"1"]
    assert values(db.state_at(19)) == [b"1", b"3"]
    assert values(db.state_at(20, "a")) == [b"2"]
    assert values(db.state_at(2**63 - 1)) == [b"2", b"3"]
    db.append([("a", 2**63 - 1, b"end")])
    assert values(db.state_at(2**63 - 2, "a")) == [b"2"]
    assert values(db.state_at(2**63 - 1, "a")) == [b"end"]


def test_times_are_those_of_the_rest_of_the_api(db: Database) -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
    at = int(noon.timestamp()) * 1_000_000
    db.append([("a", at, b"noon"), ("a", at + 1, b"after"), ("now", None, b"")])
    assert values(db.state_at(noon)) == [b"noon"]
    assert values(db.state_at("2026-01-31T13:00:00+01:00")) == [b"noon"]
    assert values(db.state_at("-1h", "now")) == []
    assert values(db.last("now", start="-1h")) == [b""]
    for wrong in ("yesterday", datetime(2026, 1, 31), -1, 2**63):
        with pytest.raises(ValueError, match="time"):
            db.state_at(wrong)
        with pytest.raises(ValueError, match="start"):
            db.last(start=wrong)
    with pytest.raises(TopicError, match="a/#/b"):
        db.last("a/#/b")


def test_start_leaves_quiet_topics_out(db: Database) -> None:
    db.append([("quiet", 10, b"q"), ("busy", 10, b"1"), ("busy", 30, b"2"), ("busy", 50, b"3")])
    assert values(db.last(start=11)) == [b"3"]
    assert values(db.state_at(40, start=11)) == [b"2"]
    assert values(db.state_at(40, start=10)) == [b"2", b"q"]
    assert values(db.state_at(10, start=40)) == []


def test_of_equal_times_the_later_commit_wins(db_path: Path) -> None:
    with topicdb.open(db_path, seal_bytes=1) as db:
        for commit in range(3):
            db.append([("a", 7, b"%d.%d" % (commit, i)) for i in range(3)])
            assert values(db.last()) == [b"%d.2" % commit]
            db.flush()
            assert values(db.last()) == [b"%d.2" % commit]
        db.rotate()
        assert values(db.last()) == [b"2.2"]
        db.append([("a", 7, b"newer generation")])
        assert values(db.last()) == values(db.state_at(7)) == [b"newer generation"]


def test_late_messages_lose_in_whatever_generation_they_are(db: Database) -> None:
    db.append([("a", 50, b"first"), ("b", 5, b"b")])
    db.rotate()
    db.append([("a", 40, b"late")])
    db.flush()
    db.rotate()
    db.append([("a", 45, b"later")])
    assert values(db.last()) == [b"first", b"b"]
    assert values(db.state_at(49)) == [b"later", b"b"]
    assert values(db.state_at(44)) == [b"late", b"b"]


def test_classes_and_slabs_that_are_dropped(db_path: Path, layout: Layout) -> None:
    with topicdb.open(db_path, layout=layout, retention={"z/#": "1d"}, shards=2) as db:
        db.append([(f"{first}/{i}", i, b"old") for first in "az" for i in range(5)])
        db.rotate()
        db.append([("z/0", 9, b"new"), ("a/1", 0, b"backfill")])
        assert [m.topic for m in db.last()] == [f"{c}/{i}" for c in "az" for i in range(5)]
        assert values(db.last("+/0")) == [b"old", b"new"]
        for slab in db.slabs():
            if slab.read_only:
                db.drop_slab(slab)
        assert plain(db.last()) == [("a/1", 0, b"backfill"), ("z/0", 9, b"new")]


def test_dollar_topics_are_found_by_their_name_only(db: Database) -> None:
    db.append([("$SYS/up", 1, b"1"), ("a", 1, b"2"), ("$SYS/up", 2, b"3")])
    db.flush()
    assert values(db.last()) == values(db.last("+")) == [b"2"]
    assert values(db.last("$SYS/#")) == values(db.last("$SYS/up")) == [b"3"]
    assert values(db.last("+/up")) == []


@pytest.mark.parametrize("sealed", [False, True])
def test_deleted_messages_uncover_those_before(db: Database, sealed: bool) -> None:
    for commit in range(4):
        db.append([(f"t/{i}", 10 * commit + i, b"%d" % commit) for i in range(3)])
        if sealed:
            db.flush()
    db.delete("t/1", start=15)
    assert plain(db.last("t/1")) == [("t/1", 11, b"1")]
    assert values(db.last()) == [b"3", b"1", b"3"]
    db.delete("t/1")
    assert [m.topic for m in db.last()] == ["t/0", "t/2"]
    db.delete("#", start=20)
    assert values(db.last()) == [b"1", b"1"]
    db.append([("t/1", 0, b"again")])
    assert values(db.last()) == [b"1", b"again", b"1"]


def test_a_large_delete_hides_at_once(db: Database) -> None:
    """Deleted messages are hidden at once, though they are removed later and in steps."""
    db.append([(f"t/{i % 4}", i, b"%d" % i) for i in range(30_000)])
    db.flush()
    db.delete("t/+", start=1_000)
    assert values(db.last()) == [b"996", b"997", b"998", b"999"]
    assert values(db.state_at(5)) == [b"4", b"5", b"2", b"3"]


def test_without_timestamps_there_is_one_message_a_topic(db_path: Path) -> None:
    with topicdb.open(db_path, layout="skipstream", timestamp_bytes=0) as db:
        db.append([(f"k/{i}", 0, b"old") for i in range(5)])
        db.append([("k/3", 0, b"new")])
        assert values(db.last("k/+")) == [b"old", b"old", b"old", b"new", b"old"]
        assert values(db.last("k/3")) == values(db.state_at(0, "k/3")) == [b"new"]
        assert values(db.last("k/3", start=1)) == []


def test_topics_that_vary_at_many_levels(db: Database) -> None:
    rows = [
        (f"m/h{h}/cpu/{c}", 100 * h + c, b"%d.%d" % (h, c)) for h in range(40) for c in range(9)
    ]
    for _ in range(2):
        db.append(rows)
    assert plain(db.last()) == sorted(rows)
    assert plain(db.last("m/h7/cpu/3")) == [("m/h7/cpu/3", 703, b"7.3")]
    assert plain(db.last("m/+/cpu/3")) == sorted(row for row in rows if row[0].endswith("/3"))
    assert plain(db.last("m/h7/#")) == sorted(row for row in rows if row[0].startswith("m/h7/"))


def test_scans_of_every_kind(db: Database) -> None:
    db.append([(f"t/{i:02}", i, b"%d" % i) for i in range(25)])
    expected = [(f"t/{i:02}", i, b"%d" % i) for i in range(25)]
    found = db.last("t/#")
    assert plain(found) == plain(found) == plain(found.to_list()) == expected
    assert found.count() == 25
    assert [len(batch) for batch in found.batches(rows=10)] == [10, 10, 5]
    db.append([("t/00", 99, b"new")])
    assert found.to_list()[0].value == b"new", "each time it is read anew"
    [batch] = found.batches(serials=True)
    assert batch.serials is not None and len(set(batch.serials.tolist())) == 2


def test_arrow(db: Database) -> None:
    pytest.importorskip("pyarrow")
    db.append([("b", 1, b"x"), ("a", 2, b"y"), ("a", 3, b"z")])
    table = db.last().to_arrow()
    assert table["topic"].to_pylist() == ["a", "b"]
    assert table["value"].to_pylist() == [b"z", b"x"]


def test_staged_jobs(db_path: Path) -> None:
    topicdb.open(db_path, shards=2).close()
    for job in range(3):
        with jobs.StagedWriter(db_path, f"job-{job}") as writer:
            writer.append([(f"t/{i}", 10 * job + i, b"%d" % job) for i in range(6)])
            writer.append([("assigned", None, b"%d" % job)])
        jobs.commit(db_path, f"job-{job}", [writer.staged])
        for sealed in (False, True):
            with topicdb.open(db_path) as db:
                if sealed:
                    db.flush()
                assert values(db.last("t/#")) == [b"%d" % job] * 6
                assert values(db.last("assigned")) == [b"%d" % job]
                assert values(db.state_at(5, "t/#")) == [b"0"] * 6


def test_read_only_handles_and_reopening(db_path: Path, layout: Layout) -> None:
    with topicdb.open(db_path, layout=layout, shards=3) as db:
        db.append([(f"t/{i}", i, b"1") for i in range(9)])
        with topicdb.open(db_path, mode="r") as reader:
            db.append([("t/3", 50, b"2")])
            assert values(reader.last("t/3")) == [b"1"]
            reader.refresh()
            assert values(reader.last("t/3")) == [b"2"]
    with topicdb.open(db_path) as db:
        assert [m.value for m in db.last()] == [b"1"] * 3 + [b"2"] + [b"1"] * 5


def test_it_sees_one_moment(db_path: Path) -> None:
    with topicdb.open(db_path) as db:
        db.append([(f"t/{i}", 1, b"old") for i in range(50)])
        batches = db.last().batches(rows=10)
        first = next(batches)
        db.append([(f"t/{i}", 2, b"new") for i in range(50)])
        db.flush()
        assert {v for batch in [first, *batches] for v in batch.values} == {b"old"}


def test_beside_a_writer(db_path: Path) -> None:
    """Each commit writes two topics alike, so a state never has only one of the messages."""
    with topicdb.open(db_path, seal_bytes=2_000) as db:
        db.append([("x", 0, b"0"), ("y", 0, b"0")])
        stop = threading.Event()

        def write() -> None:
            for i in range(1, 3_000):
                db.append([("x", i, b"%d" % i), ("y", i, b"%d" % i)])
                if stop.is_set():
                    return

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(200):
                x, y = db.last().to_list()
                assert x.timestamp == y.timestamp
        finally:
            stop.set()
            writer.join()


def test_closed_handles(db_path: Path) -> None:
    db = topicdb.open(db_path)
    db.append([("t/1", 1, b""), ("t/2", 1, b"")])
    batches = db.last().batches(rows=1)
    next(batches)
    db.close()
    with pytest.raises(topicdb.ClosedError):
        next(batches)
    with pytest.raises(topicdb.ClosedError):
        db.last().to_list()


def test_an_old_history_is_not_read(db_path: Path) -> None:
    """``last`` reads few pages and rows, however many older blocks there are."""
    with topicdb.open(db_path, seal_bytes=20_000) as db:
        for commit in range(20):
            rows = [(f"t/{i % 100}", 1_000 * commit + i, b"x" * 100) for i in range(200)]
            db.append(rows)
            db.flush()
        before = db.stats()["shards"][0]["reads"]
        assert db.last().count() == 100
        after = db.stats()["shards"][0]["reads"]
        assert after["blocks"] - before["blocks"] > 2
        assert after["rows_examined"] - before["rows_examined"] <= 400
        full = db.explain("#")
        assert full["pages_read"] > 5 * (after["pages_read"] - before["pages_read"])


def test_one_topic_is_a_page_or_two(db_path: Path) -> None:
    with topicdb.open(db_path) as db:
        db.append([("busy", i, b"x" * 100) for i in range(20_000)] + [("other", 1, b"")])
        db.flush()
        for found in (db.last("busy"), db.state_at(10_000, "busy")):
            before = db.stats()["shards"][0]["reads"]["pages_read"]
            assert found.count() == 1
            assert db.stats()["shards"][0]["reads"]["pages_read"] - before <= 2


def damaged_files(path: Path) -> list[Path]:
    return sorted(path.rglob("*.sst"))


def test_flipped_bits_never_give_wrong_values(db_path: Path) -> None:
    with topicdb.open(db_path, seal_bytes=1) as db:
        for commit in range(3):
            db.append([(f"t/{i}", 100 * commit + i, b"%d.%d" % (commit, i)) for i in range(30)])
            db.flush()

    def read() -> Any:
        with topicdb.open(db_path, mode="r") as db:
            return plain(db.last())

    expected = read()
    assert len(expected) == 30
    found = 0
    for file in damaged_files(db_path):
        data = file.read_bytes()
        for place in range(0, len(data), 97):
            flipped = bytes([data[place] ^ 1 << place % 8])
            file.write_bytes(data[:place] + flipped + data[place + 1 :])
            try:
                assert read() == expected, f"byte {place} of {file}"
            except CorruptionError:
                found += 1
        file.write_bytes(data)
    assert read() == expected
    assert found > 10


def test_each_shard_has_its_topics(db_path: Path) -> None:
    topics = [topic_in_shard(shard, 3) for shard in range(3)]
    with topicdb.open(db_path, shards=3) as db:
        db.append([(topic, 1, b"") for topic in topics])
        assert [m.topic for m in db.last()] == sorted(topics)
    with topicdb.open(db_path, only_shards=[1]) as db:
        assert [m.topic for m in db.last()] == [topics[1]]
