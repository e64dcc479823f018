"""Spark: functions that write and read a TopicDB database inside tasks.

Importing this needs pyarrow; pyspark is imported by the functions that get a Spark object. Nothing
of RocksDB is opened on behalf of a worker before it has been forked: each task opens what it needs
and closes it before it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from topicdb.spark.reader import Split, plan, read_dataframe, read_rdd, read_split
from topicdb.spark.writer import (
    PartitionWriter,
    ShardWritten,
    WriteResult,
    write_dataframe,
    write_partition,
    write_rdd,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Makes ``format("topicdb")`` known to a session, and lets predicates reach it.

    Spark finds the format by itself, too; but only with this its
    ``spark.sql.python.filterPushdown.enabled`` is on, which other Python data sources may use.
    """
    from topicdb.spark.source import TopicDBDataSource

    spark.dataSource.register(TopicDBDataSource)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def explain(path: str, **options: str) -> str:
    """What a batch read with these options would take; see ``topicdb.spark.planning.explain``."""
    from topicdb.spark.planning import explain

    return explain(path, **options)


__all__ = [
    "PartitionWriter",
    "ShardWritten",
    "Split",
    "WriteResult",
    "explain",
    "plan",
    "read_dataframe",
    "read_rdd",
    "read_split",
    "register",
    "write_dataframe",
    "write_partition",
    "write_rdd",
]
