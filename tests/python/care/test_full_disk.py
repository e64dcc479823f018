"""Tests with real file systems that are full or read-only, where the machine lets them mount."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from support import run_mounted


@pytest.mark.parametrize("layout", ["columnar", "skipstream"])
def test_no_space_left(mount: Path, layout: str) -> None:
    """Acknowledged messages are there, and the database goes on when there is space again."""
    code = """
        import os, random, sys, topicdb
        path, ballast = sys.argv[1] + "/db", sys.argv[1] + "/ballast"
        noise = random.Random(1)
        options = {"layout": "LAYOUT", "shards": 2, "write_buffer_bytes": 1 << 20}
        with open(ballast, "wb") as file:
            file.write(bytes(4 << 20))
        db = topicdb.open(path, **options)
        taken = 0
        try:
            for taken in range(10_000):
                value = noise.randbytes(3_000)
                db.append([(f"m/{i}/x", taken, b"%d" % taken + value) for i in range(4)])
        except topicdb.StorageError as error:
            assert "No space left" in str(error), error
            assert "part" not in str(error)
        assert 20 < taken < 2_000, taken
        try:
            db.snapshot(sys.argv[1] + "/snapshot", copy=True)
        except topicdb.StorageError:
            pass
        else:
            raise AssertionError("there was space for a copy")
        assert sorted(os.listdir(sys.argv[1])) == ["ballast", "db"]
        try:
            db.append([(f"again/{i}", taken, b"") for i in range(20)])
            raise AssertionError("a shard took more after a write that failed")
        except topicdb.StorageError:
            pass
        try:
            db.close()
        except topicdb.StorageError:
            pass

        os.remove(ballast)
        with topicdb.open(path) as db:
            for topic in [f"m/{i}/x" for i in range(4)]:
                stored = [m for m in db.scan(topic)]
                numbers = [m.timestamp for m in stored]
                # The last one may be there in the shards that had room for it.
                assert numbers[:taken] == list(range(taken)), (topic, len(numbers), taken)
                assert len(numbers) <= taken + 1
                assert all(m.value.startswith(b"%d" % m.timestamp) for m in stored)
            db.append([("m/0/x", 1 << 40, b"after")])
            db.flush()
            assert db.verify().problems == []
        print(taken)
    """
    assert int(run_mounted(mount, "size=16m", code.replace("LAYOUT", layout))) > 0


def test_a_file_system_that_cannot_be_written(mount: Path) -> None:
    """Reading, verifying and restoring work; opening for writing says what is wrong."""
    fill = """
        import sys, topicdb
        with topicdb.open(sys.argv[1] + "/db", shards=2) as db:
            db.append([(f"m/{i % 7}", i, b"%d" % i) for i in range(500)])
            db.snapshot(sys.argv[1] + "/snapshot")
    """
    read = """
        import sys, tempfile, topicdb
        root = sys.argv[1]
        for name in ("/db", "/snapshot"):
            with topicdb.open(root + name, mode="r") as db:
                assert db.scan("#").count() == 500
            assert topicdb.verify(root + name).ok
            try:
                topicdb.open(root + name)
                raise AssertionError("it was opened for writing")
            except topicdb.StorageError as error:
                assert "Read-only file system" in str(error) and root + name in str(error), error
        with tempfile.TemporaryDirectory() as elsewhere:
            topicdb.restore(root + "/snapshot", elsewhere + "/restored")
            with topicdb.open(elsewhere + "/restored") as db:
                db.append([("new", 1, b"")])
                assert db.scan("#").count() == 501
        try:
            topicdb.restore(root + "/snapshot", root + "/restored")
            raise AssertionError("it was restored to where nothing can be written")
        except topicdb.StorageError as error:
            assert "Read-only file system" in str(error), error
    """
    run_mounted(
        mount, "size=64m", fill, then=f"mount -o remount,ro {shlex.quote(str(mount))}", after=read
    )


def test_what_is_said_when_no_space_is_left(mount: Path) -> None:
    """The error is the append's, not that of closing; it and later errors say why and where."""
    code = """
        import random, sys, topicdb
        noise = random.Random(1)
        path = sys.argv[1] + "/db"
        taken = 0
        try:
            with topicdb.open(path, shards=1) as db:
                for taken in range(100_000):
                    db.append([("m/1", taken, noise.randbytes(3_000))])
        except topicdb.StorageError as error:
            said = str(error)
        assert said.startswith("writing shard 0") and path in said, said
        assert "No space left on device" in said and "Seen error" not in said, said

        db = topicdb.open(path)
        first = None
        for call in [*[lambda: db.append([("m/1", 1, noise.randbytes(100_000))])] * 100,
                     db.flush, db.rotate, lambda: db.append([("m/1", 1, b"")]), db.close]:
            try:
                call()
                assert first is None, "a call succeeded after a write had failed"
            except topicdb.StorageError as error:
                first = first or error
                assert "No space left on device" in str(error), error
                assert "Seen error" not in str(error), error
        assert first is not None
        print(taken)
    """
    assert int(run_mounted(mount, "size=6m", code)) > 50


