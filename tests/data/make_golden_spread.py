"""Writes spread.zip and .json: blocks that the sealer has brought apart in time, and others.

    python tests/data/make_golden_spread.py tests/data/v1

Run once with the release that writes a format; never again after that.
"""

from __future__ import annotations

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

TOPICS = 12
ROWS = 40  # of a topic in a run: each covers the same period


def run(number: int) -> list[tuple[str, int, bytes]]:
    return [
        (f"m/c{topic}", 1_000 * row + 10 * topic + number, b"%d " % number + b"v" * 180)
        for topic in range(TOPICS)
        for row in range(ROWS)
    ]


def digest(rows: Any) -> str:
    """Of messages in their order."""
    found = hashlib.sha256()
    for message in rows:
        found.update(b"%s %d %s\n" % (message.topic.encode(), message.timestamp, message.value))
    return found.hexdigest()


def content(db: topicdb.Database) -> dict[str, Any]:
    explained = db.explain("#", start=20_000, end=20_400)
    return {
        "by time": digest(db.scan("#", order="time")),
        "by stream": digest(db.scan("#")),
        "as committed": digest(db.tail(timeout=0)),
        "blocks": explained["blocks"],
        "blocks skipped by time": explained["blocks_skipped_by_time"],
    }


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "spread.db"
        with topicdb.open(path, seal_bytes=64 << 10, maintenance_interval=None) as db:
            for generation in range(2):
                for number in range(14):
                    db.append(run(100 * generation + number))
                wait_for_sealing(db)
                db.delete("m/c3", start=10_000, end=12_000)
                if generation == 0:
                    db.rotate()
                    wait_for_sealing(db)
            db.flush()
            expected = content(db)
        pack(path, target / "spread.zip")
    (target / "spread.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
