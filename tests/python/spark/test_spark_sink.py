"""Tests of writing with format("topicdb"), by batch and by stream."""

from __future__ import annotations

import json
import logging
import os
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from spark_places import PYTHON, options_of
from spark_queries import run_to_end

import topicdb
from topicdb import jobs
from topicdb.spark import register

SCHEMA = "topic string, timestamp timestamp, value binary"
Row = tuple[str, Any, Any]
# What PySpark shows of a job that failed: with a source in Java, a failed call of its bridge.
FAILURES = (PySparkException, Py4JJavaError)


@pytest.fixture(autouse=True)
def _registered(spark: SparkSession) -> None:
    register(spark)


@pytest.fixture
def sink(source: str) -> str:
    """The format of a write: that in Python, over the directory and a server, and that in Java."""
    return source


@pytest.fixture
def local_sink(local_source: str) -> str:
    """The format of a write over the directory."""
    return local_source


def moment(second: int) -> datetime:
    return datetime.fromtimestamp(1_700_000_000 + second, timezone.utc)


def us(second: int) -> int:
    return (1_700_000_000 + second) * 1_000_000


def frame(spark: SparkSession, rows: list[Row], schema: str = SCHEMA) -> DataFrame:
    return spark.createDataFrame(rows, schema)


def save(dataframe: DataFrame, path: str, sink: str, **options: str) -> None:
    given = {**options_of(path), **options}
    dataframe.write.format(sink).mode("append").options(**given).save()


def stored(path: str) -> list[tuple[str, int, bytes]]:
    with topicdb.open(path, mode="r") as database:
        return sorted((m.topic, m.timestamp, m.value) for m in database.scan("#"))


def applied(path: str) -> list[jobs.Applied]:
    with topicdb.open(path, mode="r") as database:
        return jobs.applied(database)


def leftovers(path: str) -> list[str]:
    directory = Path(path) / "jobs"
    return sorted(os.listdir(directory)) if directory.exists() else []


