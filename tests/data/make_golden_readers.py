"""Writes readers.zip: positions of a consumer, a group, a session, before there were losses; or
losses.zip: the same with generations that were dropped, and what was lost of them.

    python tests/data/make_golden_readers.py tests/data/v1/readers.zip
    python tests/data/make_golden_readers.py tests/data/v1/losses.zip

Run once with the release that writes a format; never again after that. What is in them is written
down in tests/python/database/test_golden.py.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import topicdb
from data.make_golden import pack


def fill(db: topicdb.Database) -> None:
    """Three generations of ten commits with ten messages each."""
    for first in range(0, 300, 10):
        db.append([(f"a/{i % 3}", i, b"%d" % i) for i in range(first, first + 10)])
        if first % 100 == 90:
            db.rotate()


def read(db: topicdb.Database) -> None:
    """The consumer is behind the first 50 messages, the group behind some of the first 100."""
    with db.consumer("c", "a/#", window=50) as consumer:
        consumer.ack(consumer.poll(50))
    group = db.group("g", "a/+", parts=2, window=50)
    with group.join() as member:
        member.ack(member.poll(10))
    group.close()
    session = db.session("s", expiry=None)
    session.subscribe("a/#", 1, start="earliest")
    session.poll(10)
    session.close()


def lose(db: topicdb.Database) -> None:
    """The consumer has come to what is missing; nobody else has."""
    for slab in db.slabs():
        if slab.retention_class == "#" and slab.generation == 2:
            db.drop_slab(slab)
    with db.consumer("c", "a/#", window=10) as consumer:
        while not consumer.lost:
            consumer.ack(consumer.poll(10))
    for slab in db.slabs():
        if slab.retention_class == "#" and slab.generation == 1:
            db.drop_slab(slab)


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "readers.db"
        with topicdb.open(path) as db:
            fill(db)
            read(db)
            if target.stem == "losses":
                lose(db)
        pack(path, target)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
