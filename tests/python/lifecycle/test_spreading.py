"""The sealer brings blocks apart in time, whatever the order in which messages came."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from support import wait_until

import topicdb
from sealing import sealing_is_over
from topicdb import Database

SEAL_BYTES = 64 << 10
DEVICES = 100
ROWS = 300  # per device
TIMES = 1_000_000
VALUE = b"v" * 250


class Row(NamedTuple):
    topic: str
    timestamp: int
    value: bytes


def settle(db: Database) -> None:
    wait_until(lambda: sealing_is_over(db), "sealing is over")


def backfill() -> list[list[Row]]:
    """Returns the batches of one device after the other, each over the whole time."""
    step = TIMES // ROWS
    return [
        [Row(f"d/{device}", step * i + device, b"%d " % device + VALUE) for i in range(ROWS)]
        for device in range(DEVICES)
    ]


def late() -> list[list[Row]]:
    """Returns messages in order of time, but one in fifty is late by up to half of the time."""
    chance = random.Random(1)
    rows = []
    for i in range(DEVICES * ROWS):
        at = i * TIMES // (DEVICES * ROWS)
        if chance.random() < 0.02:
            at = max(0, at - chance.randrange(TIMES // 2))
        rows.append(Row(f"d/{i % DEVICES}", at, b"%d " % i + VALUE))
    return [rows[i : i + ROWS] for i in range(0, len(rows), ROWS)]


def sawtooth() -> list[list[Row]]:
    """Returns messages of a clock that begins again and again."""
    return [
        [
            Row(f"d/{i % 7}", (i * TIMES // ROWS + run * 31) % TIMES, b"%d " % run + VALUE)
            for i in range(ROWS)
        ]
        for run in range(DEVICES)
    ]


def in_order() -> list[list[Row]]:
    rows = sorted((row for batch in backfill() for row in batch), key=lambda row: row.timestamp)
    return [rows[i : i + ROWS] for i in range(0, len(rows), ROWS)]


def written(db: Database) -> float:
    """Returns how many times, on average, sealing has written each byte."""
    [shard] = db.stats()["shards"]
    return 1 + float(shard["resealed_bytes"]) / float(shard["sealed_bytes"])


def sorted_by_time(batches: list[list[Row]]) -> list[Row]:
    rows = [row for batch in batches for row in batch]
    # The sort is stable: equal times stay as they came.
    return sorted(rows, key=lambda row: row.timestamp)


@pytest.mark.parametrize("make", [backfill, late, sawtooth])
def test_what_overlaps_is_brought_apart(
    tmp_path: Path, make: Callable[[], list[list[Row]]]
) -> None:
    batches = make()
    expected = sorted_by_time(batches)
    with topicdb.open(tmp_path / "db", seal_bytes=SEAL_BYTES, maintenance_interval=None) as db:
        for batch in batches:
            db.append(batch)
        settle(db)
        assert written(db) <= 6
        assert [tuple(m) for m in db.scan("#")] == [tuple(row) for row in expected]
        db.rotate()
        settle(db)
        assert written(db) <= 7, "compressing it again is one time more"
        found = db.explain("#", start=TIMES // 2, end=TIMES // 2 + TIMES // 100)
        assert found["blocks"] > 50
        # One block covers one or two hundredths of the time; other blocks may overlap at the edges.
        assert found["blocks"] - found["blocks_skipped_by_time"] <= 5
        assert [tuple(m) for m in db.scan("#")] == [tuple(row) for row in expected]
        assert [tuple(m) for m in db.tail(timeout=0)] == [row for b in batches for row in b]
        assert topicdb.verify(tmp_path / "db", deep=True).ok
    with topicdb.open(tmp_path / "db", mode="r") as db:
        assert [tuple(m) for m in db.scan("#")] == [tuple(row) for row in expected]


def test_what_came_in_order_is_written_once(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db", seal_bytes=SEAL_BYTES, maintenance_interval=None) as db:
        for batch in in_order():
            db.append(batch)
        settle(db)
        assert db.explain("#")["blocks"] > 50
        assert written(db) == 1


def test_a_database_that_was_left_goes_on(tmp_path: Path) -> None:
    """Closing does not wait until blocks are apart; the next writer brings the rest apart."""
    batches = backfill()
    with topicdb.open(tmp_path / "db", seal_bytes=SEAL_BYTES, maintenance_interval=None) as db:
        for batch in batches:
            db.append(batch)
        db.rotate()
    with topicdb.open(tmp_path / "db", seal_bytes=SEAL_BYTES, maintenance_interval=None) as db:
        settle(db)
        found = db.explain("#", start=TIMES // 2, end=TIMES // 2 + TIMES // 100)
        assert found["blocks"] - found["blocks_skipped_by_time"] <= 5
        assert [tuple(m) for m in db.scan("#")] == [tuple(row) for row in sorted_by_time(batches)]


class History:
    """A database that is changed at random, and the messages that it must hold."""

    def __init__(self, path: Path, seed: int) -> None:
        self._path = path
        self._chance = random.Random(seed)
        self._stored: list[Row] = []  # in the order of commits
        self._snapshots = 0
        self._db = self._open()

    def _open(self) -> Database:
        return topicdb.open(self._path, seal_bytes=64 << 10, maintenance_interval=None)

    def step(self) -> None:
        chance = self._chance
        action = chance.choice(("append",) * 8 + ("delete", "reopen", "snapshot", "read", "settle"))
        getattr(self, f"_{action}")()

    def _append(self) -> None:
        first = self._chance.randrange(TIMES)
        width = self._chance.choice((10, TIMES // 10, TIMES))
        rows = [
            Row(
                f"d/{self._chance.randrange(5)}",
                min(first, TIMES - width) + self._chance.randrange(width),
                b"%d" % self._chance.randrange(10**9) + VALUE,
            )
            for _ in range(self._chance.randint(1, 400))
        ]
        self._db.append(rows)
        self._stored += rows

    def _delete(self) -> None:
        topic = f"d/{self._chance.randrange(5)}"
        start = self._chance.randrange(TIMES)
        end = start + TIMES // 8
        self._db.delete(topic, start=start, end=end)
        self._stored = [
            row for row in self._stored if row.topic != topic or not start <= row.timestamp < end
        ]

    def _reopen(self) -> None:
        self._db.close()
        self._db = self._open()

    def _snapshot(self) -> None:
        path = self._path.with_name(f"{self._path.name}-{self._snapshots}")
        self._snapshots += 1
        self._db.snapshot(path)
        with topicdb.open(path, mode="r") as copy:
            self._check(copy)

    def _settle(self) -> None:
        settle(self._db)

    def _read(self) -> None:
        self._check(self._db)

    def _check(self, db: Database) -> None:
        expected = sorted(self._stored, key=lambda row: row.timestamp)
        assert [tuple(m) for m in db.scan("#")] == [tuple(row) for row in expected]
        start = self._chance.randrange(TIMES)
        part = db.scan("d/1", start=start, end=start + TIMES // 5, order="time")
        assert [tuple(m) for m in part] == [
            tuple(row)
            for row in expected
            if row.topic == "d/1" and start <= row.timestamp < start + TIMES // 5
        ]
        assert sorted(map(tuple, db.scan("#", order="none"))) == sorted(map(tuple, expected))
        assert [tuple(m) for m in db.tail(timeout=0)] == self._stored

    def finish(self) -> None:
        self._db.rotate()
        settle(self._db)
        self._check(self._db)
        self._db.close()
        assert topicdb.verify(self._path, deep=True).ok


@pytest.mark.parametrize("seed", range(6))
def test_random_histories_are_read_as_they_were(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path / "db", seed)
    for _ in range(150):
        history.step()
    history.finish()
