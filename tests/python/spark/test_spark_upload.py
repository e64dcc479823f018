"""Tests of batch reads of uploads with format("topicdb")."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from s3_server import BUCKET, KEY, SECRET, S3Server
from spark_places import PYTHON

import topicdb
from topicdb.uploads import download, upload, uploads

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
    return spark.read.format("topicdb").options(**given).load(url)


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
    assert f"topicdb {place}" in explained
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
        frame.write.format("topicdb").mode("append").save(place)
    with pytest.raises(PySparkException, match="expected a directory; only the JAR"):
        spark.read.format(PYTHON).load(place).count()


@pytest.mark.s3
@pytest.mark.slow
@pytest.mark.usefixtures("native")
def test_a_bucket_of_a_real_server(
    spark: SparkSession, s3: S3Server, database: str, tmp_path: Path
) -> None:
    with topicdb.open(database) as db:
        first = upload(db, s3.url("fleet"))
        db.append([("again/x", 1, b"again")])
        second = upload(db, s3.url("fleet"), keep=1)
        assert 0 < second.new_bytes < first.bytes
        assert [one.number for one in uploads(s3.url("fleet"))] == [2]
        frame = load(spark, f"s3a://{BUCKET}/fleet")
        assert rows_of(frame) == rows_of(load(spark, database))
        download(s3.url("fleet"), tmp_path / "back")
        assert rows_of(load(spark, str(tmp_path / "back"))) == rows_of(frame)
        db.delete("again/#")
        for end in (".sst", "-TOPICDB"):
            # Each in a place of its own: the JVM keeps in memory what it has read of another.
            upload(db, s3.url(f"lacking{end}"))
            files = (s3.root / BUCKET / f"lacking{end}" / "files").glob(f"*{end}")
            largest = max(files, key=lambda path: path.stat().st_size)
            largest.unlink()
            lacking = load(spark, f"s3a://{BUCKET}/lacking{end}")
            missing = rf"CorruptionError: .*{largest.name} is missing"
            with pytest.raises(PySparkException, match=missing):
                lacking.selectExpr("sum(length(value))").collect()


@pytest.mark.s3
@pytest.mark.slow
@pytest.mark.usefixtures("native")
def test_a_store_that_refuses_and_one_that_is_gone(
    spark: SparkSession, s3: S3Server, database: str
) -> None:
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    settings.set("fs.s3a.bucket.refusing.secret.key", "wrong")
    settings.set("fs.s3a.bucket.gone.endpoint", "http://127.0.0.1:1")
    (s3.root / "refusing").mkdir()
    for bucket in ("refusing", "gone"):
        with pytest.raises(PySparkException, match=f"StorageError: listing s3a://{bucket}/x/man"):
            load(spark, f"s3a://{bucket}/x").count()
    wrong = s3.url("x").replace(SECRET, "wrong")
    with topicdb.open(database) as db:
        with pytest.raises(topicdb.StorageError, match=f"of s3://{BUCKET}/x: ") as refused:
            upload(db, wrong)
        assert KEY not in str(refused.value)
        gone = s3.url("x").replace(s3.endpoint, "http://127.0.0.1:1")
        with pytest.raises(topicdb.StorageError, match=f"of s3://{BUCKET}/x: "):
            upload(db, gone)
