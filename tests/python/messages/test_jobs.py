"""Tests of jobs, whose messages many processes stage and one commit makes visible.

Tests in C++ compare filters, sealing and damage with what was staged. The tests here are about
processes, Arrow and the errors in Python.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support import Child, fork_and_run, run_child, topic_in_shard

import topicdb
from topicdb import jobs

pa = pytest.importorskip("pyarrow")

ROUNDS = int(os.environ.get("TOPICDB_CRASH_ROUNDS", "8"))


@pytest.fixture
def path(tmp_path: Path) -> str:
    place = str(tmp_path / "db")
    topicdb.open(place, shards=3).close()
    return place


def rows(count: int, start: int = 0) -> list[tuple[str, int, bytes]]:
    return [(f"m/h{i % 7}/cpu", i, b"%d" % i) for i in range(start, start + count)]


def stage(path: str, job: str, messages: Any, **options: Any) -> jobs.Staged:
    with jobs.StagedWriter(path, job, **options) as writer:
        writer.append(messages)
    return writer.staged


def stored(path: str, filter: str = "#") -> list[tuple[str, int, bytes]]:
    with topicdb.open(path, mode="r") as database:
        return [(m.topic, m.timestamp, m.value) for m in database.scan(filter, order="time")]


def job_files(path: str) -> list[str]:
    return sorted(os.listdir(Path(path) / "jobs"))


def stage_in_child(arguments: tuple[str, int]) -> jobs.Staged:
    path, part = arguments
    return stage(path, "pool", rows(100, 100 * part))


class TestJobs:
    def test_a_commit_that_is_repeated_says_so(self, path: str) -> None:
        for job, options in (("alone", {}), ("numbered", {"sequence": "query", "number": 7})):
            staged = [stage(path, job, rows(100))]
            first = jobs.commit(path, job, staged, **options)  # type: ignore[arg-type]
            with topicdb.open(path):  # while this process has it open, and then while none has
                again = jobs.commit(path, job, staged, **options)  # type: ignore[arg-type]
            assert again == jobs.Committed(first.serials, first.messages, [], True)
            assert jobs.commit(path, job, staged, **options).repeated  # type: ignore[arg-type]
        assert len(stored(path)) == 200
        with pytest.raises(topicdb.NotFoundError, match=r"gone\.staged"):
            jobs.commit(path, "other", [jobs.Staged("gone.staged", 1, 1, 0)])

    def test_what_a_pool_of_processes_stages(self, path: str) -> None:
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            staged = pool.map(stage_in_child, [(path, part) for part in range(5)])
        assert stored(path) == []
        committed = jobs.commit(path, "pool", staged)
        assert committed.messages == 500
        assert (committed.pending, committed.repeated) == ([], False)
        assert stored(path) == rows(500)
        assert stored(path, "m/h3/#") == [row for row in rows(500) if row[0] == "m/h3/cpu"]
        assert job_files(path) == []

    def test_rows_arrow_and_times_to_be_assigned(self, path: str) -> None:
        table = pa.table(
            {"topic": ["a", "a"], "timestamp": pa.array([5, None]), "value": ["x", "y"]}
        )
        with jobs.StagedWriter(path, "j") as writer:
            writer.append(table)
            writer.append(table.to_batches()[0])
            writer.append([("b", None, b"z")])
        assert writer.staged == jobs.Staged(writer.staged.file, 5, 10, 0)
        assert pickle.loads(pickle.dumps(writer.staged)) == writer.staged
        before = time.time_ns() // 1_000
        jobs.commit(path, "j", [writer.staged])
        found = stored(path)
        assert [(topic, value) for topic, _, value in found if value != b"z"] == [
            ("a", b"x"),
            ("a", b"x"),
            ("a", b"y"),
            ("a", b"y"),
        ]
        assert [t for _, t, v in found if v == b"x"] == [5, 5]
        assert min(t for _, t, v in found if v in (b"y", b"z")) >= before

    def test_messages_of_a_task_with_equal_times_keep_their_order(self, tmp_path: Path) -> None:
        path = str(tmp_path / "state")
        topicdb.open(path, layout="skipstream", structures=["a/+"]).close()
        sent = [(f"a/{i}", 7, b"%d" % i) for i in range(12)]  # "a/10" sorts before "a/2"
        jobs.commit(path, "j", [stage(path, "j", sent)])
        with topicdb.open(path, mode="r") as database:
            assert database.scan().to_list() == sent

    def test_it_is_handed_to_the_process_that_has_the_database_open(self, path: str) -> None:
        code = """
            import sys, topicdb
            with topicdb.open(sys.argv[1]) as db:
                db.append([("own", 1, b"")])
                print("open")
                tail = db.tail("m/#", timeout=250)
                for _, message in zip(range(300), tail):
                    pass
                print("seen", sum(1 for _ in db.scan("m/#")))
                tail.close()
                input()
        """
        with Child(code, path) as owner:
            owner.expect("open")
            committed = jobs.commit(path, "j", [stage(path, "j", rows(300))])
            assert committed.pending == []
            owner.expect("seen 300")
            assert sorted(stored(path)) == sorted([*rows(300), ("own", 1, b"")])
            owner.send()
            assert owner.finish()[0] == 0

    def test_an_owner_that_does_not_come(self, path: str) -> None:
        """The job is committed all the same, and the next writer of the database applies it."""
        code = """
            import fcntl, sys
            lock = open(sys.argv[1] + "/shards/0001.lock", "r+b")
            fcntl.lockf(lock, fcntl.LOCK_EX)
            print("locked")
            input()
        """
        with Child(code, path) as owner:
            owner.expect("locked")
            staged = stage(path, "j", rows(300))
            assert jobs.commit(path, "j", [staged], timeout=0.05).pending == [1]
            jobs.abort(path, "j")  # too late
            owner.kill()
        topicdb.open(path).close()
        assert stored(path) == rows(300)

    def test_numbers_of_a_sequence(self, path: str) -> None:
        def commit(number: int) -> jobs.Committed:
            job = f"try-{random.random()}".replace(".", "-")
            return jobs.commit(
                path, job, [stage(path, job, rows(5, 10 * number))], sequence="q", number=number
            )

        assert [commit(number).repeated for number in (1, 1, 2, 1, 2, 3)] == [
            False,
            True,
            False,
            True,
            True,
            False,
        ]
        assert stored(path) == [*rows(5, 10), *rows(5, 20), *rows(5, 30)]
        with topicdb.open(path, mode="r") as database:
            applied = jobs.applied(database)
        assert {(job.sequence, job.number) for job in applied} == {("q", 3)}
        assert sum(job.messages for job in applied) == 5
        assert all(job.first_serial <= job.last_serial for job in applied)

    def test_nothing_to_commit(self, path: str) -> None:
        assert jobs.commit(path, "j", []).messages == 0
        assert stage(path, "j", []).file == ""
        assert jobs.commit(path, "j", [stage(path, "j", [])]).serials == {}
        jobs.abort(path, "was-never-there")
        assert stored(path) == [] and job_files(path) == []

    def test_old_leftovers_are_swept_and_new_ones_are_not(self, path: str) -> None:
        stage(path, "old", rows(5))
        new = stage(path, "new", rows(5))
        seven_hours_ago = time.time() - 7 * 3600
        directory = Path(path) / "jobs" / "old"
        for file in [*directory.iterdir(), directory]:
            os.utime(file, (seven_hours_ago, seven_hours_ago))
        topicdb.open(path).close()
        assert job_files(path) == ["new"]
        jobs.commit(path, "new", [new])
        assert stored(path) == rows(5)

    def test_in_a_forked_child_the_files_are_the_parents(self, path: str) -> None:
        writers = [jobs.StagedWriter(path, "j", memory_bytes=1)]
        writers[0].append(rows(50))

        def use() -> str:
            with pytest.raises(topicdb.ForkedError, match="before this process was forked"):
                writers[0].append(rows(1))
            writers.clear()  # a writer of this process would remove its files
            return "used"

        assert fork_and_run(use) == "used"
        jobs.commit(path, "j", [writers[0].finish()])
        assert stored(path) == rows(50)


class TestBadInput:
    def test_of_messages(self, path: str) -> None:
        with jobs.StagedWriter(path, "j") as writer:
            writer.append(rows(3))
            with pytest.raises(topicdb.TopicError, match="row 1: topic 'a/#'"):
                writer.append([("a", 1, b""), ("a/#", 2, b"")])
            with pytest.raises(ValueError, match="row 0: "):
                writer.append([("a", -7, b"")])
            with pytest.raises(TypeError):
                writer.append([("a", 1, 7)])
        jobs.commit(path, "j", [writer.staged])
        assert stored(path) == rows(3)

    def test_that_is_left_out(self, path: str) -> None:
        bad = [("a/+", 1, b""), ("$topicdb/x", 1, b""), ("ok", 1, b""), ("", 1, b"")]
        staged = stage(path, "j", bad, drop_malformed=True)
        assert (staged.messages, staged.malformed) == (1, 3)
        jobs.commit(path, "j", [staged])
        with topicdb.open(path, mode="r") as database:
            assert [job.malformed for job in jobs.applied(database)] == [3]

    def test_after_an_exception_nothing_is_left(self, path: str) -> None:
        with (
            pytest.raises(ZeroDivisionError),
            jobs.StagedWriter(path, "j", memory_bytes=1) as writer,
        ):
            writer.append(rows(100))
            assert len(os.listdir(Path(path) / "jobs" / "j")) > 0
            raise ZeroDivisionError
        assert job_files(path) == []
        with pytest.raises(topicdb.ClosedError):
            writer.append(rows(1))
        with pytest.raises(RuntimeError, match="not finished"):
            writer.staged  # noqa: B018

    def test_of_arguments(self, path: str, tmp_path: Path) -> None:
        with pytest.raises(topicdb.NotFoundError, match="no database"):
            jobs.StagedWriter(tmp_path / "none", "j")
        for job in ("", "a/b", "..", "x" * 129, "a.intent"):
            with pytest.raises(ValueError, match="job: expected"):
                jobs.StagedWriter(path, job)
        with pytest.raises(ValueError, match="memory_bytes"):
            jobs.StagedWriter(path, "j", memory_bytes=0)
        staged = stage(path, "j", rows(3))
        with pytest.raises(ValueError, match="number"):
            jobs.commit(path, "j", [staged], sequence="q")
        with pytest.raises(ValueError, match="comes twice"):
            jobs.commit(path, "j", [staged, staged])
        with pytest.raises(topicdb.NotFoundError):
            jobs.commit(path, "other", [staged])
        (Path(path) / "jobs" / "j" / staged.file).write_bytes(b"")
        with pytest.raises(topicdb.CorruptionError, match="no staged file"):
            jobs.commit(path, "j", [staged])
        assert stored(path) == []

    def test_pages_that_are_cut_off_or_gone(self, path: str) -> None:
        staged = stage(path, "j", rows(30))
        pages = sorted((Path(path) / "jobs" / "j").glob("*.pages"))[0]
        pages.write_bytes(pages.read_bytes()[:-1])
        with pytest.raises(topicdb.CorruptionError, match="missing or cut off"):
            jobs.commit(path, "j", [staged])
        pages.unlink()
        with pytest.raises(topicdb.CorruptionError, match="missing or cut off"):
            jobs.commit(path, "j", [staged])
        assert stored(path) == []


OWNER = """
    import sys, time, topicdb
    db = topicdb.open(sys.argv[1])
    print("open", flush=True)
    time.sleep(600)
