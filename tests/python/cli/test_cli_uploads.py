"""Tests of ``topicdb upload`` and ``topicdb download``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_runs import error_of, output_of, run_here, stored

import topicdb

pytest.importorskip("typer", reason="needs topicdb[cli]")


def test_a_database_goes_up_and_comes_back(db_path: Path, tmp_path: Path) -> None:
    with topicdb.open(db_path) as db:
        db.append([(f"pump/{i % 3}", i, b"%d" % i) for i in range(100)])
    store = tmp_path / "store"
    assert "would write" in output_of("upload", db_path, store, "--dry-run")
    assert not store.exists()
    made = json.loads(output_of("upload", db_path, store, "--json"))
    assert (made["number"], made["new_files"]) == (1, made["files"])
    assert f"{store}: upload 2 of" in output_of("upload", db_path, store, "--keep", "1")
    assert f"{tmp_path / 'back'}: upload 2, " in output_of("download", store, tmp_path / "back")
    assert stored(tmp_path / "back") == stored(db_path) != []
    again = json.loads(output_of("download", store, tmp_path / "third", "--json"))
    assert again["number"] == 2


def test_what_is_wrong_is_named(db_path: Path, tmp_path: Path) -> None:
    assert "there is no upload at" in error_of("download", tmp_path / "none", tmp_path / "back")
    assert "no database" in error_of("upload", db_path, tmp_path / "store")
    topicdb.open(db_path).close()
    assert "no object store is at 'ftp://x'" in error_of("upload", db_path, "ftp://x")
    wrong = run_here("upload", "grpc://host:8815", tmp_path)
    assert wrong.returncode == 2
    assert "is the URL of a server" in wrong.stderr
