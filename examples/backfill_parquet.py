"""Loads a year of Parquet files into TopicDB by Spark, counts the messages, and queries them.

    pip install "topicdb[spark]"
    python examples/backfill_parquet.py sample readings --rows 1000000   # made up, if you have none
    python examples/backfill_parquet.py load readings plant.db
    python examples/backfill_parquet.py query plant.db --site s1

The files have the columns time, site, sensor and value; a row becomes the message
plant/<site>/<sensor> with that time. All rows are one job: if it fails, the database has none of
them, and you can run it again. Afterwards the program compares the counts by topic and month with
the files.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

import topicdb
import topicdb.spark

SAMPLE_START = 1_735_689_600  # 2025-01-01, UTC
SAMPLE_SECONDS = 365 * 24 * 3600
SHARD_BYTES = 256 << 20  # Parquet files of a shard, at least


def sample(spark: SparkSession, directory: str, rows: int) -> None:
    """Writes a year's readings of three sensors at each of three sites, a directory a month."""
    step = SAMPLE_SECONDS / rows
    readings = spark.range(rows).selectExpr(
        f"timestamp_micros(cast(({SAMPLE_START} + id * {step}D) * 1000000 as bigint)) as time",
        "concat('s', id % 3 + 1) as site",
        "elt(cast(id div 3 % 3 as int) + 1, 'temperature', 'pressure', 'vibration') as sensor",
        "id % 1000 / 10 as value",
    )
    by_month = readings.selectExpr("*", "date_format(time, 'yyyy-MM') as month")
    by_month.write.mode("overwrite").partitionBy("month").parquet(directory)


def choose_shards(spark: SparkSession, directory: str) -> int:
    """Returns one shard for each core, since that many tasks write at once, but no small shards.

    The number is fixed when a database is made. A shard has one writer, so choose as many shards as
    processes will ever write at the same time. Reading needs no more: Spark cuts large shards.
    """
    stored = sum(file.stat().st_size for file in Path(directory).rglob("*.parquet"))
    return max(1, min(spark.sparkContext.defaultParallelism, stored // SHARD_BYTES))


def messages(readings: DataFrame) -> DataFrame:
    """Returns each row as a message."""
    # concat_ws would skip a null, and the message would get another topic. concat makes the topic
    # null, so that the job fails and names the row.
    return readings.selectExpr(
        "concat('plant/', site, '/', sensor) as topic",
        "time as timestamp",
        "cast(value as string) as value",
    )


def create(database: str, shards: int) -> None:
    """Makes the database. Refuses one with messages: rows that are loaded twice are there twice."""
    with topicdb.open(database, shards=shards, structures=["plant/+/+"]) as db:
        if next(iter(db.scan()), None) is not None:
            raise SystemExit(f"{database} has messages: delete it, or load into another one")


def differences(stored: DataFrame, wanted: DataFrame) -> DataFrame:
    """Returns the topics and months with a wrong number of messages, and how many are missing."""
    both = stored.selectExpr("topic", "timestamp", "-1 as one").unionAll(
        wanted.selectExpr("topic", "timestamp", "1 as one")
    )
    month = F.date_trunc("month", "timestamp").alias("month")
    return both.groupBy("topic", month).agg(F.sum("one").alias("missing")).where("missing != 0")


def load(spark: SparkSession, directory: str, database: str, shards: int | None) -> int:
    """Stores the files; returns the number of messages.

    Raises SystemExit if a count differs from that of the files.
    """
    readings = spark.read.parquet(directory)
    source = messages(readings)
    create(database, shards or choose_shards(spark, directory))
    source.write.format("topicdb").mode("append").save(database)
    with topicdb.open(database, mode="r") as db:
        stored = db.scan("plant/#").count()
    wrong = differences(spark.read.format("topicdb").load(database), source).collect()
    if wrong or stored != readings.count():
        raise SystemExit(f"{stored:,} messages are stored of {readings.count():,}: {wrong}")
    return stored


def monthly(spark: SparkSession, database: str, site: str) -> DataFrame:
    """Returns the readings of a site by month and sensor; Spark reads only the site's topics."""
    rows = spark.read.format("topicdb").load(database).where(f"topic LIKE 'plant/{site}/%'")
    readings = rows.selectExpr(
        "date_format(timestamp, 'yyyy-MM') as month",
        "split_part(topic, '/', 3) as sensor",
        "cast(cast(value as string) as double) as value",
    )
    measures = F.count("*").alias("readings"), F.mean("value").alias("mean")
    return readings.groupBy("month", "sensor").agg(*measures).orderBy("month", "sensor")


def first_of(database: str, site: str, start: str, rows: int) -> list[topicdb.Message]:
    """Returns the site's first readings from a time on, in order of time, without Spark."""
    found = []
    with topicdb.open(database, mode="r") as db:
        for message in db.scan(f"plant/{site}/+", start=start, order="time"):
            found.append(message)
            if len(found) == rows:
                break
    return found


def query(spark: SparkSession, database: str, site: str, start: str) -> None:
    """Prints the readings by month, and the first ones from ``start`` on."""
    monthly(spark, database, site).show(100)
    for message in first_of(database, site, start, rows=5):
        print(message.timestamp, message.topic, message.value.decode())


def start_spark() -> SparkSession:
    """Returns the session of spark-submit, or starts a local one."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # tasks need the same packages
    spark = (
        SparkSession.builder.appName("backfill-parquet")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    topicdb.spark.register(spark)
    return spark


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Parquet files to TopicDB.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("sample", help="makes up a year of readings")
    command.add_argument("directory")
    command.add_argument("--rows", type=int, default=1_000_000)
    command = commands.add_parser("load", help="stores the files of a directory")
    command.add_argument("directory")
    command.add_argument("database")
    command.add_argument("--shards", type=int, help="default: by cores and size")
    command = commands.add_parser("query", help="reads a site back")
    command.add_argument("database")
    command.add_argument("--site", default="s1")
    command.add_argument("--start", default="2025-06-01T00:00:00Z", help="of the rows shown")
    return parser.parse_args()


def main() -> None:
    options = parse()
    with start_spark() as spark:
        if options.command == "sample":
            sample(spark, options.directory, options.rows)
        elif options.command == "load":
            count = load(spark, options.directory, options.database, options.shards)
            print(
                f"{count:,} messages stored; the counts by topic and month are those of the files"
            )
        else:
            query(spark, options.database, options.site, options.start)


if __name__ == "__main__":
    main()
