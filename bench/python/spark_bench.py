"""Measures TopicDB in Spark beside Spark's own Parquet, and prints one table: `make bench-spark`.

python bench/python/spark_bench.py [--small] [--rows 5000000] [--rounds 5] [--only 1,2]
                                   [--without-python] [--directory DIR] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import spark_data
from measure import ROUNDS
from pyspark.sql import SparkSession
from spark_functions import functions
from spark_measure import BRIEF, session
from spark_micro import micro_batches
from spark_native import native_reads
from spark_native_stream import native_streams
from spark_remote import remote_reads_and_writes
from spark_report import Report
from spark_rows import Bench, batch_write, full_read, planning, selective_reads, stream_read
from spark_scaling import measure_child, scaling
from spark_store import running_store, store_reads
from workloads.rows import SEED

PARTS: dict[str, Callable[[Bench], None]] = {
    "1": full_read,
    "2": selective_reads,
    "3": batch_write,
    "4": functions,
    "5": micro_batches,
    "6": stream_read,
    "7": planning,
    "8": scaling,
    "9": native_reads,
    "10": native_streams,
    "11": remote_reads_and_writes,
    "12": store_reads,
}
NORMAL = {"rows": 5_000_000, "rounds": ROUNDS, "slabs": 1_000, "micro_rows": 100_000}
SMALL = {"rows": 20_000, "rounds": 1, "slabs": 20, "micro_rows": 1_000}
PACKAGES = ("topicdb", "pyspark", "pyarrow")


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--child"]:
        measure_child(arguments[1:])
        return
    options = parse(arguments)
    facts = machine_facts(options)
    print(", ".join(f"{name} {value}" for name, value in facts.items()), flush=True)
    place = Path(tempfile.mkdtemp(prefix="topicdb-spark-", dir=options.directory))
    try:
        java = BRIEF if options.rounds == 1 else ""
        with (
            running_store(place) as store,
            session(options.cores, place, java, store.settings() if store else None) as spark,
        ):
            report = measure_all(spark, place, options, store)
    finally:
        shutil.rmtree(place)
    report.print_end()
    print(f"load at the end: {load()}")
    if options.json:
        document = {"facts": facts, **report.document()}
        options.json.write_text(json.dumps(document, indent=2) + "\n")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="shows in two minutes that all runs")
    parser.add_argument("--rows", type=int, help="messages of some 200 bytes")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--slabs", type=int, help="of the database of row 7")
    parser.add_argument("--micro-rows", type=int, help="messages of a micro-batch of row 5")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default=",".join(PARTS), help="some of the rows")
    parser.add_argument(
        "--without-python",
        action="store_true",
        help="row 10 leaves the source in Python out, which takes an hour for 40 million messages",
    )
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--directory", type=Path, help="where to make the files")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    for name, value in (SMALL if options.small else NORMAL).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


def measure_all(
    spark: SparkSession, place: Path, options: argparse.Namespace, store: Any
) -> Report:
    began = time.perf_counter()
    bench = Bench(
        spark,
        Report(),
        place,
        options.rows,
        options.rounds,
        options.cores,
        options.seed,
        options.slabs,
        options.micro_rows,
        options.rounds,
        store,
        with_python=not options.without_python,
    )
    made = spark_data.messages(spark, bench.rows, bench.seed, 4 * bench.cores)
    spark_data.write_parquet(made, bench.parquet)
    spark_data.fill_database(bench.database, bench.parquet, bench.cores)
    sizes = [spark_data.disk_bytes(path) / bench.rows for path in (bench.database, bench.parquet)]
    took = time.perf_counter() - began
    print("bytes a message on disk: TopicDB {:.0f}, Parquet {:.0f};".format(*sizes), end=" ")
    print(f"made in {took:.0f} s\n")
    bench.report.print_head()
    for part in options.only.split(","):
        PARTS[part](bench)
    return bench.report


def machine_facts(options: argparse.Namespace) -> dict[str, Any]:
    return {
        **{name: version(name) for name in PACKAGES},
        "Python": platform.python_version(),
        "cores": options.cores,
        "messages": options.rows,
        "rounds": options.rounds,
        "seed": options.seed,
        "load": load(),
    }


def load() -> str:
    """Processes that want a core, over the last minute."""
    return f"{os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    main(sys.argv[1:])
