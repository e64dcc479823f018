"""Tests of ``topicdb top``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from cli_runs import COMMAND, error_of, output_of, run_here, started, usage_error
from served import serving
from support import CHILD_TIMEOUT_S

import topicdb

pytest.importorskip("typer", reason="needs topicdb[cli]")

HOUR = 3_600_000_000


@pytest.fixture
def path(db_path: Path) -> Path:
    """A database with messages of the last minute, and one of a day ago."""
    now = time.time_ns() // 1_000
    with topicdb.open(db_path) as db:
        db.append([("a/fast", now - i, b"%d" % i) for i in range(720)])
        db.append([("a/large", now - i, b"x" * 1_000) for i in range(36)])
        db.append([("idle", now - 24 * HOUR, b"\xff")])
    return db_path


def rows_of(*words: object) -> list[dict[str, Any]]:
    result = run_here("top", *words, "--once", "--json", "--every", "1h")
    assert (result.returncode, result.stderr) == (0, "")
    found: list[dict[str, Any]] = json.loads(result.stdout)["top"]
    return found


def test_rates_ages_and_values(path: Path) -> None:
    fast, large, idle = rows_of(path)
    assert (fast["name"], fast["messages_per_s"], fast["value"]) == ("a/fast", 0.2, "0")
    assert fast["bytes_per_s"] == (720 * 6 + sum(len(str(i)) for i in range(720))) / 3600
    assert 0 <= fast["age_us"] < HOUR
    assert (large["name"], large["messages_per_s"]) == ("a/large", 0.01)
    assert (idle["messages_per_s"], idle["bytes_per_s"], idle["value"]) == (0, 0, "/w==")
    assert idle["age_us"] >= 24 * HOUR


def test_rows_are_sorted_and_cut(path: Path) -> None:
    def names(*words: object) -> list[str]:
        return [row["name"] for row in rows_of(path, *words)]

    assert names("--sort", "bytes") == ["a/large", "a/fast", "idle"]
    assert names("--sort", "name") == ["a/fast", "a/large", "idle"]
    assert names("--sort", "age")[-1] == "idle"
    assert names("--limit", 1) == ["a/fast"]
    assert names("idle", "a/large") == ["a/large", "idle"]


def test_a_row_for_each_filter(path: Path) -> None:
    found = rows_of(path, "a/#", "idle", "none", "--by", "filter")
    assert [(row["name"], row["messages_per_s"]) for row in found] == [
        ("a/#", 0.21),
        ("idle", 0),
        ("none", 0),
    ]
    assert (found[2]["timestamp"], found[2]["age_us"]) == (None, None)


def test_the_table(path: Path) -> None:
    text = output_of("top", path, "--once", "--every", "1h", "--limit", 2)
    head, first, second, caption = [" ".join(line.split()) for line in text.splitlines()]
    assert head == "topic messages/s bytes/s age newest value"
    assert first.startswith("a/fast 0.2 2 bytes ") and first.endswith(" 0")
    assert second.startswith("a/large 0.0 10 bytes ") and second.endswith("x…")
    assert caption == "1 more (--limit)"


def test_it_goes_on_until_it_is_stopped(path: Path) -> None:
    with topicdb.open(path) as db, started("top", path, "new", "--json", "--every", "10ms") as top:
        assert top.stdout is not None
        assert json.loads(top.stdout.readline())["top"] == []
        db.append([("new", None, b"1")])
        while not (rows := json.loads(top.stdout.readline())["top"]):
            pass
        assert rows[0]["value"] == "1"
        top.send_signal(signal.SIGINT)
        assert top.stdout.read() is not None
        assert top.wait(CHILD_TIMEOUT_S) == 0


def test_at_a_terminal(path: Path) -> None:
    person, terminal = os.openpty()
    words = [COMMAND, "top", str(path), "--every", "1h"]
    environment = {**os.environ, "COLUMNS": "120", "TERM": "xterm"}
    with subprocess.Popen(
        words, stdin=terminal, stdout=terminal, stderr=terminal, env=environment
    ) as process:
        os.close(terminal)
        shown = b""
        while b"idle" not in shown:
            shown += os.read(person, 65_536)
        process.send_signal(signal.SIGINT)
        assert process.wait(CHILD_TIMEOUT_S) == 0
        os.close(person)
    assert b"a/fast" in shown


def test_of_a_server(path: Path) -> None:
    with topicdb.open(path) as db, serving(db) as server:
        assert [row["name"] for row in rows_of(server.url, "idle")] == ["idle"]


def test_bad_input(path: Path) -> None:
    assert "--every: '0' is not a duration" in error_of("top", path, "--every", "0")
    assert "did you mean 'messages'" in usage_error("top", path, "--sort", "message")
    assert "a#" in error_of("top", path, "a#", "--once")
