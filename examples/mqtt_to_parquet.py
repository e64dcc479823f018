"""Stores MQTT messages in TopicDB, and sums them up by device and minute into Parquet with Spark.

A bridge subscribes at your broker and stores the messages; it acknowledges a message only once it
is on disk. Spark reads the same database, also while the bridge runs:

    pip install "topicdb[spark,mqtt]"
    python examples/mqtt_to_parquet.py bridge plant.db --topic 'plant/#'       # until Ctrl-C
    python examples/mqtt_to_parquet.py batch plant.db report.parquet           # all of it, anew
    python examples/mqtt_to_parquet.py stream plant.db minutes                 # only what is new
    python examples/mqtt_to_parquet.py show minutes

Topics are plant/<device>/<sensor>. Payloads are {"ts": 1772352017250, "value": 21.5} with the
device's own time in ms, which becomes the timestamp of the message. If you publish with QoS 2, each
message is stored once; with QoS 1 a message may be there twice after the bridge was killed.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

import topicdb
import topicdb.spark
from topicdb.bridge import Bridge


def bridge(options: argparse.Namespace) -> None:
    """Stores and acknowledges messages until Ctrl-C or SIGTERM."""
    with topicdb.open(options.database) as db:
        broker = Bridge(
            db,
            options.host,
            options.port,
            filters=[options.topic],
            name=options.client_id,
            timestamp="field:ts",
            timestamp_past="3650d",  # accepts history that devices send later
            durability="disk",
        )
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: broker.stop())
        broker.run()
        status = broker.status()
    print(f"{status.stored:,} messages stored, {status.untimed:,} of them without a time")


def by_minute(messages: DataFrame) -> DataFrame:
    """Returns per device and minute the messages, how many have a number, and its sum and mean."""
    value = "try_cast(get_json_object(cast(value as string), '$.value') as double)"
    columns = messages.selectExpr(
        "split_part(topic, '/', 2) as device",
        "date_trunc('minute', timestamp) as minute",
        f"{value} as number",
    )
    return columns.groupBy("device", "minute").agg(
        F.count("*").alias("messages"),
        F.count("number").alias("numbers"),
        F.sum("number").alias("total"),
        F.mean("number").alias("mean"),
    )


def batch(spark: SparkSession, options: argparse.Namespace) -> None:
    """Replaces the report with one of all messages of a range of time."""
    times = {"startingTimestamp": options.start, "endingTimestamp": options.end}
    given = {name: value for name, value in times.items() if value is not None}
    messages = spark.read.format("topicdb").options(**given).load(options.database)
    by_minute(messages).coalesce(1).write.mode("overwrite").parquet(options.report)


def stream(spark: SparkSession, options: argparse.Namespace) -> None:
    """Adds the messages since the last run to the report, in a directory for each micro-batch.

    A micro-batch that Spark repeats after a crash writes its directory anew, so no message counts
    twice. Late messages count like others: the same minute may be in many directories, which
    ``totals`` adds up.
    """
    report = options.report

    def write(messages: DataFrame, number: int) -> None:
        rows = by_minute(messages).coalesce(1)
        rows.write.mode("overwrite").parquet(f"{report}/batch={number}")

    messages = (
        spark.readStream.format("topicdb")
        .option("startingOffsets", "earliest")
        .option("maxMessagesPerTrigger", options.max_messages)
        .load(options.database)
    )
    query = (
        messages.writeStream.foreachBatch(write)
        # It is in the report, so that the two go together; Spark reads no names with "_" in front.
        .option("checkpointLocation", f"{report}/_checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def totals(spark: SparkSession, report: str) -> DataFrame:
    """Returns one row for each device and minute, of a report by ``batch`` or by ``stream``."""
    rows = spark.read.parquet(report).groupBy("device", "minute")
    sums = rows.agg(*(F.sum(name).alias(name) for name in ("messages", "numbers", "total")))
    mean = F.expr("total / nullif(numbers, 0)")
    return sums.withColumn("mean", mean).orderBy("minute", "device")


def show(spark: SparkSession, options: argparse.Namespace) -> None:
    """Prints the report."""
    totals(spark, options.report).show(100, truncate=False)


def start_spark() -> SparkSession:
    """Returns the session of spark-submit, or starts a local one."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # tasks need the same packages
    spark = (
        SparkSession.builder.appName("mqtt-to-parquet")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    topicdb.spark.register(spark)
    return spark


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="MQTT to TopicDB to Parquet.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("bridge", help="stores what a broker sends")
    command.add_argument("database")
    command.add_argument("--host", default="localhost")
    command.add_argument("--port", type=int, default=1883)
    command.add_argument("--topic", default="plant/#", help="filter to subscribe to")
    command.add_argument("--client-id", default="topicdb-bridge", help="one for each bridge")
    command = commands.add_parser("batch", help="aggregates all messages, or those of a range")
    command.add_argument("database")
    command.add_argument("report")
    command.add_argument("--start", help="first time, such as 2026-03-01T00:00:00Z or -24h")
    command.add_argument("--end", help="time behind the last one")
    command.set_defaults(run=batch)
    command = commands.add_parser("stream", help="aggregates what is new since the last run")
    command.add_argument("database")
    command.add_argument("report")
    command.add_argument("--max-messages", type=int, default=1_000_000, help="in a micro-batch")
    command.set_defaults(run=stream)
    command = commands.add_parser("show", help="prints a report")
    command.add_argument("report")
    command.set_defaults(run=show)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    options = parse(arguments)
    if options.command == "bridge":
        bridge(options)
        return
    with start_spark() as spark:
        options.run(spark, options)


if __name__ == "__main__":
    main()
