"""A handle whose directory was removed or replaced acknowledges nothing that is to be durable."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import pytest
from support import Layout, topic_in_shard, wait_until

import topicdb
from topicdb import StorageError, jobs

SHARDS = 2
TOPICS = [topic_in_shard(shard, SHARDS) for shard in range(SHARDS)]
GONE = "removed or replaced while it was open"

Change: TypeAlias = "Callable[[Path], object]"


def filled(path: Path, value: bytes, layout: Layout = "columnar") -> topicdb.Database:
    db = topicdb.open(path, shards=SHARDS, layout=layout, maintenance_interval=None)
    db.append([(topic, 1, value) for topic in TOPICS], durability="disk")
    return db


def moved(path: Path) -> Path:
    return path.with_name("moved.db")


def rename(path: Path) -> None:
    path.rename(moved(path))


def replace(path: Path) -> None:
    """Puts another database of the same shape in the place of the one that is open."""
    filled(path.with_name("other.db"), b"other").close()
    rename(path)
    path.with_name("other.db").rename(path)


def replace_by_a_copy(path: Path) -> None:
    """Puts a copy there: its files have the same names and the same content."""
    rename(path)
    shutil.copytree(moved(path), path)


def remove_shards(path: Path) -> None:
    for shard in range(SHARDS):
        shutil.rmtree(path / "shards" / f"{shard:04}")


def remove_files(path: Path) -> None:
    """Removes all files and leaves the directories, as some cleaners of old files do."""
    for file in path.rglob("*"):
        if file.is_file():
            file.unlink()


LOSSES: list[Change] = [
    shutil.rmtree,
    rename,
    replace,
    replace_by_a_copy,
    remove_shards,
    remove_files,
]


def transact(db: topicdb.Database) -> None:
    with db.transaction(shard=0, durability="disk") as tx:
        tx.write(TOPICS[0], 2, b"x")


def change_map(db: topicdb.Database) -> None:
    with db.map("settings", durability="disk") as settings:
        settings["unit"] = b"bar"


DURABLE: dict[str, Callable[[topicdb.Database], object]] = {
    "append": lambda db: db.append([(TOPICS[0], 2, b"x")], durability="disk"),
    "append to several shards": lambda db: db.append(
        [(topic, 2, b"x") for topic in TOPICS], durability="disk"
    ),
    "append_async": lambda db: db.append_async([(TOPICS[0], 2, b"x")], durability="disk").result(),
    "delete": lambda db: db.delete("#", durability="disk"),
    "transaction": transact,
    "map": change_map,
    "flush": lambda db: db.flush(),
    "rotate": lambda db: db.rotate(),
    "set_retention": lambda db: db.set_retention({"#": "30d"}),
    "snapshot": lambda db: db.snapshot(Path(db.path).with_name("snapshot.db")),
}


@pytest.fixture
def db(db_path: Path, layout: Layout) -> Iterator[topicdb.Database]:
    database = filled(db_path, b"first", layout)
    yield database
    with suppress(topicdb.Error):  # each test says whether closing fails
        database.close()


@pytest.mark.parametrize("lose", LOSSES)
def test_a_durable_append_is_not_acknowledged(
    db: topicdb.Database, db_path: Path, lose: Change
) -> None:
    lose(db_path)
    with pytest.raises(StorageError, match=GONE):
        db.append([(TOPICS[0], 2, b"x")], durability="disk")


@pytest.mark.parametrize("call", DURABLE.values(), ids=DURABLE)
@pytest.mark.parametrize("lose", [shutil.rmtree, replace])
def test_no_call_that_is_durable_reports_success(
    db: topicdb.Database, db_path: Path, lose: Change, call: Callable[[topicdb.Database], object]
) -> None:
    lose(db_path)
    with pytest.raises(StorageError, match=r"shard \d of .*test\.db"):
        call(db)
    assert not db_path.with_name("snapshot.db").exists()


def test_the_error_names_the_shard_and_the_file(db: topicdb.Database, db_path: Path) -> None:
    rename(db_path)
    with pytest.raises(StorageError) as raised:
        db.flush()
    text = str(raised.value)
    assert text.startswith(f"shard 0 of {db_path} was removed or replaced while it was open")
    assert f"{db_path}/shards/0000/" in text


def test_nothing_more_is_taken_after_that(db: topicdb.Database, db_path: Path) -> None:
    rename(db_path)
    with pytest.raises(StorageError, match=GONE):
        db.append([(TOPICS[0], 2, b"x")], durability="disk")
    for durability in ("none", "os", "disk"):
        with pytest.raises(StorageError, match="takes no more writes"):
            db.append([(TOPICS[0], 3, b"x")], durability=durability)
    assert db.scan("#").count() > 0, "it can still be read"
    with pytest.raises(StorageError):
        db.close()


def test_one_shard_that_is_gone_does_not_stop_the_other(
    db: topicdb.Database, db_path: Path
) -> None:
    shutil.rmtree(db_path / "shards" / "0001")
    db.append([(TOPICS[0], 2, b"x")], durability="disk")
    with pytest.raises(StorageError, match=f"shard 1 of .*{GONE}"):
        db.append([(TOPICS[1], 2, b"x")], durability="disk")


def test_closing_says_so_if_nothing_else_has(db: topicdb.Database, db_path: Path) -> None:
    db.append([(TOPICS[0], 2, b"x")])
    rename(db_path)
    with pytest.raises(StorageError):
        db.close()


def test_what_was_acknowledged_before_is_where_the_directory_is_now(
    db: topicdb.Database, db_path: Path
) -> None:
    db.append([(TOPICS[0], 2, b"acknowledged")], durability="disk")
    rename(db_path)
    with pytest.raises(StorageError, match=GONE):
        db.append([(TOPICS[0], 3, b"x")], durability="disk")
    with suppress(StorageError):
        db.close()
    with topicdb.open(moved(db_path)) as found:
        assert (TOPICS[0], 2, b"acknowledged") in [tuple(m) for m in found.scan("#")]


def test_a_directory_that_is_back_before_anything_was_refused_is_no_loss(
    db: topicdb.Database, db_path: Path
) -> None:
    rename(db_path)
    moved(db_path).rename(db_path)
    db.append([(TOPICS[0], 2, b"x")], durability="disk")
    db.flush()


def test_the_database_in_its_place_is_left_alone(db: topicdb.Database, db_path: Path) -> None:
    """What the lost handle flushes, seals and closes would make, rename and remove files there."""
    replace(db_path)
    before = {path: path.stat().st_size for path in db_path.rglob("*") if path.is_file()}
    with suppress(StorageError):
        for i in range(20):
            db.append([(topic, i, b"%09d" % i * 10_000) for topic in TOPICS])
        db.flush()
    with suppress(StorageError):
        db.set_retention({"#": "1d"})
    with suppress(StorageError):
        db.close()
    after = {path: path.stat().st_size for path in db_path.rglob("*") if path.is_file()}
    assert after == before
    with topicdb.open(db_path) as other:
        assert [message.value for message in other.scan("#")] == [b"other"] * SHARDS
        assert not other.retention
        assert other.verify().ok


def test_maintenance_notices_it_without_any_durable_commit(db_path: Path) -> None:
    with suppress(StorageError), topicdb.open(db_path, maintenance_interval="10ms") as db:
        rename(db_path)
        wait_until(lambda: GONE in db.stats()["maintenance"]["error"])
        with pytest.raises(StorageError, match="takes no more writes"):
            db.append([("a", 1, b"x")], durability="none")


@pytest.mark.parametrize("lose", [shutil.rmtree, replace])
def test_a_job_is_not_committed_to_what_is_not_there(
    db: topicdb.Database, db_path: Path, lose: Change
) -> None:
    with jobs.StagedWriter(db_path, "job") as writer:
        writer.append([(topic, 2, b"x") for topic in TOPICS])
    lose(db_path)
    with pytest.raises(topicdb.NotFoundError):
        jobs.commit(db_path, "job", [writer.staged])
