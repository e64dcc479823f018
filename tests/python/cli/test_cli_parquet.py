"""Tests of ``topicdb export`` and ``import``, and of ``scan --to``, which writes the same way."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest
from cli_runs import COMMAND, IMPATIENT, error_in, error_of, output_of, run, stored, usage_error
from support import CHILD_TIMEOUT_S

import topicdb

pq = pytest.importorskip("pyarrow.parquet", reason="needs topicdb[cli]")
pytest.importorskip("typer", reason="needs topicdb[cli]")

ROWS = [("a/1", 1, b"x"), ("a/1", 1, b"y"), ("a/2", 2, b""), ("b", 2**62, b"\xff"), ("$S", 0, b"s")]


@pytest.fixture
def path(db_path: Path) -> Path:
    with topicdb.open(db_path) as db:
        db.append(ROWS)
    return db_path


def test_there_and_back(path: Path, tmp_path: Path) -> None:
    file, copy = tmp_path / "all.parquet", tmp_path / "copy.db"
    text = output_of("export", path, file, "--all")
    assert text.startswith(f"exported 5 messages to {file}: 1 file, ")
    text = output_of("import", copy, file, "--shards", 2, "--structure", "a/+")
    assert text.startswith("stored 5 messages of 1 file, ") and text.endswith(f" in {copy}\n")
    assert stored(copy) == ROWS[:4]
    assert stored(copy, "$S") == ROWS[4:]
    with topicdb.open(copy, mode="r") as db:
        assert (db.schema["shards"], db.schema["structures"]) == (2, ["a/+"])
    text = output_of("import", copy, file)
    assert "already: nothing was stored (--repeat stores them again)" in text
    output_of("import", copy, file, "--repeat")
    assert len(stored(copy)) == 8


def test_filters_times_and_parts(path: Path, tmp_path: Path) -> None:
    def rows(*options: object) -> list[str]:
        to = tmp_path / "some"
        output_of("export", path, to, *options)
        names = sorted(file.name for file in to.iterdir())
        topics: list[str] = pq.read_table(to)["topic"].to_pylist()
        for name in names:
            (to / name).unlink()
        to.rmdir()
        return [*sorted(topics), *(names if len(names) > 1 else [])]

    assert rows() == ["a/1", "a/1", "a/2", "b"]
    second = "1970-01-01T00:00:00.000002Z"
    assert rows("--filter", "a/+", "--start", second) == ["a/2"]
    assert rows("--filter", "a/#", "--filter", "$S", "--end", second) == ["$S", "a/1", "a/1"]
    assert rows("--end", "1970-01-01T00:00:00.000002Z") == ["a/1", "a/1"]
    parts = [f"part-0000{i}-of-00002.parquet" for i in range(2)]
    assert rows("--rows-per-file", 3) == ["a/1", "a/1", "a/2", "b", *parts]


def test_a_database_of_state_comes_back_as_one(tmp_path: Path) -> None:
    options = {"layout": "skipstream", "timestamp_bytes": 0}
    with topicdb.open(tmp_path / "state", layout="skipstream", timestamp_bytes=0) as db:
        db.append([("a", 0, b"1")])
    output_of("export", tmp_path / "state", tmp_path / "state.parquet")
    output_of("import", tmp_path / "copy", tmp_path / "state.parquet")
    with topicdb.open(tmp_path / "copy", mode="r") as db:
        assert {name: db.schema[name] for name in options} == options
        assert db.scan().to_list() == [("a", 0, b"1")]


def test_beside_a_writer(path: Path, tmp_path: Path) -> None:
    with topicdb.open(path) as db:
        output_of("export", path, tmp_path / "out.parquet")
        output_of("import", path, tmp_path / "out.parquet")
        assert db.scan().count() == 8


def test_errors(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.parquet"
    output_of("export", path, file)
    before = file.read_bytes()
    error = error_of("export", path, file)
    assert error == f"{file} exists: choose another path, or move it away"
    assert file.read_bytes() == before
    assert "none.db" in error_of("export", tmp_path / "none.db", tmp_path / "x.parquet")
    assert "No such file" in error_of("import", path, tmp_path / "none.parquet")
    assert "rows_per_file" in error_of("export", path, tmp_path / "x.parquet", "--rows-per-file", 5)
    assert "not both" in usage_error("export", path, file, "--all", "--filter", "a")
    assert "shards: 2 was asked for" in error_of("import", path, file, "--shards", 2)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    assert "no Parquet file" in error_of("import", tmp_path / "new.db", tmp_path / "bad.parquet")
    assert not (tmp_path / "new.db").exists()
    assert "topicdb import" in usage_error("ingest", path, file)


def test_without_pyarrow(path: Path, tmp_path: Path) -> None:
    (tmp_path / "pyarrow.py").write_text("raise ModuleNotFoundError('none', name='pyarrow')")
    for command in (["export", path, tmp_path / "x.parquet"], ["import", path, tmp_path / "x"]):
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        result = subprocess.run(
            [COMMAND, *map(str, command)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=CHILD_TIMEOUT_S,
        )
        assert 'needs pyarrow; run: pip install "topicdb[arrow]"' in error_in(result)


def test_progress_is_for_terminals(path: Path, tmp_path: Path) -> None:
    for arguments in (
        ["export", path, tmp_path / "out.parquet"],
        ["import", path, tmp_path / "out.parquet"],
    ):
        screen, terminal = pty.openpty()
        with subprocess.Popen(
            [*IMPATIENT, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=terminal,
        ) as process:
            os.close(terminal)
            shown = b""
            while chunk := _read(screen):
                shown += chunk
            process.wait(CHILD_TIMEOUT_S)
        os.close(screen)
        assert process.returncode == 0
        assert b"4 messages" in shown


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db") as db:
        db.append([(f"a/{i % 10}", i, b"x" * 100) for i in range(500_000)])
    with subprocess.Popen(
        [COMMAND, "export", str(tmp_path / "db"), str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        while not any(tmp_path.glob(".out.*.part/0")):  # until the export has begun to write
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=CHILD_TIMEOUT_S)
    assert (process.returncode, out, err) == (130, b"", b"topicdb: interrupted\n")
    assert [entry.name for entry in tmp_path.iterdir()] == ["db"]


def test_scan_to_a_file_writes_whole_row_groups(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db") as db:
        for i in range(20):
            db.append([(f"a/{i}", j, b"x") for j in range(10_000)])
    file = tmp_path / "out.parquet"
    text = run("scan", tmp_path / "db", "--to", file, "--limit", 150_000, "--order", "time").stdout
    assert text == f"wrote 150,000 messages to {file}\n"
    metadata = pq.read_metadata(file)
    rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert rows == [131_072, 18_928]
    times = pq.read_table(file)["timestamp"].to_pylist()
    assert times == sorted(times)


def _read(screen: int) -> bytes:
    try:
        return os.read(screen, 4096)
    except OSError:  # the other end is closed
        return b""
