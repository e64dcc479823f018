"""Spark reads and writes databases whose generations have several layouts."""

from __future__ import annotations

import pickle
from datetime import datetime, timezone
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable
from spark_places import both, options_of
from spark_streams import Streams, values_of

import topicdb
from topicdb.spark import register
from topicdb.spark.batch import BatchReader
from topicdb.spark.options import batch_options

NO_LOG = "has the layout 'skipstream', which keeps no commit log"


def mixed(path: str) -> list[tuple[str, int, bytes]]:
    """Stores messages in generations of both layouts; returns what is stored then."""
    with topicdb.open(path) as db:
        for turn, layout in enumerate(("skipstream", "columnar", "skipstream")):
            db.append([(f"m/{i}/cpu", i, b"%d" % turn) for i in range(200)])
            db.rotate(layout=layout)  # type: ignore[arg-type]
        db.append([(f"m/{i}/cpu", i, b"3") for i in range(200)])
        return sorted((m.topic, m.timestamp, m.value) for m in db.scan("#"))


def read(reader: Any, partitions: Any) -> list[bytes]:
    found = pickle.loads(pickle.dumps(partitions))
    batches = [batch for partition in found for batch in reader.read(partition)]
    return sorted(value for batch in batches for value in batch.column("value").to_pylist())


@both
def test_a_batch_read_has_all_of_them(path: str) -> None:
    expected = mixed(path)
    assert len(expected) == 600, "the last state has replaced the first"
    batch = BatchReader(batch_options(options_of(path)))
    partitions = batch.partitions()
    with topicdb.open(path) as db:
        db.append([(f"m/{i}/cpu", i + 1_000, b"late") for i in range(200)])
        assert read(batch, partitions) == sorted(value for _, _, value in expected)


def test_the_native_source_has_all_of_them(spark: SparkSession, path: str, native: str) -> None:
    expected = mixed(path)
    frame = (
        spark.read.format(native)
        .load(path)
        .selectExpr("topic", "unix_micros(timestamp) t", "value")
    )
    assert sorted((row.topic, row.t, bytes(row.value)) for row in frame.collect()) == expected


@pytest.mark.parametrize("order", ["true", "false"])
def test_a_stream_reads_up_to_a_generation_without_a_log(
    reader: Streams, path: str, order: str
) -> None:
    source = reader(path, startingOffsets="earliest", commitOrder=order)
    other = reader(path, startingOffsets="earliest", topicFilter="other/#", commitOrder=order)
    begin = source.initialOffset()
    with topicdb.open(path) as db:
        db.append([(f"m/{i}/cpu", i, b"before") for i in range(50)])
        middle = source.latestOffset(begin, ReadAllAvailable())
        db.rotate(layout="skipstream")
        db.append([("m/1/cpu", 1, b"state")])
        db.rotate(layout="columnar")
        db.append([("m/1/cpu", 1, b"after"), ("other/1", 1, b"other")])
        end = source.latestOffset(middle, ReadAllAvailable())
        assert values_of(source, begin, middle) == [b"before"] * 50
        for start in (begin, middle):
            with pytest.raises(topicdb.SchemaError, match=NO_LOG):
                source.partitions(start, end)
        assert values_of(other, begin, end) == [b"other"]
        db.append([("m/1/cpu", 2, b"later")])
        latest = source.latestOffset(end, ReadAllAvailable())
        assert values_of(source, end, latest) == [b"later"], "behind it, it goes on"


def test_a_stream_needs_a_log_of_what_is_to_come(reader: Streams, path: str) -> None:
    with topicdb.open(path) as db:
        db.set_retention({"m/#": topicdb.Retention(layout="skipstream"), "#": None})
        with pytest.raises(topicdb.SchemaError, match=NO_LOG):
            reader(path).initialOffset()
        db.append([("a", 1, b"1"), ("m/1/cpu", 1, b"state")])
        source = reader(path, topicFilter="a", startingOffsets="earliest")
        end = source.latestOffset(source.initialOffset(), ReadAllAvailable())
        assert values_of(source, source.initialOffset(), end) == [b"1"]


def test_what_is_written_goes_by_the_generations(
    spark: SparkSession, path: str, local_source: str
) -> None:
    register(spark)
    with topicdb.open(path) as db:
        db.set_retention({"s/#": topicdb.Retention(layout="skipstream"), "#": None})
    time = datetime(2026, 1, 31, tzinfo=timezone.utc)
    rows = [(f"{kind}/1", time, b"%d" % i) for kind in "sm" for i in range(3)]
    frame = spark.createDataFrame(rows, "topic string, timestamp timestamp, value binary")
    frame.coalesce(1).write.format(local_source).mode("append").save(path)
    with topicdb.open(path, mode="r") as db:
        assert [m.value for m in db.scan("m/1")] == [b"0", b"1", b"2"]
        assert len(db.scan("s/1").to_list()) == 1
