"""Measures replays to endpoints beside scans and live ingest, and several shards: R1 to R3.

python bench/python/replay_bench.py [--size small|normal] [--only R1,R2,R3] [--json FILE]

R1  replays a log to 1, 10 and 100 queues at once. One thread takes batches from the queues in turns
    and acknowledges them; from one queue it also takes single messages. Beside: `scan` of the same.
R2  appends Arrow data as fast as it can, alone and while the log is replayed to 1, 10 and 100
    queues again and again; it shows how much of its speed ingest keeps.
R3  appends tuples and Arrow data from four threads to databases of 1, 2 and 4 shards, and to one of
    one shard whose log gives everything to one client as it comes. It shows whether a log would be
    faster with several shards: not while its client is slower than one shard.
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
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
import workloads
from measure import ROUNDS, Timing, interleaved
from report import Report
from workloads import digest
from workloads.rows import table_rows

import topicdb
from topicdb import replay

SIZES = {"small": 4_000, "normal": 500_000}
ENDPOINTS = (1, 10, 100)
SHARDS = (1, 2, 4)
THREADS = 4
BATCH = 1_000
FAN_OUT_TIMES = 10  # deliveries to all queues together are about this many times the rows


def fill(db: topicdb.Database, table: pa.Table) -> None:
    for at in range(0, table.num_rows, 10_000):
        db.append(table.slice(at, 10_000))
    db.flush()


def drain(flows: Iterable[replay.Flow], each: int) -> list[topicdb.Batch]:
    """Takes and acknowledges batches in turns until each flow has had ``each`` messages.

    Returns the batches of the first flow.
    """
    left = dict.fromkeys(flows, each)
    kept = []
    first = next(iter(left))
    while left:
        for flow in list(left):
            batch = flow.receive_batch(BATCH, timeout=30)
            assert batch is not None
            if flow is first:
                kept.append(batch.batch)
            flow.ack(batch)
            left[flow] -= len(batch)
            if left[flow] <= 0:
                del left[flow]
    return kept


def replay_to(queues: list[replay.Endpoint], each: int) -> list[topicdb.Batch]:
    """Replays to all queues at once and drains them; returns the batches of the first queue."""
    flows = []
    for queue in queues:
        queue.replay()
        flows.append(queue.bind(window=10 * BATCH))
    kept = drain(flows, each)
    for flow in flows:
        flow.close()
    return kept


def scan_batches(db: topicdb.Database) -> int:
    return sum(len(batch) for batch in db.scan("#").batches())


def scan_tuples(db: topicdb.Database) -> int:
    return sum(1 for _ in db.scan("#"))


def one_by_one(queue: replay.Endpoint, each: int) -> int:
    queue.replay()
    with queue.bind(window=10 * BATCH) as flow:
        count = 0
        while count < each:
            message = flow.receive(timeout=30)
            assert message is not None
            flow.ack(message)
            count += 1
    return count


def digest_of(batches: Iterable[topicdb.Batch]) -> str:
    return digest(table_rows(pa.Table.from_batches([pa.record_batch(one) for one in batches])))


def fan_out(report: Report, rows: int, rounds: int, place: Path) -> None:
    table = workloads.make("metrics", rows, workloads.SEED).table
    scans: Timing | None = None
    for count in ENDPOINTS:
        each = min(rows, FAN_OUT_TIMES * rows // count) // 10_000 * 10_000 or rows
        with topicdb.open(place / f"replay{count}") as db, replay.open(db) as log:
            fill(db, table.slice(0, each))
            queues = [log.queue(f"q{n}", "#") for n in range(count)]
            sides: dict[str, Callable[[], object]] = {
                "scan, batches": partial(scan_batches, db),
                f"{count} queues, batches": partial(replay_to, queues, each),
            }
            if count == 1:
                sides["scan, tuples"] = partial(scan_tuples, db)
                sides["1 queue, messages"] = partial(one_by_one, queues[0], each)
                report.digests["R1 scan"] = digest_of(db.scan("#").batches())
                report.digests["R1 replay"] = digest_of(replay_to(queues, each))
            timings = interleaved(sides, rounds)
            scans = scans or timings["scan, batches"]
            _report(report, timings, each, count)


def _report(report: Report, timings: dict[str, Timing], each: int, count: int) -> None:
    for name, timing in timings.items():
        times = count if "queue" in name else 1
        base = timings["scan, tuples" if "messages" in name else "scan, batches"]
        speed = base.wall * times / timing.wall
        report.add(
            "R1",
            name,
            f"{timing.cpu / each / times * 1e6:.3f} us CPU a message",
            f"{each / timing.wall * times:,.0f}/s; {speed:.2f} x the speed of that scan, "
            f"{base.cpu * times / timing.cpu:.2f} x by CPU",
            cpu_s=timing.cpu_s,
            wall_s=timing.wall_s,
        )


@contextmanager
def replaying(queues: list[replay.Endpoint], taken: list[int]) -> Iterator[None]:
    """Replays to all queues again and again while the block runs.

    A thread takes from the queues in turns, and adds the number of messages to ``taken[0]``.
    """
    is_over = threading.Event()

    def run() -> None:
        while not is_over.is_set():
            flows = []
            for queue in queues:
                queue.replay()
                flows.append(queue.bind(window=10 * BATCH))
            complete = replay.State.COMPLETE
            while not is_over.is_set() and any(queue.state is not complete for queue in queues):
                for flow in flows:
                    batch = flow.receive_batch(BATCH, timeout=0.01)
                    if batch is not None:
                        flow.ack(batch)
                        taken[0] += len(batch)
            for flow in flows:
                flow.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def ingest(db: topicdb.Database, table: pa.Table, seconds: float) -> float:
    """Appends the table again and again for ``seconds``; returns the messages per second."""
    begin = time.perf_counter()
    count = 0
    while (passed := time.perf_counter() - begin) < seconds:
        db.append(table)
        count += table.num_rows
    return count / passed


def beside_ingest(report: Report, rows: int, rounds: int, seconds: float, place: Path) -> None:
    table = workloads.make("metrics", rows, workloads.SEED).table
    part = table.slice(0, min(rows, 5_000))
    speeds: dict[int, list[float]] = {count: [] for count in (0, *ENDPOINTS)}
    delivered: dict[int, list[float]] = {count: [] for count in ENDPOINTS}
    for number in range(rounds):
        for count in speeds:
            with topicdb.open(place / f"ingest{number}-{count}") as db, replay.open(db) as log:
                fill(db, table.slice(0, rows // 5))
                queues = [log.queue(f"q{n}", "#") for n in range(count)]
                taken = [0]
                gc.collect()
                if count == 0:
                    speeds[count].append(ingest(db, part, seconds))
                    continue
                with replaying(queues, taken):
                    speeds[count].append(ingest(db, part, seconds))
                delivered[count].append(taken[0] / seconds)
    alone = statistics.median(speeds[0])
    for count, found in speeds.items():
        note = "" if count == 0 else f"; {statistics.median(delivered[count]):,.0f}/s replayed"
        report.add(
            "R2",
            "ingest alone" if count == 0 else f"ingest, replays to {count}",
            f"{statistics.median(found):,.0f} messages/s",
            f"{statistics.median(found) / alone:.2f} x of alone{note}",
            speeds=found,
        )


def append_all(db: topicdb.Database, parts: list[Any]) -> None:
    """Appends all parts, from ``THREADS`` threads, each of which takes the next one."""
    left = iter(parts)
    lock = threading.Lock()

    def run() -> None:
        while True:
            with lock:
                part = next(left, None)
            if part is None:
                return
            db.append(part)

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def append_speed(path: Path, shards: int, parts: list[Any], rows: int) -> float:
    """Returns how many messages a second a new database takes."""
    with topicdb.open(path, shards=shards) as db:
        gc.collect()
        begin = time.perf_counter()
        append_all(db, parts)
        return rows / (time.perf_counter() - begin)


def live_speed(path: Path, parts: list[Any], rows: int) -> tuple[float, str]:
    """Returns how many messages a second come to a client of a log, and their digest.

    They are appended as fast as that goes; the time ends when the client has acknowledged all.
    """
    with topicdb.open(path) as db, replay.open(db) as log:
        with log.queue("q", "#", spool=100 * BATCH).bind(window=10 * BATCH) as flow:
            gc.collect()
            begin = time.perf_counter()
            thread = threading.Thread(target=append_all, args=(db, parts))
            thread.start()
            kept = drain([flow], rows)
            speed = rows / (time.perf_counter() - begin)
            thread.join()
        return speed, digest_of(kept)


def by_shards(report: Report, rows: int, rounds: int, place: Path) -> None:
    table = workloads.make("metrics", rows, workloads.SEED).table
    arrow: list[Any] = [table.slice(at, 5_000) for at in range(0, rows, 5_000)]
    tuples: list[Any] = [list(table_rows(part)) for part in arrow]
    for kind, parts in (("Arrow", arrow), ("tuples", tuples)):
        speeds: dict[int, list[float]] = {shards: [] for shards in SHARDS}
        live: list[float] = []
        for number in range(rounds):
            for shards in SHARDS:
                path = place / f"shards-{kind}-{number}-{shards}"
                speeds[shards].append(append_speed(path, shards, parts, rows))
            speed, report.digests[f"R3 {kind}"] = live_speed(
                place / f"live-{kind}-{number}", parts, rows
            )
            live.append(speed)
        alone = statistics.median(speeds[1])
        for shards, found in speeds.items():
            report.add(
                "R3",
                f"append {kind}, {shards} shard{'s' if shards > 1 else ''}",
                f"{statistics.median(found):,.0f} messages/s",
                f"{statistics.median(found) / alone:.2f} x of one shard",
                speeds=found,
            )
        report.add(
            "R3",
            f"append {kind}, live to 1 client",
            f"{statistics.median(live):,.0f} messages/s",
            f"{statistics.median(live) / alone:.2f} x of what one shard takes",
            speeds=live,
        )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="normal")
    parser.add_argument("--only", default="R1,R2,R3")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--directory", type=Path, help="where to make the databases")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    rows = SIZES[options.size]
    report = Report()
    print(f"{rows:,} messages, seed {workloads.SEED}, RocksDB {topicdb._core.ROCKSDB_VERSION}")
    with tempfile.TemporaryDirectory(prefix="topicdb-replay-", dir=options.directory) as place:
        only = options.only.split(",")
        if "R1" in only:
            fan_out(report, rows, options.rounds, Path(place))
        if "R2" in only:
            seconds = 0.2 if options.size == "small" else 3.0
            beside_ingest(report, rows, options.rounds, seconds, Path(place))
        if "R3" in only:
            by_shards(report, rows, options.rounds, Path(place))
    if len(set(report.digests.values())) > 1:
        raise SystemExit("the sides have given different messages")
    report.finish("what all sides gave", options.json, rows=rows)


if __name__ == "__main__":
    main()
