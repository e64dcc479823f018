"""Tests of batch reads of uploads with format("topicdb-native")."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import topicdb
from topicdb.uploads import upload

COUNT = 30_000
Row = tuple[str, int, bytes]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("uploaded") / "db")
    with topicdb.open(path, shards=2) as db:
        for start in range(0, COUNT, 10_000):
            db.append([(f"m/h{i % 70}/x", i, b"%d" % i) for i in range(start, start + 10_000)])
            db.rotate()
    return path


@pytest.fixture
def place(database: str, tmp_path: Path) -> str:
    with topicdb.open(database) as db:
        upload(db, tmp_path / "store")
    return f"file://{tmp_path}/store"


def load(spark: SparkSession, url: str, **given: str) -> DataFrame:
    return spark.read.format("topicdb-native").options(**given).load(url)


def rows_of(frame: DataFrame) -> list[Row]:
    found = frame.selectExpr("topic", "unix_micros(timestamp) t", "value").collect()
    return sorted((row.topic, row.t, bytes(row.value)) for row in found)


@pytest.mark.usefixtures("native")
def test_an_upload_is_read_like_its_database(
    spark: SparkSession, database: str, place: str
) -> None:
    everything = load(spark, place)
    assert rows_of(everything) == rows_of(load(spark, database))
    assert everything.count() == COUNT
    one = everything.where("topic = 'm/h7/x' AND timestamp >= timestamp_micros(15000)")
    assert rows_of(one) == rows_of(
        load(spark, database).where("topic = 'm/h7/x' AND timestamp >= timestamp_micros(15000)")
    )
    explained = one._jdf.queryExecution().toString()
    assert f"topicdb-native {place}" in explained
    assert len(everything.limit(5).collect()) == 5


@pytest.mark.usefixtures("native")
def test_a_job_reads_the_newest_upload(
    spark: SparkSession, database: str, place: str, tmp_path: Path
) -> None:
    before = load(spark, place).count()
    with topicdb.open(database) as db:
        db.append([("later/x", 1, b"later")])
        upload(db, tmp_path / "store")
    frame = load(spark, place)
    assert frame.where("topic = 'later/x'").count() == 1
    assert frame.count() == before + 1
    with topicdb.open(database) as db:
        db.delete("later/#")


@pytest.mark.usefixtures("native")
def test_what_is_missing_is_named(spark: SparkSession, place: str, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match=r"NotFoundError: there is no upload at .*/none"):
        load(spark, f"file://{tmp_path}/none").count()
    with pytest.raises(PySparkException, match='No FileSystem for scheme "nosuch"'):
        load(spark, "nosuch://bucket/x").count()
    tables = sorted((tmp_path / "store" / "files").glob("*.sst"))
    largest = max(tables, key=lambda path: path.stat().st_size)
    largest.rename(tmp_path / "aside")
    with pytest.raises(PySparkException, match=rf"CorruptionError: .*{largest.name} is missing"):
        load(spark, place).selectExpr("sum(length(value))").collect()
    (tmp_path / "aside").rename(largest)
    (descriptor,) = (tmp_path / "store" / "files").glob("*-TOPICDB")
    descriptor.unlink()
    with pytest.raises(PySparkException, match=rf"CorruptionError: .*{descriptor.name} is missing"):
        load(spark, place).count()
    (manifest,) = (tmp_path / "store" / "manifests").glob("0*")
    manifest.write_bytes(b"damaged")
    with pytest.raises(PySparkException, match=rf"CorruptionError: .*{manifest.name} is damaged"):
        load(spark, place).count()


@pytest.mark.usefixtures("native")
def test_an_upload_is_only_read(spark: SparkSession, place: str) -> None:
    frame = load(spark, place)
    with pytest.raises(PySparkException, match=r"option path='file:.*': an upload is only read"):
        frame.write.format("topicdb-native").mode("append").save(place)
    with pytest.raises(PySparkException, match="expected a directory; format"):
        spark.read.format("topicdb").load(place).count()
