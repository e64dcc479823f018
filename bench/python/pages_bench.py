"""Measures scans with and without values, in open and ended generations.

python bench/python/pages_bench.py [--rows 1e5,4e5,1.6e6] [--rounds 5] [--early DIRECTORY]
    [--json FILE]

Sealed pages keep keys and values apart, so a scan without values leaves them on the disk. To
compare that with pages of an earlier version, let that version write its databases with `--write
DIRECTORY`, and give the directory as `--early`: both are then read in turns, in one run.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import workloads
from measure import ROUNDS, Timing, interleaved
from report import Report
from stores import disk_bytes, wait_for_sealing
from workloads import Workload, metrics

import topicdb

SIZES = (100_000, 400_000, 1_600_000)
BATCH = 10_000  # messages of an append
KEYS = ["topic", "timestamp"]
DIGEST_ROWS = 20_000
CODECS = ("LZ4", "Zstandard")


def write(path: Path, size: int, seed: int, codec: str) -> None:
    """Writes a database all of whose messages are sealed."""
    table = Workload("metrics", metrics.make(size, seed)).table
    with topicdb.open(path, maintenance_interval=None) as db:
        for first in range(0, size, BATCH):
            db.append(table.slice(first, BATCH))
        db.flush()
        if codec == "Zstandard":
            db.rotate()
        wait_for_sealing(db)


def reads(db: topicdb.Database) -> dict[str, Callable[[], Any]]:
    return {
        "all columns": lambda: db.scan("#", order="none").to_arrow(),
        "keys": lambda: db.scan("#", order="none", columns=KEYS).to_arrow(),
        "keys by time": lambda: db.scan("#", order="time", columns=KEYS).to_arrow(),
        "count": lambda: db.scan("#").count(),
        "max(timestamp)": lambda: max(
            int(batch.timestamps.max())
            for batch in db.scan("#", order="none", columns=["timestamp"]).batches(100_000)
        ),
    }


def answer(found: Any) -> str:
    """What a read has found, as text that is the same for the same messages in any order."""
    if isinstance(found, int):
        return str(found)
    order = [(name, "ascending") for name in found.column_names]
    rows = found.sort_by(order).slice(0, DIGEST_ROWS).to_pylist()
    return f"{len(found):,} {hashlib.sha256(repr(rows).encode()).hexdigest()[:16]}"


def compare(
    report: Report, sides: dict[str, topicdb.Database], size: int, codec: str, rounds: int
) -> None:
    for name in reads(next(iter(sides.values()))):
        calls = {side: reads(db)[name] for side, db in sides.items()}
        answers = {side: answer(call()) for side, call in calls.items()}
        if len(set(answers.values())) != 1:
            sys.exit(f"{name}: the sides found different messages: {answers}")
        report.digests[f"{size:,} {codec}: {name}"] = next(iter(answers.values()))
        timings: dict[str, Timing] = interleaved(calls, rounds)
        ours = timings["apart"].cpu
        for side, timing in timings.items():
            ratio = "" if side == "apart" else f"apart is {timing.cpu / ours:.2f} x as fast"
            report.add(
                "V1",
                f"{size:,} {codec}: {name}, {side}",
                f"{timing.cpu / size * 1e9:.0f} ns CPU, {timing.wall / size * 1e9:.0f} ns wall",
                ratio,
                side=side,
                rows=size,
                wall_s=timing.wall_s,
                cpu_s=timing.cpu_s,
            )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=",".join(map(str, SIZES)))
    parser.add_argument("--seed", type=int, default=workloads.SEED)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--write", type=Path, metavar="DIRECTORY")
    parser.add_argument("--early", type=Path, metavar="DIRECTORY")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    sizes = [int(float(size)) for size in options.rows.split(",")]
    report = Report()
    with tempfile.TemporaryDirectory(prefix="topicdb-") as directory:
        for size in sizes:
            for codec in CODECS:
                name = f"{size}-{codec}.db"
                path = (options.write or Path(directory)) / name
                write(path, size, options.seed, codec)
                if options.write:
                    continue
                paths = {"apart": path}
                if options.early:
                    paths["one record"] = options.early / name
                sides = {side: topicdb.open(one, mode="r") for side, one in paths.items()}
                for side, one in paths.items():
                    report.add("V2", f"{name}, {side}", f"{disk_bytes(one):,} bytes", "", side=side)
                compare(report, sides, size, codec, options.rounds)
                for db in sides.values():
                    db.close()
    if not options.write:
        report.finish("messages of each size", options.json, sizes=sizes)


if __name__ == "__main__":
    main()
