"""Spark: functions that write and read a TopicDB database inside tasks.

Importing this needs pyarrow. The functions that take a Spark object import pyspark. A task opens
what it needs, and closes it before it ends: nothing of RocksDB is open when Spark forks a worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from topicdb.spark.connector import jar
from topicdb.spark.place import Remote
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

    Spark also finds the format by itself. But only this call sets
    ``spark.sql.python.filterPushdown.enabled``, which other Python data sources may use, too.

    If the package has the connector in Java, the session also gets its JAR, and with it
    ``format("topicdb-native")``: the same reads and writes of directories, some times as fast. Use
    that where you can. ``format("topicdb")`` also reads from servers, and needs no JAR.

    Arguments:
        spark: the session.

    Example:
        >>> topicdb.spark.register(spark)  # doctest: +SKIP
        >>> frame = spark.read.format("topicdb").load("fleet.db")  # doctest: +SKIP
    """
    from topicdb.spark.connector import add
    from topicdb.spark.source import TopicDBDataSource

    add(spark)
    spark.dataSource.register(TopicDBDataSource)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def explain(path: str | None = None, **options: str) -> str:
    """Returns what a batch read with these options would take, as text.

    Arguments:
        path: the directory of the database. None: ``remote`` is among the options.
        **options: of ``spark.read.format("topicdb")``; see docs/reference/spark.md.

    Returns:
        A few lines: slices, messages, bytes, and what the predicates leave out.
    """
    from topicdb.spark.planning import explain

    return explain(path, **options)


__all__ = [
    "PartitionWriter",
    "Remote",
    "ShardWritten",
    "Split",
    "WriteResult",
    "explain",
    "jar",
    "plan",
    "read_dataframe",
    "read_rdd",
    "read_split",
    "register",
    "write_dataframe",
    "write_partition",
    "write_rdd",
]
