"""Tests of ``topicdb sql``."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from cli_runs import error_of, output_of, run_here, usage_error
from served import serving

import topicdb

pytest.importorskip("typer", reason="needs topicdb[cli]")
pytest.importorskip("duckdb", reason="needs topicdb[duckdb]")

T0 = 1_700_000_000_000_000  # 2023-11-14T22:13:20Z


@pytest.fixture
def path(db_path: Path) -> Path:
    with topicdb.open(db_path, shards=2) as db:
        db.append([(f"site/{i % 3}/pump", T0 + i * 1_000_000, b"%d" % i) for i in range(30)])
        db.append([("raw/1", T0, b"\xff\x00"), ("$SYS/up", T0, b"1")])
    return db_path


def rows_of(path: Path | str, query: str, *options: object) -> list[dict[str, Any]]:
    result = run_here("sql", path, query, *options, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_the_columns(path: Path) -> None:
    (row,) = rows_of(path, "SELECT * FROM messages WHERE topic = 'site/1/pump' AND text = '4'")
    assert row == {
        "topic": "site/1/pump",
        "timestamp": T0 + 4_000_000,
        "value": "4",
        "text": "4",
        "levels": ["site", "1", "pump"],
    }
    (row,) = rows_of(path, "SELECT value, text FROM messages WHERE topic = 'raw/1'")
    assert row == {"value": "/wA=", "encoding": "base64", "text": None}


def test_groups(path: Path) -> None:
    query = (
        "SELECT levels[2] AS pump, count(*) AS n, avg(text::INT) AS mean FROM messages "
        "WHERE topic LIKE 'site/%' GROUP BY ALL ORDER BY pump"
    )
    assert rows_of(path, query) == [
        {"pump": "0", "n": 10, "mean": 13.5},
        {"pump": "1", "n": 10, "mean": 14.5},
        {"pump": "2", "n": 10, "mean": 15.5},
    ]
    lines = [line.split() for line in output_of("sql", path, query).splitlines()]
    assert lines[:2] == [["pump", "n", "mean"], ["0", "10", "13.5"]]
    text = output_of("sql", path, query, "--format", "csv")
    assert list(csv.reader(io.StringIO(text)))[:2] == [["pump", "n", "mean"], ["0", "10", "13.5"]]


def test_filters_and_times(path: Path) -> None:
    count = "SELECT count(*) AS n FROM messages"
    assert rows_of(path, count) == [{"n": 31}]
    assert rows_of(path, count, "--filter", "site/1/#", "--filter", "$SYS/#") == [{"n": 11}]
    times = ["--start", "2023-11-14T22:13:30Z", "--end", "2023-11-14 23:13:40", "--tz", "Etc/GMT-1"]
    assert rows_of(path, count, *times) == [{"n": 10}]


def test_times_are_shown_in_the_zone(path: Path) -> None:
    query = "SELECT min(timestamp) AS t, min(timestamp)::DATE AS day FROM messages"
    shown = output_of("sql", path, query, "--tz", "Asia/Tokyo").splitlines()[1]
    assert shown.split() == ["2023-11-15T07:13:20.000000+09:00", "2023-11-15"]
    assert rows_of(path, query, "--tz", "UTC") == [{"t": T0, "day": "2023-11-14"}]


def test_a_long_result(path: Path) -> None:
    query = "SELECT i FROM range(3000) t(i), (SELECT 1 FROM messages LIMIT 1)"
    lines = output_of("sql", path, query).splitlines()
    assert len(lines) == 1_002 and lines[-1].startswith("these are the first 1,000 rows")
    assert len(rows_of(path, query)) == 3_000


def test_a_query_reads_no_more_than_it_needs(path: Path) -> None:
    """DuckDB's plan leaves the topic to the scan, and does not make the columns of the view."""
    (row,) = rows_of(path, "EXPLAIN SELECT value FROM messages WHERE topic = 'site/1/pump'")
    assert "topic" in row["explain_value"]
    assert "Filters:" in row["explain_value"] and "FILTER" not in row["explain_value"]
    assert "levels" not in row["explain_value"]


def test_of_a_server(path: Path) -> None:
    with topicdb.open(path) as db, serving(db) as server:
        found = rows_of(
            server.url, "SELECT topic FROM messages WHERE topic = 'site/2/pump' LIMIT 1"
        )
        assert found == [{"topic": "site/2/pump"}]


def test_mistakes(path: Path) -> None:
    told = error_of("sql", path, "SELECT topc FROM messages")
    assert told.startswith("QUERY: ") and "topc" in told and "topic" in told
    assert "QUERY: " in error_of("sql", path, "SELEC 1")
    assert "message" in error_of("sql", path, "SELECT * FROM message")
    assert "did you mean 'table'" in usage_error("sql", path, "SELECT 1", "--format", "tabel")
    assert "not both" in usage_error("sql", path, "SELECT 1", "--json", "--format", "csv")
    assert "a#" in error_of("sql", path, "SELECT * FROM messages", "--filter", "a#")
    assert "there is no database" in error_of("sql", path / "none", "SELECT 1")
