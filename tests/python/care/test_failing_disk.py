"""When writes and fsyncs fail, acknowledged messages are there, and each error says why."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import textwrap
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
FAILURES_MANY = 140
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


# Goes on after each failure, and prints every error.
TALKING = """
import sys, topicdb
path, part = sys.argv[1:]

def say(what, call):
    try:
        return call()
    except topicdb.StorageError as error:
        print(what, error, *getattr(error, "__notes__", []), sep=": ")

def database():
    db = say("open", lambda: topicdb.open(path, durability="disk", maintenance_interval=None))
    if db is None:
        return
    for commit in range(5):
        say("append", lambda: db.append([(f"m/{i}", commit, bytes(500)) for i in range(50)]))
    say("flush", db.flush)
    say("snapshot", lambda: db.snapshot(path + ".snapshot"))
    say("rotate", db.rotate)
    say("again", lambda: db.append([("m/1", 9, b"")], durability="none"))
    say("transact", lambda: db.transact(lambda tx: tx.write("m/1", 10, b""), key="m/1"))
    say("close", db.close)

def queue():
    for mode in ("disk", "offload"):
        q = say("open", lambda: topicdb.Queue.open(path + "." + mode, mode=mode))
        if q is None:
            continue
        for durability in ("os", "disk", "none"):
            say("append", lambda: q.append([bytes(500)] * 5, durability=durability))
        say("flush", q.flush)
        items, ref = say("pop", q.pop) or ((), None)
        if ref is not None:
            q.ack(ref)
        say("cursor", lambda: q.cursor("other"))
        say("flush", q.flush)
        say("close", q.close)

def job():
    def stage():
        with topicdb.jobs.StagedWriter(path, "job") as writer:
            writer.append([(f"m/{i}", i, bytes(500)) for i in range(500)])
        return writer.staged
    staged = say("stage", stage)
    if staged is not None:
        say("commit", lambda: topicdb.jobs.commit(path, "job", [staged]))

globals()[part]()
"""


def run(
    path: Path, first: int, calls: int, program: str = PROGRAM, number: int = 0, part: str = ""
) -> tuple[list[str], int, str]:
    """Runs a program; returns its lines, how many calls the shim counted, and its stderr."""
    count = path.with_name("count")
    count.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "LD_PRELOAD": str(build_shim(FAULTS)),
        "FAIL_ROOT": str(path.resolve()),
        "FAIL_FROM": str(first),
        "FAIL_CALLS": str(calls),
        "FAIL_COUNT": str(count),
        "FAIL_ERRNO": str(number),
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, str(path), *part.split()],
        env=environment,
        capture_output=True,
        text=True,
        timeout=CHILD_TIMEOUT_S,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout.splitlines(), int(count.read_text()), done.stderr


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
        for commit, parts in stored.items():  # each shard has all of a commit or nothing
            assert all(count == whole[shard] for shard, count in parts.items()), commit
        db.append([("m/1", COMMITS, b"after")])
        db.flush()
        assert db.verify().problems == []


@pytest.mark.parametrize("merges", [False, True], ids=["", "keep_last"])
@pytest.mark.parametrize(
    ("calls", "failures"),
    [
        pytest.param(1, FAILURES, id="once"),
        pytest.param(1, FAILURES_MANY, id="once, many places", marks=pytest.mark.long),
        pytest.param(FOR_GOOD, FAILURES, id="for good", marks=pytest.mark.long),
    ],
)
def test_some_call_fails(
    tmp_path: Path, layout: Layout, calls: int, failures: int, merges: bool
) -> None:
    """With ``merges``, keep_last keeps all messages, so that generations are merged, too."""
    base = tmp_path / "base.db"
    retention = {"#": Retention(keep_last=COMMITS)} if merges else None
    topicdb.open(base, layout=layout, shards=2, retention=retention).close()

    def copied(number: int) -> Path:
        path = tmp_path / f"{number}.db"
        shutil.copytree(base, path)
        return path

    lines, total, said = run(copied(0), 0, 0)
    assert ([int(line) for line in lines], said) == (list(range(COMMITS)), "")
    assert total > 100
    fewer = 0
    for first in range(1, total, max(total // failures, 1)):
        path = copied(first)
        lines, _, said = run(path, first, calls)
        acknowledged = [int(line) for line in lines]
        assert said == "" or "StorageError" in said, said
        check(path, acknowledged)
        shutil.rmtree(path)
        fewer += len(acknowledged) < COMMITS
    assert fewer >= failures // 2


@pytest.mark.parametrize("part", ["database", "queue", "job"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
def test_each_error_says_what_the_file_system_said(tmp_path: Path, number: int, part: str) -> None:
    """The first error, and all later errors because of it, say why and where."""
    base = tmp_path / "base"
    base.mkdir()
    topicdb.open(base / "0.db", shards=1).close()

    def copied(name: str) -> Path:
        shutil.copytree(base, tmp_path / name)
        return tmp_path / name / "0.db"

    lines, total, said = run(copied("whole"), 0, 0, TALKING, number, part)
    assert (lines, said) == ([], "")
    told = set()
    for first in range(1, total + 1, max(total // 6, 1)):
        path = copied(str(first))
        lines, _, said = run(path, first, FOR_GOOD, TALKING, number, part)
        assert said == "", said
        for line in lines:  # there are none if this run made fewer calls than the first
            assert os.strerror(number) in line and str(path) in line, line
            told.add(line.split(":")[0])
    expected = {
        "database": {"open", "append", "flush", "close"},
        "queue": {"open", "flush", "close"},
        "job": {"stage", "commit"},
    }
    assert told >= expected[part], told


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks(tmp_path: Path, number: int) -> None:
    """Without locks, as on NFS without its lock daemon, nothing may write; readers need none."""
    with topicdb.open(tmp_path / "db") as db:
        db.append([("a", 1, b"x")])
    topicdb.Queue.open(tmp_path / "q").close()
    topicdb.Queue.open(tmp_path / "replayq", format="replayq").close()
    code = """
        import sys, topicdb
        root = sys.argv[1]
        with topicdb.open(root + "/db", mode="r") as db:
            assert db.scan("#").count() == 1
        for open_, path in [(topicdb.open, "db"), (topicdb.open, "new.db"),
                            (topicdb.Queue.open, "q"), (topicdb.Queue.open, "replayq"),
                            (topicdb.repair, "db")]:
            try:
                open_(root + "/" + path)
                raise AssertionError(path + " was opened")
            except topicdb.StorageError as error:
                print(error)
    """
    environment = {
        **os.environ,
        "LD_PRELOAD": str(build_shim(FAULTS)),
        "FAIL_ROOT": str(tmp_path.resolve()),
        "FAIL_LOCKS": str(number),
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=CHILD_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 5
    for line in lines:
        assert os.strerror(number) in line and str(tmp_path) in line and "nolock" in line, line
    with topicdb.open(tmp_path / "db") as db:
        assert db.scan("#").count() == 1
