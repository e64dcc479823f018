"""Tests of ``topicdb snapshot``, ``restore``, ``verify`` and ``repair``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_runs import error_in, error_of, output_of, run_here, stored

import topicdb

pytest.importorskip("typer", reason="needs topicdb[cli]")


@pytest.fixture
def path(db_path: Path) -> Path:
    with topicdb.open(db_path, seal_bytes=1) as db:
        db.append([(f"pump/{i % 3}", i, b"%d" % i) for i in range(100)])
    return db_path


def test_a_snapshot_and_back(path: Path, tmp_path: Path) -> None:
    assert "files, " in output_of("snapshot", path, tmp_path / "copy")
    copied = output_of("snapshot", path, tmp_path / "second", "--base", tmp_path / "copy", "--copy")
    assert copied.startswith(str(tmp_path / "second"))
    output_of("restore", tmp_path / "copy", tmp_path / "restored")
    assert stored(tmp_path / "restored") == stored(path)
    with topicdb.open(path) as db:
        db.delete("#")
        db.rotate()
        db.drop_slab(db.slabs()[0])
        db.append([("only", 1, b"")])
    refused = error_of("restore", tmp_path / "copy", path, "--replace")
    assert f"{path} with 1 messages (" in refused and "--yes does it" in refused
    assert len(stored(path)) == 1
    output_of("restore", tmp_path / "copy", path, "--replace", "--yes")
    assert stored(path) == stored(tmp_path / "restored") != []


def test_what_is_in_the_way(path: Path, tmp_path: Path) -> None:
    assert "exists: choose a path" in error_of("snapshot", path, tmp_path)
    assert "exists: choose a path" in error_of("restore", path, tmp_path)
    with topicdb.open(path):
        assert "close the database" in error_in(run_here("restore", path, tmp_path / "new"), 3)
    assert "there is no database" in error_of("snapshot", tmp_path / "none", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "none").exists()


def test_verify(path: Path) -> None:
    assert "100 messages in 1 slabs of 1 shards, nothing damaged" in output_of("verify", path)
    found = json.loads(output_of("verify", path, "--json", "--shallow"))
    assert (found["problems"], found["pages"], found["messages"]) == ([], 0, 100)
    table = max(path.rglob("*.sst"), key=lambda file: file.stat().st_size)
    content = bytearray(table.read_bytes())
    content[20] ^= 1
    table.write_bytes(content)
    result = run_here("verify", path)
    assert result.returncode == 1
    assert "damaged: shard 0" in result.stdout
    assert "problems" in result.stderr


def test_repair(path: Path) -> None:
    assert "nothing damaged" in output_of("repair", path)
    assert json.loads(output_of("repair", path, "--json"))["shards"] == []
    table = max(path.rglob("*.sst"), key=lambda file: file.stat().st_size)
    content = bytearray(table.read_bytes())
    content[20] ^= 1
    table.write_bytes(content)
    refused = error_of("repair", path)
    assert refused.startswith("shard 0") and "--yes does it" in refused
    found = output_of("repair", path, "--yes")
    assert "was damaged: shard 0" in found
    assert "1 shards made anew with " in found
    for table in (path / "shards").rglob("*.sst"):
        table.unlink()
    report = json.loads(output_of("repair", path, "--yes", "--json"))
    assert (report["shards"], report["remaining"]) == ([0], [])
    assert any("is missing" in problem["what"] for problem in report["problems"])
    assert report["lost"] == sum(problem["messages"] for problem in report["problems"])
    (path / "shards" / "0000.lock").touch()
    with topicdb.open(path):
        assert "close the database" in error_in(run_here("repair", path, "--yes"), 3)


def test_repair_cannot_mend_all(path: Path) -> None:
    (path / "TOPICDB").write_bytes(b"")
    assert "restore a snapshot" in error_of("repair", path)
