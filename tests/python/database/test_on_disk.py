"""Which databases there are, and dropping one."""

from __future__ import annotations

import os
import random
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from support import Child, Layout, fork_and_run

import topicdb
from topicdb import CorruptionError, LockedError, NotFoundError, SchemaError, jobs

ROWS = [(f"t/{i}", i, b"%d" % i) for i in range(100)]


@pytest.fixture
def path(db_path: Path, layout: Layout) -> Path:
    """A closed database of three shards, with all that a database may have in its directory."""
    with topicdb.open(db_path, shards=3, layout=layout, retention={"a/#": "30d"}) as db:
        db.append(ROWS)
        db.flush()
        db.append(ROWS)
        db.set_retention({"t/#": topicdb.Retention(age="30d", keep_last=3)})
        db.map("settings")["unit"] = b"bar"
    with jobs.StagedWriter(db_path, "abandoned") as writer:
        writer.append(ROWS)
    quarantined = db_path / "quarantine" / "20261122T104138.123456Z"
    shutil.copytree(db_path / "shards" / "0001", quarantined / "0001")
    return db_path


def content(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in path.rglob("*")
        if file.is_file() and not file.name.endswith(".lock")
    }


# exists and databases


def test_a_database_exists_from_its_making_to_its_drop(db_path: Path) -> None:
    assert not topicdb.exists(db_path)
    with topicdb.open(db_path):
        assert topicdb.exists(db_path)
        assert topicdb.exists(str(db_path) + "/")
    assert topicdb.exists(db_path)
    topicdb.drop(db_path)
    assert not topicdb.exists(db_path)


def test_what_is_no_database_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    topicdb.Queue.open(tmp_path / "queue").close()
    for name in ("file", "empty", "queue", "none", "file/below"):
        assert not topicdb.exists(tmp_path / name)
    with pytest.raises(ValueError, match="path"):
        topicdb.exists("")
    with pytest.raises(TypeError, match="path"):
        topicdb.exists(7)  # type: ignore[arg-type]


def test_a_damaged_database_exists(path: Path) -> None:
    (path / "TOPICDB").write_bytes(b"nonsense")
    assert topicdb.exists(path)


def test_one_whose_making_was_cut_short_does_not_exist(db_path: Path) -> None:
    db_path.mkdir()
    (db_path / "CREATING").touch()
    assert not topicdb.exists(db_path)
    topicdb.open(db_path).close()
    assert topicdb.exists(db_path)


def test_databases_of_a_directory(tmp_path: Path) -> None:
    for name in ("b.db", "a.db", "c.db.partial"):
        topicdb.open(tmp_path / name).close()
    (tmp_path / "mine").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "a.db")
    found = topicdb.databases(tmp_path)
    assert found == [str(tmp_path / name) for name in ("a.db", "b.db", "link.db")]
    for one in found:
        topicdb.open(one, mode="r").close()
    assert topicdb.databases(tmp_path / "mine") == []
    with pytest.raises(NotFoundError, match="no directory"):
        topicdb.databases(tmp_path / "none")


def test_relative_paths_are_those_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    topicdb.open("a.db").close()
    assert topicdb.exists("a.db")
    assert topicdb.databases(".") == [os.path.join(tmp_path, ".", "a.db")]
    topicdb.drop("a.db")
    assert not (tmp_path / "a.db").exists()


# drop


def test_drop_says_what_it_removes(path: Path) -> None:
    sizes = [file.stat().st_size for file in path.rglob("*") if file.is_file()]
    foreseen = topicdb.drop(path, dry_run=True)
    assert topicdb.exists(path)
    assert (foreseen.path, foreseen.files, foreseen.bytes) == (str(path), len(sizes), sum(sizes))
    dropped = topicdb.drop(path)
    assert (dropped.path, dropped.bytes) == (foreseen.path, foreseen.bytes)
    assert dropped.files >= foreseen.files, "locks that were not there count, too"
    assert not path.exists()
    with pytest.raises(NotFoundError, match="there is no database"):
        topicdb.drop(path)
    with topicdb.open(path) as db:
        assert db.scan("#").count() == 0


def test_a_snapshot_of_it_stays(path: Path, tmp_path: Path) -> None:
    with topicdb.open(path) as db:
        db.snapshot(tmp_path / "copy")
        stored = db.scan("#").to_list()
    topicdb.drop(path)
    with topicdb.open(tmp_path / "copy") as db:
        assert db.scan("#").to_list() == stored
        assert db.verify().ok
    topicdb.drop(tmp_path / "copy")


