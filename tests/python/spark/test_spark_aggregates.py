"""Tests of aggregates that format("topicdb-native") finds by itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import topicdb

# The core tells these of each group.
TOLD = "count(*) n, count(value) v, count(1) o, unix_micros(min(timestamp)) f, max(timestamp) l"
# Spark must find these by itself.
READ = (
    "count(*) n, count(DISTINCT topic) d, max(topic) t, sum(length(value)) b,"
    " count(*) FILTER (WHERE topic = 'a/b') x, max(unix_micros(timestamp) % 7) m"
)
WHERE = [
    "true",
    "topic = 'a/b'",
    "topic IN ('a', 'b', 'none') AND timestamp < timestamp_micros(60)",
    "timestamp >= timestamp_micros(25) AND timestamp < timestamp_micros(75)",
    "topic = 'none'",
    "value IS NULL",
    "topic LIKE 'a/%'",
]
TOPICS = ["a", "a/b", "a/b/c", "b", "$SYS/a", "ü/b"]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with generations of both layouts, late and deleted messages, sealed and fresh."""
    place = str(tmp_path_factory.mktemp("mixed") / "db")
    with topicdb.open(place, shards=2) as db:
        for turn, layout in enumerate(("columnar", "skipstream", "columnar")):
            if turn:
                db.rotate(layout=layout)  # type: ignore[arg-type]
            db.append([(topic, 20 * turn + i, b"%d" % i) for topic in TOPICS for i in range(40)])
            db.delete("a/#", start=20 * turn + 3, end=20 * turn + 9)
        db.append([(topic, 5, b"late") for topic in TOPICS])
    return place


def load(spark: SparkSession, path: str, **given: str) -> DataFrame:
    return spark.read.format("topicdb-native").options(**given).load(path)


def plan_of(frame: DataFrame) -> str:
    text: str = frame._jdf.queryExecution().toString()
    return text


def aggregated(frame: DataFrame, where: str, by: list[str], what: str) -> DataFrame:
    frame.createOrReplaceTempView("messages")
    keys = ", ".join(by)
    return frame.sparkSession.sql(
        f"SELECT {keys}{', ' if by else ''}{what} FROM messages WHERE {where}"
        + (f" GROUP BY {keys}" if by else "")
    )


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("by", [[], ["topic"]])
@pytest.mark.parametrize("what", [TOLD, READ], ids=["told", "read"])
def test_aggregates_are_those_of_spark(
    spark: SparkSession, mixed: str, by: list[str], what: str
) -> None:
    for where in WHERE:
        wanted = aggregated(load(spark, mixed, pushdown="false"), where, by, what).collect()
        for given in ({}, {"minPartitions": "4"}):
            found = aggregated(load(spark, mixed, **given), where, by, what)
            assert sorted(found.collect()) == sorted(wanted), (where, given)
            if where in ("topic = 'none'", "value IS NULL"):
                continue  # nobody has to read anything
            is_told = what == TOLD and "LIKE" not in where
            sign = "aggregates [count(*)" if given else "LocalTableScan"
            assert (sign in plan_of(found)) is is_told, (where, given)


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_dates_of_utc_are_counted_by_the_core(spark: SparkSession, path: str, zone: str) -> None:
    hour = 3_600_000_000
    with topicdb.open(path) as db:
        db.append([(f"m/{i % 3}", i * hour, b"") for i in range(100)])
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    session.conf.set("spark.sql.ansi.enabled", "true")  # only then Spark hands over the cast
    for by in (["CAST(timestamp AS DATE)"], ["to_date(timestamp)", "topic"]):
        wanted = aggregated(load(session, path, pushdown="false"), "true", by, "count(*) n")
        for given in ({}, {"minPartitions": "4"}):
            found = aggregated(load(session, path, **given), "true", by, "count(*) n")
            assert sorted(found.collect()) == sorted(wanted.collect()), (by, given)
            sign = "by [date(timestamp)" if given else "LocalTableScan"
            assert (sign in plan_of(found)) is (zone == "UTC"), (by, given)


@pytest.mark.usefixtures("native")
def test_levels_and_buckets_are_counted_by_the_core(spark: SparkSession, mixed: str) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.catalog.functions", "io.topicdb.spark.TopicDbCatalog")
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    is_handed_over = session.version >= "4"
    level = "functions.topic_level(topic, {})"
    bucket = "functions.time_bucket(INTERVAL '0.00002' SECOND, timestamp)"
    for by in (
        [level.format(1)],
        [level.format(2)],
        [level.format(-1), bucket],
        [level.format(2), level.format(1), "topic"],
        [bucket],
        [bucket, "topic"],
    ):
        for where in ("true", "topic IN ('a/b', 'b')", "timestamp >= timestamp_micros(25)"):
            wanted = aggregated(load(session, mixed, pushdown="false"), where, by, TOLD).collect()
            for given in ({}, {"minPartitions": "4"}):
                found = aggregated(load(session, mixed, **given), where, by, TOLD)
                assert by_text(found) == by_text_of(wanted), (by, where, given)
                sign = "aggregates [count(*)" if given else "LocalTableScan"
                assert (sign in plan_of(found)) is is_handed_over, (by, where, given)
    two = aggregated(
        load(session, mixed),
        "true",
        [bucket, "functions.time_bucket(INTERVAL '3' HOUR, timestamp)"],
        TOLD,
    )
    assert "LocalTableScan" not in plan_of(two)


