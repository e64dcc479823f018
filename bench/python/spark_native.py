"""Row 9: the connector in Java beside Spark's Parquet (Zstandard), in turns in one session.

Parquet lies there twice: in the order in which the messages came, as the database has them, and
sorted by topic and time, which suits its encodings and its statistics better.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import spark_data
from spark_compare import NATIVE, QUERIES, Read, compare, compare_writes, write_zstd
from spark_measure import measured
from spark_report import PARQUET, Line
from spark_rows import Bench

from topicdb.spark import connector

SORTED = "sorted Parquet"


def native_reads(bench: Bench) -> None:
    """Measures each query over the three."""
    connector.add(bench.spark)
    bench.spark.conf.set("spark.sql.catalog.topicdb", "io.topicdb.spark.TopicDbCatalog")
    paths = {name: bench.directory / f"{name}-zstd.parquet" for name in ("came", "sorted")}
    write_zstd(bench.read_parquet(), paths["came"])
    ordered = bench.read_parquet().repartitionByRange(4 * bench.cores, "topic")
    write_zstd(ordered.sortWithinPartitions("topic", "timestamp"), paths["sorted"])
    sources: dict[str, Read] = {
        NATIVE: lambda: bench.spark.read.format(NATIVE).load(str(bench.database)),
        PARQUET: lambda: bench.read_parquet(paths["came"]),
        SORTED: lambda: bench.read_parquet(paths["sorted"]),
    }
    for what, (_, faster) in QUERIES.items():
        timings = compare(bench, "9", what, sources)
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


def native_write(bench: Bench, parquet: Path) -> None:
    """Measures a write of all messages into a database on this machine."""
    database = bench.directory / "native.db"

    def ours() -> tuple[float, float]:
        spark_data.new_database(database, bench.cores)
        writer = bench.read_parquet(parquet).write.format(NATIVE).mode("append")
        return measured(lambda: writer.save(str(database)))

    timings = compare_writes(bench, "9", parquet, database, ours)
    bench.report.add_rates("9", "batch write", bench.rows, timings, faster=1.8)
    size = spark_data.disk_bytes(database) / bench.rows
    bench.report.add(Line("9", "bytes a message of it on disk", f"{size:.0f}"))
    shutil.rmtree(database)
