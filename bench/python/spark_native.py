"""Row 9: the connector in Java beside Spark's Parquet (Zstandard), in turns in one session.

Parquet lies there twice: in the order in which the messages came, as the database has them, and
sorted by topic and time, which suits its encodings and its statistics better.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import spark_data
from pyspark.sql import DataFrame
from spark_measure import Side, digest, digest_text, measured, to_noop, turns
from spark_report import PARQUET, Line
from spark_rows import Bench

from topicdb.spark import connector

NATIVE, SORTED = "topicdb-native", "sorted Parquet"
Query = Callable[[DataFrame], DataFrame]
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


def native_reads(bench: Bench) -> None:
    """Measures each query over the three, after a check that they give the same."""
    connector.add(bench.spark)
    bench.spark.conf.set("spark.sql.catalog.topicdb", "io.topicdb.spark.TopicDbCatalog")
    paths = {name: bench.directory / f"{name}-zstd.parquet" for name in ("came", "sorted")}
    write_zstd(bench.read_parquet(), paths["came"])
    ordered = bench.read_parquet().repartitionByRange(4 * bench.cores, "topic")
    write_zstd(ordered.sortWithinPartitions("topic", "timestamp"), paths["sorted"])
    sources: dict[str, Callable[[], DataFrame]] = {
        NATIVE: lambda: bench.spark.read.format(NATIVE).load(str(bench.database)),
        PARQUET: lambda: bench.read_parquet(paths["came"]),
        SORTED: lambda: bench.read_parquet(paths["sorted"]),
    }
    for what, (query, faster) in QUERIES.items():
        for other in (PARQUET, SORTED):
            found = answer(query(sources[NATIVE]()))
            bench.report.same(f"9 {what}", answer(query(sources[other]())), found)

        def side(read: Callable[[], DataFrame], query: Query = query) -> Side:
            return lambda: measured(lambda: to_noop(query(read())))

        timings = turns({name: side(read) for name, read in sources.items()}, bench.rounds)
        for other, target in ((PARQUET, faster), (SORTED, 0.0)):
            bench.report.add_rates(
                "9",
                what if other == PARQUET else f"— beside {SORTED}",
                bench.rows,
                {NATIVE: timings[NATIVE], other: timings[other]},
                faster=target,
            )
    native_write(bench, paths["came"])
    for path in paths.values():
        shutil.rmtree(path)


def answer(frame: DataFrame) -> str:
    """Returns a digest of all columns of what a query gives, in whatever order it gives it."""
    columns = ", ".join(f"`{name}`" for name in frame.columns)
    row = frame.selectExpr(
        "count(*) as n", f"coalesce(sum(xxhash64({columns}) & 4294967295), 0) as checksum"
    ).first()
    assert row is not None
    return digest_text(row.n, row.checksum)


def native_write(bench: Bench, parquet: Path) -> None:
    """Measures a write of all messages, which both sides read from Parquet."""
    database, files = bench.directory / "native.db", bench.directory / "native.parquet"

    def ours() -> tuple[float, float]:
        spark_data.new_database(database, bench.cores)
        writer = bench.read_parquet(parquet).write.format(NATIVE).mode("append")
        return measured(lambda: writer.save(str(database)))

    def theirs() -> tuple[float, float]:
        shutil.rmtree(files, ignore_errors=True)
        return measured(lambda: write_zstd(bench.read_parquet(parquet), files))

    timings = turns({NATIVE: ours, PARQUET: theirs}, bench.rounds)
    found = bench.spark.read.format(NATIVE).load(str(database))
    bench.report.same("9 batch write", digest(bench.read_parquet(files)), digest(found))
    bench.report.add_rates("9", "batch write", bench.rows, timings, faster=1.8)
    size = spark_data.disk_bytes(database) / bench.rows
    bench.report.add(Line("9", "bytes a message of it on disk", f"{size:.0f}"))
    for path in (database, files):
        shutil.rmtree(path)


def write_zstd(frame: DataFrame, path: Path) -> None:
    """Writes messages as Parquet with Zstandard."""
    frame.write.mode("overwrite").parquet(str(path), compression="zstd")
