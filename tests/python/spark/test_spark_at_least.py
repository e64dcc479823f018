"""Reads of Spark that must see commits: from a directory, and from servers, one of them behind."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from served import serving
from spark_places import NATIVE, PYTHON, options_of, skip_without_grpc
from spark_streams import Streams

import topicdb
import topicdb.spark
from topicdb.spark import Remote, plan, read_split

ROWS = 40
NEVER = {0: 1 << 40}


def rows(first: int) -> list[tuple[str, int, bytes]]:
    return [(f"m/{n % 7}", n, b"%d" % n) for n in range(first, first + ROWS)]


class Servers:
    """A server that is behind until ``catch_up``, and one that has more.

    ``ahead`` is the receipt of that. What is appended without durability stays in the process that
    writes, and the other server reads what is in files.
    """

    def __init__(self, stack: ExitStack, directory: Path) -> None:
        path = directory / "db"
        self._writer = stack.enter_context(topicdb.open(path, shards=2, durability="none"))
        self._writer.append(rows(0))
        self._writer.flush()
        reader = stack.enter_context(topicdb.open(path, mode="r"))
        self.ahead = self._writer.append(rows(ROWS))
        self.url_behind, self.url_ahead = (
            stack.enter_context(serving(one)).url for one in (reader, self._writer)
        )
        self.both = f"{self.url_behind},{self.url_ahead}"

    def catch_up(self) -> None:
        self._writer.flush()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(stack, tmp_path)


@pytest.fixture(params=[PYTHON, NATIVE])
def remote_source(request: pytest.FixtureRequest) -> str:
    """The format in Python and that in Java, for reads from servers."""
    if request.param == NATIVE:
        request.getfixturevalue("native")
        skip_without_grpc()
    name: str = request.param
    return name


def load(spark: SparkSession, source: str, **options: str) -> DataFrame:
    return spark.read.format(source).options(**options).load()


def text_of(serials: dict[int, int]) -> str:
    return json.dumps({str(shard): serial for shard, serial in serials.items()})


def test_a_read_sees_the_commits_that_it_names(spark: SparkSession, source: str, path: str) -> None:
    with topicdb.open(path) as database:
        for n in range(3):
            receipt = database.append(rows(n * ROWS))
            for seen in (text_of(receipt.serials), "Acknowledged", "{}"):
                found = load(spark, source, **options_of(path), atLeast=seen)
                assert found.count() == (n + 1) * ROWS


@pytest.mark.long
def test_a_commit_that_does_not_come_is_told(spark: SparkSession, source: str, path: str) -> None:
    with topicdb.open(path) as database:
        database.append(rows(0))
    found = load(spark, source, **options_of(path), atLeast=text_of(NEVER))
    with pytest.raises(
        (PySparkException, Py4JJavaError), match=r"StaleError.*has not come to commit"
    ):
        found.collect()


def test_the_driver_takes_a_server_that_sees_it(
    spark: SparkSession, remote_source: str, servers: Servers
) -> None:
    whole = {"remote": servers.both, "atLeast": text_of(servers.ahead.serials)}
    assert load(spark, remote_source, **whole).count() == 2 * ROWS
    values = {bytes(row.value) for row in load(spark, remote_source, **whole).collect()}
    assert values == {b"%d" % n for n in range(2 * ROWS)}
    assert load(spark, remote_source, remote=servers.both).count() == ROWS


def test_splits_have_what_the_driver_has_seen(servers: Servers) -> None:
    seen = topicdb.AtLeast(servers.ahead, timeout=20)
    splits = plan(remote=servers.both, filter="m/#", tasks=4, at_least=seen)
    assert sum(batch.num_rows for split in splits for batch in read_split(split)) == 2 * ROWS
    with pytest.raises(topicdb.StaleError, match="has not come to commit"):
        plan(remote=servers.both, at_least=topicdb.AtLeast(NEVER, timeout=0.1))
    with pytest.raises(TypeError, match="at_least: expected Receipt"):
        plan(remote=servers.both, at_least="all")  # type: ignore[arg-type]


def test_a_task_waits_for_a_server_that_is_behind(servers: Servers) -> None:
    splits = plan(remote=servers.url_ahead, filter="m/#", tasks=1)
    found: list[int] = []

    def read() -> None:
        behind = Remote(servers.url_behind)
        for split in splits:
            batches = read_split(replace(split, path=behind))
            found.append(sum(batch.num_rows for batch in batches))

    thread = threading.Thread(target=read)
    thread.start()
    servers.catch_up()
    thread.join()
    assert sum(found) == 2 * ROWS


@pytest.mark.parametrize("text", ["all", "latest", '{"a": 1}', "{", '{"0": -1}', ""])
def test_what_is_no_commit_is_refused(
    spark: SparkSession, local_source: str, path: str, text: str
) -> None:
    def refused() -> Any:
        with pytest.raises((PySparkException, Py4JJavaError, ValueError)) as caught:
            load(spark, local_source, path=path, atLeast=text).collect()
        return caught.value

    assert "option atLeast=" in str(refused())
    assert "serials of commits by shard" in str(refused())


def test_a_stream_does_not_take_it(reader: Streams, path: str) -> None:
    with pytest.raises(ValueError, match="'atLeast' is not for a stream read"):
        reader(path, atLeast="{}")
