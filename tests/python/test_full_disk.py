"""A file system that is full, or cannot be written: real ones, where mounting is allowed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from support import run_mounted


@pytest.mark.parametrize("layout", ["columnar", "skipstream"])
def test_no_space_left(mount: Path, layout: str) -> None:
    """What was acknowledged is there; with space again the database goes on."""
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
    """Reading, checking and restoring work; opening for writing says what is wrong."""
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
