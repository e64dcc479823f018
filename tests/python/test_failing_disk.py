"""Writes and fsyncs that fail with EIO: what was acknowledged is there, and no call hangs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from support import CHILD_TIMEOUT_S, Layout

import topicdb
from crash.recording import SHIM, build_shim
from topicdb import Retention

COMMITS = 30
TOPICS = 40
FAILURES = 8
FOR_GOOD = 1_000_000_000
FAULTS = SHIM.with_name("failing_disk.c")

PROGRAM = f"""
import sys, topicdb
path = sys.argv[1]
with topicdb.open(path, durability="disk", seal_bytes=20_000, maintenance_interval=None) as db:
    for commit in range({COMMITS}):
        rows = [(f"m/{{i}}", commit, b"%d" % commit * 100) for i in range({TOPICS})]
        try:
            db.append(rows)
            print(commit)
        except topicdb.StorageError:
            pass
        try:
            if commit % 10 == 4:
                db.flush()
            if commit % 10 == 8:
                db.rotate()
                db.maintain()
        except topicdb.StorageError:
            pass
"""


def run(path: Path, first: int, calls: int) -> tuple[list[int], int, str]:
    """Commits that were acknowledged, calls that were counted, what was said at the end."""
    count = path.with_name("count")
    count.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "LD_PRELOAD": str(build_shim(FAULTS)),
        "FAIL_ROOT": str(path.resolve()),
        "FAIL_FROM": str(first),
        "FAIL_CALLS": str(calls),
        "FAIL_COUNT": str(count),
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, str(path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=CHILD_TIMEOUT_S,
    )
    assert done.returncode in (0, 1), done.stderr
    return [int(line) for line in done.stdout.split()], int(count.read_text()), done.stderr


def check(path: Path, acknowledged: list[int]) -> None:
    with topicdb.open(path) as db:
        stored: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for message in db.scan("#"):
            assert message.value == b"%d" % message.timestamp * 100
            stored[message.timestamp][topicdb.shard_of(message.topic, 2)] += 1
        shards = [topicdb.shard_of(f"m/{i}", 2) for i in range(TOPICS)]
        whole = {shard: shards.count(shard) for shard in (0, 1)}
        for commit in acknowledged:
            assert stored[commit] == whole, commit
        for commit, parts in stored.items():  # of a shard wholly or not at all
            assert all(count == whole[shard] for shard, count in parts.items()), commit
        db.append([("m/1", COMMITS, b"after")])
        db.flush()
        assert db.verify().problems == []


@pytest.mark.parametrize("merges", [False, True], ids=["", "keep_last"])
@pytest.mark.parametrize("calls", [1, FOR_GOOD], ids=["once", "for good"])
def test_some_call_fails(tmp_path: Path, layout: Layout, calls: int, merges: bool) -> None:
    """With generations that are merged, too: all messages are among the last of their topics."""
    base = tmp_path / "base.db"
    retention = {"#": Retention(keep_last=COMMITS)} if merges else None
    topicdb.open(base, layout=layout, shards=2, retention=retention).close()

    def copied(number: int) -> Path:
        path = tmp_path / f"{number}.db"
        shutil.copytree(base, path)
        return path

    acknowledged, total, said = run(copied(0), 0, 0)
    assert (acknowledged, said) == (list(range(COMMITS)), "")
    assert total > 100
    fewer = 0
    for first in range(1, total, max(total // FAILURES, 1)):
        path = copied(first)
        acknowledged, _, said = run(path, first, calls)
        assert said == "" or "StorageError" in said, said
        check(path, acknowledged)
        fewer += len(acknowledged) < COMMITS
    assert fewer >= FAILURES // 2
