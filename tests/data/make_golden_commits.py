"""Writes tests/data/v1/commits.zip: maps, a transaction's messages, a delete that is cut short.

    pip install rocksdict
    python tests/data/make_golden_commits.py tests/data/v1/commits.zip

Run once with the release that writes a format; never again after that. What is in it is written
down in tests/python/database/test_golden.py.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rocksdict import AccessType, Options, Rdict

import topicdb
from data.make_golden import pack

FILL = """
import sys, topicdb
db = topicdb.open(sys.argv[1])
db.append([(f"cut/{i % 5}/short", i, b"") for i in range(12_000)])
print("deleting", flush=True)
db.delete("cut/#", end=11_990)
"""


def write(path: Path) -> None:
    with topicdb.open(path, structures=["cut/+/short"]) as db:
        with db.map("closed/a b") as one:
            one.update({"k": b"v", "\u00e9/%+#": b"\x00\xff", "": b"empty key"})
        owned = db.map("owned")
        owned["n"] = b"1"
        owned.commit()
        with db.transaction() as tx:
            tx.write("serial", 5, topicdb.SERIAL)
            tx.write("other", 7, b"tx")
        db.append([("gone", 1, b"")])
        db.delete("gone")


def cut_short(path: Path) -> None:
    """Kills a process during a large delete."""
    with subprocess.Popen(
        [sys.executable, "-c", FILL, path], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "deleting\n"
        time.sleep(random.uniform(0.005, 0.06))
        child.send_signal(signal.SIGKILL)


def has_delete(path: Path) -> bool:
    """Whether the record of an unfinished delete is there."""
    shard = path / "shards" / "0000"
    families = Rdict.list_cf(str(shard))
    options = {name: Options(raw_mode=True) for name in families}
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "copy"
        shutil.copytree(shard, copy)
        rocks = Rdict(
            str(copy),
            options=Options(raw_mode=True),
            column_families=options,
            access_type=AccessType.read_only(),
        )
        found = any(isinstance(key, bytes) and key[:1] == b"\x06" for key in rocks.keys())  # noqa: SIM118
        rocks.close()
    return found


def main(target: Path) -> None:
    while True:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "commits.db"
            write(path)
            cut_short(path)
            if has_delete(path):
                pack(path, target)
                return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
