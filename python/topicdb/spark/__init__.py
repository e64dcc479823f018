"""Spark: functions that write and read a TopicDB database inside tasks.

Importing this needs pyarrow; pyspark is imported by the functions that get a Spark object. Nothing
of RocksDB is opened on behalf of a worker before it has been forked: each task opens what it needs
and closes it before it ends.
"""

from topicdb.spark.reader import Split, plan, read_dataframe, read_rdd, read_split
from topicdb.spark.writer import (
    PartitionWriter,
    ShardWritten,
    WriteResult,
    write_dataframe,
    write_partition,
    write_rdd,
)

__all__ = [
    "PartitionWriter",
    "ShardWritten",
    "Split",
    "WriteResult",
    "plan",
    "read_dataframe",
    "read_rdd",
    "read_split",
    "write_dataframe",
    "write_partition",
    "write_rdd",
]
