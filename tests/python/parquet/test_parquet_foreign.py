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


def write_int96(path: Path, times: Any, **options: Any) -> Path:
    """Writes messages of the topic ``a``; its times are of the type INT96, as Hive's are."""
    values = pa.array([b"x"] * len(times))
    table = pa.table({"topic": ["a"] * len(times), "timestamp": times, "value": values})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, **options)
    schema = pq.ParquetFile(path).schema
    assert schema.column(1).physical_type == "INT96"
    return path


# Nanoseconds in 64 bits end in the year 2262.
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("rows_per_group", [1, 2, 100])
def test_times_of_hive_and_older_sparks(tmp_path: Path, zone: str, rows_per_group: int) -> None:
    times = [0, 17, 1_700_000_000_000_001, 9_223_372_036_854_776, 253_402_300_799_999_999]
    times += [4_000_000_000_000_000_003, TIMESTAMP_MAX - 1, TIMESTAMP_MAX]
    path = write_int96(
        tmp_path / "int96.parquet",
        pa.array(times, pa.timestamp("us", zone)),
        row_group_size=rows_per_group,
    )
    with topicdb.open(tmp_path / "db") as db:
        assert db.import_parquet(path).messages == len(times)
        assert [message.timestamp for message in db.scan()] == times


def test_many_times_of_hive(tmp_path: Path) -> None:
    times = list(range(1_700_000_000_000_000, 1_700_000_000_100_000))  # several batches
    path = write_int96(
        tmp_path / "int96.parquet", pa.array(times, pa.timestamp("us")), row_group_size=66_000
    )
    with topicdb.open(tmp_path / "db") as db:
        assert db.import_parquet(path).messages == len(times)
        assert [message.timestamp for message in db.scan()] == times


@pytest.mark.parametrize("wrong", [1, 999, 1_700_000_000_000_000_999, (1 << 63) - 1, -1, -1_500])
def test_times_of_hive_are_not_rounded(tmp_path: Path, wrong: int) -> None:
    times = [1_000_000] * 80_000  # several batches
    times[75_000] = wrong
    path = write_int96(
        tmp_path / "int96.parquet", pa.array(times, pa.timestamp("ns")), row_group_size=66_000
    )
    said = f"int96.parquet: row 75000: column 'timestamp': {wrong} ns of INT96 is no whole number"
    with topicdb.open(tmp_path / "db") as db:
        with pytest.raises(ValueError, match=said):
            db.import_parquet(path)
        assert db.scan().count() == 0


def test_times_of_hive_that_are_too_late_or_not_there(tmp_path: Path) -> None:
    # So many microseconds are more than 64 bits hold.
    late = write_int96(tmp_path / "late.parquet", pa.array([1, 1 << 54], pa.timestamp("ms")))
    null = write_int96(tmp_path / "null.parquet", pa.array([1, None], pa.timestamp("us")))
    early = write_int96(tmp_path / "early.parquet", pa.array([1, -(1 << 54)], pa.timestamp("us")))
    with topicdb.open(tmp_path / "db") as db:
        with pytest.raises(
            ValueError, match=f"row 1: column 'timestamp': {10**6 << 54} ns of INT96"
        ):
            db.import_parquet(late)
        with pytest.raises(ValueError, match="row 1: column 'timestamp' is null"):
            db.import_parquet(null)
        with pytest.raises(ValueError, match="row 1: column 'timestamp': timestamp"):
            db.import_parquet(early)
        assert db.scan().count() == 0
