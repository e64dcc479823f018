"""Spark writes to a database on three sites, by their addresses, and reads it there."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from sites import servers
from spark_places import PYTHON

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
