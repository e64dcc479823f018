"""Tests of the options by which commands shard by key."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_runs import error_of, json_lines, output_of, run_here, usage_error
from keys import values_by_shard

import topicdb

pytest.importorskip("typer", reason="needs topicdb[cli]")

SHARDS = 3
CLIENTS = ["pump 1", "pump 2", "pump+3", 4]


def records(path: Path, missing: bool = True) -> Path:
    rows = [{"topic": "t", "timestamp": i, "v": f"{i}", "who": CLIENTS[i % 4]} for i in range(20)]
    if missing:
        rows += [
            {"topic": "t", "timestamp": 20, "v": "20"},
            {"topic": "t", "timestamp": 21, "v": "21", "who": None},
            {"topic": "t", "timestamp": 22, "v": "22", "who": ""},
        ]
    path.write_text(json_lines(rows))
    return path


def expected() -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for i in range(20):
        shard = topicdb.shard_of_key(str(CLIENTS[i % 4]), SHARDS)
        found.setdefault(shard, []).append(b"%d" % i)
    found.setdefault(topicdb.shard_of("t", SHARDS), []).extend([b"20", b"21", b"22"])
    return {shard: sorted(values) for shard, values in found.items()}


def stored(path: Path) -> dict[int, list[bytes]]:
    with topicdb.open(path, mode="r") as db:
        return values_by_shard(db)


def test_ingest_takes_keys_from_a_column(db_path: Path, tmp_path: Path) -> None:
    file = records(tmp_path / "in.jsonl")
    options = ["--value", "v", "--key", "who", "--shards", SHARDS, "--batch-rows", 5]
    output_of("ingest", db_path, file, *options)
    assert stored(db_path) == expected()
    again = output_of("ingest", db_path, file, *options)
    assert "has the 23 messages" in again, "a file is stored once"
    assert stored(db_path) == expected()


def test_without_a_column_of_keys_the_topics_decide(db_path: Path, tmp_path: Path) -> None:
    file = records(tmp_path / "in.jsonl")
    output_of("ingest", db_path, file, "--value", "v", "--shards", SHARDS, "--shard-by", "key")
    assert list(stored(db_path)) == [topicdb.shard_of("t", SHARDS)]
    with topicdb.open(db_path, mode="r") as db:
        assert db.schema["shard_by"] == "key"


def test_csv_must_have_the_column(db_path: Path, tmp_path: Path) -> None:
    file = tmp_path / "in.csv"
    file.write_text("topic,value,who\nt,1,pump 1\nt,2,\n")
    assert "no column 'whom'" in error_of("ingest", db_path, file, "--key", "whom")
    assert not db_path.exists()
    output_of("ingest", db_path, file, "--key", "who", "--value", "value", "--shards", SHARDS)
    found: dict[int, list[bytes]] = {topicdb.shard_of_key("pump 1", SHARDS): [b"1"]}
    found.setdefault(topicdb.shard_of("t", SHARDS), []).append(b"2")
    assert stored(db_path) == found


def test_a_database_that_shards_by_topic_takes_no_keys(db_path: Path, tmp_path: Path) -> None:
    file = records(tmp_path / "in.jsonl")
    topicdb.open(db_path, shards=SHARDS).close()
    error = error_of("ingest", db_path, file, "--key", "who")
    assert "shard_by: 'key' was asked for" in error and "has 'topic'" in error
    assert stored(db_path) == {}
    wrong = usage_error("ingest", tmp_path / "new", file, "--key", "who", "--shard-by", "topic")
    assert "--key goes with --shard-by key" in wrong
    assert not (tmp_path / "new").exists()


def test_a_key_that_is_no_word_is_named(db_path: Path, tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text('{"topic": "t", "who": {"a": 1}}\n')
    assert "line 1: column 'who' is no word" in error_of("ingest", db_path, file, "--key", "who")


def test_import_takes_keys_from_a_column(db_path: Path, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "in.parquet"
    keys = [*(str(CLIENTS[i % 4]) for i in range(20)), None, None, None]
    times = pa.array(range(23), pa.int64())
    values = [b"%d" % i for i in range(23)]
    pq.write_table(
        pa.table({"topic": ["t"] * 23, "timestamp": times, "value": values, "who": keys}), file
    )
    assert "column 'whom' is missing" in error_of("import", db_path, file, "--key", "whom")
    assert not db_path.exists()
    output_of("import", db_path, file, "--key", "who", "--shards", SHARDS)
    assert stored(db_path) == expected()


def test_info_shows_what_decides(db_path: Path) -> None:
    topicdb.open(db_path, shard_by="key").close()
    shown = " ".join(run_here("info", db_path).stdout.split())
    assert "shard_by key" in shown


def test_the_bridge_makes_a_database_that_shards_by_key(db_path: Path) -> None:
    topicdb.open(db_path).close()
    error = error_of("bridge", db_path, "--broker", "127.0.0.1", "--shard-by", "client")
    assert "shard_by: 'key' was asked for" in error
