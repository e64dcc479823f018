"""Snapshots show one moment of all shards, and a failed snapshot or restore leaves nothing."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import Child, Layout, topic_in_shard, wait_until

import topicdb
from topicdb import CorruptionError, ExistsError, LockedError, NotFoundError, ReadOnlyError, jobs

SHARDS = 3
# One topic per shard, so that an append to all three topics is in every shard.
WIDE = [topic_in_shard(shard, SHARDS) for shard in range(SHARDS)]


def wide_batch(writer: int, number: int) -> list[tuple[str, int, bytes]]:
    return [(topic, number, b"%d.%d" % (writer, number)) for topic in WIDE]


def read_all(path: Path) -> list[tuple[str, int, bytes]]:
    with topicdb.open(path, mode="r") as db:
        return sorted((m.topic, m.timestamp, m.value) for m in db.scan("#"))


def link_counts(path: Path) -> list[int]:
    return sorted(file.stat().st_nlink for file in path.rglob("*.sst"))


@pytest.fixture
def source(db_path: Path, layout: Layout) -> Any:
    """A database with messages in its table files and in its log."""
    retention = {"alarm/#": topicdb.Retention("365d", bytes=1 << 30)}
    with topicdb.open(db_path, shards=SHARDS, layout=layout, retention=retention) as db:
        db.append([(f"m/{i % 7}", i, b"%d" % i) for i in range(500)])
        db.flush()
        db.append([(f"alarm/{i % 7}", i, b"%d" % i) for i in range(100)])
        db.delete("m/3", end=100)
        yield db


class TestSnapshot:
    def test_it_is_the_database_of_that_moment(
        self, source: topicdb.Database, db_path: Path, tmp_path: Path
    ) -> None:
        before = sorted(tuple(m) for m in source.scan("#"))
        snapshot = source.snapshot(tmp_path / "copy.db")
        source.append([("later", 1, b"")])
        source.delete("m/#")
        assert read_all(tmp_path / "copy.db") == before
        with topicdb.open(tmp_path / "copy.db") as copy:
            assert copy.retention == source.retention
            assert [s["serial"] for s in copy.stats()["shards"]] >= list(snapshot.serials.values())
            copy.append([("only/here", 1, b"")])
        assert source.scan("only/here").count() == 0
        assert source.scan("later").count() == 1

    def test_what_it_says(self, source: topicdb.Database, tmp_path: Path) -> None:
        serials = {s["shard"]: s["serial"] for s in source.stats()["shards"]}
        first = source.snapshot(tmp_path / "1")
        assert first.path == str(tmp_path / "1")
        assert first.serials == serials
        with topicdb.open(first.path, mode="r") as copy:
            assert {s["shard"]: s["serial"] for s in copy.stats()["shards"]} == serials
        assert 0 < first.copied_bytes < first.bytes
        copied = source.snapshot(tmp_path / "2", copy=True)
        assert copied.copied_bytes == copied.bytes
        files = [f for f in (tmp_path / "2").rglob("*") if f.is_file()]
        # The lock is none of the source's files: each directory of a database has one of its own.
        sizes = [f.stat().st_size for f in files if f.name != "handles.lock"]
        assert (len(sizes), sum(sizes)) == (copied.files, copied.bytes)

    def test_files_are_linked_unless_all_are_to_be_copied(
        self, source: topicdb.Database, tmp_path: Path
    ) -> None:
        source.snapshot(tmp_path / "1")
        source.snapshot(tmp_path / "2", copy=True)
        # The database may have merged and removed some of these files since.
        assert 2 in link_counts(tmp_path / "1")
        assert set(link_counts(tmp_path / "2")) == {1}

    def test_a_base_has_what_need_not_be_copied(
        self, source: topicdb.Database, tmp_path: Path
    ) -> None:
        """With copy=True, as on another file system, files can be linked only from the base."""
        source.flush()
        source.snapshot(tmp_path / "1", copy=True)
        source.append([("new", 1, b"x" * 1000)])
        source.flush()
        second = source.snapshot(tmp_path / "2", base=tmp_path / "1", copy=True)
        expected = sorted(tuple(m) for m in source.scan("#"))
        assert 2 in link_counts(tmp_path / "2"), "linked from the first"
        assert 1 in link_counts(tmp_path / "2"), "copied"
        assert second.copied_bytes < second.bytes
        shutil.rmtree(tmp_path / "1")
        assert read_all(tmp_path / "2") == expected

    def test_a_file_of_another_database_is_no_base(
        self, source: topicdb.Database, tmp_path: Path
    ) -> None:
        """A base is not trusted by names and sizes of table files, which may be equal by chance."""
        source.flush()
        expected = sorted(tuple(m) for m in source.scan("#"))
        source.snapshot(tmp_path / "1", copy=True)
        tables = list((tmp_path / "1").rglob("*.sst"))
        for table in tables:
            table.write_bytes(bytes(table.stat().st_size))
        again = source.snapshot(tmp_path / "2", base=tmp_path / "1", copy=True)
        assert again.copied_bytes == again.bytes
        assert read_all(tmp_path / "2") == expected

    def test_it_holds_what_only_memory_had(self, db_path: Path, tmp_path: Path) -> None:
        with topicdb.open(db_path, durability="none") as db:
            db.append([("a", i, b"") for i in range(100)])
            db.snapshot(tmp_path / "copy")
            assert len(read_all(tmp_path / "copy")) == 100

    def test_appends_of_many_threads_are_whole_and_in_order(
        self, db_path: Path, tmp_path: Path, layout: Layout
    ) -> None:
        writers, snapshots = 4, 6
        done: list[list[int]] = [[-1] for _ in range(writers)]
        stop = threading.Event()
        with topicdb.open(db_path, shards=SHARDS, layout=layout) as db:

            def write(writer: int) -> None:
                number = 0
                while not stop.is_set():
                    if writer % 2 == 0:
                        db.append(wide_batch(writer, number))
                    else:
                        db.append_async(wide_batch(writer, number)).result()
                    done[writer][0] = number
                    number += 1

            threads = [threading.Thread(target=write, args=(w,)) for w in range(writers)]
            for thread in threads:
                thread.start()
            try:
                while any(last[0] < 5 for last in done):
                    time.sleep(0.01)
                for number in range(snapshots):
                    acknowledged = [last[0] for last in done]
                    db.snapshot(tmp_path / str(number))
                    self.check_whole(tmp_path / str(number), acknowledged, layout)
            finally:
                stop.set()
                for thread in threads:
                    thread.join()

    @staticmethod
    def check_whole(path: Path, acknowledged: list[int], layout: Layout) -> None:
        """Checks that a copy has whole appends without gaps; skipstream keeps the last writer's."""
        found: dict[int, dict[int, set[str]]] = {w: {} for w in range(len(acknowledged))}
        for topic, _, value in read_all(path):
            writer, number = map(int, value.split(b"."))
            found[writer].setdefault(number, set()).add(topic)
        if layout == "skipstream":
            assert {n for of in found.values() for n in of} >= set(range(max(acknowledged) + 1))
            return
        for writer, last in enumerate(acknowledged):
            assert set(found[writer]) == set(range(len(found[writer]))), "without a gap"
            assert len(found[writer]) > last, "what was acknowledged is there"
            assert all(topics == set(WIDE) for topics in found[writer].values()), "whole"

    def test_jobs_that_were_committed_are_in_it(
        self, source: topicdb.Database, db_path: Path, tmp_path: Path
    ) -> None:
        with jobs.StagedWriter(db_path, "load") as writer:
            writer.append([(topic, i, b"job") for topic in WIDE for i in range(50)])
        with jobs.StagedWriter(db_path, "left") as left:
            left.append([(WIDE[0], 1, b"left")])
        jobs.commit(db_path, "load", [writer.staged])
        source.snapshot(tmp_path / "copy")
        values = [value for _, _, value in read_all(tmp_path / "copy")]
        assert values.count(b"job") == 150
        assert b"left" not in values

    def test_iterators_and_tails_go_on_in_a_copy(self, db_path: Path, tmp_path: Path) -> None:
        with topicdb.open(db_path) as db:
            db.append([("a", i, b"%d" % i) for i in range(100)])
            iterator = db.iterator(db.streams("a")[0], "a")
            page = db.next(iterator, 40)
            snapshot = db.snapshot(tmp_path / "copy")
        topicdb.restore(tmp_path / "copy", tmp_path / "restored")
        with topicdb.open(tmp_path / "restored") as restored:
            rest = restored.next(page.iterator, 1000).batch
            assert [m.timestamp for m in rest] == list(range(40, 100))
            restored.append([("new", 1, b"")])
            with restored.tail("#", after=snapshot.serials) as tail:
                assert next(iter(tail)).topic == "new"


