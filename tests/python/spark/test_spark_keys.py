"""Tests of writing to a database that shards by key, and of reading it in many tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from keys import values_by_shard
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from spark_places import options_of
from spark_queries import run_to_end

import topicdb
import topicdb.spark
from topicdb.spark import register

SHARDS = 3
CLIENTS = 7
ROWS = 2_000


@pytest.fixture(autouse=True)
def _registered(spark: SparkSession) -> None:
    register(spark)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """The path of an empty database that shards by key."""
    place = str(tmp_path / "spark.db")
    topicdb.open(place, shards=SHARDS, shard_by="key", structures=["m/+/cpu"]).close()
    return place


def key_of(row: int) -> str | None:
    return None if row % 10 == 0 else f"client {row % CLIENTS}"


def messages(spark: SparkSession, key: str = "string") -> DataFrame:
    """Messages of 20 topics; nine of ten have a key."""
    return spark.range(ROWS).selectExpr(
        "concat('m/h', id % 20, '/cpu') as topic",
        "timestamp_micros(id * 1000) as timestamp",
        "cast(cast(id as string) as binary) as value",
        f"cast(if(id % 10 = 0, null, concat('client ', id % {CLIENTS})) as {key}) as key",
    )


def expected() -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for row in range(ROWS):
        key = key_of(row)
        topic = f"m/h{row % 20}/cpu"
        shard = topicdb.shard_of(topic, SHARDS)
        if key is not None:
            shard = topicdb.shard_of_key(key, SHARDS)
        found.setdefault(shard, []).append(b"%d" % row)
    return {shard: sorted(values) for shard, values in found.items()}


def stored(path: str) -> dict[int, list[bytes]]:
    with topicdb.open(path, mode="r") as database:
        return values_by_shard(database)


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_a_batch_has_a_column_of_keys(
    spark: SparkSession, path: str, kind: str, source: str
) -> None:
    frame = messages(spark, kind).repartition(5)
    frame.write.format(source).mode("append").options(**options_of(path)).save()
    assert stored(path) == expected()


def test_a_stream_has_a_column_of_keys(
    spark: SparkSession, path: str, tmp_path: Path, source: str
) -> None:
    messages(spark).write.parquet(str(tmp_path / "in"))
    rows = spark.readStream.schema(messages(spark).schema).parquet(str(tmp_path / "in"))
    writer = rows.writeStream.format(source).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer = writer.options(**options_of(path))
    run_to_end(writer.start)
    assert stored(path) == expected()


def test_each_task_writes_the_keys_of_its_shard(spark: SparkSession, path: str) -> None:
    result = topicdb.spark.write_dataframe(messages(spark), path)
    assert (result.messages, sorted(result.serials)) == (ROWS, list(range(SHARDS)))
    assert stored(path) == expected()


def test_rows_of_an_rdd_have_keys(spark: SparkSession, path: str) -> None:
    rows = [(f"m/h{i % 20}/cpu", i * 1_000, b"%d" % i) for i in range(ROWS)]

    def key(row: tuple[str, int, bytes]) -> str | None:  # workers cannot import this file
        number = int(row[2])
        return None if number % 10 == 0 else f"client {number % CLIENTS}"

    result = topicdb.spark.write_rdd(spark.sparkContext.parallelize(rows, 4), path, key=key)
    assert result.messages == ROWS
    assert stored(path) == expected()


def test_a_read_of_one_topic_visits_all_shards(spark: SparkSession, path: str, source: str) -> None:
    messages(spark).write.format("topicdb").mode("append").save(path)
    given = options_of(path)
    read = spark.read.format(source).options(**given, includeMetadata="true").load()
    found = read.where("topic = 'm/h7/cpu'").collect()
    assert len(found) == ROWS // 20
    assert {row.shard for row in found} == set(range(SHARDS))
    option = spark.read.format(source).options(**given, topicFilter="m/h7/cpu").load()
    assert option.count() == ROWS // 20


def test_columns_that_cannot_be_are_refused_on_the_driver(
    spark: SparkSession, path: str, tmp_path: Path, local_source: str
) -> None:
    def save(frame: DataFrame, to: str) -> None:
        frame.write.format(local_source).mode("append").save(to)

    by_topic = str(tmp_path / "topics.db")
    topicdb.open(by_topic, shards=SHARDS).close()
    with pytest.raises(PySparkException, match=f"column 'key': {by_topic} is sharded by topic"):
        save(messages(spark), by_topic)
    with pytest.raises(topicdb.SchemaError, match="column 'key'"):
        topicdb.spark.write_dataframe(messages(spark), by_topic)
    wrong = messages(spark).selectExpr("topic", "timestamp", "value", "1 as key")
    with pytest.raises(PySparkException, match="column 'key': expected string or binary, got int"):
        save(wrong, path)
    assert stored(path) == {} == stored(by_topic)


def test_an_empty_key_fails_the_job_or_is_left_out(
    spark: SparkSession, path: str, local_source: str
) -> None:
    rows: list[Any] = [("a", 1, b"x", "k"), ("b", 2, b"y", "")]
    frame = spark.createDataFrame(rows, "topic string, timestamp bigint, value binary, key string")
    frame = frame.coalesce(1)
    with pytest.raises((PySparkException, Py4JJavaError), match="key: it is empty"):
        frame.write.format(local_source).mode("append").save(path)
    assert stored(path) == {}
    frame.write.format(local_source).mode("append").option("mode", "DROPMALFORMED").save(path)
    assert stored(path) == {topicdb.shard_of_key("k", SHARDS): [b"x"]}
