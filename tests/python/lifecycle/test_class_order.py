"""Messages of a topic that moves from class to class come in the order of their commits."""

from __future__ import annotations

import time
import zipfile
from pathlib import Path

import pytest
from support import Layout

import topicdb
from topicdb import Database

TOPIC = "a/pump"
APART = {"a/#": "10d", "#": "20d"}
TOGETHER = {"#": "20d"}


def opened(path: Path, layout: Layout) -> Database:
    return topicdb.open(
        path, layout=layout, shards=2, retention=TOGETHER, maintenance_interval=None
    )


def store(db: Database, first: int, count: int) -> None:
    db.append([(TOPIC, 1_000 + i, b"%d" % i) for i in range(first, first + count)])


def scanned(db: Database) -> list[int]:
    return [int(message.value) for message in db.scan(TOPIC)]


def by_generation(db: Database) -> list[int]:
    """Returns values stream by stream in the order of ``streams``, each stream to its end."""
    found: list[int] = []
    streams = db.streams(TOPIC)
    for stream in streams:
        page = db.next(db.iterator(stream, TOPIC), 1_000)
        found += [int(message.value) for message in page.batch]
        # Otherwise such a reader would wait here for ever, while new messages go elsewhere.
        assert page.end_of_stream or stream == streams[-1], stream
    return found


def check(db: Database, count: int) -> None:
    assert scanned(db) == list(range(count))
    assert by_generation(db) == list(range(count))
    assert [int(m.value) for m in db.scan(TOPIC, order="time")] == list(range(count))


def test_there_and_back(db_path: Path, layout: Layout) -> None:
    with opened(db_path, layout) as db:
        store(db, 0, 1)
        db.set_retention(APART)
        store(db, 1, 3)
        db.set_retention(TOGETHER)
        store(db, 4, 2)
        check(db, 6)
    for mode in ("rw", "r"):
        with topicdb.open(db_path, mode=mode, maintenance_interval=None) as db:
            check(db, 6)


def test_many_moves_and_rotations(db_path: Path, layout: Layout) -> None:
    with opened(db_path, layout) as db:
        count = 0
        for turn in range(12):
            store(db, count, 3)
            count += 3
            if turn % 3 == 1:
                db.rotate()
            db.set_retention(APART if turn % 2 == 0 else TOGETHER)
            check(db, count)
        store(db, count, 1)
        check(db, count + 1)


def test_a_class_that_was_there_takes_a_topic_of_another(db_path: Path, layout: Layout) -> None:
    """The generation of that class began before the topic's messages in the class it leaves."""
    before = {"b/#": "1d", "a/x": "2d", "#": "3d"}
    after = {"b/#": "1d", "a/x": "2d", "a/#": "2d", "#": "3d"}
    with topicdb.open(db_path, layout=layout, retention=before, maintenance_interval=None) as db:
        db.set_retention(after)
        db.append([("a/x", 1, b"older than all"), (TOPIC, 1_000, b"0"), (TOPIC, 1_001, b"1")])
        db.set_retention(before)
        store(db, 2, 2)
        db.set_retention(after)
        store(db, 4, 2)
        check(db, 6)
        assert db.scan("a/x").count() == 1


def test_who_watches_streams_gets_them_in_order(db_path: Path) -> None:
    with opened(db_path, "columnar") as db, db.watch_streams(TOPIC, timeout=0) as watch:
        found: list[int] = []
        for turn, classes in enumerate((APART, TOGETHER, APART)):
            store(db, 2 * turn, 2)
            db.set_retention(classes)
        store(db, 6, 2)
        for stream in watch:
            found += [int(m.value) for m in db.next(db.iterator(stream, TOPIC), 100).batch]
        assert found == list(range(8))


def test_only_classes_that_topics_come_into_or_leave_begin_anew(db_path: Path) -> None:
    """New ages alone end no generation, nor does a change of classes with other topics."""
    before = {"a/#": "1d", "b/#": "2d", "#": "3d"}
    with topicdb.open(db_path, retention=before, maintenance_interval=None) as db:
        db.append([("a/1", 1, b""), ("b/1", 1, b""), ("c/1", 1, b"")])

        def generations() -> dict[str, int]:
            return {slab.retention_class: slab.generation for slab in db.slabs()}

        db.set_retention({"a/#": "5d", "b/#": "6d", "#": "7d"})
        assert generations() == {"a/#": 1, "b/#": 1, "#": 1}
        db.set_retention({"b/#": "6d", "a/#": "5d", "#": "7d"})
        assert generations() == {"a/#": 1, "b/#": 1, "#": 1}, "they have no topic in common"
        db.set_retention({"a/x/#": "1d", "a/#": "5d", "b/#": "6d", "#": "7d"})
        assert generations() == {"a/x/#": 1, "a/#": 2, "b/#": 1, "#": 2}


def test_a_change_that_was_cut_short_is_made_up_for(db_path: Path, layout: Layout) -> None:
    """The new classes were stored, but the process ended before its shards followed."""
    with opened(db_path, layout) as db:
        store(db, 0, 1)
        db.set_retention(APART)
        store(db, 1, 3)
    followed = db_path / "retention"
    apart = followed.read_bytes()
    shards = db_path.with_suffix(".zip")
    with zipfile.ZipFile(shards, "w") as archive:
        for file in (db_path / "shards").rglob("*"):
            archive.write(file, file.relative_to(db_path))
    with topicdb.open(db_path, maintenance_interval=None) as db:
        db.set_retention(TOGETHER)
    together = followed.read_bytes()
    assert together != apart
    for file in sorted((db_path / "shards").rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    with zipfile.ZipFile(shards) as archive:
        archive.extractall(db_path)
    with topicdb.open(db_path, maintenance_interval=None) as db:
        store(db, 4, 2)
        check(db, 6)


@pytest.mark.parametrize("keep_last", [1, 2])
def test_what_is_kept_of_generations_comes_before_newer_ones(db_path: Path, keep_last: int) -> None:
    kept = topicdb.Retention("1d", keep_last=keep_last)
    classes: dict[str, topicdb.Retention | str] = {"a/#": kept, "#": "9d"}
    with topicdb.open(db_path, retention=classes, maintenance_interval=None) as db:
        for turn in range(3):
            store(db, 2 * turn, 2)
            db.rotate()
        db.maintain(time.time_ns() // 1_000 + 2 * 86_400_000_000)
        store(db, 6, 2)
        assert scanned(db) == [*range(6 - keep_last, 6), 6, 7]
