"""Rows 1 to 3, 6 and 7: the source in Python beside Spark's Parquet, in turns in one session."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import spark_data
from measure import Timing
from pyspark.sql import DataFrame, SparkSession
from spark_measure import Side, digest, digest_text, measured, median, to_noop, turns
from spark_report import OURS, PARQUET, Line, Report
from spark_transport import read_transport

import topicdb
from topicdb.frames.selection import Selection
from topicdb.spark import batch, options, read_dataframe

PLAN_MS_MAX = 200
ORDERS = {"stream read to noop": "true", "the same, commitOrder=false": "false"}
FUNCTION = "function"
PYTHON = "topicdb-python"
TRANSPORT = "transport"


@dataclass(frozen=True)
class Bench:
    """The session, the place, the sizes and the report, which every row of the table uses."""

    spark: SparkSession
    report: Report
    directory: Path
    rows: int
    rounds: int
    cores: int
    seed: int
    slabs: int
    micro_rows: int
    micro_batches: int
    store: Any = None  # an S3 server (s3_server.S3Server)
    with_python: bool = True  # row 10 measures the source in Python, too

    @property
    def parquet(self) -> Path:
        return self.directory / "messages.parquet"

    @property
    def database(self) -> Path:
        return self.directory / "messages.db"

    def read_parquet(self, path: Path | None = None) -> DataFrame:
        return self.spark.read.parquet(str(path or self.parquet))

    def read_topicdb(self, path: Path | None = None) -> DataFrame:
        return self.spark.read.format(PYTHON).load(str(path or self.database))


def read_sides(bench: Bench, where: str = "") -> dict[str, Side]:
    """Returns both sides: each opens its data and reads all of it, or what ``where`` leaves."""

    def side(read: Callable[[], DataFrame]) -> Side:
        return lambda: measured(lambda: to_noop(read().where(where) if where else read()))

    return {OURS: side(bench.read_topicdb), PARQUET: side(bench.read_parquet)}


def full_read(bench: Bench) -> None:
    found = [digest(frame) for frame in (bench.read_parquet(), bench.read_topicdb())]
    bench.report.same("1 full read", *found)
    alone = read_transport(bench.spark, str(bench.database), bench.rows, 4 * bench.cores)
    sides = {
        **read_sides(bench),
        FUNCTION: lambda: measured(
            lambda: to_noop(read_dataframe(bench.spark, str(bench.database)))
        ),
        TRANSPORT: lambda: measured(lambda: to_noop(alone)),
    }
    timings = turns(sides, bench.rounds)

    def beside_parquet(side: str) -> dict[str, Timing]:
        return {side: timings[side], PARQUET: timings[PARQUET]}

    add = partial(bench.report.add_rates, "1")
    add("full read to noop", bench.rows, beside_parquet(OURS), faster=1, cpu_max=1.3)
    add("the same with read_dataframe", bench.rows, beside_parquet(FUNCTION))
    add("one batch, over and over: transport alone", bench.rows, beside_parquet(TRANSPORT))


def selective_reads(bench: Bench) -> None:
    for what, where in (("one host of 1,000", spark_data.HOST), ("an hour", spark_data.HOUR)):
        frames = bench.read_parquet(), bench.read_topicdb()
        bench.report.same(f"2 {what}", *(digest(frame.where(where)) for frame in frames))
        timings = turns(read_sides(bench, where), bench.rounds)
        bench.report.add_times("2", what, bench.rows, timings, faster=10)


def write_sides(bench: Bench) -> dict[str, Side]:
    """Returns both sides: each reads the Parquet files and writes all anew.

    Making the empty database is not part of the time.
    """
    database, parquet = written(bench)

    def ours() -> tuple[float, float]:
        spark_data.new_database(database, bench.cores)
        writer = bench.read_parquet().write.format(PYTHON).mode("append")
        return measured(lambda: writer.save(str(database)))

    def theirs() -> tuple[float, float]:
        shutil.rmtree(parquet, ignore_errors=True)
        return measured(lambda: spark_data.write_parquet(bench.read_parquet(), parquet))

    return {OURS: ours, PARQUET: theirs}


def written(bench: Bench) -> tuple[Path, Path]:
    """Returns the database and the Parquet directory that ``write_sides`` writes."""
    return bench.directory / "written.db", bench.directory / "written.parquet"


def batch_write(bench: Bench) -> None:
    timings = turns(write_sides(bench), bench.rounds)
    database, parquet = written(bench)
    found = digest(bench.read_parquet(parquet)), digest(bench.read_topicdb(database))
    bench.report.same("3 batch write", *found)
    bench.report.add_rates("3", "batch write", bench.rows, timings, faster=0.8)
    for path in (database, parquet):
        shutil.rmtree(path)


def stream_read(bench: Bench) -> None:
    """Measures a query from its start to its end beside the batch read of the same database."""
    found: list[tuple[int, int]] = []

    def add(frame: DataFrame, _: int) -> None:
        counted = digest(frame).split(":")
        found.append((int(counted[0]), int(counted[1], 16)))

    for order in ORDERS.values():
        found.clear()
        stream_once(bench, lambda writer: writer.foreachBatch(add), commitOrder=order)
        streamed = digest_text(sum(part[0] for part in found), sum(part[1] for part in found))
        bench.report.same(f"6 commitOrder={order}", digest(bench.read_parquet()), streamed)
    alone_s: dict[str, list[float]] = {what: [] for what in ORDERS}

    def side(what: str) -> Side:
        def run() -> None:
            took = stream_once(
                bench, lambda writer: writer.format("noop"), commitOrder=ORDERS[what]
            )
            alone_s[what].append(batch_seconds(took))

        return lambda: measured(run)

    sides = {**{what: side(what) for what in ORDERS}, "batch": read_sides(bench)[OURS]}
    timings = turns(sides, bench.rounds)
    read = timings["batch"]
    for what in ORDERS:
        both = {what: timings[what], "batch": read}
        bench.report.add_rates("6", f"{what}; beside: batch read", bench.rows, both, faster=0.7)
        alone = median(alone_s[what][-bench.rounds :])  # without the run that warms up
        ours, theirs = (f"{bench.rows / seconds:,.0f} /s" for seconds in (alone, read.wall))
        bench.report.add(Line("6", "of it addBatch alone", ours, theirs, read.wall / alone))


def stream_once(
    bench: Bench,
    prepare: Callable[[Any], Any],
    source: str = PYTHON,
    path: Path | None = None,
    **given: object,
) -> list[dict[str, int]]:
    """Runs a query over a whole database by a format, with options.

    Returns the ms that each micro-batch took, by what they were for.
    """
    checkpoint = bench.directory / "checkpoint"
    shutil.rmtree(checkpoint, ignore_errors=True)
    options: dict[str, Any] = {"startingOffsets": "earliest", **given}
    frame = (
        bench.spark.readStream.format(source).options(**options).load(str(path or bench.database))
    )
    query = (
        prepare(frame.writeStream)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [p.durationMs for p in query.recentProgress if p.numInputRows]


def batch_seconds(took: list[dict[str, int]]) -> float:
    """Returns the seconds of micro-batches alone, without what Spark does around them."""
    return float(sum(ms["addBatch"] for ms in took)) / 1e3


def planning(bench: Bench) -> None:
    """Measures in this process, without Spark, what the driver's Python worker does."""
    path = bench.directory / "generations.db"
    messages = spark_data.generations(path, bench.slabs)
    parsed = options.batch_options({"path": str(path)})

    def opened() -> None:
        topicdb.open(path, mode="r").close()

    def planned() -> None:
        plan = batch.plan(parsed, Selection(None, None, None))
        assert sum(slice.messages for slice in plan.slices) == messages

    timings: dict[str, Timing] = turns(
        {"open": lambda: measured(opened), "plan": lambda: measured(planned)}, bench.rounds
    )
    bench.report.same(
        "7 messages of all slabs", str(messages), str(bench.read_topicdb(path).count())
    )
    for name, what in (("open", 'topicdb.open(mode="r")'), ("plan", "planning, with the opening")):
        took_ms = median(timings[name].wall_s) * 1e3
        most = PLAN_MS_MAX if name == "plan" else 0
        bench.report.add_most("7", f"{what}, {bench.slabs:,} slabs", took_ms, "ms", most)
