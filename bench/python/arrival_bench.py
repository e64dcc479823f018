"""Measures reading of data by their order of arrival: rows A1 to A6.

python bench/python/arrival_bench.py [--rows 1e6,1e7,3e7] [--orders backfill,late] [--json FILE]

Each order of arrival (bench/workloads/arrivals.py) makes a database of the same messages, and a
Parquet file that has them in that order and that DuckDB sorts. The benchmark reads a database
twice: while its generation is open and the sealer has nothing more to do, and again when the
generation has ended and the sealer has brought its blocks apart in time.

For each size it prints the medians of wall and CPU time, how they compare with data that came in
order, the peak of memory above that of a process that has opened the database, how often sealing
has written each byte, and how fast times grow: the exponent between the smallest and the largest
size.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import workloads
from measure import ROUNDS, Timing, interleaved, peak_rss_bytes, rss_bytes
from report import Report
from stores import wait_for_sealing
from workloads import arrivals, metrics
from workloads.rows import SCHEMA, START_US, digest, table_rows

import topicdb

SIZES = (1_000_000, 10_000_000, 30_000_000)
GROUP_ROWS = 122_880  # DuckDB's own default
DIGEST_ROWS_MAX = 1_000_000  # above it only the number of rows and the sum of their times compare
MIB = 1 << 20
STATES = ("open", "ended")  # of the generation
# Ten, each read alone: by chance one device's messages lie in one page of a block or in two.
DEVICES = [metrics.topic(number) for number in range(7, arrivals.DEVICES, 100)]
PARTS = {
    "A1": "count",
    "A2": "no order, to Arrow",
    "A3": "by stream, to Arrow",
    "A4": "by time, to Arrow",
    "A5": "ten devices, one by one",
    "A6": "1 % of the time, to Arrow",
}


class Drained:
    """Drains an Arrow stream: keeps the number of rows, and the sum of their times."""

    def __init__(self, batches: Iterator[pa.RecordBatch], *, is_sorted: bool) -> None:
        self.rows = 0
        self.sum_us = 0
        last = -1
        for batch in batches:
            times = batch["timestamp"].cast(pa.int64()).to_numpy()
            self.rows += len(times)
            self.sum_us += int((times - START_US).sum())
            if is_sorted and len(times):
                if times[0] < last or (times[1:] < times[:-1]).any():
                    sys.exit("what should be sorted is not")
                last = int(times[-1])


def drain(scan: topicdb.Scan, *, is_sorted: bool = False) -> Drained:
    return Drained(iter(pa.RecordBatchReader.from_stream(scan)), is_sorted=is_sorted)


class Parquet:
    """DuckDB over a Parquet file that has the same rows in the order in which they arrived."""

    def __init__(self, path: Path, order: str, rows: int, seed: int) -> None:
        self._path = path
        with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
            for table in regrouped(arrivals.tables(order, rows, seed)):
                writer.write_table(table, row_group_size=GROUP_ROWS)
        self._connection = duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'")

    def by_time(self) -> Drained:
        sql = "SELECT topic, timestamp, value FROM read_parquet(?) ORDER BY timestamp"
        found = self._connection.sql(sql, params=[str(self._path)])
        return Drained(iter(found.to_arrow_reader(GROUP_ROWS)), is_sorted=True)


def regrouped(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Joins tables until they have ``GROUP_ROWS`` rows."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(map(len, waiting)) >= GROUP_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def reads(db: topicdb.Database) -> dict[str, Callable[[], Any]]:
    """Returns a call for each part; a call that reads Arrow data returns what it drained."""
    middle = START_US + arrivals.YEAR_US // 2
    end = middle + arrivals.YEAR_US // 100
    return {
        "A1": lambda: db.scan("#").count(),
        "A2": lambda: drain(db.scan("#", order="none")),
        "A3": lambda: drain(db.scan("#")),
        "A4": lambda: drain(db.scan("#", order="time"), is_sorted=True),
        "A5": lambda: [drain(db.scan(device), is_sorted=True) for device in DEVICES],
        "A6": lambda: drain(db.scan("#", start=middle, end=end)),
    }


def peaks_mib(path: str) -> dict[str, float]:
    """Returns for each part the peak of resident memory above that of an idle process.

    Each part runs in a process of its own, since memory that another part has left behind would
    hide its growth. An idle process has opened the database and read one device, so it has loaded
    the libraries that a scan uses, some 45 MiB.
    """
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        return {part: pool.apply(_peak_mib, (path, part)) for part in PARTS}


def _peak_mib(path: str, part: str) -> float:
    with topicdb.open(path, mode="r") as db:
        drain(db.scan(DEVICES[0]))
        try:
            Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
        except OSError:
            return math.nan
        before = rss_bytes()
        reads(db)[part]()
        return (peak_rss_bytes() - before) / MIB


def write_amplification(db: topicdb.Database) -> float:
    """Returns how often sealing has written each byte."""
    shards = db.stats()["shards"]
    sealed = sum(shard["sealed_bytes"] for shard in shards)
    return 1 + sum(shard["resealed_bytes"] for shard in shards) / sealed if sealed else math.nan


def same_rows(report: Report, name: str, db: topicdb.Database, theirs: Parquet, rows: int) -> None:
    """Ends the program unless all ways to read the database give the rows that DuckDB gives."""
    wanted = theirs.by_time()
    for part, read in list(reads(db).items())[1:4]:
        found = read()
        if (found.rows, found.sum_us) != (wanted.rows, wanted.sum_us):
            sys.exit(f"{name}, {PARTS[part]}: not the rows of DuckDB")
    if rows <= DIGEST_ROWS_MAX:
        report.digests[name] = digest(table_rows(db.scan("#").to_arrow()))
        unordered = digest(table_rows(db.scan("#", order="none").to_arrow()))
        if unordered != report.digests[name]:
            sys.exit(f"{name}: without an order it gives other messages")


def measure(
    report: Report, order: str, rows: int, options: Any, place: Path
) -> dict[tuple[str, str], Timing]:
    """Measures one order and size; returns the timing of each state and part."""
    found: dict[tuple[str, str], Timing] = {}
    theirs = Parquet(place / f"{order}.parquet", order, rows, options.seed)
    with topicdb.open(place / order, structures=["metrics/+/cpu/#"]) as db:
        for table in arrivals.tables(order, rows, options.seed):
            db.append(table)
        for state in STATES:
            if state == "ended":
                db.rotate()
            wait_for_sealing(db)
            same_rows(report, f"{order} {rows:,}", db, theirs, rows)
            name = f"{order} {rows:,} {state}"
            timings = measure_reads(report, name, db, theirs, rows, options)
            found.update({(state, part): timing for part, timing in timings.items()})
            print(f"    sealing wrote each byte {write_amplification(db):.2f} times", flush=True)
    return found


def measure_reads(
    report: Report, name: str, db: topicdb.Database, theirs: Parquet, rows: int, options: Any
) -> dict[str, Timing]:
    sides: dict[str, Callable[[], Any]] = {**reads(db), "DuckDB": theirs.by_time}
    timings = interleaved(sides, options.rounds)
    peaks = peaks_mib(db.path)
    spilled = db.explain("#")["bytes_spilled"]
    for part, what in PARTS.items():
        timing = timings[part]
        report.add(
            part,
            f"{name}: {what}",
            f"{timing.wall / rows * 1e6:.3f} us wall, {timing.cpu / rows * 1e6:.3f} us CPU",
            f"peak +{peaks[part]:.0f} MiB",
            rows=rows,
            wall_s=timing.wall_s,
            cpu_s=timing.cpu_s,
            peak_mib=peaks[part],
        )
    ratio = timings["DuckDB"].wall / timings["A4"].wall
    print(
        f"    DuckDB sorts them in {timings['DuckDB'].wall:.2f} s wall, "
        f"{timings['DuckDB'].cpu:.2f} s CPU: A4 is {ratio:.2f} x as fast (wall); "
        f"{spilled / rows:.0f} bytes a message waited in a file",
        flush=True,
    )
    return timings


Found = dict[tuple[str, int], dict[tuple[str, str], Timing]]


def summarize(found: Found, orders: list[str]) -> None:
    """Prints how the times of each order compare with data in order, and how they grow."""
    sizes = sorted({rows for _, rows in found})
    for state in STATES:
        title = f"{state}: wall time by that of data in order"
        print(f"\n{title:<50}" + "".join(f"{n:>12,}" for n in sizes))
        for part, what in PARTS.items():
            for order in orders:
                times = [found[order, rows][state, part].wall for rows in sizes]
                bases = [found["in_order", rows][state, part].wall for rows in sizes]
                line = "".join(
                    f"{ours / base:>12.2f}" for ours, base in zip(times, bases, strict=True)
                )
                span = math.log(sizes[-1] / sizes[0]) if len(sizes) > 1 else math.nan
                exponent = math.log(times[-1] / times[0]) / span
                print(f"{part} {what + ', ' + order:<47}{line}   exponent {exponent:.2f}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=",".join(map(str, SIZES)))
    parser.add_argument("--orders", default=",".join(arrivals.ORDERS[1:]))
    parser.add_argument("--seed", type=int, default=workloads.SEED)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--directory", type=Path, help="where to make the databases")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    sizes = [int(float(size)) for size in options.rows.split(",")]
    orders = options.orders.split(",")
    report = Report()
    found: Found = {}
    for rows in sizes:
        for order in ["in_order", *orders]:
            with tempfile.TemporaryDirectory(prefix="topicdb-", dir=options.directory) as place:
                found[order, rows] = measure(report, order, rows, options, Path(place))
    summarize(found, orders)
    report.finish("messages by order of arrival", options.json, sizes=sizes)


if __name__ == "__main__":
    main()
