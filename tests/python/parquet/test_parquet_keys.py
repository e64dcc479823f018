"""Imports of Parquet files into a database that shards by key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from keys import key_in_shard, values_by_shard
from parquet_rows import pa, write
from support import nothing_written

import topicdb
from topicdb import parquet
from topicdb.replay import Envelope

SHARDS = 3
KEYS = [key_in_shard(shard, SHARDS) for shard in range(SHARDS)]
ROWS = [("t", i, b"%d" % i) for i in range(6)]
NAMES = [KEYS[0], KEYS[1], KEYS[2], KEYS[0], KEYS[0], None]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "keyed.db", shards=SHARDS, shard_by="key") as database:
        yield database


def expected() -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {0: [b"0", b"3", b"4"], 1: [b"1"], 2: [b"2"]}
    found[topicdb.shard_of("t", SHARDS)].append(b"5")
    return {shard: sorted(values) for shard, values in found.items()}


@pytest.mark.parametrize("kind", ["string", "binary", "large_string", "dictionary"])
def test_a_column_has_the_keys(db: topicdb.Database, tmp_path: Path, kind: str) -> None:
    names = pa.array(NAMES)
    names = names.dictionary_encode() if kind == "dictionary" else names.cast(getattr(pa, kind)())
    file = write(tmp_path / "in.parquet", ROWS, who=names)
    assert db.import_parquet(file, key="who").messages == 6
    assert values_by_shard(db) == expected()
    assert db.import_parquet(file, key="who").repeated
    assert not db.import_parquet(file).repeated, "by their topics they are others"


def test_the_topic_or_the_value_may_be_the_key(db: topicdb.Database, tmp_path: Path) -> None:
    file = write(tmp_path / "in.parquet", ROWS)
    db.import_parquet(file, key="topic")
    assert list(values_by_shard(db)) == [topicdb.shard_of("t", SHARDS)]
    db.delete("#")
    db.import_parquet(file, key="value")
    found = values_by_shard(db)
    for _, _, value in ROWS:
        assert value in found[topicdb.shard_of_key(value, SHARDS)]


def test_an_export_of_a_bridge_goes_by_its_clients(db: topicdb.Database, tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "source.db") as source:
        rows: list[Any] = []
        for (topic, time, value), name in zip(ROWS, NAMES, strict=True):
            rows.append((topic, time, Envelope(value, client_id=name or "").encode()))
        source.append(rows, raw=True)
        source.export_parquet(tmp_path / "out", properties=True)
    db.import_parquet(tmp_path / "out", key="client_id")
    assert values_by_shard(db) == expected()
    messages: list[Any] = db.scan("t", properties=True).to_list()
    found = {m.value: m.properties.client_id for m in messages}
    assert found == {b"%d" % i: name for i, name in enumerate(NAMES)}


def test_bad_keys_change_nothing(db: topicdb.Database, tmp_path: Path) -> None:
    file = write(tmp_path / "in.parquet", ROWS, who=[*NAMES[:4], "", None], number=range(6))
    with nothing_written(db):
        with pytest.raises(ValueError, match="row 4: column 'who': key: it is empty"):
            db.import_parquet(file, key="who")
        with pytest.raises(ValueError, match="column 'whom' is missing"):
            db.import_parquet(file, key="whom")
        with pytest.raises(ValueError, match="column 'number': expected string or binary"):
            db.import_parquet(file, key="number")


def test_a_database_that_shards_by_topic_takes_no_keys(tmp_path: Path) -> None:
    file = write(tmp_path / "in.parquet", ROWS, who=NAMES)
    with topicdb.open(tmp_path / "topics.db", shards=2) as db:
        with nothing_written(db), pytest.raises(topicdb.SchemaError, match="sharded by topic"):
            db.import_parquet(file, key="who")
        with pytest.raises(topicdb.SchemaError, match="sharded by topic"):
            parquet.import_into(tmp_path / "topics.db", file, key="who")