class TestRefusals:
    @pytest.mark.parametrize("make", [Path.mkdir, Path.touch], ids=["directory", "file"])
    def test_an_existing_path(
        self, source: topicdb.Database, tmp_path: Path, make: Callable[[Path], None]
    ) -> None:
        make(tmp_path / "there")
        with pytest.raises(ExistsError, match="there exists: choose a path"):
            source.snapshot(tmp_path / "there")
        assert not (tmp_path / "there.partial").exists()

    def test_handles_that_do_not_write_all_shards(self, db_path: Path, tmp_path: Path) -> None:
        topicdb.open(db_path, shards=2).close()
        with topicdb.open(db_path, mode="r") as db, pytest.raises(ReadOnlyError, match="mode='r'"):
            db.snapshot(tmp_path / "copy")
        with (
            topicdb.open(db_path, only_shards=[1]) as db,
            pytest.raises(ReadOnlyError, match="snapshot: all shards"),
        ):
            db.snapshot(tmp_path / "copy")
        assert not (tmp_path / "copy").exists()

    def test_a_directory_that_cannot_be(self, source: topicdb.Database, tmp_path: Path) -> None:
        (tmp_path / "none").write_text("no directory")
        with pytest.raises(topicdb.StorageError, match="none"):
            source.snapshot(tmp_path / "none" / "copy")

    def test_a_directory_that_is_not_there_is_made(
        self, source: topicdb.Database, tmp_path: Path
    ) -> None:
        source.snapshot(tmp_path / "new" / "copy")
        with topicdb.open(tmp_path / "new" / "copy", mode="r") as copy:
            assert copy.scan("#").count() == source.scan("#").count()

    def test_what_is_in_the_way_of_a_partial_copy(
        self, source: topicdb.Database, tmp_path: Path
    ) -> None:
        (tmp_path / "copy.partial").mkdir()
        (tmp_path / "copy.partial" / "precious").touch()
        with pytest.raises(ExistsError, match=r"copy\.partial is in the way"):
            source.snapshot(tmp_path / "copy")
        assert (tmp_path / "copy.partial" / "precious").exists()