"""
WRITER = """
    import sys, time
    from topicdb import jobs
    path, number, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[4])
    while True:
        number += 1
        time.sleep(pause)
        job = f"{number}-{sys.argv[3]}"
        staged = []
        for part in range(2):
            with jobs.StagedWriter(path, job, memory_bytes=2_000) as writer:
                writer.append([(f"m/{i % 11}", number, b"%d.%d" % (part, i)) for i in range(200)])
            staged.append(writer.staged)
        jobs.commit(path, job, staged, sequence="q", number=number)
        print(number, flush=True)
"""


def test_readers_see_all_of_a_job_or_nothing(path: str) -> None:
    """Jobs come meanwhile, and are applied to one shard after the other."""
    with (
        topicdb.open(path) as owner,
        topicdb.open(path, mode="r") as reader,
        Child(WRITER, path, 0, 0, 0.1) as writer,
    ):
        for _ in range(15):
            assert writer.read_line(), writer.finish()
            for database in (owner, reader) * 3:
                database.refresh()
                counts = Counter(m.timestamp for m in database.scan("#"))
                assert set(counts.values()) <= {400}
                assert database.scan_slices(database.slices()).count() % 400 == 0


@pytest.mark.crash
@pytest.mark.parametrize("live", [False, True], ids=["alone", "with an owner"])
def test_killed_at_any_moment_a_job_is_there_wholly_or_not_at_all(path: str, live: bool) -> None:
    """The next writer repeats the number not reported: no message is lost or stored twice."""
    chance = random.Random(5)
    last = 0
    for attempt in range(ROUNDS):
        with ExitStack() as processes:
            if live:
                processes.enter_context(Child(OWNER, path)).expect("open")
            writer = processes.enter_context(Child(WRITER, path, last, attempt, 0))
            until = time.monotonic() + chance.uniform(0.3, 1.5)
            while time.monotonic() < until:
                line = writer.read_line()
                assert line, writer.finish()
            time.sleep(chance.uniform(0, 0.05))
            writer.kill()
            last = int([line, *writer.finish()[1].splitlines()][-1])
        topicdb.open(path).close()  # applies what was committed
        counts = Counter(timestamp for _, timestamp, _ in stored(path))
        found = Counter(stored(path))
        assert set(counts) in (set(range(1, last + 1)), set(range(1, last + 2)))
        assert set(counts.values()) == {400} and set(found.values()) == {1}
    assert last > 0


def test_a_killed_owner_leaves_it_to_the_next(path: str) -> None:
    """An owner is killed when a job comes; pages that it has taken over are used or removed."""
    shard = topic_in_shard(1, 3)
    for number in range(1, 6):
        with Child(OWNER, path) as owner:
            owner.expect("open")
            job = f"j{number}"
            staged = stage(path, job, [(shard, number, b"%d" % i) for i in range(1_000)])
            run_child(
                """
                import sys
                from topicdb import jobs
                staged = jobs.Staged(sys.argv[3], 1000, 0, 0)
                jobs.commit(sys.argv[1], sys.argv[2], [staged], timeout=0)
                """,
                path,
                job,
                staged.file,
            )
            owner.kill()
        topicdb.open(path).close()
        assert len(stored(path)) == 1_000 * number
