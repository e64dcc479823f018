"""Reads of messages that overlap in time are in order, and read each page once.

The messages are more than a read may have in memory, which is 112 MiB. In one database blocks
overlap as the messages do, as only closing has sealed it; in the other one the sealer has brought
the blocks apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support import wait_until

import topicdb
from sealing import sealing_is_over
from topicdb import Database

RUNS = 30
ROWS = 4_000  # per run; each run covers the same period
TOPICS = 1_000
VALUE = b"v" * 1_000
OPTIONS: dict[str, Any] = {"seal_bytes": 1 << 30}  # nothing is sealed before the database is closed


class Row(NamedTuple):
    topic: str
    timestamp: int
    value: bytes


def rows_of(run: int) -> list[Row]:
    """Returns the messages of a run: their times interleave with those of other runs.

    One time in seven is also a time of the run before.
    """
    return [
        Row(
            f"site/{number * 7 % TOPICS}/x",
            60 * number + (run - 1 if number % 7 == 0 and run else run),
            b"%d/%d " % (run, number) + VALUE,
        )
        for number in range(ROWS)
    ]


EXPECTED = sorted(
    ((row.timestamp, run, number), row)
    for run in range(RUNS)
    for number, row in enumerate(rows_of(run))
)
"""By time, then as they were committed."""


@pytest.fixture(scope="module", params=["overlap", "apart"])
def path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    found: Path = tmp_path_factory.mktemp("overlap") / f"{request.param}.db"
    options = {**OPTIONS, "structures": ["site/+/x"], "maintenance_interval": None}
    with topicdb.open(found, **options) as db:
        for run in range(RUNS):
            db.append(rows_of(run))
    if request.param == "apart":
        with topicdb.open(found, **options) as db:
            db.rotate()
            wait_until(lambda: sealing_is_over(db), "blocks are apart")
    return found


@pytest.fixture(params=["rw", "r"])
def db(path: Path, request: pytest.FixtureRequest) -> Iterator[Database]:
    options = {"mode": request.param, "maintenance_interval": None}
    with topicdb.open(path, **OPTIONS, **options) as database:
        yield database


def test_it_is_more_than_fits(db: Database, path: Path) -> None:
    found = db.explain("#")
    assert found["rows_matched"] == RUNS * ROWS
    if path.stem == "overlap":
        assert 0 < found["rows_spilled"] <= RUNS * ROWS
    else:
        assert found["rows_spilled"] == 0
    assert found["pages_read"] == found["pages"]  # each page once


def test_a_part_of_the_time_reads_a_part_of_the_blocks(db: Database, path: Path) -> None:
    found = db.explain("#", start=100_000, end=110_000)
    assert found["blocks"] >= 8
    if path.stem == "apart":
        assert found["blocks_skipped_by_time"] >= found["blocks"] - 3


@pytest.mark.parametrize("order", ["stream", "time"])
def test_a_scan_is_in_order(db: Database, order: str) -> None:
    got = db.scan("#", order=order)  # type: ignore[arg-type]
    assert all(tuple(m) == row for m, (_, row) in zip(got, EXPECTED, strict=True))


def test_without_an_order_nothing_is_sorted(db: Database) -> None:
    before = db.stats()["shards"][0]["reads"]["rows_spilled"]
    assert sorted(map(tuple, db.scan("#", order="none"))) == sorted(
        tuple(row) for _, row in EXPECTED
    )
    some = db.scan(["site/3/x", "site/+/x"], start=100, end=90_000, order="none")
    wanted = [tuple(row) for (time, *_), row in EXPECTED if 100 <= time < 90_000]
    assert sorted(map(tuple, some)) == sorted(wanted)
    assert some.count() == len(wanted)
    assert db.stats()["shards"][0]["reads"]["rows_spilled"] == before


def test_a_part_of_it_is_in_order(db: Database) -> None:
    start, end = 30_001, 200_003
    wanted = [
        row
        for (time, *_), row in EXPECTED
        if start <= time < end and row.topic in ("site/3/x", "site/14/x")
    ]
    got = db.scan(["site/3/x", "site/14/x"], start=start, end=end)
    assert [tuple(m) for m in got] == wanted


def test_iterators_go_on_from_anywhere(db: Database) -> None:
    [stream] = db.streams("site/+/x")
    iterator = db.iterator(stream, "#")
    for begin in (0, 1_000, 2_000):
        page = db.next(iterator, 1_000)
        assert [tuple(m) for m in page.batch] == [r for _, r in EXPECTED[begin : begin + 1_000]]
        iterator = topicdb.Iterator.from_bytes(bytes(page.iterator))


def test_the_log_is_in_the_order_of_commits(db: Database) -> None:
    with db.tail("#", after={}, timeout=0) as tail:
        got = [tuple(m) for m in tail]
    assert got == [row for run in range(RUNS) for row in rows_of(run)]


def test_a_scan_that_is_left_leaves_nothing(db: Database, path: Path) -> None:
    before = files_of(path)
    batches = iter(db.scan("#").batches(rows=10))
    assert len(next(batches)) == 10
    assert files_of(path) == before
    del batches
    assert files_of(path) == before


def files_of(path: Path) -> set[str]:
    """Returns the files that a scan could leave behind; files of RocksDB come and go."""
    return {
        str(file)
        for file in path.rglob("*")
        if not file.name.endswith((".sst", ".log"))
        and not file.name.startswith(("MANIFEST", "OPTIONS"))
    }