@pytest.mark.parametrize("durability", ["none", "os", "disk"])
def test_ingest_says_up_to_which_line_all_is_stored(mount: Path, durability: str) -> None:
    code = """
        import json, random, re, subprocess, sys, topicdb
        noise = random.Random(1)
        path = sys.argv[1] + "/db"
        lines = "".join(
            json.dumps({"topic": "m", "timestamp": i, "value": noise.randbytes(700).hex()})
            + "\\n" for i in range(6_000)
        )
        command = [sys.executable, "-m", "topicdb.cli", "ingest", path, "-", "--batch-rows", "50",
                   "--durability", "DURABILITY"]
        done = subprocess.run(command, input=lines, capture_output=True, text=True)
        assert done.returncode == 1, done
        said = done.stderr.strip()
        assert len(said.splitlines()) == 1 and path in said, said
        assert "No space left on device" in said and "Seen error" not in said, said
        last = int(re.search(r"up to line ([0-9,]+)", said).group(1).replace(",", ""))
        assert f"{last:,} messages stored before it" in said
        if "DURABILITY" == "none":
            assert "may be gone" in said
        else:
            with topicdb.open(path, mode="r") as db:
                assert last <= db.scan("#").count() <= last + 50
        print(last)
    """
    last = run_mounted(mount, "size=6m", code.replace("DURABILITY", durability))
    assert int(last) > 50


def test_exports_snapshots_and_jobs(mount: Path) -> None:
    """Each error names what was being written, and nothing unfinished is left under its name."""
    code = """
        import os, random, subprocess, sys, tempfile, topicdb
        noise = random.Random(1)
        full = sys.argv[1]
        with tempfile.TemporaryDirectory() as elsewhere:
            path = elsewhere + "/db"
            with topicdb.open(path, shards=2) as db:
                rows = [(f"m/{i % 10}", i, noise.randbytes(3_000)) for i in range(3_000)]
                db.append(rows)
                calls = {
                    "snapshot": lambda: db.snapshot(full + "/snapshot"),
                    "export": lambda: db.export_parquet(full + "/export"),
                }
                for name, call in calls.items():
                    try:
                        call()
                        raise AssertionError(name + " had space")
                    except OSError as error:
                        assert "No space left on device" in str(error), (name, error)
                        assert full in str(error), (name, error)
                    assert os.listdir(full) == [], (name, os.listdir(full))
                db.snapshot(elsewhere + "/snapshot")
            try:
                topicdb.restore(elsewhere + "/snapshot", full + "/restored")
                raise AssertionError("restore had space")
            except topicdb.StorageError as error:
                assert "No space left on device" in str(error) and full in str(error), error
            assert os.listdir(full) == []
            topicdb.open(full + "/small", shards=1).close()
            try:
                with topicdb.jobs.StagedWriter(full + "/small", "job") as writer:
                    writer.append(rows)
                raise AssertionError("the job had space")
            except topicdb.StorageError as error:
                assert "No space left on device" in str(error) and full in str(error), error
    """
    run_mounted(mount, "size=4m", code)
