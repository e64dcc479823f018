"""Measures a database of a server beside one that is open here: rows F1 to F5.

python bench/python/serve_bench.py [--size small|normal] [--only F1,F2] [--json FILE]

F1  appends Arrow data, 10,000 messages at a time.  F2  appends tuples in the same way.
F3  scans to Arrow.                                 F4  scans to tuples.
F5  appends one message at a time: in the foreground, in the background, and until a subscriber has
    the message.

The server is `topicdb serve` in a process of its own on the same machine. Its CPU time counts, too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
import workloads
from database_server import served
from measure import ROUNDS
from report import Report
from workloads import digest
from workloads.rows import table_rows

import topicdb

SIZES = {"small": 4_000, "normal": 500_000}
BATCH = 10_000
SINGLES = {"small": 50, "normal": 2_000}
_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def client_of(path: Path) -> Iterator[tuple[topicdb.Database, int]]:
    """Serves a database; yields a client of the server, and the server's process id."""
    with served(path) as (address, process), topicdb.connect(address) as db:
        yield db, process


def cpu_of(process: int | None) -> float:
    """Returns the CPU seconds of this process plus those of ``process``, if there is one."""
    own = time.process_time()
    if process is None:
        return own
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return own + (int(fields[11]) + int(fields[12])) / _TICKS


class Sides:
    """Measures both sides in turns; each round begins with the other side."""

    def __init__(self, place: Path, rounds: int, report: Report) -> None:
        self._place = place
        self._rounds = rounds
        self._report = report
        self._made = 0

    def path(self) -> Path:
        """Returns a path at which nothing is yet."""
        self._made += 1
        return self._place / f"db{self._made}"

    def measure(
        self,
        part: str,
        what: str,
        rows: int,
        here: Callable[[], Callable[[], None]],
        there: Callable[[], tuple[Callable[[], None], int]],
    ) -> None:
        """Measures the calls that ``here`` and ``there`` prepare, and adds a row for them.

        ``there`` also returns the process id of its server.
        """
        wall: dict[str, list[float]] = {"here": [], "there": []}
        cpu: dict[str, list[float]] = {"here": [], "there": []}
        for number in range(self._rounds):
            for side in ("here", "there")[:: 1 if number % 2 else -1]:
                work, process = (here(), None) if side == "here" else there()
                began, used = time.perf_counter(), cpu_of(process)
                work()
                wall[side].append(time.perf_counter() - began)
                cpu[side].append(cpu_of(process) - used)
        times = {side: statistics.median(values) for side, values in wall.items()}
        used_by = {side: statistics.median(values) for side, values in cpu.items()}
        self._report.add(
            part,
            what,
            f"{times['there'] / rows * 1e6:.3f} us a message",
            f"speed {times['here'] / times['there']:.2f} of that of here;"
            f" CPU {used_by['there'] / used_by['here']:.2f} times",
            speed=times["here"] / times["there"],
            cpu=used_by["there"] / used_by["here"],
        )


def appends(sides: Sides, report: Report, part: str, parts: list[object], rows: int) -> None:
    """Appends the same batches to a database here and to one there, both empty at first."""

    def put(db: topicdb.Database) -> None:
        for batch in parts:
            db.append(batch)  # type: ignore[arg-type]

    with topicdb.open(sides.path()) as db, client_of(sides.path()) as (remote, process):
        what = "append Arrow" if part == "F1" else "append tuples"
        sides.measure(
            part, what, rows, lambda: partial(put, db), lambda: (partial(put, remote), process)
        )
        found = [_once(one.scan().to_arrow(), rows) for one in (db, remote)]
        report.digests[f"{part} here"], report.digests[f"{part} there"] = found


def _once(table: pa.Table, rows: int) -> str:
    """Returns a digest of each message once, of a table that has each once for every round."""
    rounds = table.num_rows // rows
    order = table.sort_by([("topic", "ascending"), ("timestamp", "ascending")])
    return digest(table_rows(order.take(pa.array(range(0, rows * rounds, rounds)))))


