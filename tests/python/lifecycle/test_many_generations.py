"""Hundreds of generations, whose column families are made and dropped several at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import Layout, wait_until

import topicdb

GENERATIONS = 300
DROPPED = 70

PROGRAM_PATH = list(Path(__file__).parents)[:3]
PROGRAM = """
import os
import signal
import sys
from test_many_generations import fill
with fill(sys.argv[1], sys.argv[2]):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def fill(path: Path | str, layout: Layout) -> topicdb.Database:
    """Makes a database of many generations with a message each, and drops the oldest ones."""
    db = topicdb.open(path, layout=layout, maintenance_interval=None)
    for number in range(GENERATIONS):
        db.append([("a/b", number, b"%d" % number)])
        db.rotate()
    for slab in oldest(db, DROPPED):
        db.drop_slab(slab)
    return db


def oldest(db: topicdb.Database, count: int) -> list[topicdb.Slab]:
    return sorted((s for s in db.slabs() if s.read_only), key=lambda s: s.generation)[:count]


def check(db: topicdb.Database) -> None:
    """Checks that the database has all messages of the generations left, and no others."""
    assert [m.timestamp for m in db.scan("#")] == list(range(DROPPED, GENERATIONS))
    generations = [slab.generation for slab in db.slabs()]
    assert generations == list(range(DROPPED + 1, GENERATIONS + 2))


@pytest.fixture
def filled(db_path: Path, layout: Layout) -> Iterator[topicdb.Database]:
    with fill(db_path, layout) as db:
        yield db


def test_they_are_there_and_gone_at_once(filled: topicdb.Database, db_path: Path) -> None:
    check(filled)
    with topicdb.open(db_path, mode="r") as reader:
        check(reader)
    filled.close()
    assert topicdb.verify(db_path).ok
    with topicdb.open(db_path) as again:
        check(again)


def test_after_a_crash(db_path: Path, layout: Layout) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(db_path), layout],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, PROGRAM_PATH))},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    with topicdb.open(db_path, mode="r") as reader:
        check(reader)
    with topicdb.open(db_path, maintenance_interval=None) as db:
        check(db)
        db.append([("a/b", GENERATIONS, b"")])
        db.rotate()
        assert len(list(db.scan("#"))) == GENERATIONS - DROPPED + 1
    assert topicdb.verify(db_path).ok


def test_a_snapshot_has_no_more_than_is_there(filled: topicdb.Database, tmp_path: Path) -> None:
    filled.snapshot(tmp_path / "snapshot.db")
    assert topicdb.verify(tmp_path / "snapshot.db").ok
    with topicdb.open(tmp_path / "snapshot.db") as copy:
        check(copy)


def test_maintenance_leaves_nothing_of_what_was_dropped(db_path: Path, layout: Layout) -> None:
    size = 200_000
    with topicdb.open(db_path, layout=layout, maintenance_interval=None) as db:
        for number in range(GENERATIONS):
            value = os.urandom(size) if number == 0 else b""
            db.append([("a/b", number, value)])
            db.rotate()
        db.flush()
        db.maintain()  # does all that is due before the drop
        before = table_bytes(db_path)
        [first] = oldest(db, 1)
        db.drop_slab(first)
        db.maintain()
        wait_until(lambda: table_bytes(db_path) <= before - size)


def test_what_is_kept_gets_the_number_of_one_that_was_dropped(
    db_path: Path, layout: Layout
) -> None:
    day_us = 86_400_000_000
    with topicdb.open(db_path, layout=layout, maintenance_interval=None) as db:
        for number in range(GENERATIONS):
            db.append([("a/b", number, b"%d" % number)])
            db.rotate()
        db.set_retention({"#": topicdb.Retention(age="1d", rotate="30d", keep_last=1)})
        first, second = oldest(db, 2)
        db.drop_slab(second)
        assert first.sealed_at is not None
        assert db.maintain(now=first.sealed_at + day_us).kept == 1
        assert [s.keep_last for s in oldest(db, 2)] == [1, 0]
    with topicdb.open(db_path, maintenance_interval=None) as db:
        assert [m.timestamp for m in db.scan("#")] == [0, *range(2, GENERATIONS)]
    assert topicdb.verify(db_path).ok


def table_bytes(path: Path) -> int:
    total = 0
    for file in path.glob("shards/*/*.sst"):
        try:
            total += file.stat().st_size
        except FileNotFoundError:  # the file was removed meanwhile
            continue
    return total
