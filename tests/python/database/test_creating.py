"""Tests of where a new database is made, and of the permissions of its directory."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from support import Child

import topicdb
from topicdb import jobs


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_directories_above_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a" / "b" / "c.db"
    with topicdb.open(path) as db:
        db.append([("a", 1, b"x")])
        db.snapshot(tmp_path / "copies" / "today" / "c.db")
    topicdb.restore(path, tmp_path / "restored" / "here" / "c.db")
    for made in ("copies/today/c.db", "restored/here/c.db"):
        with topicdb.open(tmp_path / made, mode="r") as copy:
            assert copy.scan().count() == 1
    with topicdb.Queue.open(tmp_path / "queues" / "out.q") as queue:
        queue.append([b"x"])
    monkeypatch.chdir(tmp_path)
    topicdb.open("relative/x.db").close()
    assert (tmp_path / "relative" / "x.db" / "TOPICDB").exists()


def test_a_relative_path_is_that_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for directory in here, elsewhere:
        directory.mkdir()
    monkeypatch.chdir(here)
    with (
        topicdb.open("c.db", maintenance_interval=None) as db,
        jobs.StagedWriter("c.db", "job") as writer,
        topicdb.Queue.open("out.q", segment_bytes=4_096) as queue,
    ):
        monkeypatch.chdir(elsewhere)
        db.append([("a", 1, b"x")])
        db.flush()
        db.set_retention({"a/#": "7d"})
        for number in range(3):
            queue.append([b"%d" % number * 4_096])
        writer.append([("b", 1, b"x")])
        assert db.path == str(here / "c.db")
    monkeypatch.chdir(here)
    assert jobs.commit("c.db", "job", [writer.staged]).messages == 1
    with topicdb.open("c.db", mode="r") as db:
        assert db.scan().count() == 2
        assert list(db.retention) == ["a/#"]
    with topicdb.Queue.open("out.q") as queue:
        assert len(queue) == 3
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("options", [{"shards": 0}, {"structures": ["a#"]}, {"mode": "r"}], ids=str)
def test_nothing_is_left_when_it_cannot_be_made(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(topicdb.Error):
        topicdb.open(tmp_path / "a" / "b" / "c.db", **options)
    with pytest.raises(ValueError, match="only_shards: there is no shard 2"):
        topicdb.open(tmp_path / "a" / "b" / "c.db", shards=2, only_shards=[0, 2])
    with pytest.raises(ValueError, match="segment_bytes"):
        topicdb.Queue.open(tmp_path / "a" / "out.q", segment_bytes=-1)
    with pytest.raises(topicdb.NotFoundError):
        topicdb.restore(tmp_path / "none", tmp_path / "a" / "copy")
    assert list(tmp_path.iterdir()) == []


def test_what_was_cut_short_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    topicdb.open(path, retention={"#": topicdb.Retention(bytes="1MB")}).close()
    (path / "TOPICDB").unlink()
    (path / "CREATING").touch()  # as if it had been killed just before it was complete
    topicdb.open(path, retention={"a/#": "7d"}).close()
    with topicdb.open(path) as db:
        assert list(db.retention) == ["a/#"]


def test_what_lacks_only_the_end_is_complete(db_path: Path) -> None:
    topicdb.open(db_path).close()
    (db_path / "CREATING").touch()
    with topicdb.open(db_path) as db:
        db.append([("a", 1, b"x")])
    descriptor = (db_path / "TOPICDB").read_bytes()
    (db_path / "TOPICDB").unlink()
    with pytest.raises(topicdb.CorruptionError, match="no file TOPICDB"):
        topicdb.open(db_path)
    (db_path / "TOPICDB").write_bytes(descriptor)
    with topicdb.open(db_path) as db:
        assert db.scan("#").count() == 1


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        topicdb.open(tmp_path / "file" / "c.db")


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o770])
def test_who_may_enter_the_directory(tmp_path: Path, mode: int) -> None:
    old = os.umask(0o022)
    try:
        path = tmp_path / "above" / "c.db"
        topicdb.open(path, directory_mode=mode).close()
        assert permissions(path) == mode, "whatever the umask"
        assert permissions(path.parent) == 0o755
        path.chmod(0o711)
        topicdb.open(path, directory_mode=mode).close()
        assert permissions(path) == 0o711, "it was there"
        topicdb.Queue.open(tmp_path / "out.q", directory_mode=mode).close()
        assert permissions(tmp_path / "out.q") == mode
        topicdb.open(tmp_path / "usual.db").close()
        assert permissions(tmp_path / "usual.db") == 0o755
    finally:
        os.umask(old)


@pytest.mark.parametrize(
    ("mode", "error"),
    [(0o600, ValueError), (-1, ValueError), (0o17777, ValueError), ("700", TypeError)],
)
def test_modes_that_are_none(tmp_path: Path, mode: Any, error: type[Exception]) -> None:
    for call in (topicdb.open, topicdb.Queue.open):
        with pytest.raises(error, match="directory_mode"):
            call(tmp_path / "x", directory_mode=mode)
    assert list(tmp_path.iterdir()) == []


def test_a_locked_database_says_how_to_share_it(db_path: Path) -> None:
    with Child(
        """
        import sys, topicdb
        db = topicdb.open(sys.argv[1])
        print("open", flush=True)
        sys.stdin.readline()
        """,
        db_path,
    ) as child:
        child.expect("open")
        with pytest.raises(topicdb.LockedError) as error:
            topicdb.open(db_path)
        assert f"pid {child.pid}" in str(error.value)
        assert "topicdb serve" in str(error.value)
        assert "mode='r'" in str(error.value)
