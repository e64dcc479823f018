"""Tests of what format("topicdb-native") tells Spark's planner, and learns from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import topicdb

HOSTS, MESSAGES = 70, 7_000


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = str(tmp_path_factory.mktemp("hosts") / "db")
    with topicdb.open(place, shards=2) as db:
        db.append([(f"m/h{i % HOSTS}/cpu", i, b"%099d" % i) for i in range(MESSAGES)])
    return place


@pytest.fixture
def session(spark: SparkSession, native: str) -> SparkSession:
    """A session whose plans show their parts before they run."""
    other = spark.newSession()
    other.conf.set("spark.sql.adaptive.enabled", "false")
    return other


def load(spark: SparkSession, path: str, **given: str) -> DataFrame:
    return spark.read.format("topicdb-native").options(**given).load(path)


def rooms(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """Returns a table of hosts and the rooms in which they are: ten rooms of seven hosts."""
    rows = [(f"m/h{i}/cpu", f"room {i % 10}") for i in range(HOSTS)]
    spark.createDataFrame(rows, "topic string, room string").write.parquet(str(tmp_path / "rooms"))
    return spark.read.parquet(str(tmp_path / "rooms"))


def size_of(frame: DataFrame) -> int:
    """Returns how many bytes Spark expects a query to give."""
    size = frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
    return int(str(size))


def ran(frame: DataFrame) -> tuple[int, int]:
    """Runs a query; returns how many rows it has, and how many messages were read for it."""
    plan: Any = frame._jdf.queryExecution().executedPlan()
    rows = len(plan.executeCollectPublic())
    leaves = plan.collectLeaves()
    metrics = [leaves.apply(i).metrics() for i in range(leaves.size())]
    return rows, sum(m.apply("topicdbMessages").value() for m in metrics if has_messages(m))


def has_messages(metrics: Any) -> bool:
    return bool(metrics.contains("topicdbMessages"))


def test_the_planner_knows_how_much_there_is(session: SparkSession, hosts: str) -> None:
    everything = size_of(load(session, hosts))
    assert 100 * MESSAGES < everything < 200 * MESSAGES
    assert size_of(load(session, hosts).select("timestamp")) == 8 * MESSAGES
    assert size_of(load(session, hosts).where("timestamp < timestamp_micros(70)")) < everything / 9
    assert size_of(load(session, hosts).where("topic = 'm/none'")) < everything / 9


def test_the_newest_or_oldest_messages_are_read_alone(session: SparkSession, hosts: str) -> None:
    whole = load(session, hosts, pushdown="false")
    for order in ("timestamp DESC", "timestamp", "timestamp DESC, topic", "timestamp, value DESC"):
        for where in ("true", "topic = 'm/h7/cpu'", "timestamp < timestamp_micros(5000)"):
            for given in ({}, {"minPartitions": "4"}):

                def top(frame: DataFrame, where: str = where, order: str = order) -> DataFrame:
                    frame.createOrReplaceTempView("hosts")
                    return session.sql(
                        f"SELECT * FROM hosts WHERE {where} ORDER BY {order} LIMIT 10"
                    )

                frame = top(load(session, hosts, **given))
                assert frame.collect() == top(whole).collect(), (order, where, given)
                rows, read = ran(frame)
                assert rows == 10
                assert read < MESSAGES / 10, (order, where, given)
    for limit, order in ((MESSAGES, "timestamp"), (10, "topic"), (10, "value")):
        frame = load(session, hosts).orderBy(order).limit(limit)
        assert ran(frame) == (limit, MESSAGES)


def test_the_newest_messages_are_found_where_times_are_uneven(
    session: SparkSession, path: str
) -> None:
    with topicdb.open(path) as db:
        db.append([(f"m/{i % 5}", i, b"") for i in range(1_000)])
        db.append([("m/1", 10**12 + i, b"") for i in range(5)])
        db.delete("m/1", start=10**12, end=10**12 + 2)
    frame = load(session, path).orderBy("timestamp", ascending=False).limit(20)
    assert (
        frame.collect()
        == load(session, path, pushdown="false")
        .orderBy("timestamp", ascending=False)
        .limit(20)
        .collect()
    )
    none = load(session, path).where("topic = 'none'").orderBy("timestamp").limit(3)
    assert none.collect() == []


def test_a_join_reads_only_the_topics_that_it_needs(
    session: SparkSession, hosts: str, tmp_path: Path
) -> None:
    wanted = rooms(session, tmp_path).where("room = 'room 3'")
    for given in ({}, {"minPartitions": "4"}):
        joined = load(session, hosts, **given).join(wanted, "topic")
        assert ran(joined) == (MESSAGES // 10, MESSAGES // 10)
    unpruned = load(session, hosts, pushdown="false").join(wanted, "topic")
    assert ran(unpruned) == (MESSAGES // 10, MESSAGES)
    nothing = rooms(session, tmp_path / "more").where("room = 'none'")
    assert ran(load(session, hosts).join(nothing, "topic")) == (0, 0)


def test_a_join_sees_the_moment_of_its_plan(
    session: SparkSession, tmp_path: Path, path: str
) -> None:
    rows = [(f"m/h{i % HOSTS}/cpu", i, b"1") for i in range(MESSAGES)]
    with topicdb.open(path) as db:
        db.append(rows[: MESSAGES // 2])
        wanted = rooms(session, tmp_path).where("room = 'room 3'")
        joined = load(session, path).join(wanted, "topic")
        joined._jdf.queryExecution().executedPlan()
        db.append(rows[MESSAGES // 2 :])
        assert ran(joined) == (MESSAGES // 20, MESSAGES // 20)


def test_a_join_misses_a_generation_that_was_dropped(
    session: SparkSession, tmp_path: Path, path: str
) -> None:
    with topicdb.open(path) as db:
        db.append([(f"m/h{i % HOSTS}/cpu", i, b"1") for i in range(MESSAGES)])
        db.rotate()
    wanted = rooms(session, tmp_path).where("room = 'room 3'")
    strict = load(session, path).join(wanted, "topic")
    lenient = load(session, path, failOnDataLoss="false").join(wanted, "topic")
    for frame in (strict, lenient):
        frame._jdf.queryExecution().executedPlan()
    with topicdb.open(path) as db:
        for slab in db.slabs():
            if slab.messages:
                db.drop_slab(slab)
    with pytest.raises(Exception, match="was dropped before it was read"):
        ran(strict)
    assert ran(lenient) == (0, 0)
