"""Row 11: the connector in Java at a server on this machine, beside Parquet (Zstandard).

The server is `topicdb serve` in a process of its own. Its CPU time counts, too.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import spark_data
from pyspark.sql import DataFrame
from spark_measure import Side, digest, measured, to_noop, turns
from spark_native import NATIVE, QUERIES, answer, write_zstd
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


@contextmanager
def served(database: Path) -> Iterator[str]:
    """Serves a database for the length of the block, and gives the address."""
    command = [sys.executable, "-m", "topicdb.cli", "serve", str(database)]
    with subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            found = re.search(r"grpc\S+", process.stdout.readline())
            assert found is not None, "the server has not begun"
            yield found[0]
        finally:
            process.terminate()


def remote_reads_and_writes(bench: Bench) -> None:
    """Measures reads and a write, each after a check that both sides give the same."""
    connector.add(bench.spark)
    came = bench.directory / "came-zstd.parquet"
    write_zstd(bench.read_parquet(), came)
    with served(bench.database) as address:
        remote_reads(bench, address, came)
    remote_write(bench, came)
    shutil.rmtree(came)


def remote_reads(bench: Bench, address: str, parquet: Path) -> None:
    """Measures each query over the served database and over Parquet."""
    sources: dict[str, Callable[[], DataFrame]] = {
        NATIVE: lambda: bench.spark.read.format(NATIVE).option("remote", address).load(),
        PARQUET: lambda: bench.read_parquet(parquet),
    }
    for what, faster in ASKED.items():
        query = QUERIES[what][0]
        found = answer(query(sources[NATIVE]()))
        bench.report.same(f"11 {what}", answer(query(sources[PARQUET]())), found)

        def side(
            read: Callable[[], DataFrame], query: Callable[[DataFrame], DataFrame] = query
        ) -> Side:
            return lambda: measured(lambda: to_noop(query(read())))

        timings = turns({name: side(read) for name, read in sources.items()}, bench.rounds)
        bench.report.add_rates("11", f"by a server: {what}", bench.rows, timings, faster=faster)


def remote_write(bench: Bench, parquet: Path) -> None:
    """Measures a write of all messages, which both sides read from Parquet.

    Starting a server of an empty database is not part of the time.
    """
    database, files = bench.directory / "remote.db", bench.directory / "remote.parquet"

    def ours() -> tuple[float, float]:
        spark_data.new_database(database, bench.cores)
        with served(database) as address:
            writer = bench.read_parquet(parquet).write.format(NATIVE).option("remote", address)
            return measured(lambda: writer.mode("append").save())

    def theirs() -> tuple[float, float]:
        shutil.rmtree(files, ignore_errors=True)
        return measured(lambda: write_zstd(bench.read_parquet(parquet), files))

    timings = turns({NATIVE: ours, PARQUET: theirs}, bench.rounds)
    found = bench.spark.read.format(NATIVE).load(str(database))
    bench.report.same("11 batch write", digest(bench.read_parquet(files)), digest(found))
    bench.report.add_rates(
        "11", "batch write to a server", bench.rows, timings, faster=WRITE_FASTER
    )
    for path in (database, files):
        shutil.rmtree(path)
