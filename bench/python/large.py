"""Measures how cost, opening and memory grow with a database: `make bench-large` runs it.

python bench/python/large.py [--millions 10] [--skipstream] [--directory DIR] [--json FILE]

The workload is `metrics`: 320,000 of its messages, appended again and again at later times.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
import pyarrow.compute as pc
import workloads
from workloads import metrics
from workloads.rows import BATCH_ROWS, SCHEMA

import topicdb

CYCLE_ROWS = 10 * metrics.TOPICS
STEPS = 10
ROUNDS = 5
IN_CHILD = """
import sys, time
import topicdb
from measure import peak_rss_bytes, rss_bytes
began = time.perf_counter()
with topicdb.open(sys.argv[1], mode=sys.argv[2]) as database:
    took = time.perf_counter() - began
    before = rss_bytes()
    count = sum(len(batch) for batch in database.scan().batches()) if sys.argv[3] == "scan" else 0
    print(took, count, peak_rss_bytes() - before)
"""


def batches(rows: int, seed: int) -> Iterator[pa.Table]:
    """Makes tables of ``rows`` messages in all; each cycle repeats the messages at later times."""
    cycle = workloads.make("metrics", CYCLE_ROWS, seed).table
    times = cycle["timestamp"].cast(pa.int64())
    period = CYCLE_ROWS // metrics.TOPICS * metrics.PERIOD_US
    for first in range(0, rows, CYCLE_ROWS):
        later = pc.add(times, first // CYCLE_ROWS * period).cast(SCHEMA.field("timestamp").type)
        table = cycle.set_column(1, SCHEMA.field("timestamp"), later)
        for start in range(0, min(CYCLE_ROWS, rows - first), BATCH_ROWS):
            yield table.slice(start, min(BATCH_ROWS, rows - first - start))


def fill(path: Path, rows: int, seed: int, **options: Any) -> list[dict[str, float]]:
    """Appends ``rows`` messages; prints and returns, for each tenth, the time per message."""
    steps: list[dict[str, float]] = []
    with topicdb.open(path, **options) as database:
        done, began, cpu = 0, time.perf_counter(), time.process_time()
        for table in batches(rows, seed):
            database.append(table)
            done += len(table)
            if done * STEPS // rows > len(steps):
                size = rows / STEPS
                now, now_cpu = time.perf_counter(), time.process_time()
                step = {
                    "messages": done,
                    "cpu_us": (now_cpu - cpu) / size * 1e6,
                    "wall_us": (now - began) / size * 1e6,
                }
                steps.append(step)
                print(
                    f"append  up to {done:>11,}: {step['cpu_us']:.3f} us CPU,"
                    f" {step['wall_us']:.3f} us wall a message",
                    flush=True,
                )
                began, cpu = now, now_cpu
        database.flush()
    return steps


def in_child(path: Path, mode: str, what: str) -> tuple[float, int, int]:
    """Opens the database in a process of its own, which scans it if ``what`` is "scan".

    Returns the seconds of opening, the number of messages read, and the peak of memory above that
    after opening, in bytes.
    """
    done = subprocess.run(
        [sys.executable, "-c", IN_CHILD, str(path), mode, what],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    took, count, growth = done.stdout.split()
    return float(took), int(count), int(growth)


def seconds(call: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Returns the median CPU seconds of ``call``."""
    times = []
    for _ in range(rounds):
        began = time.process_time()
        call()
        times.append(time.process_time() - began)
    return statistics.median(times)


def one_topic(path: Path, rows: int) -> float:
    """Returns the CPU seconds of reading one topic, after a check that all its messages come."""
    topic = metrics.topic(4_711)
    with topicdb.open(path, mode="r") as database:
        found = database.scan(topic).to_arrow().num_rows
        assert abs(found - rows / metrics.TOPICS) <= 1, found
        print(f"          {database.explain(topic)}")
        return seconds(lambda: database.scan(topic).to_arrow())


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--millions", type=float, default=10)
    parser.add_argument("--skipstream", action="store_true", help="the same there, for P6")
    parser.add_argument("--directory", type=Path, help="where to make the databases")
    parser.add_argument("--seed", type=int, default=workloads.SEED)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    rows = int(options.millions * 1e6)
    result: dict[str, Any] = {"rows": rows, "seed": options.seed}
    with tempfile.TemporaryDirectory(prefix="topicdb-large-", dir=options.directory) as place:
        path = Path(place) / "columnar"
        result["append"] = fill(path, rows, options.seed)
        used = sum(f.stat().st_blocks * 512 for f in path.rglob("*") if f.is_file())
        result["disk_bytes"] = used
        print(f"disk      {used:,} bytes, {used / rows:.1f} a message")
        result["open_s"] = [in_child(path, mode, "open")[0] for mode in ("rw", "r")]
        print("open      {:.3f} s for writing, {:.3f} s for reading".format(*result["open_s"]))
        _, count, growth = in_child(path, "r", "scan")
        assert count == rows, count
        result["scan_memory_bytes"] = growth
        print(f"scan      {growth / 2**20:.1f} MiB above idle")
        one = result["one_topic_s"] = one_topic(path, rows)
        with topicdb.open(path, mode="r") as database:
            full = seconds(lambda: sum(map(len, database.scan().batches(rows=100_000))), 1)
        result["full_scan_s"] = full
        print(f"one topic {one * 1e3:.2f} ms CPU, full scan {full:.2f} s: {full / one:.0f} x")
        if options.skipstream:
            other = Path(place) / "skipstream"
            result["append_skipstream"] = fill(other, rows, options.seed, layout="skipstream")
            theirs = result["one_topic_skipstream_s"] = one_topic(other, rows)
            print(
                f"one topic {theirs * 1e3:.2f} ms CPU in skipstream: {one / theirs:.2f} x of that"
            )
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
