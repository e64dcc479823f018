"""Keys travel to a database of a server as they go to one that is open here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from keys import key_in_shard, values_by_shard
from served import serving
from support import nothing_written

import topicdb
from topicdb.remote.client.connection import Connection

SHARDS = 3
KEYS = [key_in_shard(shard, SHARDS) for shard in range(SHARDS)]
ROWS: list[Any] = [("t", i, b"%d" % i) for i in range(4)]


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "db", shards=SHARDS, shard_by="key") as database:
        yield database


@pytest.fixture
def db(embedded: topicdb.Database) -> Iterator[topicdb.Database]:
    with serving(embedded) as server, topicdb.connect(server.url) as database:
        yield database


def test_keys_decide_the_shards(db: topicdb.Database, embedded: topicdb.Database) -> None:
    assert db.schema["shard_by"] == "key"
    assert list(db.append(ROWS, key=KEYS[2]).serials) == [2]
    keys = [KEYS[0], KEYS[1].encode(), None, KEYS[1]]
    db.append(iter(ROWS), key=iter(keys))
    home = topicdb.shard_of("t", SHARDS)
    expected: dict[int, list[bytes]] = {0: [b"0"], 1: [b"1", b"3"], 2: [b"0", b"1", b"2", b"3"]}
    expected[home].append(b"2")
    assert values_by_shard(embedded) == {s: sorted(found) for s, found in expected.items()}
    with db.transaction(key=KEYS[1]) as tx:
        assert tx.shard == 1
        assert sorted(m.value for m in tx.scan("t")) == sorted(expected[1])


@pytest.mark.parametrize(
    "kind", ["string", "large_string", "binary", "dictionary", "string_view", "binary_view"]
)
def test_a_column_of_keys_comes_in_any_encoding(
    db: topicdb.Database, embedded: topicdb.Database, kind: str
) -> None:
    keys = pa.array([KEYS[0], None, KEYS[2], KEYS[2]])
    if kind == "dictionary":
        keys = keys.dictionary_encode()
    elif not hasattr(pa, kind):
        pytest.skip("this pyarrow has no views")
    else:
        keys = pa.array(keys.to_pylist(), getattr(pa, kind)())
    table = pa.table(
        {"topic": ["a", "t", "a", "a"], "value": [b"0", b"1", b"2", b"3"], "key": keys}
    )
    db.append(pa.concat_tables([table[:1], table[1:]]))
    expected: dict[int, list[bytes]] = {0: [b"0"], 2: [b"2", b"3"]}
    expected.setdefault(topicdb.shard_of("t", SHARDS), []).append(b"1")
    assert values_by_shard(embedded) == {s: sorted(found) for s, found in expected.items()}
    plain = table.drop_columns(["key"])
    assert list(db.append(plain, key=[KEYS[1]] * 4).serials) == [1]


def test_appends_in_the_background_gather_with_their_keys(
    db: topicdb.Database, embedded: topicdb.Database
) -> None:
    futures = []
    for i in range(60):
        key = None if i % 4 == 3 else KEYS[i % 4]
        futures.append((key, db.append_async([("t", i, b"%d" % i)], key=key)))
    home = topicdb.shard_of("t", SHARDS)
    for key, future in futures:
        expected = home if key is None else KEYS.index(key)
        assert list(future.result().serials) == [expected]
    assert embedded.scan("t").count() == 60
    assert list(db.append_async([], key=KEYS[0]).result().serials) == []


def test_an_append_is_repeated_with_its_keys(
    db: topicdb.Database, embedded: topicdb.Database
) -> None:
    first = db.append(ROWS, key=KEYS[0], id="x")
    assert embedded.append(ROWS, key=[KEYS[0]] * 4, id="x").serials == first.serials
    with pytest.raises(ValueError, match="id 'x' was used for another append"):
        db.append(ROWS, key=KEYS[1], id="x")
    with pytest.raises(ValueError, match="id 'x'"):
        db.append_async(ROWS, id="x").result()


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        ("", ValueError, "key: it is empty"),
        (["a", "", "c", "d"], ValueError, "row 1: key: it is empty"),
        (["a"], ValueError, r"each message \(4\).* got a list of 1$"),
        (5, TypeError, "key: expected str, bytes, or an iterable"),
        (["a", "b", 3, "d"], TypeError, "row 2: key: expected str, bytes or None, got int"),
    ],
)
def test_bad_keys_are_refused_before_anything_is_sent(
    db: topicdb.Database,
    embedded: topicdb.Database,
    monkeypatch: pytest.MonkeyPatch,
    key: Any,
    error: type[Exception],
    text: str,
) -> None:
    sent: list[str] = []
    call = Connection.call

    def noting(self: Connection, method: str, *args: Any, **options: Any) -> Any:
        sent.append(method)
        return call(self, method, *args, **options)

    monkeypatch.setattr(Connection, "call", noting)
    with nothing_written(embedded):
        for append in (db.append, db.append_async):
            with pytest.raises(error, match=text):
                append(ROWS, key=key)
    assert "append" not in sent and "append_async" not in sent


def test_bad_columns_of_keys_are_refused(db: topicdb.Database, embedded: topicdb.Database) -> None:
    table = pa.table({"topic": ["a"], "value": [b"x"], "key": ["k"]})
    with nothing_written(embedded):
        with pytest.raises(ValueError, match="have a column 'key', too"):
            db.append(table, key="k")
        with pytest.raises(ValueError, match="column 'key': expected strings or binary"):
            db.append(table.set_column(2, "key", pa.array([1])))
        with pytest.raises(ValueError, match="row 0: key: it is empty"):
            db.append(table.set_column(2, "key", pa.array([""])))
        with pytest.raises(ValueError, match="column 'key' is there twice"):
            db.append(table.append_column("key", pa.array(["k"])))


def test_a_database_that_shards_by_topic_takes_no_keys(tmp_path: Path) -> None:
    with (
        topicdb.open(tmp_path / "topics", shards=2) as embedded,
        serving(embedded) as server,
        topicdb.connect(server.url) as db,
        nothing_written(embedded),
    ):
        with pytest.raises(topicdb.SchemaError, match="sharded by topic"):
            db.append(ROWS, key="k")
        with pytest.raises(topicdb.SchemaError, match="sharded by topic"):
            db.append_async(ROWS, key=[None] * 4).result()
