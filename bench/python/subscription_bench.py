"""Measures subscriptions: fan-out, latency, catching up beside a scan, sessions: rows S1 to S4.

python bench/python/subscription_bench.py [--size small|normal] [--only S1,S2] [--json FILE]

S1  delivers the same messages to 1, 10, 100 and 1,000 subscribers, which one thread reads in turns:
    the CPU time of a delivered message, from history and live, and how often the log was read.
S2  commits 1,000 and 50,000 messages a second in one thread: the time from before each append
    until a subscriber in another thread has the messages.
S3  reads with one subscriber from the oldest message on, beside `scan` and `tail` of the same.
S4  makes and leaves durable sessions, then resumes and leaves them; each has a filter of its own.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
import workloads
from measure import ROUNDS, interleaved, rss_bytes
from report import Report
from workloads import digest
from workloads.rows import table_rows

import topicdb

SIZES = {"small": 4_000, "normal": 1_000_000}
SUBSCRIBERS = (1, 10, 100, 1_000)
LIVE_BATCH = 1_000
WIDE = 100_000  # the window of a subscriber of S1


def drain(subscriptions: Iterable[topicdb.Subscription], each: int) -> None:
    """Takes and acknowledges deliveries in turns until each subscription has had ``each`` messages.

    Each subscription counts from its beginning, so a later call may go on with a larger ``each``.
    """
    waiting = list(subscriptions)
    while waiting:
        left = []
        for subscription in waiting:
            delivery = subscription.next(10)
            assert delivery is not None
            subscription.ack(delivery.seqno)
            if delivery.seqno < each:
                left.append(subscription)
        waiting = left


def count(side: Callable[[], Iterator[topicdb.Batch]]) -> int:
    return sum(len(batch) for batch in side())


def table_of(batches: Iterable[topicdb.Batch]) -> pa.Table:
    return pa.Table.from_batches([pa.record_batch(batch) for batch in batches])


def fan_out(report: Report, rows: int, rounds: int, place: Path) -> None:
    table = workloads.make("metrics", rows, workloads.SEED).table
    first: dict[str, float] = {}
    for count in SUBSCRIBERS:
        parts = max(1, min(rows, 20 * rows // count) // LIVE_BATCH)
        each = parts * LIVE_BATCH
        with topicdb.open(place / f"history{count}") as db:
            for at in range(0, each, 10 * LIVE_BATCH):
                db.append(table.slice(at, min(10 * LIVE_BATCH, each - at)))
            _fan_out(report, "history", db, count, each, rounds, first)
        with topicdb.open(place / f"live{count}") as db:
            _fan_out(report, "live", db, count, each, rounds, first, table)


def _fan_out(
    report: Report,
    what: str,
    db: topicdb.Database,
    count: int,
    each: int,
    rounds: int,
    first: dict[str, float],
    live: pa.Table | None = None,
) -> None:
    cpu, reads = [], []
    for _ in range(rounds):
        start = "earliest" if live is None else "latest"
        before = db.stats()["subscriptions"]
        gc.collect()
        began = time.process_time()
        subscriptions = [db.subscribe("#", start=start, window=WIDE) for _ in range(count)]
        append = 0.0
        if live is None:
            drain(subscriptions, each)
        else:
            for at in range(0, each, LIVE_BATCH):
                part = live.slice(at, LIVE_BATCH)
                appending = time.thread_time()
                db.append(part)
                append += time.thread_time() - appending
                drain(subscriptions, at + LIVE_BATCH)
        cpu.append((time.process_time() - began - append) / (each * count) * 1e6)
        after = db.stats()["subscriptions"]
        reads.append(sum(after[key] - before.get(key, 0) for key in ("catch_up_reads",)))
        if live is not None:
            reads[-1] = after["live_reads"] - before["live_reads"]
        while subscriptions:  # closing the last one frees the messages that the hub has kept
            subscriptions.pop().close()
    cost = statistics.median(cpu)
    first.setdefault(what, cost)
    report.add(
        "S1",
        f"{what}, {count:,} subscribers",
        f"{cost:.4f} us CPU a delivered message",
        f"{cost / first[what]:.2f} of that of one; {statistics.median(reads):.0f} reads"
        f" of {each:,} messages",
        cpu_us=cpu,
        reads=reads,
    )


def latency(report: Report, a_second: int, seconds: float, place: Path) -> None:
    batch = max(1, a_second // 1_000)
    value = bytes(100)
    sent: list[float] = []
    waits: list[float] = []
    with topicdb.open(place / f"latency{a_second}") as db, db.subscribe("#") as subscription:

        def write() -> None:
            begin = time.perf_counter()
            for number in range(int(seconds * a_second / batch)):
                pause = begin + number * batch / a_second - time.perf_counter()
                if pause > 0:
                    time.sleep(pause)
                rows = [(f"m/{number % 100}/{i}", None, value) for i in range(batch)]
                sent.append(time.perf_counter())
                db.append(rows)

        writer = threading.Thread(target=write)
        writer.start()
        seen = 0
        total = int(seconds * a_second / batch) * batch
        while seen < total:
            delivery = subscription.next(10)
            now = time.perf_counter()
            assert delivery is not None
            subscription.ack(delivery.seqno)
            for commit in range(-(-seen // batch), -(-delivery.seqno // batch)):
                waits.append((now - sent[commit]) * 1e3)
            seen = delivery.seqno
        writer.join()
    waits.sort()
    p50, p99 = waits[len(waits) // 2], waits[len(waits) * 99 // 100]
    report.add(
        "S2",
        f"{a_second:,} messages/s, commits of {batch}",
        f"p50 {p50:.2f} ms, p99 {p99:.2f} ms",
        f"longest {waits[-1]:.1f} ms, of {len(waits):,} commits",
        p50_ms=p50,
        p99_ms=p99,
    )


def catching_up(report: Report, rows: int, rounds: int, place: Path) -> None:
    table = workloads.make("metrics", rows, workloads.SEED).table
    with topicdb.open(place / "catching-up") as db:
        for at in range(0, rows, 10_000):
            db.append(table.slice(at, 10_000))
        db.flush()

        def follow(window: int) -> Iterator[topicdb.Batch]:
            with db.subscribe("#", start="earliest", window=window) as one:
                for delivery in one.deliveries():
                    yield delivery.batch
                    one.ack(delivery.seqno)
                    if delivery.seqno == rows:
                        return

        sides: dict[str, Callable[[], Iterator[topicdb.Batch]]] = {
            "scan": lambda: db.scan("#").batches(),
            "tail": lambda: db.tail("#", timeout=0).batches(),
            "window 1,000": lambda: follow(1_000),
            "window 10,000": lambda: follow(10_000),
        }
        for name, side in sides.items():
            report.digests[f"S3 {name}"] = digest(table_rows(table_of(side())))
        timings = interleaved({name: partial(count, side) for name, side in sides.items()}, rounds)
        for name, timing in timings.items():
            report.add(
                "S3",
                f"all of it, {name}",
                f"{timing.cpu / rows * 1e6:.3f} us CPU a message",
                f"{timings['scan'].cpu / timing.cpu:.2f} x the speed of the scan by CPU,"
                f" {timings['scan'].wall / timing.wall:.2f} x by the clock",
                cpu_s=timing.cpu_s,
                wall_s=timing.wall_s,
            )


def sessions(report: Report, count: int, place: Path) -> None:
    """Measures making and resuming ``count`` sessions, each with a filter of its own."""

    def each(step: Callable[[int], None]) -> None:
        gc.collect()
        before, wall, cpu = rss_bytes(), time.perf_counter(), time.process_time()
        for number in range(count):
            step(number)
        report.add(
            "S4",
            f"{step.__name__} {count:,} sessions",
            f"{(time.process_time() - cpu) / count * 1e6:.0f} us CPU each",
            f"{time.perf_counter() - wall:.1f} s; {(rss_bytes() - before) / count:.0f} B of memory"
            " each",
        )

    with topicdb.open(place / "sessions") as db:

        def make(number: int) -> None:
            with db.session(f"client-{number}") as session:
                session.subscribe(f"to/{number}/#")

        def resume(number: int) -> None:
            with db.session(f"client-{number}") as session:
                assert session.resumed

        each(make)
        db.append([(f"to/{number}/x", None, b"") for number in range(count)])
        db.flush()
        each(resume)
        got = 0
        for number in range(0, count, max(1, count // 100)):
            with db.session(f"client-{number}") as session:
                got += len(session.poll(timeout=10))
        assert got == len(range(0, count, max(1, count // 100)))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="normal")
    parser.add_argument("--only", default="S1,S2,S3,S4")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--directory", type=Path, help="where to make the databases")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    rows = SIZES[options.size]
    report = Report()
    print(f"{rows:,} messages, seed {workloads.SEED}, RocksDB {topicdb._core.ROCKSDB_VERSION}")
    with tempfile.TemporaryDirectory(prefix="topicdb-subscribe-", dir=options.directory) as place:
        only = options.only.split(",")
        if "S1" in only:
            fan_out(report, rows, options.rounds, Path(place))
        if "S2" in only:
            for a_second in (1_000, 50_000):
                latency(report, a_second, 1 if options.size == "small" else 10, Path(place))
        if "S4" in only:
            sessions(report, 1_000 if options.size == "small" else 100_000, Path(place))
        if "S3" in only:
            catching_up(report, rows, options.rounds, Path(place))
    if len(set(report.digests.values())) > 1:
        raise SystemExit("the sides have given different messages")
    report.finish("what all sides gave", options.json, rows=rows)


if __name__ == "__main__":
    main()
