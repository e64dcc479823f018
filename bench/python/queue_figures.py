"""Measures the buffer queue from Python beside persist-queue: CPU time of an item.

It stops if a side reads other items than it appended.

.venv/bin/python bench/python/queue_figures.py [--items 20000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import hashlib
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeAlias

import persistqueue

import topicdb
from topicdb.types import Durability

SEED = 20260101
Turn: TypeAlias = Callable[[Path, list[bytes]], tuple[float, float, str]]  # append s, pop s, digest


def items_of(size: int, count: int) -> list[bytes]:
    choose = random.Random(SEED)
    return [choose.randbytes(size) for _ in range(count)]


def topicdb_turn(
    path: Path, items: list[bytes], batch: int, durability: Durability
) -> tuple[float, float, str]:
    with topicdb.Queue.open(path / "q", durability=durability) as queue:
        begun = time.process_time()
        for i in range(0, len(items), batch):
            queue.append(items[i : i + batch])
        appended = time.process_time()
        digest = hashlib.sha256()
        while (popped := queue.pop(batch)).ref is not None:
            for item in popped.items:
                digest.update(item)
            queue.ack(popped.ref)
        return appended - begun, time.process_time() - appended, digest.hexdigest()


def persist_queue_turn(path: Path, items: list[bytes]) -> tuple[float, float, str]:
    queue = persistqueue.SQLiteAckQueue(str(path), auto_commit=True)
    begun = time.process_time()
    for item in items:
        queue.put(item)
    put = time.process_time()
    digest = hashlib.sha256()
    for _ in items:
        item = queue.get(block=False)
        digest.update(item)
        queue.ack(item)
    got = time.process_time()
    queue.close()
    return put - begun, got - put, digest.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--peer-items", type=int, default=300, help="persist-queue takes longer")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for size in (100, 1024):
        items = items_of(size, options.items)
        few = items[: options.peer_items]
        sides: list[tuple[str, list[bytes], Turn]] = [
            (
                f"TopicDB {durability}, {batch} at once",
                items,
                lambda path, items, d=durability, b=batch: topicdb_turn(path, items, b, d),  # type: ignore[misc]
            )
            for durability in ("os", "none")
            for batch in (1, 100)
        ]
        sides.append(("persist-queue, SQLiteAckQueue", few, persist_queue_turn))
        figures: dict[str, list[tuple[float, float]]] = {name: [] for name, *_ in sides}
        for _ in range(options.rounds):
            for name, side_items, turn in sides:
                with tempfile.TemporaryDirectory() as directory:
                    put, got, digest = turn(Path(directory), side_items)
                expected = hashlib.sha256(b"".join(side_items)).hexdigest()
                assert digest == expected, f"{name} read other items"
                count = len(side_items)
                figures[name].append((put / count * 1e6, got / count * 1e6))
        for name, found in figures.items():
            put, got = (median(column) for column in zip(*found, strict=True))
            print(f"{size:5} B  {name:32} append {put:8.2f} us   pop + ack {got:8.2f} us")
        print(f"{size:5} B  digest of {options.items} items: ", end="")
        print(hashlib.sha256(b"".join(items)).hexdigest()[:16])


if __name__ == "__main__":
    main()
