"""Writes tests/data/v1/ids.zip: a database of two shards with appends that have ids.

    python tests/data/make_golden_ids.py tests/data/v1/ids.zip

Run once with the release that writes a format; never again after that. What is in it is written
down in tests/python/database/test_golden.py.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import topicdb
from data.make_golden import pack


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "ids.db"
        with topicdb.open(path, shards=2) as db:
            db.append([(f"ids/{i}", i, b"%d" % i) for i in range(20)], id="all shards")
            db.append([("ids/later", None, b"\x00\xff"), ("ids/ü", 7, b"")], id="ü/später")
            db.append([("ids/gone", 1, b"")], id="deleted")
            db.delete("ids/gone")
        pack(path, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
