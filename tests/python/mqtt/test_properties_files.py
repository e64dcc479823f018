"""Tests of messages with MQTT properties in Parquet, commands, jobs and earlier releases."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from envelopes import GOLDEN, NOTHING, PAYLOADS, PROPERTIES, ROWS

import topicdb
from topicdb import Database, Properties, _core, jobs

DATA = Path(__file__).resolve().parents[2] / "data" / "v1"


@pytest.fixture(params=["columnar", "skipstream"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with topicdb.open(tmp_path / "db", layout=request.param, structures=["a/+"]) as opened:
        opened.append(ROWS, raw=True)
        yield opened


def test_jobs_store_what_they_are_given(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db") as db:
        with jobs.StagedWriter(db.path, "job") as writer:
            writer.append([("t", 1, GOLDEN.encode())])
            writer.append([("t", 2, GOLDEN.encode())], raw=True)
        jobs.commit(db.path, "job", [writer.staged])
        assert [m.value for m in db.scan("t")] == [GOLDEN.encode(), GOLDEN.payload]


def test_a_database_that_was_written_before(tmp_path: Path) -> None:
    """The first release stored envelopes, values that nearly look like one, and plain values."""
    with zipfile.ZipFile(DATA / "envelopes.zip") as archive:
        archive.extractall(tmp_path / "db")
    rows = json.loads((DATA / "envelopes.json").read_text(encoding="utf-8"))["messages"]
    decode = base64.b64decode
    with topicdb.open(tmp_path / "db", mode="r") as db:
        for scan, column in ((db.scan("#", raw=True), 2), (db.scan("#"), 3)):
            expected = sorted((row[0], row[1], decode(row[column])) for row in rows)
            assert sorted(scan) == expected
        message: Any
        for message in db.scan("#", properties=True):
            (row,) = (row for row in rows if row[:2] == list(message[:2]))
            fields = row[4]
            found = message.properties
            if fields is None:
                assert found == NOTHING
                continue
            assert (found.qos, found.retain) == (fields["qos"], fields["retain"])
            assert found.client_id == (fields["client_id"] or None)
            assert found.content_type == fields["content_type"]
            assert [list(p) for p in found.user_properties] == fields["user_properties"]
            assert found.received == message.timestamp


def test_parquet_has_columns_where_there_are_properties(db: Database, tmp_path: Path) -> None:
    db.export_parquet(tmp_path / "auto.parquet")
    table = pq.read_table(tmp_path / "auto.parquet")
    assert sorted(table.column("value").to_pylist()) == sorted(PAYLOADS)
    assert table.column_names == ["topic", "timestamp", "value", *Properties._fields]
    db.export_parquet(tmp_path / "plain.parquet", "a/1")
    assert pq.read_table(tmp_path / "plain.parquet").column_names == ["topic", "timestamp", "value"]
    db.export_parquet(tmp_path / "without.parquet", properties=False)
    table = pq.read_table(tmp_path / "without.parquet")
    assert table.column_names == ["topic", "timestamp", "value"]
    assert sorted(table.column("value").to_pylist()) == sorted(PAYLOADS)
    db.export_parquet(tmp_path / "always.parquet", "a/1", properties=True)
    assert len(pq.read_table(tmp_path / "always.parquet").column_names) == 14


@pytest.mark.parametrize("filter", ["#", None])
def test_parquet_loses_nothing(db: Database, tmp_path: Path, filter: str | None) -> None:
    looks_like_one = GOLDEN.encode()
    db.append([("a/4", 4, looks_like_one), ("a/5", 5, _core.escaped_value(looks_like_one))])
    db.export_parquet(tmp_path / "whole.parquet", filter)
    db.export_parquet(tmp_path / "payloads.parquet", filter, properties=False)
    layout = db.schema["layout"]
    with topicdb.open(tmp_path / "copy", layout=layout) as copy:
        assert copy.import_parquet(tmp_path / "whole.parquet").messages == 5
        forms: list[Any] = [{}, {"properties": True}, {"raw": True}]
        for options in forms:
            assert sorted(copy.scan("#", **options)) == sorted(db.scan("#", **options))
    with topicdb.open(tmp_path / "payloads", layout=layout) as copy:
        copy.import_parquet(tmp_path / "payloads.parquet")
        assert sorted(copy.scan("#")) == sorted(db.scan("#"))
        assert sorted(copy.scan("a/4", raw=True)) == sorted(db.scan("a/4", raw=True))
        assert set(properties_of(copy)) == {NOTHING}


def properties_of(db: Database) -> list[Properties]:
    found: list[Properties] = []
    for batch in db.scan("#", properties=True).batches():
        found += batch.properties or []
    return found


def test_parquet_files_of_the_first_release_have_values_as_they_are_stored(tmp_path: Path) -> None:
    about = {
        "version": 1,
        "filter": "#",
        "start": None,
        "end": None,
        "layout": "columnar",
        "timestamp_bytes": 8,
    }
    schema = pa.schema(_core.arrow_schema()).with_metadata({"topicdb": json.dumps(about)})
    topics, times, values = zip(*ROWS, strict=True)
    times_us = pa.array(times, pa.timestamp("us", "UTC"))
    table = pa.table([pa.array(topics), times_us, pa.array(values, pa.binary())], schema=schema)
    pq.write_table(table, tmp_path / "old.parquet")
    pq.write_table(table.replace_schema_metadata(), tmp_path / "foreign.parquet")
    with topicdb.open(tmp_path / "db") as db:
        db.import_parquet(tmp_path / "old.parquet")
        assert sorted(properties_of(db), key=str) == sorted(PROPERTIES, key=str)
    with topicdb.open(tmp_path / "other") as db:
        db.import_parquet(tmp_path / "foreign.parquet")
        assert [m.value for m in db.scan("#", order="time")] == list(values)


def test_parquet_columns_of_another_type_are_named(db: Database, tmp_path: Path) -> None:
    db.export_parquet(tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    at = table.schema.get_field_index("qos")
    wrong = table.set_column(at, "qos", table.column("qos").cast(pa.string()))
    pq.write_table(wrong, tmp_path / "b.parquet")
    pq.write_table(table.drop_columns(["retain"]), tmp_path / "c.parquet")
    with topicdb.open(tmp_path / "copy") as copy:
        with pytest.raises(ValueError, match=r"b\.parquet: column 'qos': expected int32"):
            copy.import_parquet(tmp_path / "b.parquet")
        with pytest.raises(ValueError, match=r"c\.parquet: column 'retain'"):
            copy.import_parquet(tmp_path / "c.parquet")
        assert copy.scan("#").count() == 0


def test_the_command_line(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    with topicdb.open(path, shards=2) as db:
        db.append(ROWS, raw=True)
    lines = run_json("scan", path, "--order", "time")
    assert [line["value"] for line in lines] == ["value", "21.5", "plain"]
    assert all(set(line) == {"topic", "timestamp", "value"} for line in lines)
    full = run_json("last", path, "--properties")
    assert full[0] == {"topic": "a/1", "timestamp": 1, "value": "value"}
    assert full[1]["user_properties"] == [["unit", "°C"], ["unit", "K"]]
    assert (full[1]["qos"], full[1]["correlation_data"]) == (2, "AP8=")
    assert full[2]["received"] == 77
    text = run("scan", path, "a/2", "--properties").stdout
    assert "a/2  21.5  unit='°C' unit='K' qos=2 retain=True" in text
    assert run("scan", path, "--raw", "--properties", check=False).returncode == 2
    raw = run("scan", path, "--raw", "--json").stdout
    copy = str(tmp_path / "copy")
    options = ["--value", "value", "--encoding", "encoding", "--raw"]
    run("ingest", copy, "-", *options, input=raw)
    with topicdb.open(copy, mode="r") as db:
        assert sorted(db.scan("#", raw=True)) == ROWS
    to = str(tmp_path / "x.parquet")
    run("scan", path, "--to", to, "--properties")
    assert len(pq.read_table(to).column_names) == 14
    run("export", path, str(tmp_path / "y.parquet"), "--no-properties")
    assert len(pq.read_table(tmp_path / "y.parquet").column_names) == 3


def run(*arguments: str, check: bool = True, input: str | None = None) -> Any:
    program = [sys.executable, "-m", "topicdb.cli", *arguments]
    return subprocess.run(program, check=check, capture_output=True, text=True, input=input)


def run_json(*arguments: str) -> list[Any]:
    return [json.loads(line) for line in run(*arguments, "--json").stdout.splitlines()]
