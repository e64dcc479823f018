"""Databases with contents of every kind, which tests damage."""

from __future__ import annotations

from pathlib import Path

from support import Child, Layout

import topicdb
from topicdb import jobs


def fill(path: Path, layout: Layout) -> None:
    """Makes a database with classes, generations, sealed and fresh blocks, deletes, jobs, maps."""
    retention = {"alarm/#": topicdb.Retention("365d", bytes=1 << 30)}
    with topicdb.open(
        path, shards=2, layout=layout, seal_bytes=20_000, thresholds=[8, 4], retention=retention
    ) as db:
        for commit in range(6):
            rows = [
                (f"{'alarm' if i % 5 == 0 else 'm'}/{commit}/h{i % 11}", i, b"%d.%d" % (commit, i))
                for i in range(300)
            ]
            db.append(rows)
            if commit == 3:
                db.flush()
                db.rotate()
        db.delete("m/1/h3")
        with jobs.StagedWriter(path, "load") as writer:
            writer.append([(f"job/{i % 9}", i, b"%d" % i) for i in range(400)])
        jobs.commit(path, "load", [writer.staged])
        with db.map("state") as state:
            state["key"] = b"value"
        db.flush()
        db.append([("m/late", 1, b"in the log")])


def fill_logs(path: Path) -> int:
    """Makes six more commits in a process that is killed, so that only the logs have them.

    Returns the serial of the last commit in shard 0.
    """
    code = """
        import sys, topicdb
        db = topicdb.open(sys.argv[1])
        for commit in range(6):
            result = db.append([(f"late/{i}", commit, b"%d" % commit) for i in range(20)])
        print(result.serials[0])
        sys.stdin.readline()
    """
    with Child(code, path) as child:
        serial = int(child.read_line())
        child.kill()
    return serial


def read_all(path: Path) -> list[tuple[str, int, bytes]]:
    with topicdb.open(path, mode="r") as db:
        return sorted((m.topic, m.timestamp, m.value) for m in db.scan("#"))
