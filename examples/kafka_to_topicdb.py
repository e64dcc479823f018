"""Stores Kafka's records in TopicDB by Spark's Structured Streaming, each exactly once.

    pip install "topicdb[spark]"
    python examples/kafka_to_topicdb.py localhost:9092 plant.line1,plant.line2 plant.db

stores the records that are new since the last run and ends; with --follow it continues until
Ctrl-C. You may kill it at any time: the next run continues from the checkpoint. TopicDB stores a
micro-batch that Spark repeats only once, since it notes the query and the number of each. So the
checkpoint belongs to the database: delete both or neither.

The MQTT topic is the record's key, as MQTT bridges write it. For a record without a key it is the
Kafka topic with slashes for dots, so plant.line1 becomes plant/line1. The timestamp is the
record's. A record without a value becomes an empty message: by such a message MQTT deletes a
retained one.

Spark gets its Kafka source from Maven Central, for the version of your pyspark. Where there is no
network, give its jars: --jars spark-sql-kafka.jar,spark-token-provider-kafka.jar,….
"""

from __future__ import annotations

import argparse
import os
import sys

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import topicdb
import topicdb.spark

CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"


def records(spark: SparkSession, options: argparse.Namespace) -> DataFrame:
    """Returns the stream of Kafka's records; the first run begins with the earliest."""
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", options.servers)
        .option("subscribe", options.topics)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", options.max_records)
        .load()
    )


def messages(records: DataFrame) -> DataFrame:
    """Returns each record as a message."""
    return records.selectExpr(
        "coalesce(nullif(cast(key as string), ''), replace(topic, '.', '/')) as topic",
        "timestamp",
        "coalesce(value, X'') as value",
    )


def start(spark: SparkSession, options: argparse.Namespace) -> StreamingQuery:
    """Starts the query that stores the messages; makes the database if there is none."""
    topicdb.open(options.database, shards=options.shards).close()
    writer = (
        messages(records(spark, options))
        .writeStream.format("topicdb")
        .option("mode", options.mode)
        .option("checkpointLocation", options.checkpoint or f"{options.database}.checkpoint")
    )
    if options.follow:
        writer = writer.trigger(processingTime=options.interval)
    else:
        writer = writer.trigger(availableNow=True)
    return writer.start(options.database)


def start_spark(options: argparse.Namespace) -> SparkSession:
    """Returns the session of spark-submit, or starts a local one, with the Kafka source."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # tasks need the same packages
    builder = SparkSession.builder.appName("kafka-to-topicdb")
    if options.jars:
        builder = builder.config("spark.jars", options.jars)
    else:
        builder = builder.config("spark.jars.packages", options.packages)
    spark = builder.getOrCreate()
    topicdb.spark.register(spark)
    return spark


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Kafka to TopicDB.")
    parser.add_argument("servers", help="host:port, several with commas")
    parser.add_argument("topics", help="Kafka's, with commas")
    parser.add_argument("database")
    parser.add_argument("--shards", type=int, help="of a new database (default: 1)")
    parser.add_argument("--checkpoint", help="default: DATABASE.checkpoint")
    parser.add_argument("--max-records", type=int, default=1_000_000, help="in a micro-batch")
    parser.add_argument("--follow", action="store_true", help="go on until Ctrl-C")
    parser.add_argument(
        "--interval", default="10 seconds", help="between micro-batches that follow"
    )
    parser.add_argument(
        "--mode",
        choices=["FAILFAST", "DROPMALFORMED"],
        default="FAILFAST",
        help="a record whose key is no MQTT topic fails the query, or is left out",
    )
    parser.add_argument("--packages", default=CONNECTOR, help="default: %(default)s")
    parser.add_argument("--jars", help="files to use instead, with commas")
    return parser.parse_args()


def main() -> None:
    options = parse()
    with start_spark(options) as spark:
        query = start(spark, options)
        try:
            query.awaitTermination()
        except KeyboardInterrupt:
            query.stop()


if __name__ == "__main__":
    main()
