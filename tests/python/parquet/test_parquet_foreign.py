"""Tests of exports in other tools, and of imports of their files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from parquet_rows import ROWS, Row, pa, pq, series, stored, write
from strategies import TIMESTAMP_MAX

import topicdb


def test_far_times_and_types(tmp_path: Path, exported: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    pandas = pytest.importorskip("pandas")
    found = duckdb.sql(
        f"select topic, epoch_us(timestamp), value from '{exported}' "
        "where isfinite(timestamp)"  # DuckDB takes the largest time for infinity
    ).fetchall()
    finite = [row for row in ROWS if row[1] != TIMESTAMP_MAX]
    assert sorted(found) == sorted(finite)
    frame = pandas.read_parquet(exported)
    assert str(frame["timestamp"].dtype) == "datetime64[us, UTC]"
    assert sorted(frame["timestamp"].astype("int64")) == sorted(row[1] for row in ROWS)
    schema = pq.read_schema(exported)
    assert [str(field.type) for field in schema] == [
        "string",
        "timestamp[us, tz=UTC]",
        "binary",
    ]
    about = json.loads(schema.metadata[b"topicdb"])
    assert about == {
        "version": 1,
        "filter": None,
        "start": None,
        "end": None,
        "layout": "columnar",
        "timestamp_bytes": 8,
    }


@pytest.mark.parametrize(
    "columns",
    [
        {"timestamp": pa.array([0, 1_000, TIMESTAMP_MAX])},
        {"timestamp": pa.array([0, 1_000_000, 5_000], pa.timestamp("ns", "Europe/Berlin"))},
        {"timestamp": pa.array([0, 1, 2], pa.timestamp("s", "UTC"))},
        {"topic": pa.array(["a", "b", "a"], pa.large_string())},
        {"topic": pa.array(["a", "b", "a"]).dictionary_encode()},
        {"topic": pa.array(["a", "b", "a"], pa.string_view())},
        {"value": pa.array(["a", "", "ü"])},
        {"value": pa.array([b"a", b"", b"\xff"], pa.large_binary())},
        {"value": pa.array([b"a", b"", b"\xff"], pa.binary_view())},
        {"value": pa.array([b"a", b"", b"a"]).dictionary_encode()},
        {"serial": pa.array([7, 8, 9])},
    ],
    ids=lambda columns: ",".join(f"{k} {v.type}" for k, v in columns.items()),
)
def test_foreign_columns(tmp_path: Path, columns: dict[str, Any]) -> None:
    rows: list[Row] = [("a", 1, b"x"), ("b", 2, b"y"), ("a", 3, b"z")]
    path = write(tmp_path / "foreign.parquet", rows, **columns)
    topics = columns["topic"].to_pylist() if "topic" in columns else ["a", "b", "a"]
    times = [1, 2, 3]
    if "timestamp" in columns:
        utc = columns["timestamp"].cast(pa.timestamp("us", "UTC"))
        times = utc.cast(pa.int64()).to_pylist()
    values = columns["value"].to_pylist() if "value" in columns else [b"x", b"y", b"z"]
    values = [v.encode() if isinstance(v, str) else v for v in values]
    with topicdb.open(tmp_path / "db") as db:
        assert db.import_parquet(path).messages == 3
        assert stored(db, "ab") == series(zip(topics, times, values, strict=True))


def test_times_of_hive_and_older_sparks(tmp_path: Path) -> None:
    table = pa.table(
        {"topic": ["a"], "timestamp": pa.array([17], pa.timestamp("us")), "value": [b"x"]}
    )
    path = tmp_path / "int96.parquet"
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    with topicdb.open(tmp_path / "db") as db:
        db.import_parquet(path)
        assert db.scan().to_list() == [("a", 17, b"x")]
