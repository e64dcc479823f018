"""The command topicdb, run as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import topicdb

TOPICDB = Path(sys.executable).with_name("topicdb")
LINES = [
    {"topic": "site/1/pump", "timestamp": "2026-01-31T14:02:00Z", "rpm": 900},
    {"topic": "site/2/pump", "timestamp": 1_000_000, "rpm": 901},
]


def run(*arguments: object, text: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(TOPICDB), *map(str, arguments)]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def fails(code: int, *arguments: object, text: str | None = None) -> str:
    """Runs it, checks that it fails with one line and no traceback; that line."""
    done = run(*arguments, text=text)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith("topicdb: error: ")
    return line


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "cli.db"
    text = "".join(json.dumps(line) + "\n" for line in LINES)
    assert run("ingest", place, "-", text=text).returncode == 0
    return place


def test_ingest_and_scan_as_json(path: Path) -> None:
    done = run("scan", path, "site/+/pump", "--json", "--order", "time")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(m["topic"], m["timestamp"]) for m in found] == [
        ("site/2/pump", 1_000_000),
        ("site/1/pump", 1_769_868_120_000_000),
    ]
    assert json.loads(found[0]["value"]) == {"rpm": 901}


def test_scan_honours_times_and_limit(path: Path) -> None:
    assert len(run("scan", path, "--end", "1970-01-02T00:00:00Z").stdout.splitlines()) == 1
    assert len(run("scan", path, "--limit", "1").stdout.splitlines()) == 1
    assert "no time" in fails(1, "scan", path, "--start", "yesterday")
    assert "time zone" in fails(1, "scan", path, "--start", "2026-01-01T00:00:00")


def test_scan_to_parquet(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.parquet"
    assert run("scan", path, "--to", target).returncode == 0
    table = pq.read_table(target)
    assert table.column_names == ["topic", "timestamp", "value"]
    assert sorted(table["topic"].to_pylist()) == ["site/1/pump", "site/2/pump"]


def test_csv_with_a_column_mapping(tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("plant,when,level\n7,5,low\n8,6,high\n")
    options = ("--topic", "tank/{plant}", "--timestamp", "when", "--value", "level")
    assert run("ingest", tmp_path / "csv.db", source, *options).returncode == 0
    with topicdb.open(tmp_path / "csv.db", mode="r") as db:
        assert sorted(db.scan()) == [("tank/7", 5, b"low"), ("tank/8", 6, b"high")]


def test_a_bad_line_is_named_and_its_batch_not_stored(tmp_path: Path) -> None:
    text = '{"topic": "a", "timestamp": 1, "v": 1}\n{"topic": "a/#", "timestamp": 2, "v": 1}\n'
    assert "line 2" in fails(1, "ingest", tmp_path / "bad.db", "-", text=text)
    with topicdb.open(tmp_path / "bad.db", mode="r") as db:
        assert db.scan().count() == 0


def test_bad_lines_may_be_skipped(tmp_path: Path) -> None:
    text = 'no json\n{"topic": "a", "timestamp": 1, "v": 1}\n'
    done = run("ingest", tmp_path / "skip.db", "-", "--on-error", "skip", text=text)
    assert done.returncode == 0, done.stderr
    with topicdb.open(tmp_path / "skip.db", mode="r") as db:
        assert db.scan().count() == 1


@pytest.mark.parametrize("command", ["info", "streams", "structures", "stats"])
def test_what_shows_the_database(path: Path, command: str) -> None:
    done = run(command, path)
    assert done.returncode == 0, done.stderr
    assert {"info": "skipstream", "stats": "messages"}.get(command, "pump") in done.stdout


def test_stats_as_json(path: Path) -> None:
    assert json.loads(run("stats", path, "--json").stdout)["messages"] == 2


def test_mistakes_are_one_line(path: Path, tmp_path: Path) -> None:
    assert "there is no database" in fails(1, "info", tmp_path / "none.db")
    assert "must be the last level" in fails(1, "scan", path, "a/#/b")
    assert run("scan").returncode == 2


def test_a_locked_database_is_code_3(path: Path) -> None:
    with topicdb.open(path):
        assert "pid" in fails(3, "ingest", path, "-", text='{"topic": "a", "v": 1}\n')
        assert run("scan", path).returncode == 0  # reading goes on


def test_a_closed_pipe_is_quiet(path: Path) -> None:
    with topicdb.open(path) as db:
        db.append([("many", i, b"x" * 100) for i in range(20_000)])
    command = f"{TOPICDB} scan {path} | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def test_the_version() -> None:
    assert run("--version").stdout.startswith(f"topicdb {topicdb.__version__}")
