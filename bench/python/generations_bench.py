"""Measures beginning a generation, and dropping one, by how many generations there are.

python bench/python/generations_bench.py [--generations 10,100,1000,2000] [--shards 1]

Each generation has one message. A row gives the time of the last rotations up to a number of
generations, and of the drops of the oldest ones after that, in ms: the mean, its ratio to the mean
of the first row, the median and the maximum. The mean counts, since RocksDB does its work for
several generations at once.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import topicdb
from topicdb import Database

SAMPLES_MAX = 100
TITLES = f"{'ratio':>6} {'median':>7} {'max':>7}"


def rotate(db: Database, generation: int) -> float:
    """Appends a message, so that the generation is not empty; returns the rotation's seconds."""
    db.append([("a/b", generation, b"x")])
    began = time.perf_counter()
    db.rotate()
    return time.perf_counter() - began


def drop(db: Database) -> float:
    """Drops the oldest generation of the first shard; returns the seconds."""
    oldest = next(slab for slab in db.slabs() if slab.read_only and slab.shard == 0)
    began = time.perf_counter()
    db.drop_slab(oldest)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--generations", default="10,100,1000,2000")
    parser.add_argument("--shards", type=int, default=1)
    options = parser.parse_args()
    print(f"{'generations':>11} | {'rotate: mean':>12} {TITLES} | {'drop: mean':>12} {TITLES}")
    with tempfile.TemporaryDirectory(dir=".") as directory:
        path = Path(directory) / "x.db"
        with topicdb.open(path, shards=options.shards, maintenance_interval=None) as db:
            first: tuple[float, float] | None = None
            made = there = 0
            for wanted in map(int, options.generations.split(",")):
                rotations: list[float] = []
                while there < wanted:
                    rotations.append(rotate(db, made))
                    made += 1
                    there += 1
                samples = min(SAMPLES_MAX, there // 2)
                drops = [drop(db) for _ in range(samples)]
                there -= samples
                rotations = rotations[-samples:]
                first = first or (statistics.mean(rotations), statistics.mean(drops))
                print(
                    f"{wanted:>11} | {row(rotations, first[0])} | {row(drops, first[1])}",
                    flush=True,
                )


def row(seconds: list[float], first_mean: float) -> str:
    """Returns the figures of one operation as text, in the order of the titles."""
    mean = statistics.mean(seconds)
    middle, longest = statistics.median(seconds), max(seconds)
    return (
        f"{mean * 1e3:>12.2f} {mean / first_mean:>6.2f} {middle * 1e3:>7.2f} {longest * 1e3:>7.2f}"
    )


if __name__ == "__main__":
    main()
