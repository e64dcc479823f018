"""Tests of functions that write to a server, or stage for a job: of no shared directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession
from served import serving

import topicdb
import topicdb.spark
from topicdb import jobs
from topicdb.remote.server import tokens
from topicdb.spark import Remote

ROWS = 1_000


class Target:
    """A database that a server of this process has open for writing. A fixture owns it."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "target.db")
        file = folder / "tokens.json"
        everything = tokens.add(file, {"name": "all", "everything": True})
        reader = tokens.add(file, {"name": "reader", "read": ["#"]})
        self._open = ExitStack()
        self.database = self._open.enter_context(topicdb.open(self.path, shards=3, shard_by="key"))
        self.url: str = self._open.enter_context(serving(self.database, tokens=file)).url
        self.remote = Remote(self.url, token=everything)
        self.reader = Remote(self.url, token=reader)

    def values(self) -> list[int]:
        """Returns the stored values, sorted."""
        return sorted(int(message.value) for message in self.database.scan())

    def leftovers(self) -> list[Path]:
        """Returns what jobs have left in the directory."""
        return [file for file in Path(self.path, "jobs").rglob("*") if file.suffix == ".pages"]

    def close(self) -> None:
        """Ends the server and closes the database. May be repeated."""
        self._open.close()


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    made = Target(tmp_path)
    yield made
    made.close()


def row(number: int) -> tuple[str, int, bytes]:
    return f"m/{number % 7}", number, b"%d" % number


def test_a_dataframe_goes_to_a_server(spark: SparkSession, target: Target) -> None:
    frame = spark.range(ROWS, numPartitions=4).selectExpr(
        "concat('m/', id % 7) as topic",
        "timestamp_micros(id) as timestamp",
        "cast(id as string) as value",
        "cast(id % 50 as string) as key",
    )
    result = topicdb.spark.write_dataframe(frame, remote=target.remote)
    assert result.messages == ROWS
    assert set(result.serials) == {0, 1, 2}
    assert target.values() == list(range(ROWS))
    assert topicdb.spark.write_dataframe(frame.limit(0), remote=target.remote).messages == 0
    with pytest.raises(ValueError, match="'value' is missing"):
        topicdb.spark.write_dataframe(frame.drop("value"), remote=target.remote)
    with pytest.raises(topicdb.AccessError, match="'reader'"):
        topicdb.spark.write_dataframe(frame, remote=target.reader)
    with pytest.raises(ValueError, match="a write goes to one server"):
        both = Remote([target.url, "grpc://127.0.0.1:9"], token=target.remote.credentials.token)
        topicdb.spark.write_dataframe(frame, remote=both)
    with pytest.raises(ValueError, match="path and remote: give one of them"):
        topicdb.spark.write_dataframe(frame)
    bad = frame.selectExpr("'no/#' as topic", "timestamp", "value")
    with pytest.raises(Exception, match=r"rows from 0 of a partition: row 0"):
        topicdb.spark.write_dataframe(bad, remote=target.remote)
    assert target.values() == list(range(ROWS))
    assert target.leftovers() == []


def test_an_rdd_goes_to_a_server(spark: SparkSession, target: Target) -> None:
    rows = spark.sparkContext.parallelize([row(i) for i in range(ROWS)], 4)
    written = topicdb.spark.write_rdd(rows, remote=target.remote, key=lambda row: row[2])
    assert written.messages == ROWS
    assert target.values() == list(range(ROWS))


@pytest.mark.parametrize("place", ["path", "remote"])
def test_attempts_that_do_not_count(spark: SparkSession, target: Target, place: str) -> None:
    """Each task stages twice, as a repeated one does, and one of its attempts is committed."""
    where: Any = {"path": target.path} if place == "path" else {"remote": target.remote}

    def stage(rows: Iterable[Any]) -> Iterator[jobs.Staged]:
        kept = list(rows)
        lost = list(topicdb.spark.stage_partition(kept, "load-1", **where))
        assert len(lost) == (1 if kept else 0) and TaskContext.get() is not None
        yield from topicdb.spark.stage_partition(kept, "load-1", **where)

    rows = spark.sparkContext.parallelize([row(i) for i in range(ROWS)], 4)
    staged = rows.mapPartitions(stage).collect()
    assert target.values() == []
    committed = topicdb.spark.commit_job("load-1", staged, **where)
    assert (committed.messages, committed.repeated) == (ROWS, False)
    assert topicdb.spark.commit_job("load-1", staged, **where).repeated
    assert target.values() == list(range(ROWS))
    assert target.leftovers() == []
    splits = topicdb.spark.plan(remote=target.reader)
    assert sum(batch.num_rows for one in splits for batch in topicdb.spark.read_split(one)) == ROWS


def test_a_server_that_is_gone_is_named(target: Target, spark: SparkSession) -> None:
    rows = spark.sparkContext.parallelize([row(1)], 1)
    target.close()
    for call in (
        lambda: topicdb.spark.write_rdd(rows, remote=target.remote),
        lambda: list(topicdb.spark.stage_partition([row(1)], "a", remote=target.remote)),
        lambda: topicdb.spark.commit_job("a", [], remote=target.remote),
    ):
        with pytest.raises(topicdb.UnavailableError, match=target.url):
            call()
