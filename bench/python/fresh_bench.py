"""Measures reading right after appending, beside rocksdict: rows N1 and N2.

python bench/python/fresh_bench.py [--rows 1e5,4e5,1.6e6] [--rounds 5] [--json FILE]

Each round makes new databases, appends all messages in batches, and scans at once, while the
sealer and rocksdict's flushes are at work. Beside these stand the same scans of databases that had
time to settle. Wall time counts, since a caller that waits for a scan also waits for the sealer.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import workloads
from measure import ROUNDS, Timing, once
from report import Report
from stores import RocksDict, Store, TopicDb, wait_for_sealing
from workloads import Workload, digest, metrics
from workloads.rows import Row, table_rows

SIZES = (100_000, 400_000, 1_600_000)
BATCHES = (1_000, 10_000)  # messages of an append
MOMENTS = ("at once", "settled")
DIGEST_ROWS = 20_000
REST_S = 1.0  # in which rocksdict flushes


def to_arrow(store: Store) -> object:
    return store.scan_table()


def to_tuples(store: Store) -> object:
    return deque(store.scan_rows(), maxlen=0)


READS: dict[str, tuple[str, Callable[[Store], object]]] = {
    "N1": ("to Arrow", to_arrow),
    "N2": ("to tuples", to_tuples),
}


def settle(store: Store) -> None:
    if isinstance(store, TopicDb):
        wait_for_sealing(store.database)
    else:
        time.sleep(REST_S)


def measure(
    kind: type[Store], rows: list[Row], batch: int, moment: str, read: Callable[[Store], object]
) -> tuple[Timing, str]:
    """Times one scan of a new database; returns the timing and a digest of its first messages."""
    timing = Timing()
    with tempfile.TemporaryDirectory(prefix="topicdb-") as directory:
        store = kind(Path(directory) / "db")
        for first in range(0, len(rows), batch):
            store.append_rows(rows[first : first + batch])
        if moment == "settled":
            settle(store)
        once(lambda: read(store), timing)
        found = digest(table_rows(store.scan_table().sort_by("timestamp").slice(0, DIGEST_ROWS)))
        store.close()
    return timing, found


def compare(report: Report, rows: list[Row], batch: int, rounds: int) -> None:
    for part, (what, read) in READS.items():
        for moment in MOMENTS:
            timings = {kind.name: Timing() for kind in (TopicDb, RocksDict)}
            for number in range(rounds):
                sides: tuple[type[Store], ...] = (TopicDb, RocksDict)
                for kind in sides if number % 2 == 0 else sides[::-1]:
                    timing, found = measure(kind, rows, batch, moment, read)
                    timings[kind.name].wall_s += timing.wall_s
                    timings[kind.name].cpu_s += timing.cpu_s
                    if report.digests.setdefault(f"{len(rows):,}", found) != found:
                        sys.exit(f"{kind.name} gave other messages")
            name = f"{len(rows):,} by {batch:,}: {what}, {moment}"
            add(report, part, name, len(rows), timings)


def add(report: Report, part: str, name: str, rows: int, timings: dict[str, Timing]) -> None:
    ours = timings[TopicDb.name].wall
    for side, timing in timings.items():
        ratio = "" if side == TopicDb.name else f"TopicDB is {timing.wall / ours:.2f} x as fast"
        report.add(
            part,
            f"{name}, {side}",
            f"{timing.wall / rows * 1e6:.3f} us wall, {timing.cpu / rows * 1e6:.3f} us CPU",
            ratio,
            side=side,
            rows=rows,
            wall_s=timing.wall_s,
            cpu_s=timing.cpu_s,
        )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=",".join(map(str, SIZES)))
    parser.add_argument("--seed", type=int, default=workloads.SEED)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    sizes = [int(float(size)) for size in options.rows.split(",")]
    report = Report()
    for size in sizes:
        rows = Workload("metrics", metrics.make(size, options.seed)).rows
        for batch in BATCHES:
            compare(report, rows, batch, options.rounds)
    report.finish("messages of each size", options.json, sizes=sizes)


if __name__ == "__main__":
    main()
