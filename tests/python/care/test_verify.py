"""Verify finds nothing in a sound database, and finds every damage that matters."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from pathlib import Path

import pytest
from filled import fill, fill_logs, read_all
from support import Child, Layout

import topicdb
from topicdb import CorruptionError, NotFoundError, jobs

FLIPS = 250
SMALL_FILE_BYTES = 64


@pytest.fixture
def filled(db_path: Path, layout: Layout) -> Path:
    fill(db_path, layout)
    return db_path


class TestSound:
    def test_nothing_is_found_and_all_is_counted(self, filled: Path, layout: Layout) -> None:
        report = topicdb.verify(filled)
        assert report.problems == []
        assert report.ok
        with topicdb.open(filled, mode="r") as db:
            stored = db.scan("#").count()
            assert report.shards == 2
            assert report.slabs == len(db.slabs())
        assert report.messages >= stored
        assert (report.pages > 0) == (layout == "columnar")

    def test_shallow(self, filled: Path, layout: Layout) -> None:
        report = topicdb.verify(filled, deep=False)
        assert report.ok
        assert report.pages == 0
        assert report.messages == topicdb.verify(filled).messages

    def test_while_it_is_written(self, db_path: Path, layout: Layout) -> None:
        stop = threading.Event()
        with topicdb.open(db_path, shards=2, layout=layout, seal_bytes=20_000) as db:

            def write() -> None:
                number = 0
                while not stop.is_set():
                    db.append([(f"m/{i % 40}", number, b"%d" % i) for i in range(100)])
                    number += 1
                    if number % 50 == 0 and number <= 2_000:  # verify has to read each generation
                        db.rotate()

            writer = threading.Thread(target=write)
            writer.start()
            try:
                for _ in range(5):
                    assert db.verify().problems == []
            finally:
                stop.set()
                writer.join()

    def test_progress(self, filled: Path) -> None:
        told: list[tuple[int, int]] = []
        topicdb.verify(filled, progress=lambda done, total: told.append((done, total)))
        assert told[-1][0] == told[-1][1] > 0
        assert [done for done, _ in told] == sorted(done for done, _ in told)

    def test_what_progress_raises_ends_it(self, filled: Path) -> None:
        def refuse(done: int, total: int) -> None:
            raise RuntimeError("enough")

        with pytest.raises(RuntimeError, match="enough"):
            topicdb.verify(filled, progress=refuse)

    def test_ctrl_c(self, db_path: Path) -> None:
        code = """
            import sys, topicdb
            db = topicdb.open(sys.argv[1])
            db.append([(f"m/{i % 1000}", i, bytes(20)) for i in range(100_000)])
            try:
                print("ready")
                while True:
                    assert db.verify().ok
            except KeyboardInterrupt:
                print("interrupted")
        """
        with Child(code, db_path) as child:
            child.expect("ready")
            time.sleep(0.3)
            child.interrupt()
            code_, out, err = child.finish()
        assert (code_, out) == (0, "interrupted\n"), err

    def test_there_is_no_database(self, tmp_path: Path) -> None:
        with pytest.raises(NotFoundError, match="there is no database"):
            topicdb.verify(tmp_path / "none")


class TestDamaged:
    def test_a_shard_that_does_not_open(self, filled: Path) -> None:
        (filled / "shards" / "0001" / "CURRENT").unlink()
        [problem] = topicdb.verify(filled).problems
        assert problem.shard == 1
        assert "CURRENT is missing" in problem.what
        assert "nothing else of this shard" in str(problem)

    @pytest.mark.parametrize("name", ["TOPICDB", "retention"])
    def test_a_file_of_the_database(self, filled: Path, name: str) -> None:
        content = bytearray((filled / name).read_bytes())
        content[len(content) // 2] ^= 1
        (filled / name).write_bytes(content)
        [problem] = topicdb.verify(filled).problems
        assert name in problem.what
        assert problem.shard is None

    def test_a_job_that_waits(self, filled: Path) -> None:
        """Verify checks what a committed job staged while a shard has not applied the job."""
        with jobs.StagedWriter(filled, "waits") as writer:
            writer.append([("job/1", 1, b"")])
        lock = (
            "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX);"
            "print('locked'); sys.stdin.readline()"
        )
        shard = topicdb.shard_of("job/1", 2)
        with Child(lock, filled / "shards" / f"{shard:04}.lock") as child:
            child.expect("locked")
            jobs.commit(filled, "waits", [writer.staged], timeout=0)
        assert topicdb.verify(filled).ok
        staged = next((filled / "jobs" / "waits").glob("*.staged"))
        content = bytearray(staged.read_bytes())
        content[30] ^= 1
        staged.write_bytes(content)
        assert staged.name in topicdb.verify(filled).problems[0].what
        staged.unlink()
        assert staged.name in topicdb.verify(filled).problems[0].what

    def test_which_messages_cannot_be_read(self, db_path: Path) -> None:
        """Problems and readable messages add up to all messages, wherever pages are damaged."""
        with topicdb.open(db_path, seal_bytes=20_000) as db:
            for commit in range(5):
                db.append([(f"m/{i % 7}/x", commit * 1000 + i, bytes(30)) for i in range(500)])
                db.flush()
        tables = sorted(db_path.rglob("*.sst"), key=lambda path: path.stat().st_size)
        content = bytearray(tables[-1].read_bytes())
        for place in range(0, len(content) // 2, 50):
            content[place] ^= 1
        tables[-1].write_bytes(content)
        report = topicdb.verify(db_path)
        lost = [problem for problem in report.problems if problem.messages]
        assert sum(problem.messages for problem in lost) == 2500 - report.messages > 0
        for problem in lost:
            assert problem.first_timestamp is not None
            assert problem.last_timestamp is not None
            assert 0 <= problem.first_timestamp <= problem.last_timestamp < 5000
            assert set(problem.structures) <= {f"m/{i}/x" for i in range(7)} | {"m/+/x"}
            assert (problem.shard, problem.retention_class, problem.generation) == (0, "#", 1)
            assert "block" in str(problem) and "cannot be read" in str(problem)


def check_flips(path: Path, flips: int, seed: int) -> dict[str, int]:
    """Flips bits at random in all files; counts those that verify finds and those it does not."""
    expected = read_all(path)
    files = sorted(
        file
        for file in path.rglob("*")
        if file.is_file()
        and file.stat().st_size > 0
        and not file.name.startswith(("LOG", "OPTIONS", "IDENTITY", "LOCK"))
    )
    sizes = [file.stat().st_size for file in files]
    chance = random.Random(seed)
    outcomes = {"found": 0, "unused": 0}
    for number in range(flips):
        small = [file for file in files if file.stat().st_size < SMALL_FILE_BYTES]
        pick = chance.choice(files) if number % 2 else chance.choices(files, sizes)[0]
        file = chance.choice(small) if number % 10 == 0 and small else pick
        content = file.read_bytes()
        place = chance.randrange(len(content))
        bit = 1 << chance.randrange(8)
        file.write_bytes(content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :])
        report = topicdb.verify(path)
        where = f"bit {bit} of byte {place} of {len(content)} of {file.relative_to(path)}"
        if report.ok:
            outcomes["unused"] += 1
            assert read_all(path) == expected, where
        else:
            outcomes["found"] += 1
            with contextlib.suppress(CorruptionError):
                assert read_all(path) == expected, where
        file.write_bytes(content)
    assert topicdb.verify(path).ok
    return outcomes


def test_flipped_bits_are_found(filled: Path) -> None:
    outcomes = check_flips(filled, FLIPS // 2, seed=1)
    assert outcomes["found"] > outcomes["unused"], outcomes


def test_flipped_bits_are_found_in_the_logs_of_a_process_that_was_killed(filled: Path) -> None:
    fill_logs(filled)
    outcomes = check_flips(filled, FLIPS // 2, seed=4)
    assert outcomes["found"] > outcomes["unused"], outcomes


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_two_thousand_flipped_bits_are_found_in_logs_too(filled: Path) -> None:
    fill_logs(filled)
    print(check_flips(filled, 2_000, seed=int(os.environ.get("TOPICDB_FLIP_SEED", "2"))))


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_two_thousand_flipped_bits_are_found(filled: Path) -> None:
    print(check_flips(filled, 2_000, seed=int(os.environ.get("TOPICDB_FLIP_SEED", "2"))))