class TestBatch:
    def test_what_is_saved_is_stored(self, spark: SparkSession, path: str, sink: str) -> None:
        rows: list[Row] = [
            (f"m/h{i % 9}/cpu", moment((i * 37) % 500), b"%d" % i) for i in range(1_000)
        ]
        save(frame(spark, rows).repartition(5), path, sink)
        assert stored(path) == sorted(
            (topic, us((i * 37) % 500), value) for i, (topic, _, value) in enumerate(rows)
        )
        assert leftovers(path) == []
        more = spark.read.format("topicdb").load(path)
        save(more.filter("topic = 'm/h3/cpu'"), path, sink)
        assert len(stored(path)) == 1_000 + sum(1 for row in rows if row[0] == "m/h3/cpu")

    def test_other_types_and_times_that_are_not_given(
        self, spark: SparkSession, path: str, sink: str
    ) -> None:
        save(
            frame(spark, [("a", 5, "x")], "topic string, timestamp bigint, value string"),
            path,
            sink,
        )
        save(spark.createDataFrame([("b", b"y")], "topic string, value binary"), path, sink)
        save(frame(spark, [("c", None, b"z"), ("c", moment(1), b"t")]), path, sink)
        found = stored(path)
        assert found[0] == ("a", 5, b"x") and found[2] == ("c", us(1), b"t")
        assert [row[0] for row in found] == ["a", "b", "c", "c"]
        assert min(found[1][1], found[3][1]) > us(0)

    def test_nothing(self, spark: SparkSession, path: str, sink: str) -> None:
        save(frame(spark, []), path, sink)
        save(spark.createDataFrame(spark.sparkContext.emptyRDD(), SCHEMA), path, sink)
        save(frame(spark, [("a", moment(1), b"")]).repartition(3), path, sink)
        assert stored(path) == [("a", us(1), b"")]

    def test_a_job_that_fails_leaves_nothing(
        self, spark: SparkSession, path: str, sink: str
    ) -> None:
        def fails_in_one(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield batch
                if "m/700" in batch.column("topic").to_pylist():
                    # A task that still ran could leave its files, so the other three end first.
                    while len(list(Path(path).glob("jobs/*/*.staged"))) < 3:
                        time.sleep(0.05)
                    raise RuntimeError("lost power")

        rows: list[Row] = [(f"m/{i}", moment(i), b"v") for i in range(800)]
        broken = (
            frame(spark, rows).repartitionByRange(4, "timestamp").mapInArrow(fails_in_one, SCHEMA)
        )
        with pytest.raises(FAILURES, match="lost power"):
            save(broken, path, sink)
        assert stored(path) == []
        assert leftovers(path) == []

    def test_the_process_that_has_the_database_open_applies_it(
        self, spark: SparkSession, path: str, sink: str
    ) -> None:
        with topicdb.open(path) as database:
            save(frame(spark, [("a", moment(1), b"x")] * 50).repartition(2), path, sink)
            assert database.scan("#").count() == 50
            database.append([("a", 1, b"y")])
        assert len(stored(path)) == 51


class TestBadInput:
    def refuses(
        self, what: str, dataframe: DataFrame, path: str, sink: str, **options: str
    ) -> None:
        with pytest.raises(FAILURES, match=what):
            save(dataframe, path, sink, **options)

    def test_columns(self, spark: SparkSession, path: str, local_sink: str) -> None:
        for columns, what in (
            ("topic string, timestamp timestamp", "column 'value' is missing"),
            ("topic int, value binary", "column 'topic': expected string, got int"),
            ("topic string, timestamp string, value binary", "column 'timestamp': expected"),
            ("topic string, timestamp timestamp_ntz, value binary", "got timestamp_ntz"),
            ("topic string, value binary, x int", "column 'x' is unknown"),
        ):
            empty = spark.createDataFrame([], columns)
            self.refuses(what, empty, path, local_sink)
        assert leftovers(path) == []

    def test_options_and_modes(
        self, spark: SparkSession, path: str, local_sink: str, tmp_path: Path
    ) -> None:
        good = frame(spark, [("a", moment(1), b"x")])
        self.refuses("option 'shards' is unknown", good, path, local_sink, shards="3")
        self.refuses("option mode='PERMISSIVE'", good, path, local_sink, mode="PERMISSIVE")
        self.refuses("no database", good, str(tmp_path / "none"), local_sink)
        with pytest.raises(PySparkException, match="option path is missing"):
            good.write.format(local_sink).mode("append").save()
        with pytest.raises(PySparkException, match="overwrite"):
            good.write.format(local_sink).mode("overwrite").save(path)
        assert stored(path) == []

    def test_rows(self, spark: SparkSession, path: str, sink: str) -> None:
        rows: list[Row] = [(f"m/{i}", moment(i), b"v") for i in range(20)]
        bad = frame(spark, [*rows, ("m/+", moment(1), b"v")]).coalesce(1)
        self.refuses(r"partition 0, rows from 0: row 20: topic 'm/\+'", bad, path, sink)
        nulls = spark.createDataFrame([("a", None, b"x"), (None, None, b"y")], SCHEMA).coalesce(1)
        self.refuses("partition 0.*row 1", nulls, path, sink)
        assert stored(path) == [] and leftovers(path) == []

    def test_rows_that_are_left_out_are_counted(
        self, spark: SparkSession, path: str, sink: str
    ) -> None:
        rows: list[Any] = [
            ("ok", moment(1), b"x"),
            ("m/+", moment(1), b"x"),
            (None, moment(1), b"x"),
            ("ok", moment(2), None),
            ("$topicdb/x", moment(1), b"x"),
        ]
        save(spark.createDataFrame(rows, SCHEMA).repartition(2), path, sink, mode="DROPMALFORMED")
        assert stored(path) == [("ok", us(1), b"x")]
        assert {job.malformed for job in applied(path)} == {4}


class Source:
    """A directory of JSON files that a query streams from."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir()
        self.rows: list[tuple[str, int, bytes]] = []

    def add(self, count: int) -> None:
        start = len(self.rows)
        lines = []
        for i in range(start, start + count):
            lines.append(json.dumps({"topic": f"s/{i % 5}", "timestamp": us(i), "value": str(i)}))
            self.rows.append((f"s/{i % 5}", us(i), b"%d" % i))
        file = self.place / f"{start:06d}.json"
        file.with_suffix(".tmp").write_text("\n".join(lines))
        file.with_suffix(".tmp").rename(file)


def run_query(spark: SparkSession, source: Source, path: str, checkpoint: Path, sink: str) -> str:
    """Stores the new rows of the source, and returns the id of the query."""
    rows = (
        spark.readStream.schema("topic string, timestamp bigint, value string")
        .option("maxFilesPerTrigger", "1")
        .json(str(source.place), pathGlobFilter="*.json")
    )
    writer = (
        rows.writeStream.format(sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
    )
    writer = writer.options(**options_of(path))
    return str(run_to_end(writer.start).id)


class TestStream:
    def test_a_query_may_change_the_sink(
        self, spark: SparkSession, path: str, tmp_path: Path, native: str
    ) -> None:
        source = Source(tmp_path / "in")
        checkpoint = tmp_path / "checkpoint"
        for sink in (PYTHON, native, PYTHON):
            source.add(50)
            query = run_query(spark, source, path, checkpoint, sink)
            assert stored(path) == sorted(source.rows)
        assert {(job.sequence, job.number) for job in applied(path)} == {(query, 3)}

    def test_every_batch_once_over_restarts(
        self, spark: SparkSession, path: str, sink: str, tmp_path: Path
    ) -> None:
        source = Source(tmp_path / "in")
        checkpoint = tmp_path / "checkpoint"
        for _ in range(2):
            for _ in range(2):
                source.add(50)
            query = run_query(spark, source, path, checkpoint, sink)
            assert stored(path) == sorted(source.rows)
        assert {(job.sequence, job.number) for job in applied(path)} == {(query, 4)}
        assert leftovers(path) == []

    def test_a_batch_that_spark_repeats_is_stored_once(
        self, spark: SparkSession, path: str, sink: str, tmp_path: Path
    ) -> None:
        """The checkpoint is as after a kill of the driver between TopicDB's commit and its own."""
        source = Source(tmp_path / "in")
        checkpoint = tmp_path / "checkpoint"
        source.add(80)
        run_query(spark, source, path, checkpoint, sink)
        for attempt in range(2):
            last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
            last.unlink()
            for crc in (checkpoint / "commits").glob(f".{last.name}.crc"):
                crc.unlink()
            if attempt == 1:
                source.add(30)
            run_query(spark, source, path, checkpoint, sink)
            assert Counter(stored(path)) == Counter(source.rows)

    def test_a_query_that_fails_can_go_on(
        self,
        spark: SparkSession,
        path: str,
        sink: str,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level(logging.CRITICAL)
        source = Source(tmp_path / "in")
        checkpoint = tmp_path / "checkpoint"
        source.add(40)
        bad = source.place / "000040.json"
        bad.write_text(json.dumps({"topic": "s/+", "timestamp": 1, "value": "x"}))
        with pytest.raises(PySparkException, match=r"topic 's/\+'"):
            run_query(spark, source, path, checkpoint, sink)
        assert stored(path) == sorted(source.rows)
        bad.write_text(json.dumps({"topic": "s/ok", "timestamp": 1, "value": "x"}))
        run_query(spark, source, path, checkpoint, sink)
        assert stored(path) == sorted([*source.rows, ("s/ok", 1, b"x")])
