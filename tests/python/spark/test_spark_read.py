"""Tests of planning and reading with topicdb.spark."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from spark_places import arguments_of, both

import topicdb
import topicdb.spark

WRITE = """
import itertools, sys, topicdb
with topicdb.open(sys.argv[1]) as db:
    for i in itertools.count():
        db.append([("live/x", 10**15 + i, b"")])
        if i == 10:
            print("writing", flush=True)
"""


@pytest.fixture
def filled(path: str) -> str:
    with topicdb.open(path) as db:
        for start in range(0, 3_000, 1_000):
            db.append([(f"m/h{i % 7}/cpu", i, b"%d" % i) for i in range(start, start + 1_000)])
            db.append([(f"tiny/{start}/{i}", start, b"t") for i in range(20)])
            db.rotate()
    return path


def rows_of(splits: list[topicdb.spark.Split]) -> list[tuple[object, ...]]:
    return sorted(
        tuple(row.values())
        for split in splits
        for batch in topicdb.spark.read_split(pickle.loads(pickle.dumps(split)))
        for row in batch.to_pylist()
    )


@both
@pytest.mark.parametrize("tasks", [1, 3, 8, 100])
@pytest.mark.parametrize(("start", "end"), [(None, None), (500, 2_500), (2_999, None), (0, 1)])
def test_splits_hold_every_message_once(
    filled: str, tasks: int, start: int | None, end: int | None
) -> None:
    splits = topicdb.spark.plan(
        **arguments_of(filled), filter="#", start=start, end=end, tasks=tasks
    )
    with topicdb.open(filled, mode="r") as db:
        wanted = db.scan("#", start=start, end=end).to_arrow().to_pylist()
    assert rows_of(splits) == sorted(tuple(row.values()) for row in wanted)


@both
def test_a_large_stream_is_cut_by_time(path: str) -> None:
    with topicdb.open(path) as db:
        db.append([("m/h1/cpu", i, b"%06d" % i) for i in range(10_000)])
    splits = topicdb.spark.plan(**arguments_of(path), filter="m/+/cpu", tasks=5)
    assert len(splits) == 5
    sizes = [sum(batch.num_rows for batch in topicdb.spark.read_split(s)) for s in splits]
    assert sum(sizes) == 10_000
    assert max(sizes) <= 2_001


@both
@pytest.mark.parametrize(("start", "end"), [(None, 1_000), (1_999, None), (1_000, 1_001)])
def test_a_range_at_the_edge_of_a_slab_stays_in_it(
    path: str, start: int | None, end: int | None
) -> None:
    with topicdb.open(path) as db:
        db.append([("m/h1/cpu", i, b"%d" % i) for i in range(1_000, 2_000)])
        wanted = db.scan(start=start, end=end).count()
    splits = topicdb.spark.plan(**arguments_of(path), start=start, end=end, tasks=5)
    assert len(rows_of(splits)) == wanted
    for slice in (slice for split in splits for slice in split.slices):
        assert start is None or (slice.start is not None and slice.start >= start)
        assert end is None or (slice.end is not None and slice.end <= end)


@both
def test_what_is_committed_after_planning_is_in_no_split(filled: str) -> None:
    splits = topicdb.spark.plan(**arguments_of(filled), tasks=3)
    before = rows_of(splits)
    with topicdb.open(filled) as db:
        db.append([(f"m/h{i}/cpu", i, b"later") for i in range(7)])
        db.append([(f"new/{i}", i, b"later") for i in range(7)])
    assert rows_of(splits) == before
    assert len(rows_of(topicdb.spark.plan(**arguments_of(filled), tasks=3))) == len(before) + 14


@both
def test_several_filters_give_a_message_once(filled: str) -> None:
    splits = topicdb.spark.plan(
        **arguments_of(filled), filter=["m/+/cpu", "m/h1/#", "tiny/0/#"], tasks=2
    )
    assert len(rows_of(splits)) == 3_000 + 20
    assert len(rows_of(topicdb.spark.plan(**arguments_of(filled), filter=None))) == 3_000 + 60


@both
def test_a_slab_that_was_dropped_after_planning_is_named(filled: str) -> None:
    splits = topicdb.spark.plan(**arguments_of(filled))
    with topicdb.open(filled) as db:
        for slab in db.slabs():
            if slab.read_only and slab.generation == 1:
                db.drop_slab(slab)
    topicdb.spark.plan(**arguments_of(filled))  # a server looks again
    with pytest.raises(topicdb.NotFoundError, match="generation 1"):
        rows_of(splits)


@both
def test_tiny_streams_share_a_task(filled: str) -> None:
    splits = topicdb.spark.plan(**arguments_of(filled), filter="tiny/#", tasks=4)
    assert len(splits) <= 8


@both
def test_a_dataframe_has_the_messages(spark: SparkSession, filled: str) -> None:
    frame = topicdb.spark.read_dataframe(spark, **arguments_of(filled), filter="m/+/cpu")
    assert frame.dtypes == [("topic", "string"), ("timestamp", "timestamp"), ("value", "binary")]
    total = frame.selectExpr(
        "count(*)", "sum(unix_micros(timestamp))", "sum(cast(cast(value as string) as bigint))"
    ).collect()[0]
    assert tuple(total) == (3_000, sum(range(3_000)), sum(range(3_000)))


@both
def test_an_rdd_has_the_messages(spark: SparkSession, filled: str) -> None:
    messages = topicdb.spark.read_rdd(spark, **arguments_of(filled), filter="m/h1/#", start=700)
    assert {message.topic for message in messages.take(5)} == {"m/h1/cpu"}
    assert messages.toDF().columns == ["topic", "timestamp", "value"]
    assert sorted(messages.collect()) == sorted(
        (f"m/h{i % 7}/cpu", i, b"%d" % i) for i in range(700, 3_000) if i % 7 == 1
    )


@both
def test_nothing_to_read_is_an_empty_frame(spark: SparkSession, filled: str) -> None:
    assert (
        topicdb.spark.read_dataframe(spark, **arguments_of(filled), filter="no/such/#").count() == 0
    )
    assert topicdb.spark.read_rdd(spark, **arguments_of(filled), filter="no/such/#").count() == 0


def test_bad_arguments_are_refused_on_the_driver(filled: str, tmp_path: Path) -> None:
    with pytest.raises(topicdb.TopicError):
        topicdb.spark.plan(**arguments_of(filled), filter="a/#/b")
    with pytest.raises(ValueError, match="tasks"):
        topicdb.spark.plan(**arguments_of(filled), tasks=0)
    with pytest.raises(topicdb.NotFoundError):
        topicdb.spark.plan(str(tmp_path / "nothing"))


@both
def test_reading_goes_on_beside_a_writer(spark: SparkSession, filled: str) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITE, filled], stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        assert (
            topicdb.spark.read_dataframe(spark, **arguments_of(filled), filter="m/+/cpu").count()
            == 3_000
        )
        assert (
            topicdb.spark.read_dataframe(spark, **arguments_of(filled), filter="live/#").count()
            > 10
        )
    finally:
        writer.kill()
        writer.communicate()


def test_importing_it_imports_no_spark() -> None:
    program = "import sys, topicdb.spark; assert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