def scans(sides: Sides, report: Report, only: list[str], table: pa.Table) -> None:
    """Measures scans of messages that are stored and sealed."""
    path = sides.path()
    with topicdb.open(path) as db:
        for at in range(0, table.num_rows, BATCH):
            db.append(table.slice(at, BATCH))
        db.flush()
    copy = sides.path()
    topicdb.restore(path, copy)
    with topicdb.open(path) as db, client_of(copy) as (remote, process):

        def to_arrow(one: topicdb.Database) -> None:
            one.scan().to_arrow()

        def to_tuples(one: topicdb.Database) -> None:
            for _ in one.scan():
                pass

        for part, what, read in (
            ("F3", "scan to Arrow", to_arrow),
            ("F4", "scan to tuples", to_tuples),
        ):
            if part in only:
                sides.measure(
                    part,
                    what,
                    table.num_rows,
                    lambda read=read: partial(read, db),  # type: ignore[misc]
                    lambda read=read: (partial(read, remote), process),  # type: ignore[misc]
                )
        for name, one in (("here", db), ("there", remote)):
            report.digests[f"scan {name}"] = _once(one.scan().to_arrow(), table.num_rows)


def singles(sides: Sides, report: Report, count: int) -> None:
    """Measures appends of one message at a time."""

    def one_by_one(db: topicdb.Database) -> None:
        for number in range(count):
            db.append([("a/b", number, b"value")])

    def in_background(db: topicdb.Database) -> None:
        futures = [db.append_async([("a/b", number, b"value")]) for number in range(count)]
        futures[-1].result()

    def delivered(db: topicdb.Database, name: str) -> None:
        with db.subscribe("a/b") as messages:
            times = []
            for number in range(count):
                began = time.perf_counter()
                db.append([("a/b", number, b"value")])
                delivery = messages.next(10)
                assert delivery is not None
                times.append(time.perf_counter() - began)
                messages.ack(delivery.seqno)
        times.sort()
        p50, p99 = times[len(times) // 2] * 1e3, times[len(times) * 99 // 100] * 1e3
        report.add(
            "F5", f"append and delivery, {name}", f"p50 {p50:.2f} ms, p99 {p99:.2f} ms", p50=p50
        )

    with topicdb.open(sides.path()) as db, client_of(sides.path()) as (remote, process):
        for what, work in (("append", one_by_one), ("append_async", in_background)):
            sides.measure(
                "F5",
                f"{what}, one message each",
                count,
                lambda work=work: partial(work, db),  # type: ignore[misc]
                lambda work=work: (partial(work, remote), process),  # type: ignore[misc]
            )
        delivered(db, "here")
        delivered(remote, "there")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="normal")
    parser.add_argument("--only", default="F1,F2,F3,F4,F5")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--directory", type=Path, help="where to make the databases")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    rows, only = SIZES[options.size], options.only.split(",")
    report = Report()
    print(f"{rows:,} messages, seed {workloads.SEED}, RocksDB {topicdb._core.ROCKSDB_VERSION}")
    table = workloads.make("metrics", rows, workloads.SEED).table
    with tempfile.TemporaryDirectory(prefix="topicdb-serve-", dir=options.directory) as place:
        sides = Sides(Path(place), options.rounds, report)
        batches = [table.slice(at, BATCH) for at in range(0, rows, BATCH)]
        if "F1" in only:
            appends(sides, report, "F1", list(batches), rows)
        if "F2" in only:
            appends(sides, report, "F2", [list(table_rows(batch)) for batch in batches], rows)
        if "F3" in only or "F4" in only:
            scans(sides, report, only, table)
        if "F5" in only:
            singles(sides, report, SINGLES[options.size])
    if len(set(report.digests.values())) > 1:
        raise SystemExit(f"the sides have different messages: {report.digests}")
    report.finish("what both sides have", options.json, rows=rows)


if __name__ == "__main__":
    main()