INTERRUPTED = """
    import sys, topicdb
    db = topicdb.open(sys.argv[1], shards=2)
    db.append([(f"t/{i}", i, bytes(1_000_000)) for i in range(int(sys.argv[3]))])
    db.flush()
    print("ready")
    try:
        while True:
            db.snapshot(sys.argv[2], copy=True)
            topicdb.restore(sys.argv[2], sys.argv[2] + ".old")
            import shutil
            shutil.rmtree(sys.argv[2])
            shutil.rmtree(sys.argv[2] + ".old")
            print("again")
    except KeyboardInterrupt:
        print("interrupted")
"""


class TestCutShort:
    def test_ctrl_c_leaves_nothing(self, db_path: Path, tmp_path: Path) -> None:
        with Child(INTERRUPTED, db_path, tmp_path / "copy", 40) as child:
            child.expect("ready")
            child.expect("again")
            child.interrupt()
            code, out, err = child.finish()
        assert (code, out.splitlines()[-1]) == (0, "interrupted"), err
        assert not [p for p in tmp_path.iterdir() if p.name.endswith(".partial")]

    def test_killed_while_it_copies(self, db_path: Path, tmp_path: Path) -> None:
        """A killed snapshot leaves all or nothing under its name, and does not stop the next."""
        copy = tmp_path / "copy"
        for size in (4, 15, 40):
            with Child(INTERRUPTED, db_path, copy, size) as child:
                child.expect("ready")
                wait_until(Path(f"{copy}.partial").exists)
                child.kill()
            for path in (copy, Path(f"{copy}.old")):
                if path.exists():
                    assert read_all(path) == read_all(db_path)
                    shutil.rmtree(path)
            with topicdb.open(db_path) as db:
                db.snapshot(copy)
                topicdb.restore(copy, f"{copy}.old")
            assert read_all(copy) == read_all(db_path)
            shutil.rmtree(copy)
            shutil.rmtree(f"{copy}.old")

    def test_a_partial_copy_is_no_database(self, source: topicdb.Database, tmp_path: Path) -> None:
        source.snapshot(tmp_path / "copy")
        (tmp_path / "copy" / "TOPICDB").unlink()
        with pytest.raises(CorruptionError, match="no file TOPICDB"):
            topicdb.open(tmp_path / "copy")


