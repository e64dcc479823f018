"""Writes a database whose blocks have pages of one form, and a job that waits to be committed.

    python tests/data/make_golden_pages.py tests/data/v1 pages

Its name is ``pages`` if keys and values of pages are apart, and was ``early-pages`` when a page was
one record. Run once with the release that writes a format; never again after that.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import topicdb
from data.make_golden import pack
from sealing import wait_for_sealing
from topicdb import jobs

TOPICS = 9
ROWS = 40  # of a topic in a commit
JOB = "waits"


def some(number: int, topics: str = "m") -> list[tuple[str, int, bytes]]:
    """Messages of one commit. Some values are empty; those of the topics c8 are all empty."""
    return [
        (f"{topics}/c{topic}", 100_000 * number + 1_000 * row + topic, value_of(number, topic, row))
        for topic in range(TOPICS)
        for row in range(ROWS)
    ]


def value_of(number: int, topic: int, row: int) -> bytes:
    return b"" if topic == 8 or row % 7 == 3 else b"%d %d " % (number, row) + b"v" * (5 * topic)


def digest(rows: Any, *, with_values: bool = True) -> str:
    """Of messages, whatever their order."""
    found = hashlib.sha256()
    for topic, timestamp, value in sorted((m.topic, m.timestamp, m.value) for m in rows):
        found.update(b"%s %d %s\n" % (topic.encode(), timestamp, value if with_values else b""))
    return found.hexdigest()


def content(db: topicdb.Database) -> dict[str, Any]:
    """What the database has, by whatever reads it."""
    return {
        "messages": digest(db.scan("#")),
        "by time": digest(db.scan("#", order="time")),
        "as stored": digest(db.scan("#", order="none")),
        "as committed": digest(db.tail(timeout=0)),
        "in slices": digest(db.scan_slices(db.slices("#", bytes_max=5_000))),
        "last": digest(db.last("#")),
        "keys": digest(db.scan("#"), with_values=False),
        "some": digest(db.scan("m/+", start=120_000, end=330_000)),
    }


def stage(path: Path, job: str, number: int) -> jobs.Staged:
    with jobs.StagedWriter(path, job) as writer:
        writer.append(some(number, "job"))
        writer.append([("job/assigned", None, b"%d" % i) for i in range(20)])
    return writer.staged


def main(target: Path, name: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / f"{name}.db"
        with topicdb.open(path, seal_bytes=8 << 10, maintenance_interval=None) as db:
            for number in range(4):
                db.append(some(number))
            wait_for_sealing(db)
            db.delete("m/c3", start=110_000, end=320_000)
            db.rotate()  # closed generations have pages of Zstandard
            wait_for_sealing(db)
            for number in range(4, 7):
                db.append(some(number))
            db.append([(f"empty/{i}", i, b"") for i in range(300)])
            wait_for_sealing(db)
        jobs.commit(path, "early", [stage(path, "early", 7)])
        with topicdb.open(path, seal_bytes=64 << 20, maintenance_interval=None) as db:
            db.append(some(8))
            db.delete("job/c2")
            expected = content(db)
        waits = stage(path, JOB, 9)
        expected["job"] = dataclasses.asdict(waits)
        with topicdb.open(path, mode="r") as db:
            rows = [*db.scan("#"), *map(topicdb.Message._make, some(9, "job"))]
        expected["with the job"] = digest(m for m in rows if m.topic != "job/assigned")
        pack(path, target / f"{name}.zip")
    (target / f"{name}.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), sys.argv[2])
