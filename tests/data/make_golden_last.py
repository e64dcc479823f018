"""Writes last.zip and .json: sealed blocks with lists of their topics, a staged one, deletes.

    python tests/data/make_golden_last.py tests/data/v1

Run once with the release that writes a format; never again after that.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import topicdb
from data.make_golden import pack
from topicdb import jobs

QUESTIONS: list[tuple[str, int | None]] = [
    ("#", None),
    ("#", 250),
    ("m/h1/+", None),
    ("m/+/c7", 120),
    ("m/h2/c3", 199),
    ("$SYS/#", None),
]


def answers(db: topicdb.Database) -> list[list[Any]]:
    """What ``last`` and ``state_at`` give to each question."""
    found = [db.last(f) if at is None else db.state_at(at, f) for f, at in QUESTIONS]
    return [[[m.topic, m.timestamp, m.value.decode()] for m in scan] for scan in found]


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "last.db"
        with topicdb.open(path, seal_bytes=2_000) as db:
            for commit in range(4):
                topics = [f"m/h{h}/c{c}" for h in range(3) for c in range(10 + commit)]
                db.append([(t, 100 * commit + i, b"%d" % commit) for i, t in enumerate(topics)])
                db.append([("$SYS/up", commit, b"%d" % commit), ("m/late", 10 - commit, b"late")])
                db.flush()
            db.delete("m/h1/c1", start=150)
            db.rotate()
            db.append([("m/h0/c0", 5, b"backfill")])
        with jobs.StagedWriter(path, "job") as writer:
            writer.append([(f"m/h{h}/c7", 900 + h, b"staged") for h in range(2)])
        jobs.commit(path, "job", [writer.staged])
        with topicdb.open(path) as db:
            db.flush()
            expected = {"questions": QUESTIONS, "answers": answers(db)}
        pack(path, target / "last.zip")
    (target / "last.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
