"""Measures single operations with pytest-benchmark; `make test` leaves it out.

`pytest bench/python` runs it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import topicdb

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import workloads
from workloads import Workload, fleet

ROWS = 10_000


@pytest.fixture(scope="module")
def load() -> Workload:
    return workloads.make("fleet", ROWS)


@pytest.fixture
def database(tmp_path: Path, load: Workload) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "data") as database:
        database.append(load.table)
        database.flush()
        yield database


# Each round appends the same messages again, and the layout columnar keeps all of them.
def test_append_tuples(benchmark: Any, database: topicdb.Database, load: Workload) -> None:
    assert benchmark(database.append, load.rows).count == ROWS


def test_append_arrow(benchmark: Any, database: topicdb.Database, load: Workload) -> None:
    assert benchmark(database.append, load.table).count == ROWS


def test_scan_arrow(benchmark: Any, database: topicdb.Database) -> None:
    assert benchmark(lambda: database.scan().to_arrow()).num_rows == ROWS


def test_scan_tuples(benchmark: Any, database: topicdb.Database) -> None:
    assert len(benchmark(lambda: list(database.scan()))) == ROWS


def test_scan_filter(benchmark: Any, database: topicdb.Database, load: Workload) -> None:
    expected = sum(topicdb.topic_matches(fleet.FILTER, row[0]) for row in load.rows)
    assert benchmark(lambda: len(database.scan(fleet.FILTER).to_list())) == expected > 0