@pytest.mark.parametrize("options", [{}, {"mode": "r"}, {"only_shards": [2]}])
def test_drop_is_refused_while_this_process_has_it_open(
    path: Path, options: dict[str, Any]
) -> None:
    before = content(path)
    with topicdb.open(path, **options) as db:
        for dry_run in (True, False):
            with pytest.raises(LockedError, match=f"pid {os.getpid()}.* in use"):
                topicdb.drop(path, dry_run=dry_run)
        assert db.scan("#").count() > 0
    if options == {"mode": "r"}:
        assert content(path) == before
    topicdb.drop(path)


OPENS = """
    import sys, topicdb
    db = topicdb.open(sys.argv[1], mode=sys.argv[2])
    print("open")
    sys.stdin.readline()
    db.close()
    print("closed")
    sys.stdin.readline()
"""


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_drop_is_refused_while_another_process_has_it_open(path: Path, mode: str) -> None:
    with Child(OPENS, path, mode) as child:
        child.expect("open")
        with pytest.raises(LockedError, match=f"pid {child.pid}.* in use"):
            topicdb.drop(path)
        assert topicdb.exists(path)
        child.send()
        child.expect("closed")
        topicdb.drop(path)
    assert not path.exists()


def test_a_process_that_was_killed_is_in_nobodys_way(path: Path) -> None:
    with Child(OPENS, path, "r") as child:
        child.expect("open")
        child.kill()
    topicdb.drop(path)


def test_several_readers_of_one_process_count_until_the_last_is_closed(path: Path) -> None:
    first, second = (topicdb.open(path, mode="r") for _ in range(2))
    first.close()
    with pytest.raises(LockedError):
        topicdb.drop(path)
    second.close()
    topicdb.drop(path)


def test_a_forked_child_is_no_user_of_its_parents_handle(path: Path) -> None:
    with topicdb.open(path, mode="r"):

        def check() -> str:
            with pytest.raises(LockedError):
                topicdb.drop(path)
            return "refused"

        assert fork_and_run(check) == "refused"
    topicdb.drop(path)


def test_drop_is_refused_while_a_job_is_staged(path: Path) -> None:
    with jobs.StagedWriter(path, "job") as writer:
        writer.append(ROWS)
        with pytest.raises(LockedError):
            topicdb.drop(path)
    topicdb.drop(path)


@pytest.mark.parametrize("name", ["notes.txt", "shards/0001/notes.txt", "jobs/x/notes.txt"])
def test_what_is_not_its_own_stays_with_the_database(path: Path, name: str) -> None:
    (path / name).parent.mkdir(exist_ok=True)
    (path / name).write_text("mine")
    before = content(path)
    with pytest.raises(CorruptionError, match=f"{name} is not TopicDB's: move it away"):
        topicdb.drop(path)
    assert content(path) == before
    (path / name).unlink()
    topicdb.drop(path)


