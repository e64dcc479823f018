"""Writes tests/data/v1/clock.zip: a database whose clock has leapt, five hours ahead.

    python tests/data/make_golden_clock.py tests/data/v1/clock.zip

Run once with the release that writes a format; never again after that. What is in it is written
down in tests/python/database/test_golden.py.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crash.recording import build_shim
from data.make_golden import pack

TESTS = Path(__file__).resolve().parents[1]

FILL = """
import sys, time, topicdb
HOURS_5 = 5 * 3_600 * 1_000_000
def leap():
    with open(sys.argv[2], "r+b") as clock:
        clock.write((HOURS_5).to_bytes(8, "little"))
with topicdb.open(sys.argv[1], retention={"#": "7d"}, maintenance_interval=None) as db:
    db.append([("a", 1, b"before")])
    db.rotate()
    began = [slab.created_at for slab in db.slabs()]
    leap()
    assert [slab.created_at - HOURS_5 for slab in db.slabs()] == began
    db.append([("a", 2, b"after")])
    db.rotate()
"""


def main(archive: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path, clock = Path(directory) / "clock.db", Path(directory) / "clock"
        clock.write_bytes(struct.pack("=qq", 0, 0))
        shim = build_shim(TESTS / "python" / "lifecycle" / "shifted_clock.c")
        environment = {**os.environ, "LD_PRELOAD": str(shim), "SHIFTED_CLOCK": str(clock)}
        subprocess.run([sys.executable, "-c", FILL, path, clock], env=environment, check=True)
        pack(path, archive)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
