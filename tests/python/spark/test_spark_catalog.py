"""Tests of the catalog of SQL whose tables are databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from served import serving
from spark_places import skip_without_grpc

import topicdb
from topicdb.uploads import upload

SETTING = "spark.sql.catalog.topicdb"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with two databases, and something else."""
    for name, value in (("fleet.db", b"1"), ("plant", b"22")):
        with topicdb.open(str(tmp_path / name)) as db:
            db.append([(f"m/{i}", i, value) for i in range(10)])
    (tmp_path / "other").mkdir()
    (tmp_path / "file.db").write_text("")
    return tmp_path


@pytest.fixture
def session(spark: SparkSession, native: str, root: Path) -> Iterator[SparkSession]:
    """A session with the catalog ``topicdb``. Spark makes a catalog anew in each session."""
    session = spark.newSession()
    session.conf.set(SETTING, "io.topicdb.spark.TopicDbCatalog")
    session.conf.set(f"{SETTING}.root", str(root))
    yield session
    for name in (SETTING, f"{SETTING}.root"):
        session.conf.unset(name)


def rows_of(session: SparkSession, query: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in session.sql(query).collect()]


def test_a_database_is_a_table(session: SparkSession) -> None:
    assert rows_of(session, "SELECT count(*), max(length(value)) FROM topicdb.fleet") == [(10, 1)]
    assert rows_of(session, "SELECT count(*) FROM topicdb.plant WHERE topic = 'm/3'") == [(1,)]
    joined = "SELECT count(*) FROM topicdb.fleet a JOIN topicdb.plant b USING (topic, timestamp)"
    assert rows_of(session, joined) == [(10,)]
    assert session.table("topicdb.fleet").columns == ["topic", "timestamp", "value"]


def test_a_path_is_a_table(session: SparkSession, root: Path, tmp_path: Path) -> None:
    for path in (root / "plant", root / "fleet.db", root / "fleet"):
        assert rows_of(session, f"SELECT count(*) FROM topicdb.`{path}`") == [(10,)]
    below = tmp_path / "other" / "deep.db"
    topicdb.open(str(below)).close()
    assert rows_of(session, "SELECT count(*) FROM topicdb.`other/deep`") == [(0,)]


def test_tables_are_listed_and_described(session: SparkSession) -> None:
    tables = [row.tableName for row in session.sql("SHOW TABLES IN topicdb").collect()]
    assert tables == ["fleet", "plant"]
    described = rows_of(session, "DESCRIBE topicdb.fleet")
    assert [row[:2] for row in described[:3]] == [
        ("topic", "string"),
        ("timestamp", "timestamp"),
        ("value", "binary"),
    ]


def test_settings_are_options_of_every_table(spark: SparkSession, native: str, root: Path) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.catalog.meta", "io.topicdb.spark.TopicDbCatalog")
    for name, value in (("root", str(root)), ("includeMetadata", "true"), ("topicFilter", "m/7")):
        session.conf.set(f"spark.sql.catalog.meta.{name}", value)
    found = session.table("meta.fleet")
    assert found.columns == ["topic", "timestamp", "value", "shard", "serial"]
    assert found.count() == 1
    session.conf.set("spark.sql.catalog.wrong", "io.topicdb.spark.TopicDbCatalog")
    session.conf.set("spark.sql.catalog.wrong.topicFilters", "m/7")
    with pytest.raises(PySparkException, match="option 'topicFilters' is unknown"):
        session.table(f"wrong.`{root}/fleet.db`").collect()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT * FROM topicdb.none", "NotFoundError: .* table topicdb.none: neither .*/none nor"),
        ("SELECT * FROM topicdb.other", "NotFoundError: there is no database"),
        ("DROP TABLE topicdb.fleet", "cannot drop topicdb.fleet: a table of this catalog"),
        ("ALTER TABLE topicdb.fleet RENAME TO truck", "cannot rename topicdb.fleet"),
        ("ALTER TABLE topicdb.fleet ADD COLUMN x int", "cannot alter topicdb.fleet"),
    ],
)
def test_what_cannot_be_is_refused(session: SparkSession, statement: str, message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        session.sql(statement).collect()
    assert rows_of(session, "SELECT count(*) FROM topicdb.fleet") == [(10,)]


def test_servers_and_uploads_are_tables(session: SparkSession, root: Path, tmp_path: Path) -> None:
    skip_without_grpc()
    place = f"file://{tmp_path / 'other' / 'upload'}"
    with topicdb.open(root / "plant") as database, serving(database) as server:
        upload(database, str(tmp_path / "other" / "upload"))
        database.append([("m/new", 1, b"333")])
        other = session.newSession()
        other.conf.set(SETTING, "io.topicdb.spark.TopicDbCatalog")
        settings = {"root": str(root), "live.remote": server.url, "old.path": place}
        settings |= {"some.remote": server.url, "some.topicFilter": '["m/new", "m/1"]'}
        for name, value in settings.items():
            other.conf.set(f"{SETTING}.{name}", value)
        assert rows_of(other, "SELECT count(*) FROM topicdb.some") == [(2,)]
        assert rows_of(other, "SELECT count(*) FROM topicdb.old") == [(10,)]
        assert rows_of(other, f"SELECT count(*) FROM topicdb.`{place}`") == [(10,)]
        tables = [row.tableName for row in other.sql("SHOW TABLES IN topicdb").collect()]
        assert tables == ["fleet", "live", "old", "plant", "some"]
        other.sql("INSERT INTO topicdb.live SELECT * FROM topicdb.old")
        assert sum(1 for _ in database.scan()) == 21