def by_text(frame: DataFrame) -> list[str]:
    return by_text_of(frame.collect())


def by_text_of(rows: list[Any]) -> list[str]:
    """Returns rows in an order: keys may be null, and nulls cannot be compared."""
    return sorted(map(str, rows))


@pytest.mark.usefixtures("native")
def test_few_messages_are_counted_while_the_query_is_planned(
    spark: SparkSession, mixed: str
) -> None:
    frame = aggregated(load(spark, mixed), "true", ["topic"], "count(*) n")
    text = plan_of(frame)
    assert "LocalTableScan [topic#" in text
    assert "Exchange" not in text
    by_tasks = plan_of(
        aggregated(load(spark, mixed, minPartitions="4"), "true", ["topic"], "count(*) n")
    )
    assert "aggregates [count(*)], by [topic]" in by_tasks
    assert "Exchange" in by_tasks


@pytest.mark.usefixtures("native")
def test_groups_that_are_too_many_for_the_driver_are_counted_by_tasks(
    spark: SparkSession, path: str
) -> None:
    with topicdb.open(path) as db:
        for turn in range(2):
            db.append([(f"g/{i}", turn, b"") for i in range(100_001)])
    frame = load(spark, path).groupBy("topic").count()
    assert "LocalTableScan" not in plan_of(frame)
    assert frame.where("count = 2").count() == 100_001
    assert load(spark, path).select("topic").distinct().count() == 100_001
    assert load(spark, path).count() == 200_002


@pytest.mark.usefixtures("native")
def test_aggregates_go_with_limits_offsets_joins_and_metadata(
    spark: SparkSession, mixed: str
) -> None:
    frame = load(spark, mixed, includeMetadata="true", includeProperties="true")
    total = frame.count()
    assert total == len(frame.collect())
    assert frame.limit(7).count() == 7
    assert frame.groupBy("topic").count().limit(2).count() == 2
    by_topic = frame.groupBy("topic").count()
    assert by_topic.join(by_topic.withColumnRenamed("count", "c"), "topic").count() == len(TOPICS)
    assert by_topic.selectExpr("sum(count) n").collect()[0].n == total
    assert frame.selectExpr("count(qos) n", "count(serial) s").collect()[0].asDict() == {
        "n": 0,
        "s": total,
    }
    halves = [frame.where(f"shard = {shard}").count() for shard in (0, 1)]
    assert sum(halves) == total


@pytest.mark.usefixtures("native")
def test_counts_see_the_commits_that_the_options_ask_for(spark: SparkSession, path: str) -> None:
    with topicdb.open(path) as db:
        first = db.append([(f"m/{i}", i, b"") for i in range(50)])
        db.append([(f"m/{i}", i, b"") for i in range(20)])
        serials = {str(shard): serial for shard, serial in first.serials.items()}
    until = json.dumps(serials)
    for given in ({}, {"minPartitions": "4"}):
        assert load(spark, path, endingOffsets=until, **given).count() == 50
        assert load(spark, path, startingOffsets=until, **given).count() == 20
        assert load(spark, path, topicFilter="m/1", **given).count() == 2


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("fails", [True, False])
def test_a_dropped_generation_is_an_error_or_not_counted(
    spark: SparkSession, path: str, fails: bool
) -> None:
    with topicdb.open(path) as db:
        db.append([("m/1", i, b"") for i in range(100)])
        db.rotate()
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")  # it would run a part of the plan
    frame = load(session, path, failOnDataLoss=str(fails), minPartitions="2")
    execution: Any = frame.selectExpr("count(*) n", "max(timestamp) t")._jdf.queryExecution()
    plan = execution.executedPlan()
    plan.execute().getNumPartitions()
    with topicdb.open(path) as db:
        db.drop_slab(next(slab for slab in db.slabs() if slab.messages))
    if fails:
        with pytest.raises(Exception, match=r"was dropped before it was read"):
            plan.executeCollectPublic()
    else:
        row = plan.executeCollectPublic()[0]
        assert row.getLong(0) == 0
        assert row.isNullAt(1)


@pytest.mark.usefixtures("native")
def test_a_count_without_a_database_is_an_error(spark: SparkSession, path: str) -> None:
    with pytest.raises(Exception, match="NotFoundError"):
        load(spark, path + ".none").count()
