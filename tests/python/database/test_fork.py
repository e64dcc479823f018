"""What a forked child may do after what its parent did: each use works or is refused at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import CHILD_TIMEOUT_S, run_child

import topicdb

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

# The parent runs one function, and its forked child another; neither has done anything else.
PROGRAM = f"""
    import multiprocessing, os, sys, threading, warnings
    import topicdb

    before, then, root = sys.argv[1:]
    database, other, queue = root + "/ready.db", root + "/other.db", root + "/queue"
    kept = []

    def read():
        with topicdb.open(database, mode="r") as db:
            return db.scan("#").count()

    def read_open():
        kept.append(topicdb.open(database, mode="r"))
        return kept[-1].scan("#").count()

    def verify():
        assert topicdb.verify(database).ok

    def write():
        with topicdb.open(other, seal_bytes=1 << 16, write_buffer_bytes=1 << 20) as db:
            for step in range(30):
                db.append([(f"m/{{i}}", step, bytes(100)) for i in range(100)])
                db.flush()
            db.rotate()
            return db.scan("#").count()

    def write_open():
        kept.append(topicdb.open(other))
        kept[-1].append([("m/1", 1, b"x")])
        kept[-1].flush()

    def use_queue():
        with topicdb.Queue.open(queue) as q:
            q.append([b"item"], durability="disk")
            items, ref = q.pop()
            q.ack(ref)
            return len(items)

    def use_queue_open():
        kept.append(topicdb.Queue.open(queue + ".parents"))
        kept[-1].append([b"item"])
        kept.append(kept[-1].cursor("another"))

    def write_and_use_queue():
        write_open()
        use_queue_open()

    def nothing():
        pass

    def forget_and_use_queue():
        kept.clear()
        return use_queue()

    def in_child(pipe):
        try:
            pipe.send(("done", globals()[then]()))
        except BaseException as error:
            pipe.send((type(error).__name__, str(error)))

    warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forking beside threads
    globals()[before]()
    context = multiprocessing.get_context("fork")
    mine, its = context.Pipe()
    child = context.Process(target=in_child, args=(its,))
    child.start()
    answer = mine.recv() if mine.poll({CHILD_TIMEOUT_S // 2}) else ("hangs", "before its end")
    child.join({CHILD_TIMEOUT_S // 4})
    if child.is_alive():
        answer = ("hangs", answer)
        child.kill()
    for handle in reversed(kept):  # they have not been harmed
        if before.startswith("write") and isinstance(handle, topicdb.Database):
            handle.append([("m/2", 2, b"after")])
        if hasattr(handle, "close"):
            handle.close()
    print(*answer)
"""

READS = ["read", "read_open", "verify"]
CLOSED = ["nothing", *READS, "write", "use_queue", "use_queue_open"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with topicdb.open(tmp_path / "ready.db") as db:
        db.append([("a", 1, b"ready")])
    return tmp_path


def outcome(before: str, then: str, root: Path) -> str:
    return run_child(PROGRAM, before, then, root).strip()


@pytest.mark.parametrize("before", CLOSED)
def test_a_child_writes_if_no_database_was_open_for_writing(root: Path, before: str) -> None:
    assert outcome(before, "write", root) == f"done {3000 if before != 'write' else 6000}"


@pytest.mark.parametrize("before", ["write_open", "write_and_use_queue"])
def test_else_it_is_told_what_to_do(root: Path, before: str) -> None:
    said = outcome(before, "write", root)
    assert said.startswith("ForkedError"), said
    assert "spawn" in said and "forkserver" in said and "close" in said


@pytest.mark.parametrize("before", [*CLOSED, "write_open", "write_and_use_queue"])
def test_a_child_reads_and_uses_a_queue(root: Path, before: str) -> None:
    assert outcome(before, "read", root) == "done 1"
    assert outcome(before, "use_queue", root) == "done 1"


@pytest.mark.parametrize("before", ["use_queue_open", "write_and_use_queue"])
def test_a_child_that_forgets_its_parents_queue_goes_on(root: Path, before: str) -> None:
    """The child must not destroy parts of the queue for which a parent's thread seems to wait."""
    assert outcome(before, "forget_and_use_queue", root) == "done 1"


def test_who_holds_a_queue_is_told_in_a_child_too(root: Path) -> None:
    code = """
        import os, sys, warnings, topicdb
        warnings.simplefilter("ignore", DeprecationWarning)
        path = sys.argv[1]
        with topicdb.Queue.open(path):
            child = os.fork()
            if child == 0:
                try:
                    topicdb.Queue.open(path)
                except topicdb.LockedError as error:
                    os._exit(0 if f"pid {os.getppid()}" in str(error) else 2)
                os._exit(1)
            assert os.waitpid(child, 0)[1] == 0
    """
    run_child(code, root / "held")


def test_a_child_of_a_child(root: Path) -> None:
    code = """
        import os, sys, warnings, topicdb
        warnings.simplefilter("ignore", DeprecationWarning)

        def in_child(what):
            child = os.fork()
            if child == 0:
                try:
                    what()
                    os._exit(0)
                finally:
                    os._exit(1)
            assert os.waitpid(child, 0)[1] == 0

        def write():
            with topicdb.open(sys.argv[1]) as db:
                db.append([("a", 1, b"x")])
                db.flush()

        def refused():
            try:
                write()
            except topicdb.ForkedError:
                return
            raise AssertionError("it wrote")

        def write_twice():
            write()
            in_child(write)
            with topicdb.open(sys.argv[1] + ".open") as db:
                db.append([("a", 1, b"x")])
                in_child(refused)

        write()
        in_child(write_twice)
    """
    run_child(code, root / "child.db")