class TestRestore:
    def test_a_snapshot_stays_as_it_is(self, source: topicdb.Database, tmp_path: Path) -> None:
        source.snapshot(tmp_path / "copy")
        before = read_all(tmp_path / "copy")
        restored = topicdb.restore(tmp_path / "copy", tmp_path / "restored")
        assert restored.path == str(tmp_path / "restored")
        with topicdb.open(tmp_path / "restored") as db:
            assert sorted(tuple(m) for m in db.scan("#")) == before
            db.delete("#")
            db.append([("x", 1, b"")])
            db.flush()
        assert read_all(tmp_path / "copy") == before

    def test_it_replaces_a_closed_database_at_once(
        self, db_path: Path, tmp_path: Path, layout: Layout
    ) -> None:
        with topicdb.open(db_path, layout=layout) as db:
            db.append([("old", 1, b"")])
            db.snapshot(tmp_path / "copy")
            db.append([("new", 1, b"")])
        with topicdb.open(db_path, mode="r") as reader:
            topicdb.restore(tmp_path / "copy", db_path, replace=True)
            assert reader.scan("#").count() == 2, "it keeps what it saw"
        assert [topic for topic, _, _ in read_all(db_path)] == ["old"]
        assert sorted(os.listdir(tmp_path)) == ["copy", "test.db"]

    def test_over_an_open_database(
        self, source: topicdb.Database, db_path: Path, tmp_path: Path
    ) -> None:
        source.snapshot(tmp_path / "copy")
        before = sorted(tuple(m) for m in source.scan("#"))
        with pytest.raises(ExistsError, match=r"test.db exists"):
            topicdb.restore(tmp_path / "copy", db_path)
        with pytest.raises(LockedError, match=rf"pid {os.getpid()}.*close the database .*test.db"):
            topicdb.restore(tmp_path / "copy", db_path, replace=True)
        assert sorted(tuple(m) for m in source.scan("#")) == before

    def test_from_a_database_that_is_written(
        self, source: topicdb.Database, db_path: Path, tmp_path: Path
    ) -> None:
        with pytest.raises(LockedError, match=r"close the database .*test.db first"):
            topicdb.restore(db_path, tmp_path / "restored")

    def test_what_is_no_database_is_not_replaced(
        self, source: topicdb.Database, tmp_path: Path
    ) -> None:
        source.snapshot(tmp_path / "copy")
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "letters").touch()
        with pytest.raises(ExistsError, match="home is no database that could be replaced"):
            topicdb.restore(tmp_path / "copy", tmp_path / "home", replace=True)
        assert (tmp_path / "home" / "letters").exists()

    def test_from_what_is_no_snapshot(self, tmp_path: Path) -> None:
        with pytest.raises(NotFoundError, match="there is no database"):
            topicdb.restore(tmp_path / "none", tmp_path / "restored")
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "file").touch()
        with pytest.raises(CorruptionError, match="no TopicDB database"):
            topicdb.restore(tmp_path / "other", tmp_path / "restored")
        assert not (tmp_path / "restored").exists()

    def test_jobs_that_wait_go_along(self, db_path: Path, tmp_path: Path) -> None:
        """The job was committed while another process held a shard, so the job waits there."""
        topicdb.open(db_path, shards=2).close()
        with jobs.StagedWriter(db_path, "load") as writer:
            writer.append([(f"t/{i}", i, b"job") for i in range(100)])
        with Child(HOLDER, db_path / "shards" / "0001.lock") as child:
            child.expect("locked")
            assert jobs.commit(db_path, "load", [writer.staged], timeout=0).pending == [1]
        topicdb.restore(db_path, tmp_path / "copy")
        assert len(read_all(tmp_path / "copy")) < 100
        topicdb.open(tmp_path / "copy").close()
        assert len(read_all(tmp_path / "copy")) == 100


HOLDER = """
    import fcntl, sys
    file = open(sys.argv[1], "w")
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("locked")
    sys.stdin.readline()
"""
