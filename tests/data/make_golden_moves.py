"""Writes moves.zip and .json: a topic that has moved between two classes, forth and back.

    python tests/data/make_golden_moves.py tests/data/v1

Run once with the release that writes a format; never again after that.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import topicdb
from data.make_golden import pack

TOGETHER = {"#": None}
APART = {"a/#": None, "#": None}


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "moves.db"
        with topicdb.open(path, retention=TOGETHER, maintenance_interval=None) as db:
            for number, classes in enumerate([APART, TOGETHER, APART]):
                db.append([("a/pump", number, b"%d" % number), ("b", number, b"")])
                db.set_retention(classes)
            db.append([("a/pump", 3, b"3")])
            expected = {
                "values": [m.value.decode() for m in db.scan("a/#")],
                "streams": [[s.retention_class, s.generation] for s in db.streams("a/#")],
            }
        pack(path, target / "moves.zip")
    (target / "moves.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
