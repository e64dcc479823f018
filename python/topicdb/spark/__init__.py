"""Reading and writing a TopicDB database from Spark tasks.

Needs the extra ``topicdb[spark]`` on the driver and on every executor; the database must be a
directory that all of them see.

    >>> import topicdb.spark
    >>> topicdb.spark.write_dataframe(df, "fleet.db", shards=4)                # doctest: +SKIP
    >>> topicdb.spark.read_dataframe(spark, "fleet.db", "metrics/+/cpu")       # doctest: +SKIP

For ``mapPartitions``, ``foreachPartition`` and ``mapInArrow``: ``partition_writer`` and ``plan``
run on the driver; what they give is small, can be pickled, and opens the database only inside a task.
"""

from topicdb.spark.plan import Split, plan
from topicdb.spark.read import (
    ARROW_SCHEMA,
    SCHEMA,
    read_dataframe,
    read_partition,
    read_rdd,
    read_rows,
)
from topicdb.spark.write import (
    PartitionWriter,
    ShardReceipt,
    partition_writer,
    shard_column,
    write_dataframe,
    write_rdd,
)

__all__ = [
    "ARROW_SCHEMA",
    "SCHEMA",
    "PartitionWriter",
    "ShardReceipt",
    "Split",
    "partition_writer",
    "plan",
    "read_dataframe",
    "read_partition",
    "read_rdd",
    "read_rows",
    "shard_column",
    "write_dataframe",
    "write_rdd",
]
