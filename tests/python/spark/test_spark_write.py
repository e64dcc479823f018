"""Tests of writing DataFrames, RDDs and plain partitions with topicdb.spark."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import topicdb
import topicdb.spark
from topicdb.spark import writer

ROWS = 5_000
HOLD = """
import sys, topicdb
with topicdb.open(sys.argv[1]) as db:
    print("open", flush=True)
    sys.stdin.readline()
"""


def messages(spark: SparkSession, rows: int = ROWS) -> DataFrame:
    return spark.range(rows).selectExpr(
        "concat('m/h', id % 100, '/cpu') as topic",
        "timestamp_micros(id * 1000) as timestamp",
        "cast(id as string) as value",
    )


def stored(path: str) -> list[topicdb.Message]:
    with topicdb.open(path, mode="r") as db:
        return sorted(db.scan())


def expected(rows: int = ROWS) -> list[topicdb.Message]:
    return sorted(
        topicdb.Message(f"m/h{i % 100}/cpu", i * 1000, str(i).encode()) for i in range(rows)
    )


def test_a_dataframe_is_stored_as_it_is(spark: SparkSession, path: str) -> None:
    result = topicdb.spark.write_dataframe(messages(spark), path)
    assert result.messages == ROWS
    assert sorted(result.serials) == [0, 1, 2]
    assert stored(path) == expected()


def test_workers_that_are_used_again_leave_no_lock(spark: SparkSession, path: str) -> None:
    serials = []
    for _ in range(4):
        result = topicdb.spark.write_dataframe(messages(spark, 300), path)
        serials.append(result.serials)
    assert all(before[0] < after[0] for before, after in pairwise(serials))
    assert stored(path) == sorted(expected(300) * 4)  # the default layout keeps all equal messages
    topicdb.open(path).close()


def test_the_jvm_and_the_core_agree_on_shards(spark: SparkSession) -> None:
    topics = ["a", "m/h1/cpu", "ü/€/😀", "/", "$SYS/x", "x" * 1000]
    frame = spark.createDataFrame([(topic,) for topic in topics], "topic string")
    rows = frame.selectExpr("topic", "pmod(crc32(cast(topic as binary)), 7) as shard").collect()
    assert {row.topic: row.shard for row in rows} == {t: topicdb.shard_of(t, 7) for t in topics}


def test_missing_timestamps_are_assigned(spark: SparkSession, path: str) -> None:
    frame = spark.range(50).selectExpr(
        "'m/x/cpu' as topic",
        "cast(null as bigint) as timestamp",
        "cast(cast(id as string) as binary) as value",
    )
    topicdb.spark.write_dataframe(frame, path)
    times = [message.timestamp for message in stored(path)]
    assert len(set(times)) == 50


def test_microseconds_as_bigint(spark: SparkSession, path: str) -> None:
    frame = spark.sql("select 'a' as topic, 1234567890123456L as timestamp, 'x' as value")
    topicdb.spark.write_dataframe(frame, path)
    assert stored(path) == [topicdb.Message("a", 1_234_567_890_123_456, b"x")]


def test_an_empty_dataframe_writes_nothing(spark: SparkSession, path: str) -> None:
    assert topicdb.spark.write_dataframe(messages(spark, 0), path) == topicdb.spark.WriteResult(
        0, {}
    )


def test_an_rdd_of_tuples(spark: SparkSession, path: str) -> None:
    rows = spark.sparkContext.parallelize(
        [(m.topic, m.timestamp, m.value) for m in expected(500)], 4
    )
    assert topicdb.spark.write_rdd(rows, path).messages == 500
    assert stored(path) == expected(500)


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ("'a' as topic, 1L as timestamp", "'value' is missing"),
        ("1 as topic, 1L as timestamp, 'x' as value", "'topic': expected string, got int"),
        ("'a' as topic, '1' as timestamp, 'x' as value", "'timestamp': expected timestamp or"),
        ("'a' as topic, 1L as timestamp, 1.5 as value", "'value': expected binary or string"),
        ("'a' as topic, 1L as timestamp, 'x' as value, 1 as qos", "'qos' is unknown"),
    ],
)
def test_a_wrong_schema_is_refused_before_any_job(
    spark: SparkSession, path: str, columns: str, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        topicdb.spark.write_dataframe(spark.sql(f"select {columns}"), path)


def test_a_missing_database_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(topicdb.NotFoundError, match="nothing"):
        topicdb.spark.write_dataframe(messages(spark), str(tmp_path / "nothing.db"))


def test_a_bad_row_names_its_row_and_frees_the_shard(spark: SparkSession, path: str) -> None:
    bad = messages(spark, 20).union(
        spark.sql("select 'no/#' as topic, timestamp_micros(1) as timestamp, 'x' as value")
    )
    with pytest.raises(Exception, match=r"shard \d, rows from \d+ of its partition: row \d+"):
        topicdb.spark.write_dataframe(bad, path)
    for shard in range(3):  # tasks of other shards may still be at work
        writer._open_shard(path, shard, "os").close()


def test_a_null_topic_is_refused(spark: SparkSession, path: str) -> None:
    frame = spark.sql("select cast(null as string) as topic, 1L as timestamp, 'x' as value")
    with pytest.raises(Exception, match=r"shard \d, rows from 0 of its partition: row 0"):
        topicdb.spark.write_dataframe(frame, path)
    assert stored(path) == []
    topicdb.open(path).close()


@pytest.mark.parametrize(
    "bad", [("a/b", "no time", b""), ("a/b", 1.5, b""), ("a/b", 1, 2), ("a/\ud800", 1, b"")]
)
def test_a_bad_tuple_names_shard_and_row(path: str, bad: tuple[Any, ...]) -> None:
    shard = topicdb.shard_of("a/b", 3)
    with pytest.raises((ValueError, TypeError), match=rf"shard {shard}, rows from 0 of .*row 1"):
        list(topicdb.spark.write_partition([("a/b", 1, b""), bad], path, shard))
    assert stored(path) == []


def test_tuples_before_a_batch_are_written_before_it(path: str) -> None:
    newer = pa.record_batch({"topic": ["a/b"], "timestamp": [1], "value": [b"new"]})
    shard = topicdb.shard_of("a/b", 3)
    list(topicdb.spark.write_partition([("a/b", 1, b"old"), newer], path, shard))
    with topicdb.open(path, mode="r") as db:
        assert [message.value for message in db.scan("a/b")] == [b"old", b"new"]


def batches(topic: str) -> Iterator[Any]:
    yield pa.record_batch({"topic": [topic] * 2, "timestamp": [1, 2], "value": [b"x", b"y"]})
    yield (topic, 3, b"z")


def test_write_partition_takes_batches_and_tuples(path: str) -> None:
    shard = topicdb.shard_of("a/b", 3)
    [written] = topicdb.spark.write_partition(batches("a/b"), path, shard)
    assert (written.shard, written.messages) == (shard, 3)
    assert [message.value for message in stored(path)] == [b"x", b"y", b"z"]


def test_a_topic_of_another_shard_is_refused(path: str) -> None:
    shard = (topicdb.shard_of("a/b", 3) + 1) % 3
    with pytest.raises(topicdb.ReadOnlyError, match="a/b"):
        list(topicdb.spark.write_partition(batches("a/b"), path, shard))


def test_a_held_shard_is_waited_for(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == "open\n"
    shard = topicdb.shard_of("a/b", 3)
    pauses: list[float] = []

    def release_at_second_pause(pause_s: float) -> None:
        pauses.append(pause_s)
        if len(pauses) == 2:
            holder.communicate("\n")

    # Replaces only the writer's name `time`, because Spark's threads sleep, too.
    clock = SimpleNamespace(sleep=release_at_second_pause, monotonic=time.monotonic)
    with monkeypatch.context() as patch:
        patch.setattr(writer, "time", clock)
        [written] = topicdb.spark.write_partition(batches("a/b"), path, shard)
    assert written.messages == 3
    assert len(pauses) == 2
    assert pauses[1] == 2 * pauses[0]


def test_a_shard_that_stays_held_is_given_up(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "LOCK_PATIENCE_S", 0.2)
    shard = topicdb.shard_of("a/b", 3)
    with topicdb.open(path), pytest.raises(topicdb.LockedError):
        list(topicdb.spark.write_partition(batches("a/b"), path, shard))
