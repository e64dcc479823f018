"""Spark writes to a database on three sites, by their addresses, and reads it there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from sites import servers
from spark_places import PYTHON, skip_without_grpc
from support import wait_until

import topicdb
import topicdb.spark
from topicdb import _core

pytestmark = pytest.mark.skipif(
    bool(_core.REPLICATION_LACKS), reason=f"no replication: {_core.REPLICATION_LACKS}"
)
ROWS = 500


@pytest.mark.long
def test_spark_writes_to_sites_and_reads_them(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(ROWS, numPartitions=3).selectExpr(
        "concat('m/', id % 7) as topic",
        "timestamp_micros(id + 1) as timestamp",
        "cast(cast(id as string) as binary) as value",
    )
    with servers(tmp_path, "--shards", 2) as three:
        remote = ", ".join(three.urls)
        frame.write.format(PYTHON).mode("append").option("remote", remote).save()
        with topicdb.connect(three.urls) as database:
            assert database.scan("#", at_least="acknowledged").count() == ROWS
        three.kill(three.leader())
        assert topicdb.spark.write_dataframe(frame, remote=remote).messages == ROWS
        for url in remote.split(", "):
            if url not in {three.url(name) for name in three.processes}:
                continue
            with topicdb.connect(url) as database:
                assert database.scan("#", at_least="acknowledged").count() == 2 * ROWS
        read = spark.read.format(PYTHON).option("remote", remote).load()
        assert read.count() == 2 * ROWS


@pytest.mark.long
@pytest.mark.parametrize("kind", ["python", "native"])
def test_a_stream_goes_on_when_the_site_is_killed_that_it_reads(
    spark: SparkSession, tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    source = PYTHON if kind == "python" else request.getfixturevalue("native")
    if kind == "native":
        skip_without_grpc()
    table = f"copied_by_{kind}"
    with servers(tmp_path, "--shards", 2) as three:
        given = {"remote": ",".join(three.urls), "startingOffsets": "earliest"}
        stream = spark.readStream.format(source).options(**given).load()
        writer = stream.selectExpr("topic", "cast(value as string) as value").writeStream
        query = writer.format("memory").queryName(table).start()
        try:
            for rounds, lost in enumerate(["a", None], 1):
                with topicdb.connect(three.urls) as database:
                    database.append(
                        [(f"m/{n % 7}", None, b"%d of %d" % (n, rounds)) for n in range(ROWS)]
                    )
                wait_until(has_rows(spark, query, table, rounds * ROWS))
                if lost is not None:
                    three.kill(lost)
        finally:
            query.stop()
        assert spark.table(table).distinct().count() == spark.table(table).count() == 2 * ROWS


def has_rows(
    spark: SparkSession, query: StreamingQuery, table: str, rows: int
) -> Callable[[], bool]:
    def has() -> bool:
        failed = query.exception()
        assert failed is None, failed
        return spark.table(table).count() >= rows

    return has
