"""Measures TopicDB beside its peers and prints one table: `make bench` runs it.

python bench/python/report.py --size small|normal [--seed N] [--json FILE] [--readme FILE]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import sqlite3

import workloads
from figures import replace_figures, short
from measure import ROUNDS, Timing, interleaved, once
from stores import STORES, DuckDb, RocksDict, Skipstream, Store, TopicDb, disk_bytes
from workloads import Workload, digest, fleet
from workloads.rows import table_rows

import topicdb

SIZES = {"small": 4_000, "normal": 100_000}
PARTS = ("P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8")
PACKAGES = ("topicdb", "numpy", "pyarrow", "rocksdict", "lmdb", "duckdb")


class Report:
    """Prints the rows of the table as they come, and keeps them for --json."""

    def __init__(self) -> None:
        self.results: list[dict[str, Any]] = []
        self.digests: dict[str, str] = {}

    def add(self, part: str, what: str, measured: str, note: str = "", **facts: Any) -> None:
        self.results.append(
            {"part": part, "what": what, "measured": measured, "note": note, **facts}
        )
        print(f"{part:<3} {what:<42} {measured:<34} {note}", flush=True)

    def add_timings(
        self, part: str, what: str, rows: int, timings: dict[str, Timing], note: str = ""
    ) -> None:
        """Adds a row for each side; its ratio is the peer's CPU time divided by TopicDB's."""
        ours = timings[TopicDb.name].cpu
        for name, timing in timings.items():
            ratio = "" if name == TopicDb.name else f"TopicDB is {timing.cpu / ours:.2f} x as fast"
            micros = timing.cpu / rows * 1e6
            measured = f"{micros:.3f} us CPU a message"
            self.add(
                part,
                f"{what}, {name}",
                measured,
                "; ".join(filter(None, (ratio, note))),
                group=what,
                side=name,
                short=short(micros, timing.cpu / ours, ours=name == TopicDb.name),
                cpu_s=timing.cpu_s,
                wall_s=timing.wall_s,
                rows=rows,
            )

    def finish(self, digests_of: str, file: Path | None, **facts: Any) -> None:
        """Prints the digests, and writes all results to ``file`` if it is given."""
        print(f"\nDigests of {digests_of}:")
        for what, value in self.digests.items():
            print(f"  {value}  {what}")
        if file is not None:
            document = {**facts, "digests": self.digests, "results": self.results}
            file.write_text(json.dumps(document, indent=2) + "\n")

    def same_digest(self, what: str, expected: str, found: str) -> None:
        """Stops the program if two sides have read different messages: their times mean nothing."""
        if expected != found:
            raise SystemExit(f"{what}: digest {found}, expected {expected}: not the same messages")
        self.digests[what] = found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="normal")
    parser.add_argument("--seed", type=int, default=workloads.SEED)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--readme", type=Path, metavar="FILE", help="replace the figures in it")
    options = parser.parse_args(arguments)
    facts = machine_facts(options)
    print_facts(facts)
    report = Report()
    loads = {
        name: workloads.make(name, SIZES[options.size], options.seed) for name in workloads.MAKERS
    }
    for load in loads.values():
        report.digests[load.name] = load.digest
    with tempfile.TemporaryDirectory(prefix="topicdb-bench-") as directory:
        measure_all(report, loads, Path(directory), options.rounds)
    report.finish("what was appended, and of what each side read", options.json, facts=facts)
    if options.readme:
        replace_figures(options.readme, facts, report.results)


def measure_all(report: Report, loads: dict[str, Workload], directory: Path, rounds: int) -> None:
    for name in ("metrics", "fleet"):
        load = loads[name]
        append(report, "P1", load, directory, rounds, write_rows)
        append(report, "P2", load, directory, rounds, write_tables)
    flushing(report, loads["metrics"], directory, rounds)
    full_scan(report, loads["metrics"], directory, rounds)
    wildcard(report, loads["fleet"], directory, rounds)
    one_topic(report, loads["metrics"], directory, rounds)
    for load in loads.values():
        disk(report, load, directory)
    open_and_memory(report, loads["metrics"], directory, rounds)


def write_rows(store: Store, load: Workload) -> None:
    for batch in load.batches():
        store.append_rows(batch)


def write_tables(store: Store, load: Workload) -> None:
    for table in load.tables():
        store.append_table(table)


def append(
    report: Report,
    part: str,
    load: Workload,
    directory: Path,
    rounds: int,
    write: Callable[[Store, Workload], None],
) -> None:
    """Measures appends alone, into a new database each time, without opening and closing."""
    timings = {kind.name: Timing() for kind in STORES}
    list(load.batches()), list(load.tables())  # makes them before the clock starts
    for round_number in range(rounds):
        first = round_number % len(STORES)
        for kind in STORES[first:] + STORES[:first]:
            with tempfile.TemporaryDirectory(dir=directory) as place:
                store = kind(Path(place) / "data")
                once(partial(write, store, load), timings[kind.name])
                if round_number == 0:
                    found = digest(store.scan_rows())
                    report.same_digest(f"{part} {load.name} {kind.name}", load.digest, found)
                store.close()
    how = "tuples" if part == "P1" else "Arrow"
    report.add_timings(part, f"append {how}, {load.name}", len(load), timings)
    if part == "P1":
        ratio = timings[Skipstream.name].cpu / timings[TopicDb.name].cpu
        report.add("P3", f"append, columnar by skipstream, {load.name}", f"{ratio:.2f} x as fast")


def flushing(report: Report, load: Workload, directory: Path, rounds: int) -> None:
    """Measures appends together with the work that they leave for later: sealing, writing files."""
    kinds: tuple[type[Store], ...] = (TopicDb, RocksDict)
    timings = {kind.name: Timing() for kind in kinds}
    for round_number in range(rounds):
        for kind in kinds[:: 1 if round_number % 2 else -1]:
            with tempfile.TemporaryDirectory(dir=directory) as place:
                store = kind(Path(place) / "data")

                def write_and_flush(store: Store = store) -> None:
                    write_rows(store, load)
                    store.flush()

                once(write_and_flush, timings[kind.name])
                store.close()
    report.add_timings("P1", f"append tuples and flush, {load.name}", len(load), timings)


@contextmanager
def filled(kind: type[Store], load: Workload, directory: Path) -> Iterator[Store]:
    """Makes a store that has the whole workload, and removes it at the end of the block."""
    with tempfile.TemporaryDirectory(dir=directory) as place:
        store = kind(Path(place) / "data")
        for table in load.tables():
            store.append_table(table)
        store.flush()
        try:
            yield store
        finally:
            store.close()


@contextmanager
def all_filled(load: Workload, directory: Path) -> Iterator[dict[str, Store]]:
    with ExitStack() as stack:
        yield {kind.name: stack.enter_context(filled(kind, load, directory)) for kind in STORES}


def full_scan(report: Report, load: Workload, directory: Path, rounds: int) -> None:
    with all_filled(load, directory) as stores:
        for name, store in stores.items():
            found = digest(table_rows(store.scan_table()))
            report.same_digest(f"P4 {load.name} {name}", load.digest, found)
        arrow = interleaved({name: store.scan_table for name, store in stores.items()}, rounds)
        tuples = interleaved({name: _exhaust(store) for name, store in stores.items()}, rounds)
    report.add_timings("P4", f"scan to Arrow, {load.name}", len(load), arrow)
    report.add_timings("P4", f"scan to tuples, {load.name}", len(load), tuples)


def _exhaust(store: Store) -> Callable[[], int]:
    return lambda: sum(1 for _ in store.scan_rows())


def wildcard(report: Report, load: Workload, directory: Path, rounds: int) -> None:
    times = load.columns.timestamps
    start, end = int(times[len(load) * 45 // 100]), int(times[len(load) * 55 // 100])
    pattern = fleet.FILTER.replace("+", "[^/]*")
    where = (
        "timestamp >= make_timestamptz(CAST(? AS BIGINT))"
        " AND timestamp < make_timestamptz(CAST(? AS BIGINT))"
        " AND starts_with(topic, ?) AND regexp_full_match(topic, ?)"
    )
    prefix = fleet.FILTER.partition("+")[0]
    with filled(TopicDb, load, directory) as ours, filled(DuckDb, load, directory) as theirs:
        assert isinstance(ours, TopicDb) and isinstance(theirs, DuckDb)
        sides: dict[str, Callable[[], Any]] = {
            TopicDb.name: lambda: ours.database.scan(fleet.FILTER, start=start, end=end).to_arrow(),
            DuckDb.name: lambda: theirs.query(where, [start, end, prefix, pattern]),
        }
        read = {name: table_rows(side()) for name, side in sides.items()}
        expected = digest(
            row
            for row in load.rows
            if start <= row[1] < end and topicdb.topic_matches(fleet.FILTER, row[0])
        )
        for name, rows in read.items():
            report.same_digest(f"P5 {load.name} {name}", expected, digest(rows))
        timings = interleaved(sides, rounds)
        with appending(ours, load):
            busy = interleaved(sides, rounds)
    found = len(read[TopicDb.name])
    note = f"{found} of {len(load)} messages"
    report.add_timings("P5", "+ filter over 10 % of the time, fleet", max(found, 1), timings, note)
    ratio = busy[DuckDb.name].wall / busy[TopicDb.name].wall
    report.add(
        "P5",
        "the same while messages are appended",
        f"{busy[TopicDb.name].wall * 1e3:.2f} ms wall",
        f"TopicDB is {ratio:.2f} x as fast; some 10,000 messages/s into the database that it reads",
        wall_s={name: timing.wall_s for name, timing in busy.items()},
    )


@contextmanager
def appending(store: TopicDb, load: Workload) -> Iterator[None]:
    """Appends copies of the messages, at later times, in a thread while the block runs."""
    stop = threading.Event()
    later = int(load.columns.timestamps.max()) + 1
    batches = [[(t, later + when, v) for t, when, v in batch] for batch in load.batches(500)]

    def run() -> None:
        for batch in itertools.cycle(batches):
            if stop.wait(0.05):
                return
            store.append_rows(batch)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def one_topic(report: Report, load: Workload, directory: Path, rounds: int) -> None:
    topic = load.columns.topics[len(load) // 2]
    expected = digest(row for row in load.rows if row[0] == topic)
    with (
        filled(TopicDb, load, directory) as store,
        filled(Skipstream, load, directory) as skipstream,
    ):
        assert isinstance(store, TopicDb) and isinstance(skipstream, TopicDb)
        stores = {"one": store, "skipstream": skipstream}
        sides: dict[str, Callable[[], Any]] = {"all": store.scan_table}
        for name, side in stores.items():
            found = table_rows(side.database.scan(topic).to_arrow())
            report.same_digest(f"P6 {load.name} one topic {name}", expected, digest(found))
            sides[name] = partial(_read_topic, side.database, topic)
        timings = interleaved(sides, rounds)
    one, full = timings["one"], timings["all"]
    report.add(
        "P6",
        f"one topic of {len(set(load.columns.topics))}, {load.name}",
        f"{one.cpu * 1e3:.3f} ms CPU",
        f"{full.cpu / one.cpu:.1f} x faster than the full scan of {len(load)} messages",
        one_cpu_s=one.cpu_s,
        full_cpu_s=full.cpu_s,
    )
    report.add(
        "P6",
        "one topic, columnar by skipstream",
        f"{one.cpu / timings['skipstream'].cpu:.2f} x the time",
        "the target is for 10 M messages: make bench-large",
    )


def _read_topic(database: topicdb.Database, topic: str) -> Any:
    return database.scan(topic).to_arrow()


def disk(report: Report, load: Workload, directory: Path) -> None:
    """Measures the files after close. Nothing has compacted them: users find the same files."""
    for kind in STORES:
        with tempfile.TemporaryDirectory(dir=directory) as place:
            store = kind(Path(place) / "data")
            for table in load.tables():
                store.append_table(table)
            store.close()
            used = disk_bytes(Path(place))
        report.add(
            "P7",
            f"disk by raw bytes, {load.name}, {kind.name}",
            f"{used / load.raw_bytes:.3f}",
            f"{used} of {load.raw_bytes} bytes",
            group=f"disk by raw bytes, {load.name}",
            side=kind.name,
            short=f"{used / load.raw_bytes:.2f}",
            disk_bytes=used,
            raw_bytes=load.raw_bytes,
        )


# The scan has a process of its own: in this one it would reuse memory that other parts have freed,
# and the peak would not show its growth.
SCAN_CHILD = """
import sys
import topicdb
from measure import peak_rss_bytes, rss_bytes
with topicdb.open(sys.argv[1], mode="r") as database:
    before = rss_bytes()
    count = sum(len(batch) for batch in database.scan().batches())
    print(count, peak_rss_bytes() - before)
