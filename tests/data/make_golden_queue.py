"""Writes a zip file of each of QUEUES, which was not closed, and what they hold into queue.json.

    python tests/data/make_golden_queue.py tests/data/v1 queue-weighed

makes those that are named. Run once with the release that writes a format; never again after that.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import topicdb
from data.make_golden import pack

QUEUES: dict[str, dict[str, Any]] = {
    "queue": {},
    "queue-replayq": {"format": "replayq"},
    "queue-weighed": {"sizer": len},
}


def fill(path: Path, **options: Any) -> None:
    """Several segments; items done, in flight and waiting, for each cursor."""
    queue = topicdb.Queue.open(path, segment_bytes=4096, **options)
    for i in range(60):
        queue.append([b"%d" % i, bytes([i]) * (3 * i), b""])
    queue.append([b"large" * 300_000, b"behind"])  # more than one frame
    queue.ack(queue.pop(20).ref)
    later = [queue.pop(5).ref for _ in range(3)]
    queue.ack(later[1])
    queue.nack(later[2])
    if "format" not in options:
        archive = queue.cursor("archive")
        archive.ack(archive.pop(100).ref)
    queue.flush()


def main(target: Path, names: list[str]) -> None:
    stored = target / "queue.json"
    expected = json.loads(stored.read_text()) if stored.exists() else {}
    with tempfile.TemporaryDirectory() as directory:
        for name in names:
            path = Path(directory) / name
            child = os.fork()
            if child == 0:  # never closed
                fill(path, **QUEUES[name])
                os._exit(0)
            os.waitpid(child, 0)
            pack(path, target / f"{name}.zip")
            with topicdb.Queue.open(path) as queue:
                cursors = {
                    cursor: queue if cursor == "default" else queue.cursor(cursor)
                    for cursor in queue.stats().cursors
                }
                expected[name] = {
                    cursor: [[len(item), item[:20].hex()] for item in consumer]
                    for cursor, consumer in cursors.items()
                }
    stored.write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
