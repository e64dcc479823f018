"""Tests of the commands about whole databases: copies, verify, repair, drop and ls."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_runs import COMMAND, answered, error_in, error_of, output_of, run_here, stored

import topicdb

pytest.importorskip("typer", reason="needs topicdb[cli]")
progress: Any = pytest.importorskip("topicdb.cli.progress")


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


def test_a_shard_that_is_gone(path: Path) -> None:
    shutil.rmtree(path / "shards" / "0000")
    refused = run_here("repair", path, "--yes")
    assert refused.returncode == 1
    assert "1 problems remain; --replace-missing begins a shard anew" in refused.stderr
    done = output_of("repair", path, "--replace-missing", "--yes")
    assert "was damaged: shard 0: its directory was gone" in done
    assert done.endswith("1 shards made anew with 0 messages, 0 are known to be lost\n")
    assert stored(path) == []


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


def test_drop(path: Path) -> None:
    refused = error_of("drop", path)
    assert refused.startswith(f"{path} with 100 messages (")
    assert "goes for good: nothing was changed; --yes does it" in refused
    assert len(stored(path)) == 100
    assert "nothing was changed" in answered([COMMAND, "drop", str(path)], "n")
    assert len(stored(path)) == 100
    assert f"dropped {path}: " in answered([COMMAND, "drop", str(path)], "y")
    assert not path.exists()
    assert f"there is no database at {path}" in error_of("drop", path, "--yes")


def test_drop_without_asking(path: Path) -> None:
    assert output_of("drop", path, "--yes").startswith(f"dropped {path}: ")
    assert not path.exists()


def test_drop_is_refused_before_it_asks(path: Path) -> None:
    with topicdb.open(path, mode="r"):
        assert "is in use" in error_in(run_here("drop", path), 3)
    (path / "notes.txt").write_text("mine")
    assert "notes.txt is not TopicDB's" in error_of("drop", path, "--yes")
    (path / "notes.txt").unlink()
    assert len(stored(path)) == 100


def test_drop_of_what_cannot_be_counted(path: Path) -> None:
    (path / "TOPICDB").write_bytes(b"")
    assert "messages that cannot be counted (" in error_of("drop", path)
    output_of("drop", path, "--yes")
    assert not path.exists()


def test_drop_goes_on_where_one_was_cut_short(path: Path) -> None:
    (path / "TOPICDB").rename(path / "DROPPING")
    assert "was cut short" in error_of("info", path)
    output_of("drop", path, "--yes")
    assert not path.exists()


def test_ls(path: Path, tmp_path: Path) -> None:
    topicdb.open(tmp_path / "state", shards=3, layout="skipstream").close()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "TOPICDB").write_bytes(b"nonsense")
    (tmp_path / "going").mkdir()
    (tmp_path / "going" / "DROPPING").touch()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    found = json.loads(output_of("ls", tmp_path, "--json"))["databases"]
    sizes = [one.pop("bytes") for one in found]
    assert sizes[1] == 0 and sizes[3] > 1_000
    assert found == [
        {"path": str(tmp_path / "damaged"), "state": "damaged", "shards": None, "layout": None},
        {"path": str(tmp_path / "going"), "state": "dropping", "shards": None, "layout": None},
        {"path": str(tmp_path / "state"), "state": "whole", "shards": 3, "layout": "skipstream"},
        {"path": str(path), "state": "whole", "shards": 1, "layout": "columnar"},
    ]
    shown = output_of("ls", tmp_path)
    assert "mine" not in shown and str(path) in shown and "skipstream" in shown
    assert "there is no directory" in error_of("ls", tmp_path / "none")


def terminal_at(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Returns what now stands for a terminal at standard error."""
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", shown)  # not in a fixture: the capture of pytest undoes it
    monkeypatch.setenv("TERM", "xterm")
    return shown


class TestProgress:
    def test_work_that_takes_long_is_shown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        terminal = terminal_at(monkeypatch)
        progress.be_quiet(False)
        monkeypatch.setattr(progress, "AFTER_S", 0.0)
        with progress.Waiting("counting"):
            pass
        with progress.Meter(of_messages=True) as meter:
            meter.advance(1_234, 2_000)
        assert "counting" in terminal.getvalue()
        assert "1,234 messages" in terminal.getvalue()

    def test_work_that_is_soon_over_is_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        terminal = terminal_at(monkeypatch)
        progress.be_quiet(False)
        monkeypatch.setattr(progress, "AFTER_S", 1e9)
        with progress.Waiting("counting"):
            pass
        assert "counting" not in terminal.getvalue()

    def test_json_is_silent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        terminal = terminal_at(monkeypatch)
        monkeypatch.setattr(progress, "AFTER_S", 0.0)
        progress.be_quiet(True)
        try:
            with progress.Waiting("counting"), progress.Meter():
                pass
        finally:
            progress.be_quiet(False)
        assert terminal.getvalue() == ""

    def test_the_option_json_says_so(self, db_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        topicdb.open(db_path).close()
        quiet: list[bool] = []
        verify = topicdb.verify

        def noted(*given: Any, **options: Any) -> Any:
            quiet.append(progress._Wanted.is_quiet)
            return verify(*given, **options)

        monkeypatch.setattr(topicdb, "verify", noted)
        for words in (["--json"], []):
            assert run_here("verify", db_path, *words).returncode == 0
        assert quiet == [True, False]
