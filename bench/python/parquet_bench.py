"""Measures export and import beside pyarrow's write and read of the same table: `--rows 1000000`.

It prints medians of the CPU time of a message. Both sides write Zstandard. The export also scans
the database and fsyncs; the import also checks, sorts and indexes. The benchmark stops unless the
exported messages are those of the workload.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from itertools import count
from pathlib import Path

import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import workloads
from measure import ROUNDS, Timing, interleaved
from workloads import Workload, digest
from workloads.rows import table_rows

import topicdb


def fill(path: Path, load: Workload) -> None:
    """Appends the messages in batches, as they would arrive, and seals them."""
    with topicdb.open(path, durability="none") as database:
        for table in load.tables():
            database.append(table)
        database.flush()


def measure(load: Workload, rounds: int, directory: Path) -> dict[str, Timing]:
    fill(directory / "data", load)
    numbers = count()
    plain, own = directory / "plain.parquet", directory / "own.parquet"

    def write() -> None:
        pq.write_table(load.table, plain, compression="zstd", row_group_size=1 << 17)

    def export(database: topicdb.Database) -> None:
        own.unlink(missing_ok=True)
        database.export_parquet(own, None)

    def bring() -> None:
        with topicdb.open(directory / f"copy{next(numbers)}") as copy:
            copy.import_parquet(own)

    with topicdb.open(directory / "data", mode="r") as database:
        writes = interleaved(
            {"pyarrow writes": write, "export_parquet": partial(export, database)}, rounds
        )
    if digest(table_rows(pq.read_table(own))) != load.digest:
        raise SystemExit("the export has other messages than the workload")
    reads = interleaved({"pyarrow reads": partial(pq.read_table, own), "import": bring}, rounds)
    print(f"{'file':<16} {own.stat().st_size / plain.stat().st_size:.2f} of pyarrow's size")
    return {**writes, **reads}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--workload", choices=list(workloads.MAKERS), default="metrics")
    options = parser.parse_args()
    load = workloads.make(options.workload, options.rows)
    print(f"{options.rows:,} messages of {load.name}, seed {workloads.SEED}, digest {load.digest}")
    with tempfile.TemporaryDirectory() as directory:
        timings = measure(load, options.rounds, Path(directory))
    for peer, name in (("pyarrow writes", "export_parquet"), ("pyarrow reads", "import")):
        for side in (peer, name):
            print(f"{side:<16} {timings[side].cpu / options.rows * 1e6:6.2f} us")
        print(f"{'ratio':<16} {timings[name].cpu / timings[peer].cpu:6.2f}")


if __name__ == "__main__":
    main()
