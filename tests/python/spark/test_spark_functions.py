"""Tests of the functions that the catalog of the connector in Java has."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import topicdb

SETTING = "spark.sql.catalog.topicdb"
FACTORY = "spark.sql.codegen.factoryMode"
WHOLE = "spark.sql.codegen.wholeStage"
TOPICS = ["a", "a/", "a/b", "a/b/c", "ab/c", "/", "/a", "//", "$SYS", "$SYS/a", "b/b", "b", "ü/b"]
FILTERS = [
    "#",
    "+",
    "+/#",
    "+/+",
    "a/#",
    "a/b/#",
    "+/b",
    "$SYS/#",
    "$SYS/+",
    "/#",
    "/+",
    "a",
    "ü/+",
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("functions")
    with topicdb.open(str(place / "fleet.db"), shards=2) as db:
        db.append([(topic, 1, b"1") for topic in TOPICS])
    return place


@pytest.fixture
def session(spark: SparkSession, native: str, root: Path) -> Iterator[SparkSession]:
    """A session with the catalog ``topicdb``."""
    session = spark.newSession()
    session.conf.set(SETTING, "io.topicdb.spark.TopicDbCatalog")
    session.conf.set(f"{SETTING}.root", str(root))
    yield session
    for name in (SETTING, f"{SETTING}.root"):
        session.conf.unset(name)


def topics_of(session: SparkSession, where: str) -> list[str]:
    found = session.sql(f"SELECT topic FROM topicdb.fleet WHERE {where}").collect()
    return sorted(row.topic for row in found)


def matching(*filters: str) -> list[str]:
    return sorted(t for t in TOPICS if all(topicdb.topic_matches(f, t) for f in filters))


@pytest.mark.parametrize("interpreted", [False, True])
def test_they_are_what_the_core_and_python_say(session: SparkSession, interpreted: bool) -> None:
    chance = random.Random(7)
    levels = ["a", "b", "ab", "", "ü", "$x"]
    made = ["/".join(chance.choices(levels, k=chance.randint(1, 4))) for _ in range(60)]
    topics = {*TOPICS, *(topic for topic in made if topic)}
    made = [
        "/".join(chance.choices([*levels, "+", "+"], k=chance.randint(1, 4))) for _ in range(40)
    ]
    filters = {*FILTERS, *(one + end for one in made if one for end in ("", "/#"))}
    pairs = session.createDataFrame([(f, t) for f in filters for t in topics], "f string, t string")
    session.conf.set(FACTORY, "NO_CODEGEN" if interpreted else "CODEGEN_ONLY")
    session.conf.set(WHOLE, str(not interpreted).lower())
    pairs.createOrReplaceTempView("pairs")
    found = session.sql(
        "SELECT f, t, topicdb.topic_matches(f, t) m,"
        " transform(array(1, 2, 3, 4, 5, -1, -2, -4, -5), n -> topicdb.topic_level(t, n)) l"
        " FROM pairs"
    ).collect()
    assert len(found) == len(filters) * len(topics)
    for row in found:
        assert row.m == topicdb.topic_matches(row.f, row.t), (row.f, row.t)
        parts = [None, *row.t.split("/"), *[None] * 5]
        back = [None, *row.t.split("/")[::-1], *[None] * 5]
        assert row.l == [*parts[1:6], back[1], back[2], back[4], back[5]], row.t


def test_buckets_have_one_width_from_1970_on(session: SparkSession) -> None:
    times = [0, 1, 3_599_999_999, 3_600_000_000, 86_400_000_000 * 400 + 7]
    session.createDataFrame([(t,) for t in times], "t bigint").createOrReplaceTempView("times")
    widths = {"INTERVAL '1' HOUR": 3_600, "INTERVAL '0 00:15:00' DAY TO SECOND": 900}
    for interpreted in ("NO_CODEGEN", "CODEGEN_ONLY"):
        session.conf.set(FACTORY, interpreted)
        for width, seconds in widths.items():
            call = f"topicdb.time_bucket({width}, timestamp_micros(t))"
            found = session.sql(f"SELECT t, unix_micros({call}) b FROM times").collect()
            assert {row.t: row.b for row in found} == {
                t: t - t % (seconds * 1_000_000) for t in times
            }
    nothing = session.sql(
        "SELECT topicdb.time_bucket(INTERVAL '1' HOUR, CAST(NULL AS TIMESTAMP)) b"
    )
    assert nothing.collect()[0].b is None


def test_nothing_is_known_of_null(session: SparkSession) -> None:
    session.createDataFrame([("a", "a", 1), (None, "a", None)], "f string, t string, n int").union(
        session.createDataFrame([("a", None, 1)], "f string, t string, n int")
    ).createOrReplaceTempView("nulls")
    found = session.sql(
        "SELECT topicdb.topic_matches(f, t) m, topicdb.topic_level(t, n) l FROM nulls"
    ).collect()
    assert [(row.m, row.l) for row in found] == [(True, "a"), (None, None), (None, None)]


def test_matches_limit_what_is_read(session: SparkSession) -> None:
    for filter in FILTERS:
        where = f"topicdb.topic_matches('{filter}', topic)"
        assert topics_of(session, where) == matching(filter)
        plan = session.sql(f"SELECT topic FROM topicdb.fleet WHERE {where}")
        text = plan._jdf.queryExecution().executedPlan().toString()
        assert f"filters [{filter}]" in text
        assert "Filter static_invoke" not in text, "it is not checked again"
        assert topics_of(session, f"NOT {where}") == sorted({*TOPICS} - {*matching(filter)})
        both = f"{where} AND topicdb.topic_matches('+/b', topic) AND topic LIKE 'a%'"
        assert topics_of(session, both) == [t for t in matching(filter, "+/b") if t[0] == "a"]
    assert topics_of(session, "topicdb.topic_matches(topic, topic)") == sorted(TOPICS)
    assert topics_of(session, "topicdb.topic_matches(topic, 'a')") == ["a"]
    assert topics_of(session, "topicdb.topic_matches(NULL, topic)") == []
    assert topics_of(session, "topicdb.topic_level(topic, -1) = 'b'") == ["a/b", "b", "b/b", "ü/b"]


def test_they_are_listed(session: SparkSession) -> None:
    listed = session.sql("SHOW USER FUNCTIONS IN topicdb").collect()
    assert [row.function for row in listed] == [
        "topicdb.time_bucket",
        "topicdb.topic_level",
        "topicdb.topic_matches",
    ]
    assert session.sql("SELECT topicdb.Topic_Level('a/b', 2) l").collect()[0].l == "b"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("topic_matches('a/#/b', 'a')", "TopicError: filter 'a/#/b': '#' must be the last level"),
        ("topic_matches('', 'a')", "TopicError: "),
        ("topic_matches('a')", r"two arguments are needed, got 1: topic_matches\(filter, topic\)"),
        ("topic_level('a', 0)", "topic_level: levels are counted from 1"),
        ("topic_level('a')", r"two arguments are needed, got 1: topic_level\(topic, n\)"),
        ("topic_level(array('a'), 1)", "STRING"),
        ("time_bucket(INTERVAL '1' HOUR)", r"two arguments are needed, got 1: time_bucket\("),
        ("time_bucket('1 hour', current_timestamp())", "INTERVAL"),
        ("time_bucket(INTERVAL '0' HOUR, current_timestamp())", "the width must be positive"),
        ("nothing('a')", "nothing"),
    ],
)
def test_what_cannot_be_is_refused(session: SparkSession, call: str, message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        session.sql(f"SELECT topicdb.{call}").collect()


def test_a_filter_that_is_none_is_refused_where_it_is_pushed(session: SparkSession) -> None:
    with pytest.raises(PySparkException, match="TopicError: filter 'a#'"):
        topics_of(session, "topicdb.topic_matches('a#', topic)")
