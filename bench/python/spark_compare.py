"""What rows 9, 11 and 12 ask of the connector in Java and of Parquet, and how they compare."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import spark_data
from measure import Timing
from pyspark.sql import DataFrame
from spark_measure import Side, digest, digest_text, measured, to_noop, turns
from spark_report import PARQUET
from spark_rows import Bench

NATIVE = "topicdb"
Read: TypeAlias = Callable[[], DataFrame]
Query: TypeAlias = Callable[[DataFrame], DataFrame]
# What is asked, and how many times Parquet's speed it should have; 0: no target.
QUERIES: dict[str, tuple[Query, float]] = {
    "full read": (lambda frame: frame, 1.6),
    "sum(length(value))": (lambda frame: frame.selectExpr("sum(length(value)) as found"), 1.7),
    "topic and time": (lambda frame: frame.select("topic", "timestamp"), 1.9),
    "count by topic": (lambda frame: frame.groupBy("topic").count(), 1.2),
    "max(timestamp)": (lambda frame: frame.selectExpr("max(timestamp) as found"), 1.5),
    "last by topic": (
        lambda frame: frame.groupBy("topic").agg({"timestamp": "max"}),
        1.5,
    ),
    "count": (lambda frame: frame.selectExpr("count(*) as found"), 2),
    "count by hour": (
        lambda frame: frame.selectExpr("date_trunc('hour', timestamp) as h").groupBy("h").count(),
        1.5,
    ),
    "count by time_bucket": (
        lambda frame: (
            frame.selectExpr("topicdb.time_bucket(INTERVAL '1' HOUR, timestamp) as h")
            .groupBy("h")
            .count()
        ),
        1.5,
    ),
    "one host of 1,000": (lambda frame: frame.where(spark_data.HOST), 20),
    "an hour of a year": (lambda frame: frame.where(spark_data.HOUR), 3),
}


def compare(bench: Bench, row: str, what: str, sources: Mapping[str, Read]) -> dict[str, Timing]:
    """Measures one of ``QUERIES`` over each source, after a check that all give the same."""
    query = QUERIES[what][0]
    ours, *others = [answer(query(read())) for read in sources.values()]
    for other in others:
        bench.report.same(f"{row} {what}", other, ours)

    def side(read: Read) -> Side:
        return lambda: measured(lambda: to_noop(query(read())))

    return turns({name: side(read) for name, read in sources.items()}, bench.rounds)


def compare_writes(
    bench: Bench, row: str, parquet: Path, database: Path, ours: Side
) -> dict[str, Timing]:
    """Measures a write of all messages, which both sides read from Parquet, and checks it.

    ``ours`` makes ``database`` anew, writes to it, and says how long the write took.
    """
    files = bench.directory / "written.parquet"

    def theirs() -> tuple[float, float]:
        shutil.rmtree(files, ignore_errors=True)
        return measured(lambda: write_zstd(bench.read_parquet(parquet), files))

    timings = turns({NATIVE: ours, PARQUET: theirs}, bench.rounds)
    found = bench.spark.read.format(NATIVE).load(str(database))
    bench.report.same(f"{row} batch write", digest(bench.read_parquet(files)), digest(found))
    shutil.rmtree(files)
    return timings


def answer(frame: DataFrame) -> str:
    """Returns a digest of all columns of what a query gives, in whatever order it gives it."""
    columns = ", ".join(f"`{name}`" for name in frame.columns)
    row = frame.selectExpr(
        "count(*) as n", f"coalesce(sum(xxhash64({columns}) & 4294967295), 0) as checksum"
    ).first()
    assert row is not None
    return digest_text(row.n, row.checksum)


def write_zstd(frame: DataFrame, path: Path) -> None:
    """Writes messages as Parquet with Zstandard."""
    frame.write.mode("overwrite").parquet(str(path), compression="zstd")
