"""Writes tests/data/v2/keys.zip: a database of three shards that shards by key.

    python tests/data/make_golden_keys.py tests/data/v2/keys.zip

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

CLIENTS = {
    0: ["client 4"],
    1: ["client 0", "client 2", "client 3", "client 5"],
    2: ["client 1"],
}
"""The clients whose messages are in each shard."""


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "keys.db"
        with topicdb.open(path, shards=3, shard_by="key") as db:
            for client in sorted(name for names in CLIENTS.values() for name in names):
                rows = [("t", 1_000 + i, f"{client} {i}".encode()) for i in range(3)]
                db.append(rows, key=client, id=client)
            db.append(
                [("u", 1, b"of a client"), ("u", 2, b"of nobody")],
                key=[b"client 3", None],
                id="mixed",
            )
        pack(path, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
