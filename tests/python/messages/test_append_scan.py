"""Tests of storing messages and finding them again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import LAYOUTS, Layout, newest, topic_in_shard

import topicdb
from topicdb import Database, Message

T0 = 1_700_000_000_000_000


def test_messages_come_back_as_they_went_in(db: Database) -> None:
    db.append([("a/b", T0, b"one"), ("a/c", T0 + 1, b""), ("", T0, b"x")][:2])
    assert db.scan("#").to_list() == [Message("a/b", T0, b"one"), Message("a/c", T0 + 1, b"")]


def test_iterating_gives_named_tuples(db: Database) -> None:
    db.append([("a", T0, b"one")])
    [message] = db.scan()
    assert isinstance(message, Message)
    assert (message.topic, message.timestamp, message.value) == ("a", T0, b"one")


def test_receipt_names_shards_count_and_durability(sharded_db: Database) -> None:
    topics = [topic_in_shard(0, 3), topic_in_shard(2, 3)]
    receipt = sharded_db.append([(topic, T0, b"") for topic in topics])
    assert set(receipt.serials) == {0, 2}
    assert (receipt.count, receipt.durability) == (2, "os")
    again = sharded_db.append([(topics[0], T0, b"")])
    assert again.serials[0] > receipt.serials[0]


@pytest.mark.parametrize("durability", ["none", "os", "disk"])
def test_receipt_says_what_was_reached(db: Database, durability: str) -> None:
    assert db.append([("a", T0, b"")], durability=durability).durability == durability  # type: ignore[arg-type]


@pytest.mark.parametrize("durability", ["none", "os", "disk"])
def test_every_durability_survives_close(db_path: Path, layout: Layout, durability: str) -> None:
    with topicdb.open(db_path, layout=layout, durability=durability) as db:  # type: ignore[arg-type]
        assert db.append([("a", T0, b"kept")]).durability == durability
    with topicdb.open(db_path) as db:
        assert db.scan().to_list() == [Message("a", T0, b"kept")]


def test_an_empty_append_writes_nothing(db: Database) -> None:
    receipt = db.append([])
    assert (receipt.serials, receipt.count) == ({}, 0)
    assert db.scan().to_list() == []


def test_append_takes_any_iterable_and_any_bytes(db: Database) -> None:
    array = np.frombuffer(b"np", "u1")
    values: list[Any] = [b"bytes", bytearray(b"bytearray"), memoryview(b"memoryview"), array]
    db.append(("a", t, value) for t, value in enumerate(values))
    assert [m.value for m in db.scan()] == [b"bytes", b"bytearray", b"memoryview", b"np"]


def test_append_takes_lists_and_messages_as_rows(db: Database) -> None:
    db.append([Message("a", 1, b"x"), ["a", 2, b"y"], ("a", np.int64(3), b"z")])  # type: ignore[list-item]
    assert [(m.timestamp, m.value) for m in db.scan()] == [(1, b"x"), (2, b"y"), (3, b"z")]


def test_what_was_read_can_be_appended_again(db: Database) -> None:
    db.append([("a", 1, b"x"), ("b", 2, b"y")])
    [batch] = db.scan().batches()
    db.delete("#")
    receipt = db.append(batch)
    assert receipt.count == 2
    assert db.scan().to_list() == batch.to_list()


def test_skipstream_overwrites_the_same_topic_and_time(db_path: Path) -> None:
    with topicdb.open(db_path, layout="skipstream") as db:
        db.append([("a", 1, b"first"), ("a", 1, b"second")])
        assert [m.value for m in db.scan()] == [b"second"]
        db.append([("a", 1, b"third")])
        assert [m.value for m in db.scan()] == [b"third"]
        assert newest(db, "a", 1) == b"third"


def test_columnar_keeps_all_of_the_same_topic_and_time(db_path: Path) -> None:
    """Equal times keep the order of their commits, in fresh blocks, in sealed ones, and in both."""
    with topicdb.open(db_path, layout="columnar") as db:
        db.append([("a", 1, b"1"), ("b", 1, b"-"), ("a", 1, b"2")])
        db.append([("a", 1, b"3"), ("a", 1, b"3")])
        db.append([("a", 0, b"0"), ("a", 2, b"9")])
        assert [m.value for m in db.scan("a")] == [b"0", b"1", b"2", b"3", b"3", b"9"]
        db.flush()
        db.append([("a", 1, b"4")])
        expected = [b"0", b"1", b"2", b"3", b"3", b"4", b"9"]
        assert [m.value for m in db.scan("a")] == expected
        assert newest(db, "a", 1) == b"4"
        db.flush()
    with topicdb.open(db_path) as db:
        for order in ("stream", "time"):
            assert [m.value for m in db.scan("a", order=order)] == expected
        [stream] = db.streams("a")
        assert db.next(db.iterator(stream, "a")).batch.values == expected
        assert newest(db, "a", 1) == b"4"
        assert db.delete("a", start=1, end=2).count == 5
        assert newest(db, "a", 1) is None


def test_what_a_newer_generation_writes_again(db: Database) -> None:
    """The layout decides whether the older generation keeps its message."""
    db.append([("a", 1, b"old")])
    db.rotate()
    db.append([("a", 1, b"new")])
    older = [b"old"] if db.schema["layout"] == "columnar" else []
    assert [m.value for m in db.scan()] == [*older, b"new"]


def test_order_within_a_stream_is_time_then_commit_then_position(
    db_path: Path, layout: Layout
) -> None:
    with topicdb.open(db_path, thresholds=[0], layout=layout) as db:
        db.append([("z", 5, b"1"), ("y", 5, b"2"), ("x", 3, b"3")])
        db.append([("a", 5, b"4"), ("b", 4, b"5")])
        assert [m.value for m in db.scan("+")] == [b"3", b"5", b"1", b"2", b"4"]


def test_skipstream_moves_what_is_overwritten_to_the_place_of_its_last_write(db_path: Path) -> None:
    with topicdb.open(db_path, thresholds=[0], layout="skipstream") as db:
        db.append([("z", 5, b"1"), ("y", 5, b"2"), ("z", 5, b"3"), ("x", 5, b"4")])
        assert [m.value for m in db.scan("+")] == [b"2", b"3", b"4"]
        db.append([("y", 5, b"5")])
        assert [m.value for m in db.scan("+")] == [b"3", b"4", b"5"]


STREAMS_OF_TWO = [("b/x", 3, b"1"), ("a/x", 2, b"2"), ("b/x", 1, b"3"), ("a/x", 3, b"4")]


def test_skipstream_reads_one_stream_after_the_other(db_path: Path) -> None:
    with topicdb.open(db_path, layout="skipstream") as db:
        db.append(STREAMS_OF_TWO)
        assert sorted(len(db.scan(streams=[s]).to_list()) for s in db.streams()) == [2, 2]
        expected = [m.value for s in db.streams() for m in db.scan(streams=[s])]
        assert [m.value for m in db.scan()] == expected
        assert expected in ([b"2", b"4", b"3", b"1"], [b"3", b"1", b"2", b"4"])


def test_columnar_merges_the_streams_of_a_slab(db_path: Path) -> None:
    """A scan merges streams by time, commit and position, and reads slab after slab."""
    with topicdb.open(db_path, layout="columnar", retention={"z/#": "1d"}) as db:
        db.append([*STREAMS_OF_TWO, ("z/x", 0, b"z")])
        db.append([("c/x", 2, b"5"), ("a/x", 3, b"6")])
        merged = [b"3", b"2", b"5", b"1", b"4", b"6"]
        assert [m.value for m in db.scan()] == [b"z", *merged]
        db.flush()
        assert [m.value for m in db.scan()] == [b"z", *merged]
        two = [s for s in db.streams() if s.structure in ("a/x", "b/x")]
        assert [m.value for m in db.scan(streams=two)] == [b"3", b"2", b"1", b"4", b"6"]
        db.rotate()
        db.append([("a/x", 0, b"7")])
        assert [m.value for m in db.scan("a/x")] == [b"2", b"4", b"6", b"7"]


def test_an_older_generation_is_read_first(db: Database) -> None:
    db.append([("a", 9, b"old")])
    db.rotate()
    db.append([("a", 1, b"new")])
    assert [m.value for m in db.scan("a")] == [b"old", b"new"]


def test_time_order_merges_streams_shards_and_generations(sharded_db: Database) -> None:
    sharded_db.append([(f"t/{i}", 1_000 - i, b"") for i in range(0, 200, 2)])
    sharded_db.rotate()
    sharded_db.append([(f"t/{i}", 1_000 - i, b"") for i in range(1, 200, 2)])
    timestamps = [m.timestamp for m in sharded_db.scan("#", order="time")]
    assert timestamps == list(range(801, 1_001))


def test_start_is_inclusive_and_end_is_not(db: Database) -> None:
    db.append([("a", t, b"") for t in range(10)])
    assert [m.timestamp for m in db.scan(start=3, end=6)] == [3, 4, 5]
    assert db.scan(start=6, end=6).to_list() == []
    assert db.scan(start=7, end=6).to_list() == []
    assert db.scan(end=0).to_list() == []


def test_the_largest_timestamp_is_found(db: Database) -> None:
    db.append([("a", 0, b"first"), ("a", 2**63 - 1, b"last")])
    assert [m.value for m in db.scan(start=2**63 - 1)] == [b"last"]
    assert [m.value for m in db.scan(end=2**63 - 1)] == [b"first"]


def test_assigned_timestamps_are_now_unique_and_increasing(db: Database) -> None:
    before = time.time_ns() // 1_000
    db.append([("a", None, b"%d" % i) for i in range(1_000)])
    after = time.time_ns() // 1_000
    messages = db.scan("a").to_list()
    assert [int(m.value) for m in messages] == list(range(1_000))
    timestamps = [m.timestamp for m in messages]
    assert sorted(set(timestamps)) == timestamps
    assert before <= timestamps[0] <= after


def test_assigned_timestamps_increase_across_reopen_and_rotation(
    db_path: Path, layout: Layout
) -> None:
    for _ in range(3):
        with topicdb.open(db_path, layout=layout) as db:
            db.append([("a", None, b"")] * 500)
            db.rotate()
    with topicdb.open(db_path) as db:
        timestamps = [m.timestamp for m in db.scan("a")]
    assert len(set(timestamps)) == 1_500
    assert timestamps == sorted(timestamps)


def test_batches_respect_rows_and_bytes(db: Database) -> None:
    db.append([("a", t, b"v" * 1_000) for t in range(100)])
    assert [len(batch) for batch in db.scan().batches(rows=30)] == [30, 30, 30, 10]
    by_bytes = list(db.scan().batches(bytes_max=10_000))
    assert sum(len(batch) for batch in by_bytes) == 100
    assert all(batch.nbytes <= 20_000 for batch in by_bytes)
    assert len(list(db.scan().batches(bytes_max=1))) == 100, "at least one message comes back"


def test_a_batch_has_columns_rows_and_length(db: Database) -> None:
    db.append([("a", 1, b"x"), ("b", 2, b"y")])
    [batch] = db.scan().batches()
    assert batch.topics == ["a", "b"]
    assert batch.values == [b"x", b"y"]
    assert batch.timestamps.dtype == np.int64 and batch.timestamps.tolist() == [1, 2]
    assert len(batch) == 2 and batch.nbytes > 0
    assert batch[0] == Message("a", 1, b"x") and batch[-1] == Message("b", 2, b"y")
    assert list(batch) == batch.to_list() == [batch[0], batch[1]]
    for index in (2, -3):
        with pytest.raises(IndexError):
            batch[index]


def test_a_scan_can_be_repeated_and_sees_what_came_since(db: Database) -> None:
    scan = db.scan("a")
    assert scan.count() == 0
    db.append([("a", 1, b"")])
    assert scan.count() == scan.count() == 1


def test_a_running_scan_sees_the_moment_it_began(db: Database) -> None:
    db.append([("a", t, b"") for t in range(10)])
    batches = db.scan("a").batches(rows=4)
    first = next(batches)
    db.append([("a", t, b"") for t in range(10, 20)])
    assert len(first) + sum(len(batch) for batch in batches) == 10


def test_a_scan_can_be_limited_to_streams(sharded_db: Database) -> None:
    sharded_db.append([(f"t/{i}", i, b"") for i in range(30)])
    streams = sharded_db.streams("t/#")
    per_stream = [sharded_db.scan("t/#", streams=[s]).to_list() for s in streams]
    assert sorted(m for part in per_stream for m in part) == sorted(sharded_db.scan("t/#"))
    assert all(per_stream)
    assert sharded_db.scan("t/#", streams=[]).to_list() == []


def test_large_and_many_values(db: Database) -> None:
    big = bytes(range(256)) * 65_536  # 16 MiB
    db.append([("big", 1, big), ("small", 1, b"s")])
    assert {m.topic: m.value for m in db.scan()} == {"big": big, "small": b"s"}


def test_what_was_learned_does_not_hide_what_was_there_before(
    db_path: Path, layout: Layout
) -> None:
    with topicdb.open(db_path, thresholds=[2, 2, 1], layout=layout) as db:
        for i in range(20):
            db.append([(f"site/{i}/{'temp' if i % 2 else 'wind'}", i, b"")])
            assert db.scan("site/+/#").count() == i + 1
        for i in range(20):
            assert db.scan(f"site/{i}/#").count() == 1
    with topicdb.open(db_path) as db:
        assert db.scan("site/+/temp").count() == 10


def test_a_map_of_topics(db_path: Path) -> None:
    with topicdb.open(db_path, timestamp_bytes=0) as db:
        assert db.schema["layout"] == "skipstream"
        db.append([("session/1", 0, b"up"), ("session/2", None, b"up")])
        db.append([("session/1", 0, b"down")])
        assert sorted(db.scan("session/+")) == [
            Message("session/1", 0, b"down"),
            Message("session/2", 0, b"up"),
        ]
        assert db.scan(start=0, end=1).count() == 2
        assert db.scan(start=1).count() == 0
        assert db.scan(end=0).count() == 0
        with pytest.raises(ValueError, match="timestamp"):
            db.append([("session/3", 1, b"")])


def test_retention_classes_have_their_own_generations(db_path: Path, layout: Layout) -> None:
    retention = {"alarm/#": "365d", "debug/#": "1h"}
    with topicdb.open(db_path, retention=retention, layout=layout) as db:
        db.append([("alarm/1", 1, b""), ("debug/1", 1, b""), ("other", 1, b"")])
        db.rotate("debug/#")
        generations = {(s.retention_class, s.generation, s.read_only) for s in db.slabs()}
        assert generations == {
            ("alarm/#", 1, False),
            ("debug/#", 1, True),
            ("debug/#", 2, False),
            ("#", 1, False),
        }
        [old] = [s for s in db.slabs() if s.read_only]
        db.drop_slab(old)
        assert sorted(m.topic for m in db.scan()) == ["alarm/1", "other"]


def test_a_catch_all_class_takes_dollar_topics_too(db_path: Path, layout: Layout) -> None:
    with topicdb.open(db_path, retention={"+/x": "1h", "#": "7d"}, layout=layout) as db:
        db.append([("$SYS/x", 1, b""), ("a/x", 1, b"")])
        assert {s.retention_class: s.messages for s in db.slabs()} == {"+/x": 1, "#": 1}


def test_expire_drops_what_its_class_keeps_no_longer(db_path: Path, layout: Layout) -> None:
    hour_us = 3_600 * 1_000_000
    retention = {"short/#": "1h", "long/#": "2h"}
    with topicdb.open(db_path, retention=retention, layout=layout) as db:
        db.append([("short/1", 1, b""), ("long/1", 1, b""), ("kept", 1, b"")])
        db.rotate()
        db.append([("short/1", 2, b"")])
        sealed = max(slab.sealed_at or 0 for slab in db.slabs())
        assert db.expire() == []
        gone = db.expire(sealed + hour_us + 1)
        assert [(s.retention_class, s.generation) for s in gone] == [("short/#", 1)]
        assert sorted(m[:2] for m in db.scan()) == [("kept", 1), ("long/1", 1), ("short/1", 2)]
        gone = db.expire(sealed + 1_000_000 * hour_us)
        assert [(s.retention_class, s.generation) for s in gone] == [("long/#", 1)]
        assert sorted(m[:2] for m in db.scan()) == [("kept", 1), ("short/1", 2)]
        assert db.expire(sealed + 1_000_000 * hour_us) == []
        with pytest.raises(ValueError, match="now"):
            db.expire(-1)


def test_slabs_have_times_sizes_and_counts(db: Database, layout: Layout) -> None:
    before = time.time_ns() // 1_000
    db.append([("a", 5, b"12345"), ("b", 3, b"1")])
    db.rotate()
    old, new = db.slabs()
    assert (old.shard, old.retention_class, old.generation, old.layout) == (0, "#", 1, layout)
    assert (old.messages, old.bytes, old.streams) == (2, 8, 2)
    assert (old.first_timestamp, old.last_timestamp) == (3, 5)
    assert (old.read_only, new.read_only) == (True, False)
    assert (new.messages, new.first_timestamp, new.sealed_at) == (0, None, None)
    assert old.sealed_at is not None and old.created_at <= before <= old.sealed_at


def test_stats_add_up(sharded_db: Database) -> None:
    sharded_db.append([(f"t/{i}", i, b"12345") for i in range(30)])
    stats = sharded_db.stats()
    assert stats["messages"] == 30
    assert stats["streams"] == len(sharded_db.streams())
    assert sum(shard["messages"] for shard in stats["shards"]) == 30
    assert stats["bytes"] == sum(slab.bytes for slab in sharded_db.slabs())


def test_the_schema_is_what_was_asked_for(db_path: Path, layout: Layout) -> None:
    options = {
        "shards": 2,
        "thresholds": [5, 1],
        "structures": ["a/+"],
        "timestamp_bytes": 8,
        "layout": layout,
    }
    with topicdb.open(db_path, **options, retention={"a/#": "1h"}) as db:  # type: ignore[arg-type]
        schema = db.schema
    for option, value in options.items():
        assert schema[option] == value
    with topicdb.open(db_path, mode="r") as db:
        assert db.schema == schema
    [other] = {*LAYOUTS} - {layout}
    with pytest.raises(topicdb.SchemaError, match="layout"):
        topicdb.open(db_path, layout=other)


def test_the_schema_of_a_new_database(db_path: Path) -> None:
    with topicdb.open(db_path) as db:
        assert db.schema == {
            "shards": 1,
            "shard_by": "topic",
            "layout": "columnar",
            "timestamp_bytes": 8,
            "structures": [],
            "thresholds": [100, 10],
            "retention": {},
        }


def test_a_map_of_topics_is_no_columnar_database(db_path: Path) -> None:
    with pytest.raises(topicdb.SchemaError, match="timestamp_bytes"):
        topicdb.open(db_path, timestamp_bytes=0, layout="columnar")
    assert not db_path.exists()
