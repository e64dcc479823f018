"""Tests with several processes: locks, separate shards, forks, a reader beside a writer."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import Child, Layout, fork_and_run, topic_in_shard

import topicdb
from topicdb import Database, ForkedError, LockedError, ReadOnlyError

# Opens the database with options given as a Python expression, and runs the lines that it is sent.
WRITER = """
    import sys, topicdb
    try:
        db = topicdb.open(sys.argv[1], **eval(sys.argv[2]))
    except topicdb.Error as error:
        print(type(error).__name__, error)
        raise SystemExit
    print("open")
    for line in sys.stdin:
        if line.strip() == "close":
            db.close()
        else:
            exec(line)
        print("done")
"""


def writer(path: Path, options: str = "{}") -> Child:
    child = Child(WRITER, path, options)
    child.expect("open")
    return child


def tell(child: Child, line: str) -> None:
    """Has the child run a line of Python, and waits until the line has run."""
    child.send(line)
    child.expect("done")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
class TestFork:
    def test_every_use_in_the_child_is_refused(self, db_path: Path, layout: Layout) -> None:
        with topicdb.open(db_path, shards=2, layout=layout) as db:
            db.append([("a", 1, b"before")])
            batches = iter(db.scan().batches(rows=1))
            [stream] = db.streams("a")
            iterator = db.iterator(stream, "a")
            slab = db.slabs()[0]
            uses: dict[str, Callable[[], object]] = {
                "append": lambda: db.append([("a", 2, b"child")]),
                "scan": lambda: db.scan().to_list(),
                "running scan": lambda: next(batches),
                "streams": lambda: db.streams("#"),
                "iterator": lambda: db.iterator(stream, "a"),
                "next": lambda: db.next(iterator),
                "rotate": lambda: db.rotate(),
                "slabs": lambda: db.slabs(),
                "drop_slab": lambda: db.drop_slab(slab),
                "expire": lambda: db.expire(),
                "stats": lambda: db.stats(),
                "flush": lambda: db.flush(),
                "close": lambda: db.close(),
            }

            def check() -> str:
                for use in uses.values():
                    with pytest.raises(ForkedError, match=db_path.name):
                        use()
                return "all refused"

            assert fork_and_run(check) == "all refused"
            db.append([("a", 3, b"after")])
            assert [m.value for m in db.scan()] == [b"before", b"after"]
        with topicdb.open(db_path) as db:
            assert [m.value for m in db.scan()] == [b"before", b"after"]

    def test_a_child_that_forgets_or_leaves_the_handle_harms_nothing(self, db_path: Path) -> None:
        holder = [topicdb.open(db_path)]
        holder[0].append([("a", 1, b"")])
        batches = [holder[0].scan().batches()]
        next(batches[0])

        def forget() -> str:
            batches.clear()
            holder.clear()
            return "gone"

        assert fork_and_run(forget) == "gone"
        for i in range(2, 100):
            holder[0].append([("a", i, b"")])
        with pytest.raises(LockedError):
            topicdb.open(db_path)
        holder[0].close()
        with topicdb.open(db_path) as again:
            assert again.scan().count() == 99

    def test_the_child_may_open_it_for_reading(self, db_path: Path, layout: Layout) -> None:
        with topicdb.open(db_path, layout=layout) as db:
            db.append([("a", 1, b"")])

            def read() -> int:
                with topicdb.open(db_path, mode="r") as reader:
                    return reader.scan().count()

            assert fork_and_run(read) == "1"

    def test_the_child_of_a_process_that_is_writing_may_not_write(self, db_path: Path) -> None:
        def try_to_write() -> str:
            try:
                with topicdb.open(db_path) as db:
                    db.append([("a", 2, b"child")])
            except ForkedError as error:
                return str(error)
            return "written"

        with topicdb.open(db_path) as db:
            assert "spawn" in fork_and_run(try_to_write)
            db.append([("a", 1, b"")])
        assert fork_and_run(try_to_write) == "written"
        with topicdb.open(db_path) as db:
            assert db.scan().count() == 2


def test_a_second_writing_process_is_told_who_writes(db_path: Path) -> None:
    with writer(db_path) as child:
        with pytest.raises(LockedError, match=rf"pid {child.pid}\b") as caught:
            topicdb.open(db_path)
        assert str(db_path) in str(caught.value)
        tell(child, "close")
        topicdb.open(db_path).close()


def test_a_second_writing_handle_of_one_process_is_refused(db: Database, db_path: Path) -> None:
    with pytest.raises(LockedError, match=rf"pid {os.getpid()}\b"):
        topicdb.open(db_path)
    db.append([("a", 1, b"")])
    link = db_path.parent / "link.db"
    link.symlink_to(db_path)
    with pytest.raises(LockedError):
        topicdb.open(link)
    with Child(WRITER, db_path, "{}") as child:
        assert re.match(rf"LockedError .*pid {os.getpid()}\b", child.read_line())


def test_a_killed_writer_leaves_no_lock(db_path: Path) -> None:
    with writer(db_path) as child:
        tell(child, "db.append([('a', 1, b'')])")
        child.kill()
        with topicdb.open(db_path) as db:
            assert db.scan().count() == 1


def test_two_processes_write_different_shards(db_path: Path, layout: Layout) -> None:
    topics = [topic_in_shard(shard, 2) for shard in (0, 1)]
    topicdb.open(db_path, shards=2, layout=layout).close()
    with (
        topicdb.open(db_path, only_shards=[0]) as db,
        writer(db_path, "dict(only_shards=[1])") as child,
    ):
        for i in range(20):
            db.append([(topics[0], i, b"parent")])
            tell(child, f"db.append([({topics[1]!r}, {i}, b'child')])")
        assert {m.topic for m in db.scan()} == {topics[0]}, "only the shards that are open"
        assert {s.shard for s in db.slabs()} == {0}
        with pytest.raises(LockedError):
            topicdb.open(db_path)
        with pytest.raises(LockedError):
            topicdb.open(db_path, only_shards=[1])
        tell(child, "close")
    with topicdb.open(db_path, mode="r") as reader:
        assert reader.scan().count() == 40


def test_a_topic_of_a_shard_that_is_not_open_is_refused(db_path: Path) -> None:
    topicdb.open(db_path, shards=2).close()
    here, elsewhere = topic_in_shard(0, 2), topic_in_shard(1, 2)
    with topicdb.open(db_path, only_shards=[0]) as db:
        with pytest.raises(ReadOnlyError, match=rf"{elsewhere}.*shard 1"):
            db.append([(here, 1, b""), (elsewhere, 1, b"")])
        assert db.scan().to_list() == []
        db.append([(here, 1, b"")])
        assert db.scan(elsewhere).to_list() == []


def test_opening_fails_as_a_whole(db_path: Path) -> None:
    topicdb.open(db_path, shards=3).close()
    with topicdb.open(db_path, only_shards=[2]):
        with pytest.raises(LockedError):
            topicdb.open(db_path)
        topicdb.open(db_path, only_shards=[0, 1]).close()  # the failed call left no lock


def test_a_reader_beside_a_writing_process(db_path: Path, layout: Layout) -> None:
    with writer(db_path, f"dict(shards=2, layout={layout!r})") as child:
        tell(child, "db.append([(f't/{i}', i, b'1') for i in range(50)])")
        with topicdb.open(db_path, mode="r") as reader:
            assert reader.scan().count() == 50
            tell(child, "db.append([(f'new/{i}', i, b'2') for i in range(50)])")
            reader.refresh()
            assert reader.scan().count() == 100
            assert reader.scan("new/+").count() == 50
            tell(child, "db.flush()")
            tell(child, "db.rotate()")
            tell(child, "db.append([('third', 1, b'3')])")
            reader.refresh()
            assert reader.scan().count() == 101
            assert {s.generation for s in reader.slabs()} == {1, 2}
            running = reader.scan().batches(rows=10)
            next(running)
            tell(child, "[db.drop_slab(s) for s in db.slabs() if s.read_only]")
            reader.refresh()
            assert reader.scan().count() == 1
            assert sum(len(batch) for batch in running) == 91, (
                "a running scan keeps what it began with"
            )
            child.kill()
            assert reader.scan().count() == 1
            reader.refresh()
            assert [m.value for m in reader.scan()] == [b"3"]


def test_a_reader_in_the_same_process(db: Database, db_path: Path) -> None:
    with topicdb.open(db_path, mode="r") as one, topicdb.open(db_path, mode="r") as two:
        db.append([("a", 1, b"")])
        assert one.scan().count() == 0
        one.refresh()
        assert (one.scan().count(), two.scan().count()) == (1, 0)
        two.refresh()
        assert two.scan().count() == 1


def test_a_reader_changes_nothing_on_disk(db_path: Path) -> None:
    with topicdb.open(db_path) as db:
        db.append([("a", 1, b"")])

    def files() -> dict[str, Any]:
        found = (p for p in db_path.rglob("*") if p.is_file())
        return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in found}

    before = files()
    with topicdb.open(db_path, mode="r") as reader:
        assert reader.scan().count() == 1
        reader.refresh()
    assert files() == before


def test_iterators_work_in_another_process(db_path: Path, layout: Layout) -> None:
    with topicdb.open(db_path, structures=["t/+"], layout=layout) as db:
        db.append([(f"t/{i}", i, b"%d" % i) for i in range(10)])
        [stream] = db.streams("t/+")
        page = db.next(db.iterator(stream, "t/+"), 4)
    with writer(db_path) as child:
        child.send(
            "print([m.timestamp for m in db.next(topicdb.Iterator.from_bytes("
            f"{bytes(page.iterator)!r}), 3).batch])"
        )
        child.expect("[4, 5, 6]")
