"""Row 11: the connector in Java at a server on this machine, beside Parquet (Zstandard).

The server is `topicdb serve` in a process of its own. Its CPU time counts, too.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import spark_data
from database_server import served
from spark_compare import NATIVE, Read, compare, compare_writes, write_zstd
from spark_measure import measured
from spark_report import PARQUET
from spark_rows import Bench

from topicdb.spark import connector

# What is asked, and how many times Parquet's speed it should have; 0: no target.
ASKED = {
    "full read": 1.0,
    "sum(length(value))": 0.0,
    "topic and time": 0.0,
    "one host of 1,000": 0.0,
}
WRITE_FASTER = 1.0


def remote_reads_and_writes(bench: Bench) -> None:
    """Measures reads and a write."""
    connector.add(bench.spark)
    came = bench.directory / "came-zstd.parquet"
    write_zstd(bench.read_parquet(), came)
    with served(bench.database) as (address, _):
        remote_reads(bench, address, came)
    remote_write(bench, came)
    shutil.rmtree(came)


def remote_reads(bench: Bench, address: str, parquet: Path) -> None:
    """Measures each query over the served database and over Parquet."""
    sources: dict[str, Read] = {
        NATIVE: lambda: bench.spark.read.format(NATIVE).option("remote", address).load(),
        PARQUET: lambda: bench.read_parquet(parquet),
    }
    for what, faster in ASKED.items():
        timings = compare(bench, "11", what, sources)
        bench.report.add_rates("11", f"by a server: {what}", bench.rows, timings, faster=faster)


def remote_write(bench: Bench, parquet: Path) -> None:
    """Measures a write of all messages.

    Starting a server of an empty database is not part of the time.
    """
    database = bench.directory / "remote.db"

    def ours() -> tuple[float, float]:
        spark_data.new_database(database, bench.cores)
        with served(database) as (address, _):
            writer = bench.read_parquet(parquet).write.format(NATIVE).option("remote", address)
            return measured(lambda: writer.mode("append").save())

    timings = compare_writes(bench, "11", parquet, database, ours)
    bench.report.add_rates(
        "11", "batch write to a server", bench.rows, timings, faster=WRITE_FASTER
    )
    shutil.rmtree(database)
