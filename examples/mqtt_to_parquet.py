"""MQTT messages into TopicDB, and from there by Spark into Parquet: per device and minute.

A bridge subscribes at your broker and stores what comes; it acknowledges a message only once it is
on disk. Spark reads the same database, also while the bridge runs:

    pip install "topicdb[spark,mqtt]"
    python examples/mqtt_to_parquet.py bridge plant.db --topic 'plant/#'       # until Ctrl-C
    python examples/mqtt_to_parquet.py batch plant.db report.parquet           # all of it, anew
    python examples/mqtt_to_parquet.py stream plant.db minutes                 # only what is new
    python examples/mqtt_to_parquet.py show minutes

Topics are plant/<device>/<sensor>, payloads {"ts": 1772352017250, "value": 21.5} with the device's
own time in ms. With that time a message that the broker sends twice is recognised and stored once;
one without a time gets that of its arrival, and may then be there twice after a lost connection.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import sys
import threading
from typing import Any

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

import topicdb
import topicdb.spark

SESSION_SECONDS = 7 * 24 * 3600  # how long the broker keeps messages for a bridge that is away
BATCH_MAX = 1000  # messages stored at once, and unacknowledged at most
YEAR_10000_MS = 253_402_300_800_000


class Bridge:
    """A session with the broker. What it brings waits until ``take``, and for ``acknowledge``."""

    def __init__(self, host: str, port: int, topic: str, client_id: str) -> None:
        self._topic = topic
        self._inbox: queue.Queue[tuple[int, MQTTMessage]] = queue.Queue()
        self._connection = 0
        self._client = Client(
            CallbackAPIVersion.VERSION2,
            client_id,
            protocol=MQTTProtocolVersion.MQTTv5,
            manual_ack=True,
        )
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = SESSION_SECONDS
        properties.ReceiveMaximum = BATCH_MAX
        # Not a clean start: the broker then has what came while the bridge was away.
        self._client.connect(host, port, clean_start=False, properties=properties)

    def __enter__(self) -> Bridge:
        self._client.loop_start()  # a thread, which also connects again
        return self

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def take(self, timeout: float) -> list[tuple[int, MQTTMessage]]:
        """What has come: while one batch is stored, the next gathers."""
        batch = []
        try:
            batch.append(self._inbox.get(timeout=timeout))
            while len(batch) < BATCH_MAX:
                batch.append(self._inbox.get_nowait())
        except queue.Empty:
            pass
        return batch

    def acknowledge(self, batch: list[tuple[int, MQTTMessage]]) -> None:
        """What came by an earlier connection comes again, and is acknowledged then."""
        for connection, message in batch:
            if connection == self._connection:
                self._client.ack(message.mid, message.qos)

    def _on_connect(
        self, client: Client, data: Any, flags: Any, reason: ReasonCode, properties: Any
    ) -> None:
        if reason.is_failure:
            print(f"the broker refuses the connection: {reason}", file=sys.stderr)
            return
        self._connection += 1
        options = SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
        client.subscribe(self._topic, options=options)

    def _on_subscribe(
        self, client: Client, data: Any, mid: int, reasons: list[ReasonCode], properties: Any
    ) -> None:
        refused = reasons[0].is_failure
        what = f"refused: {reasons[0]}" if refused else "subscribed"
        print(f"{self._topic}: {what}", file=sys.stderr if refused else sys.stdout, flush=True)

    def _on_message(self, client: Client, data: Any, message: MQTTMessage) -> None:
        self._inbox.put((self._connection, message))


def row_of(message: MQTTMessage) -> tuple[str, int | None, bytes]:
    """Topic, the device's own time in µs if the payload has one, payload."""
    payload = bytes(message.payload)
    try:
        milliseconds = int(json.loads(payload)["ts"])
    except (ValueError, TypeError, KeyError, OverflowError):
        return message.topic, None, payload
    known = 0 <= milliseconds < YEAR_10000_MS
    return message.topic, milliseconds * 1000 if known else None, payload


def is_stored(db: topicdb.Database, row: tuple[str, int | None, bytes]) -> bool:
    """Whether this message was stored before; unknown without a time, and then said to be not."""
    topic, timestamp, payload = row
    if timestamp is None:
        return False
    found = db.scan(topic, start=timestamp, end=timestamp + 1)
    return any(message.value == payload for message in found)


def store(db: topicdb.Database, messages: list[MQTTMessage]) -> int:
    """Stores them durably, but not what a broker had sent before; the number of new ones."""
    rows: list[tuple[str, int | None, bytes]] = []
    for message in messages:
        row = row_of(message)
        # Only what is marked as sent again can be there, so only then it costs a look.
        if message.dup and (is_stored(db, row) or (row[1] is not None and row in rows)):
            continue
        rows.append(row)
    if rows:
        db.append(rows, durability="disk")
    return len(rows)


def bridge(options: argparse.Namespace) -> None:
    """Stores and acknowledges until Ctrl-C or SIGTERM."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    stored = 0
    with (
        topicdb.open(options.database) as db,
        Bridge(options.host, options.port, options.topic, options.client_id) as broker,
    ):
        while not stop.is_set():
            batch = broker.take(timeout=0.2)
            stored += store(db, [message for _, message in batch])
            broker.acknowledge(batch)
    print(f"{stored:,} messages stored")


def by_minute(messages: DataFrame) -> DataFrame:
    """Per device and minute: messages, how many of them have a number, its sum and mean."""
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
    """All messages of a range of time; what the report had before is replaced."""
    times = {"startingTimestamp": options.start, "endingTimestamp": options.end}
    given = {name: value for name, value in times.items() if value is not None}
    messages = spark.read.format("topicdb").options(**given).load(options.database)
    by_minute(messages).coalesce(1).write.mode("overwrite").parquet(options.report)


def stream(spark: SparkSession, options: argparse.Namespace) -> None:
    """What was stored since the last run, into a directory of its own for each micro-batch.

    A micro-batch that is repeated after a crash writes its directory anew. So nothing counts twice,
    and late messages count like others: the same minute may be in many directories, see ``show``.
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
        # In the report, so that neither is ever there without the other; Spark reads no "_…".
        .option("checkpointLocation", f"{report}/_checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def totals(spark: SparkSession, report: str) -> DataFrame:
    """One row for each device and minute, of a report by batch or by stream."""
    rows = spark.read.parquet(report).groupBy("device", "minute")
    sums = rows.agg(*(F.sum(name).alias(name) for name in ("messages", "numbers", "total")))
    mean = F.expr("total / nullif(numbers, 0)")
    return sums.withColumn("mean", mean).orderBy("minute", "device")


def show(spark: SparkSession, options: argparse.Namespace) -> None:
    """Prints the report."""
    totals(spark, options.report).show(100, truncate=False)


def start_spark() -> SparkSession:
    """The session of spark-submit, or a local one."""
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
