"""Tests of ``topicdb consumers``: list, seek, filters and drop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_runs import COMMAND, answered, error_in, error_of, output_of, run_here, usage_error
from served import serving

import topicdb

pytest.importorskip("typer", reason="needs topicdb[cli]")

T0 = 1_700_000_000_000_000  # 2023-11-14T22:13:20Z
MINUTE = 60_000_000


@pytest.fixture
def path(db_path: Path) -> Path:
    """A database with a consumer that has acknowledged 4 of 10 messages, and a group."""
    with topicdb.open(db_path) as db:
        for i in range(10):
            db.append([("site/1", T0 + i * MINUTE, b"%d" % i)])
        db.append([("other", T0, b"")])
        with db.consumer("etl", "site/#") as consumer:
            consumer.ack(consumer.poll(4))
        db.group("workers").close()
    return db_path


def listed(path: Path | str, *options: object) -> list[dict[str, Any]]:
    result = run_here("consumers", path, "--json", *options)
    assert (result.returncode, result.stderr) == (0, "")
    found: list[dict[str, Any]] = json.loads(result.stdout)["consumers"]
    return found


def lag_of(path: Path | str, name: str = "etl") -> int:
    (lag,) = (one["lag"] for one in listed(path) if one["name"] == name)
    assert isinstance(lag, int)
    return lag


def test_they_are_listed(path: Path) -> None:
    for words in (["consumers", path], ["consumers", "list", path]):
        assert [line.split("  ") for line in run_here(*words).stdout.splitlines()]
        rows = [" ".join(line.split()) for line in output_of(*words).splitlines()]
        assert rows == [
            "kind name filters places lag lost",
            "consumer etl site/# 0: 5 6 0",
            "group workers # 0: 1 11 0",
        ]
    assert listed(path)[0] == {
        "kind": "consumer",
        "name": "etl",
        "filters": ["site/#"],
        "lag": 6,
        "lost": 0,
        "places": {"0": [5, 0]},
    }
    assert "there is no database" in error_of("consumers", path / "nothing")
    assert "'lsit'; did you mean 'list'" in usage_error("consumers", "lsit", path)


def test_losses_are_listed(db_path: Path) -> None:
    with topicdb.open(db_path) as db:
        db.append([("a", i, b"") for i in range(10)])
        db.consumer("etl").close()
        db.rotate()
        db.drop_slab(next(slab for slab in db.slabs() if slab.read_only))
    assert [one["lost"] for one in listed(db_path)] == [10]


@pytest.mark.parametrize(
    ("to", "lag", "first"),
    [("earliest", 10, b"0"), ("latest", 0, None), ("2023-11-14T22:20:20Z", 3, b"7")],
)
def test_seek(path: Path, to: str, lag: int, first: bytes | None) -> None:
    told = output_of("consumers", "seek", path, "etl", "--start", to)
    assert told == f"consumer etl goes on at {to}: {lag} messages to read, 6 before\n"
    assert lag_of(path) == lag
    with topicdb.open(path) as db, db.consumer("etl", "site/#") as consumer:
        batch = consumer.poll(1, timeout=0 if first is None else None)
        assert [message.value for message in batch] == ([] if first is None else [first])


def test_what_cannot_be_moved(path: Path) -> None:
    before = listed(path)
    assert "has no consumer 'elt'; did you mean 'etl'?" in error_of(
        "consumers", "seek", path, "elt", "--start", "latest"
    )
    assert "has no consumer 'x'; it has: 'etl'" in error_of("consumers", "drop", path, "x", "--yes")
    assert "but a group of this name" in error_of("consumers", "drop", path, "workers", "--yes")
    assert "leave out --group" in error_of("consumers", "drop", path, "etl", "--group", "--yes")
    assert "--start: 'soon' is no time" in error_of(
        "consumers", "seek", path, "etl", "--start", "soon"
    )
    assert "--start" in usage_error("consumers", "seek", path, "etl")
    assert "#/#" in error_of("consumers", "filters", path, "etl", "#/#")
    assert listed(path) == before


def test_other_filters(path: Path) -> None:
    told = output_of("consumers", "filters", path, "etl", "site/#", "other")
    assert told == "consumer etl reads site/#, other: 7 messages to read\n"
    output_of("consumers", "filters", path, "workers", "other", "--group")
    assert [one["filters"] for one in listed(path)] == [["site/#", "other"], ["other"]]


def test_drop(path: Path) -> None:
    refused = error_of("consumers", "drop", path, "etl")
    assert "with 6 messages that it has not acknowledged" in refused and "--yes" in refused
    command = [COMMAND, "consumers", "drop", str(path), "etl"]
    assert "nothing was changed" in answered(command, "n")
    assert lag_of(path) == 6
    assert "dropped consumer etl: it was 6 messages behind" in answered(command, "y")
    found = json.loads(
        output_of("consumers", "drop", path, "workers", "--group", "--yes", "--json")
    )
    assert (found["dropped"]["name"], found["dropped"]["lag"]) == ("workers", 11)
    assert listed(path) == []
    with topicdb.open(path, mode="r") as db:
        assert db.scan().count() == 11


def test_beside_a_writer(path: Path) -> None:
    with topicdb.open(path):
        assert lag_of(path) == 6
        for words in (["drop", path, "etl", "--yes"], ["seek", path, "etl", "--start", "latest"]):
            told = error_in(run_here("consumers", *words), 3)
            assert f"{path} is open for writing in another process (pid" in told
            assert "give its URL here" in told
        assert lag_of(path) == 6


def test_at_a_server(path: Path) -> None:
    with topicdb.open(path) as db, serving(db) as server:
        assert lag_of(server.url) == 6
        output_of("consumers", "seek", server.url, "etl", "--start", "earliest")
        assert lag_of(server.url) == 10
        with topicdb.connect(server.url) as other, other.consumer("etl", "site/#"):
            told = error_of("consumers", "seek", server.url, "etl", "--start", "latest")
            assert told == "a program has consumer 'etl' open: close it there, and try again"
        output_of("consumers", "drop", server.url, "etl", "--yes")
        assert [one["name"] for one in listed(server.url)] == ["workers"]
