"""Messages in databases and in Parquet files, for the tests of export and import."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from strategies import TIMESTAMP_MAX

import topicdb

pa = pytest.importorskip("pyarrow", reason="needs topicdb[arrow]")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = [
    ("metrics/h1/cpu", 1_700_000_000_000_000, b"42"),
    ("metrics/h1/cpu", 1_700_000_000_000_000, b"43"),
    ("metrics/h1/cpu", 1_700_000_000_000_000, b"42"),
    ("metrics/h2/cpu", TIMESTAMP_MAX, b""),
    ("$SYS/uptime", 0, bytes(range(256))),
    ("ü/\x01/", 5, b"\xff"),
]
NOT_SYSTEM = [row for row in ROWS if not row[0].startswith("$")]

Row = tuple[str, int, bytes]
Series = dict[str, list[tuple[int, bytes]]]


def series(rows: Iterable[Row]) -> Series:
    """Groups rows by topic, and sorts each topic by time; equal times keep their order."""
    found: Series = defaultdict(list)
    for name, time, value in rows:
        found[name].append((time, value))
    return {name: sorted(items, key=lambda item: item[0]) for name, items in found.items()}


def stored(db: topicdb.Database, topics: Iterable[str]) -> Series:
    """Returns the series of ``topics`` in a database; the database must have no other messages."""
    found = {name: [(m.timestamp, m.value) for m in db.scan(name)] for name in set(topics)}
    assert db.scan_slices(db.slices(None), None).count() == sum(map(len, found.values()))
    return {name: items for name, items in found.items() if items}


def in_file(path: Path) -> list[Row]:
    table = pq.read_table(path)
    times = table["timestamp"].cast(pa.int64()).to_pylist()
    return list(zip(table["topic"].to_pylist(), times, table["value"].to_pylist(), strict=True))


def write(path: Path, rows: Sequence[Row], **columns: Any) -> Path:
    """Writes a foreign file; ``columns`` replace those of ``rows``, and None leaves one out."""
    topics, times, values = zip(*rows, strict=True)
    data = {
        "topic": pa.array(topics),
        "timestamp": pa.array(times, pa.timestamp("us", "UTC")),
        "value": pa.array(values, pa.binary()),
        **columns,
    }
    pq.write_table(pa.table({k: v for k, v in data.items() if v is not None}), path)
    return path


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())
