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
    """Makes ``format("topicdb")`` known to a session, if Spark has not found it by itself."""
    from topicdb.spark.source import TopicDBDataSource

    spark.dataSource.register(TopicDBDataSource)


__all__ = [
    "PartitionWriter",
    "ShardWritten",
    "Split",
    "WriteResult",
    "plan",
    "read_dataframe",
    "read_rdd",
    "read_split",
    "register",
    "write_dataframe",
    "write_partition",
    "write_rdd",
]
