"""Tests of stream reads, by the source in Python and by that in Java."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows
from spark_places import options_of
from spark_queries import run_to_end
from spark_streams import NATIVE, NativeReader, Streams, values_of
from support import wait_until

import topicdb

ORDERS = ["true", "false"]  # values of the option commitOrder


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")


def run(
    spark: SparkSession,
    path: str,
    checkpoint: str,
    fail: bool = False,
    source: str = "topicdb",
    **given: object,
) -> list[list[bytes]]:
    """Runs a query until it has read what is stored; returns the values of its micro-batches."""
    batches: list[list[bytes]] = []

    def take(frame: DataFrame, number: int) -> None:
        rows = [bytes(row.value) for row in frame.collect()]
        if fail:
            raise RuntimeError("the sink fails")
        batches.append(rows)

    options: dict[str, Any] = {**options_of(path), **given}
    stream = spark.readStream.format(source).options(**options).load()
    writer = (
        stream.writeStream.foreachBatch(take)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
    )
    run_to_end(writer.start)
    return batches


def put(path: str, first: int, count: int, commits: int = 1) -> list[bytes]:
    """Stores values whose timestamps decrease, and returns the values."""
    values = [b"%06d" % i for i in range(first, first + count)]
    with topicdb.open(path) as db:
        for start in range(commits):
            db.append([(f"t/{int(v) % 10}", 10**6 - int(v), v) for v in values[start::commits]])
    return values


@pytest.mark.parametrize("order", ORDERS)
def test_every_message_once_across_restarts(
    spark: SparkSession, path: str, checkpoint: str, order: str, source: str
) -> None:
    wanted = put(path, 0, 100, commits=5)
    start: dict[str, Any] = {
        "source": source,
        "startingOffsets": "earliest",
        "commitOrder": order,
    }
    found = run(spark, path, checkpoint, **start)
    assert sorted(v for batch in found for v in batch) == wanted
    assert run(spark, path, checkpoint, **start) == []
    more = put(path, 100, 100, commits=5)
    with pytest.raises(StreamingQueryException, match="the sink fails"):
        run(spark, path, checkpoint, fail=True, **start)
    last = put(path, 200, 50)
    again = run(spark, path, checkpoint, **start)
    assert sorted(again[0]) == more  # the batch that failed, as it had been planned
    assert sorted(v for batch in again for v in batch) == [*more, *last]


def test_shards_and_serials_if_asked_for(
    spark: SparkSession, path: str, checkpoint: str, tmp_path: Path, source: str
) -> None:
    wanted = set()
    with topicdb.open(path) as db:
        for number in range(20):
            rows = [(f"m/{i}", i, b"%d" % number) for i in range(10)]
            serials = db.append(rows).serials
            for topic, _, value in rows:
                shard = topicdb.shard_of(topic, 3)
                wanted.add((topic, value, shard, serials[shard]))
    stream = spark.readStream.format(source).options(
        **options_of(path), startingOffsets="earliest", includeMetadata="true"
    )
    writer = (
        stream.load()
        .writeStream.format("parquet")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
    )
    run_to_end(lambda: writer.start(str(tmp_path / "out")))
    streamed = spark.read.parquet(str(tmp_path / "out"))
    found = streamed.select("topic", "value", "shard", "serial").collect()
    assert {(r[0], bytes(r[1]), *r[2:]) for r in found} == wanted


def test_limits_of_a_micro_batch(
    spark: SparkSession, path: str, checkpoint: str, source: str
) -> None:
    wanted = put(path, 0, 400, commits=40)
    found = run(
        spark,
        path,
        checkpoint,
        source=source,
        startingOffsets="earliest",
        maxMessagesPerTrigger=100,
        topicFilter='["t/#", "+/1"]',
    )
    assert sorted(v for batch in found for v in batch) == wanted
    assert max(len(batch) for batch in found) <= 100
    assert len(found) <= 8


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("sources", [("topicdb", NATIVE), (NATIVE, "topicdb")])
def test_a_checkpoint_moves_between_the_sources(
    spark: SparkSession, path: str, checkpoint: str, order: str, sources: tuple[str, str]
) -> None:
    with topicdb.open(path) as db:  # the offsets have the names of classes
        db.set_retention({'"\\ü\x01😀/#': "1d"})
    start: dict[str, Any] = {
        "startingOffsets": "earliest",
        "commitOrder": order,
        "maxMessagesPerTrigger": 40,
    }
    first, second = sources
    wanted = put(path, 0, 100, commits=10)
    found = run(spark, path, checkpoint, source=first, **start)
    assert len(found) > 1
    assert run(spark, path, checkpoint, source=second, **start) == []
    with topicdb.open(path) as db:
        db.rotate()
    more = put(path, 100, 100, commits=10)
    with pytest.raises(StreamingQueryException, match="the sink fails"):
        run(spark, path, checkpoint, fail=True, source=first, **start)
    again = run(spark, path, checkpoint, source=second, **start)  # begins with what had failed
    assert run(spark, path, checkpoint, source=first, **start) == []
    assert sorted(v for batch in found for v in batch) == wanted
    assert sorted(v for batch in again for v in batch) == more
    assert max(len(batch) for batch in found + again) <= 40


def drain(reader: Any, start: Any, limit: Any) -> list[list[bytes]]:
    batches: list[list[bytes]] = []
    while True:
        end = reader.latestOffset(start, limit)
        if end["serials"] == start["serials"]:
            return batches
        batches.append(values_of(reader, start, end))
        start = end


@pytest.mark.parametrize("messages_max", [1, 7, 60, 1_000])
@pytest.mark.parametrize("filters", ["", "t/#", '["t/1", "t/2", "+/2"]'])
@pytest.mark.parametrize("order", ORDERS)
def test_whole_commits_within_the_limit(
    reader: Streams, path: str, messages_max: int, filters: str, order: str
) -> None:
    with topicdb.open(path) as db:
        for commit, count in enumerate([3, 50, 1, 1, 200, 7, 7, 30]):
            db.append([(f"t/{i % 10}", i, b"%d" % commit) for i in range(count)])
            if commit == 4:
                db.rotate()
        wanted = list(db.tail("t/+" if filters[:1] != "[" else ["t/1", "t/2"], timeout=0))
    given = {"startingOffsets": "earliest", "commitOrder": order}
    given |= {"topicFilter": filters} if filters else {}
    source = reader(path, **given)
    batches = drain(source, source.initialOffset(), ReadMaxRows(messages_max))
    assert sorted(v for b in batches for v in b) == sorted(m.value for m in wanted)
    for batch in batches:
        assert len(batch) <= messages_max or len(set(batch)) == 1  # one commit of one shard
    if messages_max == 1_000:
        assert len(batches) == 1
    source.stop()


@pytest.mark.parametrize("order", ORDERS)
def test_bytes_limit_and_parallel_tasks(reader: Streams, path: str, order: str) -> None:
    with topicdb.open(path) as db:
        for _ in range(20):
            db.append([(f"t/{i}", i, bytes(100)) for i in range(30)])
    source = reader(path, startingOffsets="earliest", minPartitions="6", commitOrder=order)
    start = source.initialOffset()
    end = source.latestOffset(start, ReadAllAvailable())
    assert len(source.partitions(start, end)) >= 6
    assert len(values_of(source, start, end)) == 600
    batches = drain(source, start, ReadMaxBytes(10_000))
    assert [len(b) > 0 for b in batches] == [True] * len(batches)
    assert max(len(b) for b in batches) * 103 <= 10_000
    assert sum(len(b) for b in batches) == 600


def test_where_a_stream_starts(reader: Streams, path: str) -> None:
    with topicdb.open(path) as db:
        for commit in range(10):
            db.append([(f"t/{i}", commit * 100 + i, b"%d" % commit) for i in range(30)])
        serials = db.append([("t/1", 5, b"late")]).serials

    def values(**given: str) -> set[bytes]:
        source = reader(path, **given)
        start = source.initialOffset()
        assert set(start["serials"]) == {"0", "1", "2"}
        return set(values_of(source, start, source.latestOffset(start, ReadAllAvailable())))

    every = {b"%d" % commit for commit in range(10)} | {b"late"}
    assert values() == set()
    assert values(startingOffsets="latest") == set()
    assert values(startingOffsets="earliest") == every
    assert values(startingTimestamp="700") == {b"7", b"8", b"9", b"late"}
    assert values(startingTimestamp="700", topicFilter="t/5") == {b"7", b"8", b"9"}
    assert values(startingTimestamp="5000") == set()
    ((shard, serial),) = serials.items()
    one = json.dumps({"0": 10, "1": 10, "2": 10} | {str(shard): serial - 1})
    assert values(startingOffsets=one) == {b"late"}
    with pytest.raises(ValueError, match="no shard 9"):
        reader(path, startingOffsets='{"9": 1}').initialOffset()


def test_available_now_ends_where_it_began(reader: Streams, path: str) -> None:
    put(path, 0, 30)
    source = reader(path, startingOffsets="earliest")
    start = source.initialOffset()
    source.prepareForTriggerAvailableNow()
    put(path, 30, 30)
    end = source.latestOffset(start, ReadAllAvailable())
    assert sorted(values_of(source, start, end)) == [b"%06d" % i for i in range(30)]
    assert source.latestOffset(end, ReadAllAvailable()) == end
    fresh = reader(path)
    assert len(values_of(fresh, end, fresh.latestOffset(end, ReadAllAvailable()))) == 30


@pytest.mark.parametrize("order", ORDERS)
def test_messages_are_in_the_order_of_commits_unless_told_otherwise(
    reader: Streams, path: str, order: str
) -> None:
    wanted = []
    with topicdb.open(path) as db:
        for i in range(50):  # messages of one topic, each older than the one before
            db.append([("t/1", 100 - i, b"%d" % i)])
            wanted.append(b"%d" % i)
        db.flush()  # sealed messages are sorted by topic and time
    source = reader(path, startingOffsets="earliest", commitOrder=order)
    start = source.initialOffset()
    found = values_of(source, start, source.latestOffset(start, ReadAllAvailable()))
    assert sorted(found) == sorted(wanted)
    assert (found == wanted) == (order == "true")


@pytest.mark.parametrize("order", ORDERS)
def test_a_planned_micro_batch_stays_as_it_is_while_a_writer_goes_on(
    reader: Streams, path: str, order: str
) -> None:
    wanted = put(path, 0, 100, commits=5)
    source = reader(path, startingOffsets="earliest", commitOrder=order)
    start = source.initialOffset()
    end = source.latestOffset(start, ReadAllAvailable())
    partitions = source.partitions(start, end)
    put(path, 100, 100, commits=5)
    with topicdb.open(path) as db:
        db.flush()  # seals what was planned
    found = [v for p in partitions for b in source.read(p) for v in b.column("value").to_pylist()]
    assert sorted(found) == wanted
    assert sorted(values_of(source, start, end)) == wanted  # planned again, after a restart


def dropping(
    reader: Streams, path: str, order: str = "true"
) -> tuple[Any, Any, Callable[[], None]]:
    """Returns a stream that has read generation 1 only, its offset, and what drops both."""
    source = reader(path, startingOffsets="earliest", commitOrder=order)
    put(path, 0, 30)
    start = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    with topicdb.open(path) as db:
        db.rotate()
    put(path, 30, 30)

    def drop(last: int = 2) -> None:
        with topicdb.open(path) as db:
            db.rotate()
            for slab in db.slabs():
                if slab.read_only and slab.generation <= last:
                    db.drop_slab(slab)

    return source, start, drop


@pytest.mark.parametrize("order", ORDERS)
def test_a_dropped_generation_that_was_not_read(reader: Streams, path: str, order: str) -> None:
    source, start, drop = dropping(reader, path, order)
    end = source.latestOffset(start, ReadAllAvailable())
    partitions = source.partitions(start, end)
    drop()
    for call in (
        lambda: source.latestOffset(start, ReadAllAvailable()),
        lambda: source.partitions(start, end),
        lambda: list(source.read(partitions[0])),
    ):
        with pytest.raises(topicdb.NotFoundError, match=r"generation [12] of class '#' of shard"):
            call()
    tolerant = reader(path, failOnDataLoss="false", commitOrder=order)
    assert list(tolerant.read(partitions[0])) == []
    put(path, 60, 30)
    end = tolerant.latestOffset(start, ReadAllAvailable())
    assert sorted(values_of(tolerant, start, end)) == [b"%06d" % i for i in range(60, 90)]


def test_a_dropped_generation_that_was_read_is_no_loss(reader: Streams, path: str) -> None:
    source, start, drop = dropping(reader, path)
    end = source.latestOffset(start, ReadAllAvailable())  # the end of generation 2
    drop(1)  # type: ignore[call-arg]
    later = source.latestOffset(end, ReadAllAvailable())
    assert values_of(source, end, later) == []


@pytest.mark.parametrize("order", ORDERS)
def test_a_dropped_generation_of_a_class_that_was_made_since(
    reader: Streams, path: str, order: str
) -> None:
    source = reader(path, startingOffsets="earliest", commitOrder=order)
    put(path, 0, 30)
    start = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    with topicdb.open(path) as db:
        db.set_retention({"new/#": "1d"})
        db.append([("new/1", 1, b"lost")])
        db.rotate("new/#")
        db.append([("new/1", 2, b"kept")])
        end = source.latestOffset(start, ReadAllAvailable())
        assert sorted(values_of(source, start, end)) == [b"kept", b"lost"]
        planned = source.partitions(start, end)
        for slab in db.slabs():
            if slab.retention_class == "new/#" and slab.read_only:
                db.drop_slab(slab)
    for call in (
        lambda: source.latestOffset(start, ReadAllAvailable()),
        lambda: source.partitions(start, end),
        lambda: [list(source.read(partition)) for partition in planned],
    ):
        with pytest.raises(topicdb.NotFoundError, match="generation 1 of class 'new/#' of shard"):
            call()
    tolerant = reader(path, failOnDataLoss="false", commitOrder=order)
    assert values_of(tolerant, start, end) == [b"kept"]


def test_another_database_is_noticed(reader: Streams, path: str, tmp_path: Path) -> None:
    source = reader(path, startingOffsets="earliest")
    put(path, 0, 30)
    start = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    topicdb.open(tmp_path / "other", shards=3).close()
    with pytest.raises(topicdb.StorageError, match="was the database replaced"):
        reader(str(tmp_path / "other")).latestOffset(start, ReadAllAvailable())


def test_an_end_that_is_not_there_is_noticed(reader: Streams, path: str) -> None:
    """Such as that of a micro-batch that another server has planned."""
    put(path, 0, 30)
    source = reader(path, startingOffsets="earliest")
    start = source.initialOffset()
    end = source.latestOffset(start, ReadAllAvailable())
    end["serials"]["1"] += 1
    with pytest.raises(topicdb.StorageError, match="has planned to read shard 1 of"):
        source.partitions(start, end)


def test_state_has_no_stream(reader: Streams, tmp_path: Path) -> None:
    topicdb.open(tmp_path / "db", layout="skipstream").close()
    with pytest.raises(ValueError, match="layout 'skipstream', which keeps no commit log"):
        reader(str(tmp_path / "db")).initialOffset()


@pytest.mark.usefixtures("native")
def test_a_checkpoint_of_another_source_is_named(spark: SparkSession, path: str) -> None:
    source = NativeReader(spark, {"path": path})
    for offset in ({"v": 2, "serials": {}, "generations": {}}, {"logOffset": 3}, {"v": 1}):
        with pytest.raises(ValueError, match="is no offset of this version of topicdb"):
            source.latestOffset(offset, ReadAllAvailable())
    source.stop()


@pytest.mark.usefixtures("native")
def test_a_query_that_runs_is_fed_and_stopped(
    spark: SparkSession, path: str, checkpoint: str
) -> None:
    """Between its micro-batches nothing is written, and more at some time."""
    found: list[bytes] = []

    def take(frame: DataFrame, number: int) -> None:
        found.extend(bytes(row.value) for row in frame.collect())

    spark.conf.set("spark.sql.catalog.streamed", "io.topicdb.spark.TopicDbCatalog")
    stream = spark.readStream.option("startingOffsets", "earliest").table(f"streamed.`{path}`")
    query = stream.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint).start()

    def await_values(count: int) -> None:
        wait_until(lambda: len(found) >= count or not query.isActive)

    wanted: list[bytes] = []
    for first in (0, 20, 40):
        wanted += put(path, first, 20)
        await_values(len(wanted))
    query.stop()
    assert query.exception() is None
    assert sorted(found) == wanted