def test_a_link_in_it_is_not_followed(path: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    (path / "jobs" / "link").symlink_to(tmp_path / "mine")
    with pytest.raises(CorruptionError, match="link is not TopicDB's"):
        topicdb.drop(path)
    assert (tmp_path / "mine" / "notes.txt").exists()


def test_drop_takes_no_link_for_a_database(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(ValueError, match="symbolic link"):
        topicdb.drop(tmp_path / "link")
    assert topicdb.exists(path)


def test_drop_is_no_way_to_remove_other_directories(tmp_path: Path) -> None:
    topicdb.Queue.open(tmp_path / "queue").close()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    for name in ("queue", "mine"):
        with pytest.raises(CorruptionError, match="is no TopicDB database"):
            topicdb.drop(tmp_path / name)
    for wrong in ("none", "mine/notes.txt/below"):
        with pytest.raises((NotFoundError, CorruptionError)):
            topicdb.drop(tmp_path / wrong)
    with pytest.raises(ValueError, match="path"):
        topicdb.drop("")
    with pytest.raises(TypeError, match="path"):
        topicdb.drop(b"x")  # type: ignore[arg-type]
    assert (tmp_path / "queue" / "QUEUE").exists()


def test_a_database_of_a_newer_topicdb_is_left_alone(path: Path) -> None:
    data = bytearray((path / "TOPICDB").read_bytes())
    struct.pack_into("<H", data, 8, 1_000)
    struct.pack_into("<I", data, 16, zlib.crc32(data[:16] + data[20:]))
    (path / "TOPICDB").write_bytes(data)
    before = content(path)
    with pytest.raises(SchemaError, match="newer"):
        topicdb.drop(path)
    assert content(path) == before


def test_a_damaged_database_can_be_dropped(path: Path) -> None:
    (path / "TOPICDB").write_bytes(b"nonsense")
    (path / "retention").write_bytes(b"nonsense")
    shutil.rmtree(path / "shards" / "0001")
    topicdb.drop(path)
    assert not path.exists()


def test_what_a_drop_leaves_is_named_and_finished(path: Path, tmp_path: Path) -> None:
    (path / "TOPICDB").rename(path / "DROPPING")
    shutil.rmtree(path / "shards" / "0000")
    before = content(path)
    named = rf"the drop of the database {path} was cut short.*topicdb\.drop finishes it"
    for mode in ("r", "rw"):
        with pytest.raises(CorruptionError, match=named):
            topicdb.open(path, mode=mode)
    with pytest.raises(CorruptionError, match=named):
        topicdb.repair(path)
    with pytest.raises(topicdb.ExistsError, match=named):
        topicdb.open(tmp_path / "other.db").close()
        topicdb.restore(tmp_path / "other.db", path, replace=True)
    assert not topicdb.exists(path)
    assert topicdb.databases(tmp_path) == [str(tmp_path / "other.db")]
    assert content(path) == before, "opening it has changed nothing"
    topicdb.drop(path)
    assert not path.exists()


def test_opening_while_it_is_dropped_again_and_again(db_path: Path) -> None:
    """Whoever opens it beside a process that drops it gets a whole database, or a named error."""
    drops = """
        import sys, topicdb
        print("begun")
        for _ in range(40):
            try:
                topicdb.drop(sys.argv[1])
            except (topicdb.NotFoundError, topicdb.LockedError):
                pass
        print("done")
    """
    named = (CorruptionError, LockedError, NotFoundError)
    outcomes = set()
    with Child(drops, db_path) as child:
        child.expect("begun")
        for number in range(200):
            try:
                with topicdb.open(db_path, shards=2) as db:
                    db.append([("a", number, b"x"), ("b", number, b"x")], durability="disk")
                    assert db.scan("#").count() % 2 == 0
                outcomes.add("opened")
            except named as error:
                outcomes.add(type(error).__name__)
        child.expect("done")
    assert "opened" in outcomes
    if topicdb.exists(db_path):
        topicdb.drop(db_path)


# Crashes. tests/crash has every state that a crash may leave.

DROPS = """
    import sys, topicdb
    print("dropping")
    topicdb.drop(sys.argv[1])
    print("dropped")
"""


def test_a_drop_that_is_killed_leaves_all_or_what_a_second_one_finishes(tmp_path: Path) -> None:
    chance = random.Random(5)
    whole = tmp_path / "whole.db"
    with topicdb.open(whole, shards=3) as db:
        for generation in range(10):
            db.append([(f"{generation}/{i}", i, b"x") for i in range(50)])
            db.rotate()
    outcomes = []
    for number in range(30):
        path = tmp_path / f"{number}.db"
        shutil.copytree(whole, path)
        with Child(DROPS, path) as child:
            child.expect("dropping")
            for _ in range(chance.randint(0, 100_000)):
                pass
            child.kill()
            _, rest, _ = child.finish()
        outcomes.append(check_after(path, rest == "dropped\n"))
    assert set(outcomes) <= {"whole", "cut short", "gone"}


def check_after(path: Path, is_acknowledged: bool) -> str:
    """Returns what a drop has left, and drops it."""
    if not path.exists() or not any(path.iterdir()):
        return "gone"
    assert not is_acknowledged, "what was dropped is gone"
    if topicdb.exists(path):
        with topicdb.open(path) as db:
            assert db.scan("#").count() == 500
            assert db.verify().ok
        topicdb.drop(path)
        return "whole"
    with pytest.raises(CorruptionError, match="was cut short"):
        topicdb.open(path)
    topicdb.drop(path)
    assert not path.exists()
    return "cut short"
