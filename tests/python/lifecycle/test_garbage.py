"""What sealing has removed leaves the files; until then ``usage`` counts it as garbage."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import topicdb
from sealing import sealing_is_over
from topicdb import Database

PATIENCE_S = 60  # the files shrink within a minute
ROWS = 5_000
BATCHES = 12


def rows(batch: int) -> list[tuple[str, int, bytes]]:
    """Returns messages whose values Zstandard makes half as large as LZ4 does."""
    noise = random.Random(batch)
    return [
        (f"metrics/h{i % 200}/cpu/{i % 7}", batch * ROWS + i, (b"%d " % noise.randrange(1000)) * 50)
        for i in range(ROWS)
    ]


def fill(db: Database) -> None:
    for batch in range(BATCHES):
        db.append(rows(batch))
    db.flush()


def table_bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*.sst"))


def garbage_bytes(db: Database) -> int:
    return sum(one.garbage_bytes for one in db.usage(by="generation"))


def wait_until(condition: Callable[[], bool], db: Database, path: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, (db.usage(by="generation"), table_bytes(path))
        time.sleep(0.05)


def test_a_closed_generation_is_stored_once(tmp_path: Path) -> None:
    """Automatic maintenance removes the second copy while the database is open."""
    path = tmp_path / "x.db"
    with topicdb.open(path, maintenance_interval="100ms") as db:
        fill(db)
        before = table_bytes(path)
        db.rotate()
        # Both copies together would be larger than the first one, which LZ4 compressed.
        wait_until(lambda: table_bytes(path) < 0.7 * before, db, path)
        wait_until(lambda: sealing_is_over(db) and garbage_bytes(db) == 0, db, path)
        assert db.scan().count() == ROWS * BATCHES
        [closed, current] = db.usage(by="generation")
        assert closed.disk_bytes >= 0.9 * table_bytes(path) - current.disk_bytes
        assert db.verify(deep=True).ok


def test_usage_names_it_and_maintain_removes_it(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with topicdb.open(path, maintenance_interval=None) as db:
        fill(db)
        assert garbage_bytes(db) < table_bytes(path) // 10
        before = table_bytes(path)
        db.rotate()
        # Both copies are there, and the old one is garbage.
        wait_until(lambda: sealing_is_over(db) and garbage_bytes(db) > 0.8 * before, db, path)
        [closed, current] = db.usage(by="generation")
        assert closed.garbage_bytes < closed.disk_bytes and current.garbage_bytes == 0
        assert db.usage()[0].garbage_bytes == closed.garbage_bytes
        db.maintain()
        assert garbage_bytes(db) == 0
        assert table_bytes(path) < 0.7 * before
        assert db.scan().count() == ROWS * BATCHES


def test_it_is_gone_after_closing(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with topicdb.open(path, maintenance_interval=None) as db:
        fill(db)
        before = table_bytes(path)
        db.rotate()
        wait_until(lambda: sealing_is_over(db) and garbage_bytes(db) > 0.8 * before, db, path)
    assert table_bytes(path) < 0.7 * before
    with topicdb.open(path, mode="r") as reader:
        assert reader.scan().count() == ROWS * BATCHES
        assert garbage_bytes(reader) == 0


def test_what_was_closed_before_it_was_compressed_is_when_it_is_opened(tmp_path: Path) -> None:
    """Closing stops the sealer, which goes on when the database is opened again."""
    path = tmp_path / "x.db"
    with topicdb.open(path, maintenance_interval=None) as db:
        fill(db)
        before = table_bytes(path)
        db.rotate()
    with topicdb.open(path, maintenance_interval="100ms") as db:
        wait_until(lambda: table_bytes(path) < 0.7 * before, db, path)
        wait_until(lambda: garbage_bytes(db) == 0, db, path)
        assert db.scan().count() == ROWS * BATCHES


def test_a_reader_keeps_what_it_sees_and_it_goes_after_it(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with topicdb.open(path, maintenance_interval=None) as db:
        fill(db)
        before = table_bytes(path)
        scan = db.scan().batches(rows=1_000)
        seen = len(next(scan))
        db.rotate()
        wait_until(lambda: sealing_is_over(db) and garbage_bytes(db) > 0.8 * before, db, path)
        db.maintain()
        assert table_bytes(path) >= before, "the reader needs them"
        seen += sum(len(batch) for batch in scan)
        assert seen == ROWS * BATCHES
        del scan
        wait_until(lambda: db.maintain() is not None and not garbage_bytes(db), db, path)
        assert table_bytes(path) < 0.7 * before


def test_blocks_that_were_deleted_leave_closed_generations(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with topicdb.open(path, maintenance_interval="100ms") as db:
        fill(db)
        before = table_bytes(path)
        db.rotate()
        wait_until(lambda: table_bytes(path) < 0.7 * before, db, path)
        wait_until(lambda: garbage_bytes(db) == 0, db, path)
        closed = table_bytes(path)
        assert db.delete("#", end=ROWS * BATCHES * 3 // 4).count == ROWS * BATCHES * 3 // 4
        db.rotate()  # a rotation wakes the sealer
        wait_until(lambda: table_bytes(path) < closed // 2, db, path)
        assert db.scan().count() == ROWS * BATCHES // 4
