"""Spark: functions that write and read a TopicDB database inside tasks.

Importing this needs pyarrow. The functions that take a Spark object import pyspark. A task opens
what it needs, and closes it before it ends: nothing of RocksDB is open when Spark forks a worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from topicdb.spark.connector import jar
from topicdb.spark.place import Remote
from topicdb.spark.reader import Split, plan, read_dataframe, read_rdd, read_split
from topicdb.spark.staging import commit_job, stage_partition
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


def register(spark: SparkSession, *, jar: bool | None = None) -> None:
    """Makes ``format("topicdb")`` known to a session.

    That is the connector in Java if the package has its JAR, which this adds to the session.
    Otherwise it is the source in Python, with the same options and results, and a warning in the
    log says why. ``format("topicdb-python")`` is always the source in Python, where Spark knows
    such sources (since 4.1). For that one, predicates limit what is read only after this call: it
    sets ``spark.sql.python.filterPushdown.enabled``, which other sources in Python may use, too.

    Arguments:
        spark: the session.
        jar: True: the JAR or an error. False: without the JAR. None: the JAR if there is one.

    Raises:
        NotFoundError: ``jar`` is True, and the package has no JAR for this Spark and platform.
        ValueError: ``jar`` is False, and the session has the JAR already.

    Example:
        >>> topicdb.spark.register(spark)  # doctest: +SKIP
        >>> frame = spark.read.format("topicdb").load("fleet.db")  # doctest: +SKIP
    """
    from topicdb.spark import connector

    connector.register(spark, jar)


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
    "commit_job",
    "explain",
    "jar",
    "plan",
    "read_dataframe",
    "read_rdd",
    "read_split",
    "register",
    "stage_partition",
    "write_dataframe",
    "write_partition",
    "write_rdd",
]
