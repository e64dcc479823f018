"""Tests of ``topicdb quota``: the quota of a database that is served."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_runs import error_of, output_of, run_here
from served import serving

import topicdb


@pytest.fixture
def db(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "db", quota_bytes="1GB", maintenance_interval=None) as database:
        for _ in range(3):
            database.append([("a", i, random.Random(i).randbytes(1000)) for i in range(500)])
            database.rotate()
        database.flush()
        yield database


def json_of(*arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(output_of("quota", *arguments, "--json"))
    return found


def test_it_is_shown_and_changed(db: topicdb.Database) -> None:
    with serving(db) as server:
        text = output_of("quota", server.url)
        assert "1.0 GB" in text and "from 90% on" in text and "full" not in text
        found = json_of(server.url, "--set", "2GB", "--quota-trim", "0.5")
        assert (found["quota_bytes"], found["quota_trim"]) == (2_000_000_000, 0.5)
        assert found["disk_bytes"] > 1_500_000 and not found["full"] and found["to_drop"] == 0
        assert db.quota.bytes == 2_000_000_000
        found = json_of(server.url, "--quota-trim", "none")
        assert (found["quota_bytes"], found["quota_trim"]) == (2_000_000_000, None)
        assert "appends are refused" in output_of("quota", server.url, "--set", "1MB")
        assert json_of(server.url, "--set", "none")["quota_bytes"] is None


def test_what_drops_data_asks(db: topicdb.Database) -> None:
    with serving(db) as server:
        said = error_of("quota", server.url, "--set", "1MB")
        assert "messages" in said and "nothing was changed" in said and "--yes" in said
        assert db.quota.bytes == 1_000_000_000
        found = json_of(server.url, "--set", "1MB", "--yes")
        assert found["full"] and found["to_drop"] >= 500
        assert len(db.maintain().dropped) > 0


def test_what_is_no_quota(db: topicdb.Database) -> None:
    with serving(db) as server:
        assert "quota_bytes" in error_of("quota", server.url, "--set", "5 XB")
        assert "--quota-trim" in error_of("quota", server.url, "--quota-trim", "much")
        assert "quota_trim" in error_of("quota", server.url, "--quota-trim", "1.5")
        assert (db.quota.bytes, db.quota.trim) == (1_000_000_000, 0.9)
        url = server.url
    assert run_here("quota", url).returncode == 1


def test_it_needs_a_right(db: topicdb.Database, tmp_path: Path) -> None:
    from topicdb.remote.server.tokens import add

    tokens = tmp_path / "tokens.json"
    reader = add(tokens, {"name": "reader", "read": ["#"]})
    admin = add(tokens, {"name": "admin", "admin": ["#"]})
    with serving(db, tokens=tokens) as server:
        assert "may not" in error_of("quota", server.url, "--token", reader)
        assert json_of(server.url, "--token", admin, "--set", "3GB")["quota_bytes"] == 3_000_000_000
