"""Repair keeps what can be read, says what is lost, and does not touch the rest."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filled import fill, fill_logs, read_all
from support import Child, Layout

import topicdb
from topicdb import CorruptionError, LockedError, NotFoundError, jobs

DAMAGES = 60
KILLS = 10
UNUSED = ("LOG", "OPTIONS", "IDENTITY", "LOCK")


@pytest.fixture
def filled(db_path: Path, layout: Layout) -> Path:
    fill(db_path, layout)
    return db_path


def tables(path: Path) -> list[Path]:
    """Returns the table files, the largest first."""
    return sorted(path.glob("shards/*/*.sst"), key=lambda file: -file.stat().st_size)


def flip(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


class TestSound:
    def test_nothing_is_touched(self, filled: Path) -> None:
        def files() -> dict[str, bytes]:
            return {str(file): file.read_bytes() for file in sorted(filled.rglob("*.sst"))}

        before, rows = files(), read_all(filled)
        report = topicdb.repair(filled)
        assert report == topicdb.Repair([], 0, None, [], [])
        assert (report.ok, report.lost) == (True, 0)
        assert files() == before
        assert read_all(filled) == rows
        assert not (filled / "quarantine").exists()

    def test_there_is_no_database(self, tmp_path: Path) -> None:
        with pytest.raises(NotFoundError, match="there is no database"):
            topicdb.repair(tmp_path / "none")

    def test_it_is_open(self, db_path: Path) -> None:
        with topicdb.open(db_path), pytest.raises(LockedError):
            topicdb.repair(db_path)

    def test_another_process_has_it_open(self, db_path: Path) -> None:
        code = "import sys, topicdb; db = topicdb.open(sys.argv[1]); print('open'); input()"
        with Child(code, db_path) as child:
            child.expect("open")
            with pytest.raises(LockedError, match=str(child.pid)):
                topicdb.repair(db_path)

    @pytest.mark.parametrize("name", ["TOPICDB", "retention"])
    def test_what_it_cannot_do_without(self, filled: Path, name: str) -> None:
        flip(filled / name, (filled / name).stat().st_size // 2)
        with pytest.raises(CorruptionError, match="restore a snapshot"):
            topicdb.repair(filled)


class TestOneDamage:
    def test_a_block_of_a_table_file(self, db_path: Path) -> None:
        """Exactly the messages of the reported pages are lost; serials, order and streams stay."""
        with topicdb.open(db_path, seal_bytes=20_000) as db:
            for commit in range(5):
                db.append([(f"m/{i % 7}/x", commit * 1000 + i, b"%d" % i) for i in range(500)])
                db.flush()
            before = rows_with_serials(db)
            streams = [bytes(stream) for stream in db.streams("#")]
        file = tables(db_path)[0]
        flip(file, file.stat().st_size // 3)
        report = topicdb.repair(db_path)
        assert report.ok
        assert report.shards == [0]
        assert 0 < report.lost < 1250
        for problem in report.problems:
            assert (problem.shard, problem.retention_class, problem.generation) == (0, "#", 1)
            assert ", page " in problem.what
            assert problem.messages > 0
        with topicdb.open(db_path) as db:
            after = rows_with_serials(db)
            assert [bytes(stream) for stream in db.streams("#")] == streams
            [serial] = db.append([("m/0/x", 1, b"")]).serials.values()
        lost = before - after
        assert after <= before
        assert sum(lost.values()) == report.lost == 2500 - report.messages
        times = {timestamp for _, timestamp, _, _ in lost}
        assert min(times) == min(problem.first_timestamp or 0 for problem in report.problems)
        assert max(times) == max(problem.last_timestamp or 0 for problem in report.problems)
        assert {topic for topic, _, _, _ in lost} <= {
            topic for problem in report.problems for topic in problem.structures
        }
        assert serial > max(serial for _, _, _, serial in before)

    def test_what_was_is_in_quarantine(self, filled: Path) -> None:
        file = tables(filled)[0]
        content = file.read_bytes()
        flip(file, 100)
        damaged = file.read_bytes()
        report = topicdb.repair(filled)
        assert report.quarantine is not None
        kept = Path(report.quarantine) / file.parent.name / file.name
        assert kept.read_bytes() == damaged != content
        assert str(kept) in " ".join(problem.what for problem in report.problems)
        assert os.listdir(report.quarantine) == [file.parent.name]
        shutil.rmtree(filled / "quarantine")
        assert topicdb.verify(filled).ok

    def test_another_damage_later(self, filled: Path) -> None:
        for _ in range(3):
            flip(tables(filled)[0], 100)
            assert topicdb.repair(filled).ok
        assert len(os.listdir(filled / "quarantine")) == 3

    def test_current_is_gone(self, filled: Path) -> None:
        rows = read_all(filled)
        (filled / "shards" / "0001" / "CURRENT").unlink()
        report = topicdb.repair(filled)
        assert (report.ok, report.shards, report.lost) == (True, [1], 0)
        assert read_all(filled) == rows

    def test_a_shard_is_gone(self, filled: Path) -> None:
        """Repair cannot mend a shard that is missing."""
        shutil.rmtree(filled / "shards" / "0001")
        report = topicdb.repair(filled)
        assert (report.ok, report.shards) == (False, [])
        assert report.remaining[0].shard == 1

    def test_a_shard_that_is_gone_begins_anew(self, filled: Path) -> None:
        with topicdb.open(filled) as db:
            left = [m for m in db.scan() if topicdb.shard_of(m.topic, 2) == 0]
            streams = [stream for stream in db.streams() if stream.shard == 1]
            iterators = [db.iterator(stream) for stream in streams]
            receipt = db.append([(f"after/{i}", 1, b"") for i in range(9)], durability="disk")
            db.delete("after/#")
        shutil.rmtree(filled / "shards" / "0001")
        report = topicdb.repair(filled, replace_missing=True)
        assert (report.ok, report.shards, report.messages) == (True, [1], 0)
        assert report.quarantine is None
        assert "all of its messages" in report.problems[0].what
        assert topicdb.verify(filled).ok
        with topicdb.open(filled) as db:
            assert db.scan().to_list() == left
            for iterator in iterators:
                with pytest.raises(NotFoundError, match="gone"):
                    db.next(iterator)
            again = db.append([(f"after/{i}", 1, b"") for i in range(9)])
            assert again.serials[1] > receipt.serials[1]
            with db.map("state", takeover=True) as state:
                state["key"] = b"value"

    def test_maps_and_generations_stay(self, filled: Path) -> None:
        with topicdb.open(filled) as db:
            with db.map("mine") as mine:
                mine["key"] = b"value"
            slabs = [(s.shard, s.retention_class, s.generation, s.read_only) for s in db.slabs()]
        for shard in range(2):
            (filled / "shards" / f"{shard:04}" / "CURRENT").unlink()
        assert topicdb.repair(filled).ok
        with topicdb.open(filled) as db:
            assert [
                (s.shard, s.retention_class, s.generation, s.read_only) for s in db.slabs()
            ] == slabs
            assert dict(db.map("mine")) == {"key": b"value"}

    def test_a_job_stays_applied_and_seen(self, filled: Path) -> None:
        """A repeated job is recognized even if one shard has lost its record: the other has one."""
        rows = read_all(filled)
        for file in tables(filled):
            with topicdb.open(filled, mode="r") as db:
                assert len(db.scan("job/#").to_list()) == 400
            content = file.read_bytes()
            file.unlink()
            if not topicdb.repair(filled).lost:
                assert Counter(read_all(filled)) >= Counter(rows)
            restore_shard(filled, file, content)
        staged = jobs.StagedWriter(filled, "load")
        with staged:
            staged.append([("job/1", 1, b"")])
        assert jobs.commit(filled, "load", [staged.staged]).repeated

    def test_deletes_that_are_not_finished_stay(self, db_path: Path, layout: Layout) -> None:
        with topicdb.open(db_path, layout=layout) as db:
            db.append([(f"m/{i % 5}", i, b"") for i in range(100)])
            db.delete("m/1")
            db.append([("m/2", 1000, b"last")])
        (db_path / "shards" / "0000" / "CURRENT").unlink()
        assert topicdb.repair(db_path).ok
        with topicdb.open(db_path) as db:
            assert db.scan("m/1").count() == 0
            assert db.scan("#").count() == 81

    def test_progress(self, filled: Path) -> None:
        flip(tables(filled)[0], 100)
        told: list[tuple[str, int, int]] = []
        topicdb.repair(filled, progress=lambda *done: told.append(done))
        assert [told[0][0], told[-1][0]] == ["verify", "check"]
        assert all(0 <= done <= total for _, done, total in told)

    def test_what_progress_raises_ends_it_and_nothing_was_done(self, filled: Path) -> None:
        flip(tables(filled)[0], 100)

        def refuse(phase: str, done: int, total: int) -> None:
            raise RuntimeError("enough")

        with pytest.raises(RuntimeError, match="enough"):
            topicdb.repair(filled, progress=refuse)
        assert not topicdb.verify(filled).ok
        assert topicdb.repair(filled).ok


def rows_with_serials(db: topicdb.Database) -> Counter[tuple[str, int, bytes, int]]:
    rows: Counter[tuple[str, int, bytes, int]] = Counter()
    for batch in db.scan("#").batches(serials=True):
        assert batch.serials is not None
        for message, serial in zip(batch, batch.serials, strict=True):
            rows[message.topic, message.timestamp, message.value, int(serial)] += 1
    return rows


def restore_shard(path: Path, file: Path, content: bytes) -> None:
    """Puts the shard from the last quarantine back, with the original content of its file."""
    last = max((path / "quarantine").iterdir()) / file.parent.name
    shutil.rmtree(file.parent)
    last.rename(file.parent)
    file.write_bytes(content)


class TestLogs:
    """The process was killed: its last six commits, of 20 messages each, are in the logs only."""

    HEADER_BYTES = 7
    LENGTH_AT = 4

    @pytest.fixture
    def killed(self, filled: Path) -> Path:
        fill_logs(filled)
        return filled

    def begins(self, content: bytes) -> list[int]:
        """Returns where the records of a log begin; the log must have a single block."""
        assert len(content) < 32_768
        begins, at = [], 0
        while at < len(content):
            begins.append(at)
            length = content[at + self.LENGTH_AT : at + self.LENGTH_AT + 2]
            at += self.HEADER_BYTES + int.from_bytes(length, "little")
        return begins

    def commits(self, path: Path) -> tuple[Path, list[int]]:
        """Returns the log of shard 0, and where the last six commits begin in it."""
        [log] = path.glob("shards/0000/*.log")
        return log, self.begins(log.read_bytes())[-6:]

    def late(self, path: Path) -> Counter[int]:
        """Returns how many messages of each late commit shard 0 has."""
        return Counter(
            timestamp
            for topic, timestamp, _ in read_all(path)
            if topic.startswith("late/") and topicdb.shard_of(topic, 2) == 0
        )

    def test_a_bit_of_a_length(self, killed: Path) -> None:
        """The damaged length looks as if the log were cut off, and would hide all that follows."""
        rows = read_all(killed)
        log, [begin, *_] = self.commits(killed)
        content = bytearray(log.read_bytes())
        content[begin + self.LENGTH_AT + 1] ^= 0x40
        log.write_bytes(content)
        [found] = topicdb.verify(killed).problems
        assert f"{log.name} is damaged at byte {begin}" in found.what
        with pytest.raises(CorruptionError, match=f"{log.name} is damaged at byte {begin}"):
            topicdb.open(killed)
        report = topicdb.repair(killed)
        assert (report.ok, report.lost) == (True, 0)
        [problem] = report.problems
        assert f"{log.name} is damaged at byte {begin}" in problem.what
        assert "mended" in problem.what
        assert read_all(killed) == rows

    def test_a_bit_of_the_manifest(self, filled: Path) -> None:
        """The bit is in the length of the last edit, so that the file seems to be cut off there."""
        rows = read_all(filled)
        [manifest] = filled.glob("shards/0000/MANIFEST-*")
        content = bytearray(manifest.read_bytes())
        begin = self.begins(bytes(content))[-1]
        content[begin + self.LENGTH_AT] ^= 0x40
        manifest.write_bytes(content)
        assert not topicdb.verify(filled).ok
        report = topicdb.repair(filled)
        assert (report.ok, report.lost) == (True, 0)
        assert "mended" in report.problems[0].what
        assert read_all(filled) == rows

    def test_a_commit_that_is_damaged(self, killed: Path) -> None:
        """The other commits stay, and their counters tell how many messages the damaged one had."""
        whole = self.late(killed)
        log, begins = self.commits(killed)
        content = bytearray(log.read_bytes())
        content[begins[3] - 20] ^= 4  # the end of the commit before
        log.write_bytes(content)
        report = topicdb.repair(killed)
        assert report.ok
        assert f"{log.name} is damaged at byte {begins[2]}" in report.problems[0].what
        assert self.late(killed) == whole - Counter({2: whole[2]})
        # Deleted messages of the first generation count as well, so it is left out.
        assert sum(p.messages for p in report.problems if (p.generation or 0) > 1) == whole[2]

    def test_the_last_commit_is_damaged(self, filled: Path) -> None:
        """Nothing tells what the commit had. Serials that it may have had are not used again."""
        last = fill_logs(filled)
        whole = self.late(filled)
        log, begins = self.commits(filled)
        content = bytearray(log.read_bytes())
        content[-30] ^= 4
        log.write_bytes(content)
        report = topicdb.repair(filled)
        assert report.ok
        assert f"{log.name} is damaged at byte {begins[-1]}" in report.problems[0].what
        assert "is known only as far as later commits tell" in report.problems[0].what
        assert self.late(filled) == whole - Counter({5: whole[5]})
        with topicdb.open(filled) as db:
            assert db.append([(f"late/{i}", 9, b"") for i in range(20)]).serials[0] > last


def flip_bit(content: bytearray, chance: random.Random) -> None:
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)


def zero_some(content: bytearray, chance: random.Random) -> None:
    place = chance.randrange(len(content))
    content[place : place + 200] = bytes(len(content[place : place + 200]))


def cut(content: bytearray, chance: random.Random) -> None:
    del content[chance.randrange(len(content)) :]


def damaged_copies(path: Path, count: int, seed: int) -> Iterator[tuple[Path, str]]:
    """Yields copies of a database; in each copy one file of a shard is damaged or gone."""
    chance = random.Random(seed)
    files = [
        file
        for file in sorted((path / "shards").rglob("*"))
        if file.is_file() and file.stat().st_size and not file.name.startswith(UNUSED)
    ]
    ways: list[Callable[[bytearray, random.Random], None] | None]
    for number in range(count):
        copy = path.with_name(f"copy-{number}")
        shutil.copytree(path, copy)
        file = chance.choice(files)
        ways = [flip_bit, flip_bit]
        # A manifest without its end is a sound older one: nothing tells that there was more.
        if not file.name.startswith("MANIFEST"):
            ways += [zero_some, cut, None]
        way = chance.choice(ways)
        target = copy / file.relative_to(path)
        if way is None:
            target.unlink()
        else:
            content = bytearray(target.read_bytes())
            way(content, chance)
            target.write_bytes(content)
        yield copy, f"{number}: {way.__name__ if way else 'gone'}, {file.relative_to(path)}"
        shutil.rmtree(copy)


def check_damages(path: Path, count: int, seed: int) -> dict[str, int]:
    expected = Counter(read_all(path))
    outcomes = {"whole": 0, "mended": 0, "lost": 0}
    for copy, where in damaged_copies(path, count, seed):
        report = topicdb.repair(copy)
        assert report.ok, where
        found = Counter(read_all(copy))
        missing = sum((expected - found).values())
        # Deleted and replaced messages may count as lost or come back, but repair says so.
        assert missing <= report.lost, where
        assert report.problems or found == expected, where
        kind = "whole" if not report.shards else "mended" if missing == 0 else "lost"
        outcomes[kind] += 1
        _use(copy)
    return outcomes


def _use(path: Path) -> None:
    """Checks that the repaired database goes on: it appends, rotates, flushes and reads."""
    with topicdb.open(path) as db:
        db.append([("m/new", 1, b"new")])
        db.rotate()
        db.flush()
        assert [message.value for message in db.last("m/new")] == [b"new"]
    assert topicdb.verify(path).ok


@pytest.mark.long
def test_random_damage(filled: Path) -> None:
    outcomes = check_damages(filled, DAMAGES, seed=1)
    assert min(outcomes["mended"], outcomes["lost"]) > 10, outcomes


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_much_random_damage(filled: Path) -> None:
    print(check_damages(filled, 1_500, seed=int(os.environ.get("TOPICDB_DAMAGE_SEED", "2"))))


def test_killed_at_any_time(filled: Path) -> None:
    """After a kill, each shard is as a whole either the damaged one or the repaired one."""
    rows = read_all(filled)
    code = "import sys, topicdb; print('ready'); topicdb.repair(sys.argv[1]); print('done')"
    chance = random.Random(3)
    for number in range(KILLS):
        copy = filled.with_name(f"copy-{number}")
        shutil.copytree(filled, copy)
        for shard in range(2):
            (copy / "shards" / f"{shard:04}" / "CURRENT").unlink()
        with Child(code, copy) as child:
            child.expect("ready")
            time.sleep(chance.random() * 0.2)
            child.kill()
        report = topicdb.repair(copy)
        assert (report.ok, report.lost) == (True, 0)
        assert read_all(copy) == rows
        assert not list(copy.glob("quarantine/*/*.building"))
        shutil.rmtree(copy)


def test_of_two_damages_both_are_mended(filled: Path) -> None:
    expected = Counter(read_all(filled))
    for file in tables(filled)[:2]:
        flip(file, 50)
    report = topicdb.repair(filled)
    missing = expected - Counter(read_all(filled))
    assert report.ok
    assert 0 < sum(missing.values()) <= report.lost
