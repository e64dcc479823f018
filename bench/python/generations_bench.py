"""What it costs to begin a generation, and to drop one, by how many there are.

python bench/python/generations_bench.py [--generations 10,100,1000,2000] [--shards 1]

Each generation has one message. Printed are medians in ms of the last rotations before so many
generations, and of drops of the oldest ones then, beside those of the first row.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import topicdb
from topicdb import Database

SAMPLES = 10


def rotate(db: Database, generation: int) -> float:
    """Seconds that it takes, after a message without which the generation would be empty."""
    db.append([("a/b", generation, b"x")])
    began = time.perf_counter()
    db.rotate()
    return time.perf_counter() - began


def drop(db: Database) -> float:
    """Seconds for the oldest generation of the first shard."""
    oldest = next(slab for slab in db.slabs() if slab.read_only and slab.shard == 0)
    began = time.perf_counter()
    db.drop_slab(oldest)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--generations", default="10,100,1000,2000")
    parser.add_argument("--shards", type=int, default=1)
    options = parser.parse_args()
    print(f"{'generations':>12} {'rotate ms':>10} {'ratio':>6} {'drop ms':>9} {'ratio':>6}")
    with tempfile.TemporaryDirectory(dir=".") as directory:
        path = Path(directory) / "x.db"
        with topicdb.open(path, shards=options.shards, maintenance_interval=None) as db:
            first: tuple[float, float] | None = None
            made = there = 0
            for wanted in map(int, options.generations.split(",")):
                took: list[float] = []
                while there < wanted:
                    took.append(rotate(db, made))
                    made += 1
                    there += 1
                samples = min(SAMPLES, there)
                rotated = 1_000 * statistics.median(took[-samples:])
                dropped = 1_000 * statistics.median([drop(db) for _ in range(samples)])
                there -= samples
                first = first or (rotated, dropped)
                print(
                    f"{wanted:>12} {rotated:>10.2f} {rotated / first[0]:>6.2f} "
                    f"{dropped:>9.2f} {dropped / first[1]:>6.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