"""


def open_and_memory(report: Report, load: Workload, directory: Path, rounds: int) -> None:
    with tempfile.TemporaryDirectory(dir=directory) as place:
        path = Path(place) / "data"
        with topicdb.open(path) as database:
            for table in load.tables():
                database.append(table)
        size = disk_bytes(path)
        took = []
        for _ in range(rounds):
            began = time.perf_counter()
            database = topicdb.open(path)
            took.append(time.perf_counter() - began)
            database.close()
        child = subprocess.run(
            [sys.executable, "-c", SCAN_CHILD, str(path)],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
            capture_output=True,
            text=True,
            check=True,
        )
    count, growth = map(int, child.stdout.split())
    if count != len(load):
        raise SystemExit(f"P8: the scan read {count} messages of {len(load)}")
    note = f"at {size} bytes on disk; at 10 GB: make bench-large"
    opened = sorted(took)[len(took) // 2]
    report.add("P8", f"open, {load.name}", f"{opened * 1e3:.2f} ms wall", note, wall_s=took)
    report.add(
        "P8",
        f"memory of a full scan, {load.name}",
        f"{growth / 2**20:.1f} MiB above idle",
        note,
        growth_bytes=growth,
    )


def machine_facts(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "cpu": _cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES} | {"SQLite": sqlite3.sqlite_version},
        "size": options.size,
        "rows": SIZES[options.size],
        "rounds": options.rounds,
        "seed": options.seed,
        "durability": "handed to the operating system, no fsync, on every side",
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def print_facts(facts: dict[str, Any]) -> None:
    for name, value in facts.items():
        text = ", ".join(f"{k} {v}" for k, v in value.items()) if name == "versions" else value
        print(f"{name}: {text}")
    print(
        "Times are medians of CPU time over all threads; a ratio above 1 says TopicDB took less.\n"
    )


if __name__ == "__main__":
    main()
