"""Tests of persistent maps."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import Child

import topicdb
from topicdb import ClosedError, ConflictError, Database, Map, QuotaError, TopicError


def test_it_is_a_dict_that_lasts(db_path: Path) -> None:
    with topicdb.open(db_path, shards=2) as db:
        with db.map("sessions/client-7") as session:
            assert isinstance(session, MutableMapping) and not session
            session["inflight"] = b"\x00\x01"
            session["gone"] = b""
            session.update(a=b"1", b=b"2")
            assert session.pop("gone") == b""
            assert dict(session) == {"inflight": b"\x00\x01", "a": b"1", "b": b"2"}
        assert db.scan("#").count() == 0, "no message of the user"
    with topicdb.open(db_path) as db, db.map("sessions/client-7") as session:
        assert dict(session) == {"inflight": b"\x00\x01", "a": b"1", "b": b"2"}
        assert "gone" not in session and session.get("gone") is None
        with pytest.raises(KeyError):
            session["gone"]
        with pytest.raises(KeyError):
            del session["gone"]


def test_only_changed_keys_are_committed(db: Database) -> None:
    session = db.map("m")
    session.update({f"k{i}": b"v" for i in range(100)})
    assert session.changed == {f"k{i}" for i in range(100)}
    receipt = session.commit()
    assert receipt is not None and receipt.count == 100
    session["k5"] = b"w"
    del session["k6"]
    receipt = session.commit()
    assert receipt is not None and receipt.count == 1
    assert session.commit() is None, "nothing to store"
    assert session.changed == frozenset()


def test_in_a_transaction_a_key_has_its_new_value_only(db: Database) -> None:
    session = db.map("m")
    session.update(a=b"old", b=b"b")
    session.commit()
    session["a"] = b"new"
    with db.transaction(shard=session.shard) as tx:
        session.commit(tx)
        assert sorted(m.value for m in tx.scan("$topicdb/map/m/+")) == [b"b", b"new"]
    with db.map("m", takeover=True) as again:
        assert dict(again) == {"a": b"new", "b": b"b"}


def test_what_was_not_committed_is_forgotten(db: Database) -> None:
    session = db.map("m")
    session["a"] = b"1"
    session.commit()
    session["a"] = b"2"
    session.close()
    session.close()
    with pytest.raises(ZeroDivisionError), db.map("m") as again:
        assert dict(again) == {"a": b"1"}
        again["a"] = b"3"
        raise ZeroDivisionError
    with db.map("m") as again:
        assert dict(again) == {"a": b"1"}


def test_maps_are_apart(sharded_db: Database) -> None:
    names = ["a", "a/b", "a/b/c", "a+", "#", "%", "%2F", "a b", "é", "$x"]
    for name in names:
        with sharded_db.map(name) as one:
            one["key"] = name.encode()
    for name in names:
        with sharded_db.map(name) as one:
            assert dict(one) == {"key": name.encode()}


KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@settings(max_examples=25)
@given(entries=st.dictionaries(KEYS, st.binary(max_size=20), max_size=8), name=KEYS)
def test_any_key_and_value_comes_back(
    tmp_path_factory: pytest.TempPathFactory, entries: dict[str, bytes], name: str
) -> None:
    path = tmp_path_factory.mktemp("map") / "db"
    with topicdb.open(path) as db, db.map(name) as one:
        one.update(entries)
        assert dict(one) == entries
    with topicdb.open(path) as db, db.map(name) as one:
        assert dict(one) == entries


def test_a_codec(db: Database) -> None:
    codec = (lambda value: json.dumps(value).encode(), json.loads)
    with db.map("m", codec=codec) as one:
        one["a"] = {"qos": 1, "topics": ["x/#"]}
        with pytest.raises(TypeError):
            one["b"] = object()
        assert "b" not in one
    with db.map("m", codec=codec) as one:
        assert one["a"] == {"qos": 1, "topics": ["x/#"]}


@pytest.mark.parametrize("value", ["text", 5, None])
def test_values_are_bytes(db: Database, value: Any) -> None:
    with db.map("m") as one:
        with pytest.raises(TypeError):
            one["a"] = value
        one["a"] = bytearray(b"x")  # type: ignore[assignment]
        assert not one.keys() - {"a"}


@pytest.mark.parametrize(
    ("key", "error"), [(5, TypeError), (b"a", TypeError), ("x" * 65_536, TopicError)]
)
def test_bad_keys(db: Database, key: Any, error: type[Exception]) -> None:
    with db.map("m") as one:
        with pytest.raises(error):
            one[key] = b""
        assert not one.changed


def test_bad_names(db: Database) -> None:
    with pytest.raises(TopicError):
        db.map("x" * 65_536)
    with pytest.raises((TypeError, AttributeError)):
        db.map(5)  # type: ignore[call-overload]


def test_a_second_owner_is_refused(db: Database) -> None:
    first = db.map("m")
    with pytest.raises(ConflictError, match="takeover=True"):
        db.map("m")
    first["a"] = b"1"
    first.commit()
    first.close()
    db.map("m").close()


def test_takeover_is_explicit_and_fences_the_first_owner(db: Database) -> None:
    first = db.map("m")
    first["a"] = b"1"
    first.commit()
    first["a"] = b"lost"
    second = db.map("m", takeover=True)
    assert dict(second) == {"a": b"1"}
    with pytest.raises(ConflictError, match="taken over"):
        first.commit()
    with pytest.raises(ConflictError):
        first["b"] = b""
    with pytest.raises(ConflictError):
        del first["a"]
    first.close()
    second["b"] = b"2"
    second.commit()
    with pytest.raises(ConflictError):
        db.map("m")
    assert dict(db.map("m", takeover=True)) == {"a": b"1", "b": b"2"}


def test_an_owner_that_was_killed_is_taken_over(tmp_path: Path) -> None:
    code = """
        import sys, topicdb
        db = topicdb.open(sys.argv[1])
        m = db.map("m")
        m["a"] = b"1"
        m.commit()
        print("stored")
        sys.stdin.readline()
    """
    with Child(code, tmp_path / "db") as child:
        child.expect("stored")
        child.kill()
    with topicdb.open(tmp_path / "db") as db:
        with pytest.raises(ConflictError):
            db.map("m")
        assert dict(db.map("m", takeover=True)) == {"a": b"1"}


def test_with_a_transaction_of_the_user(sharded_db: Database) -> None:
    """One commit stores changes of a map together with messages."""
    session = sharded_db.map("m")
    session["seen"] = b"5"
    with sharded_db.transaction(shard=session.shard) as tx:
        tx.write("effect", 1, b"")
        session["later"] = b"1"
        assert session.commit(tx) is None
        assert session.changed == {"seen", "later"}
        session["later"] = b"2"
    assert session.changed == {"later"}
    del session["later"]
    session.commit()
    session["seen"] = b"6"
    with pytest.raises(ZeroDivisionError), sharded_db.transaction(shard=session.shard) as tx:
        session.commit(tx)
        raise ZeroDivisionError
    assert session.changed == {"seen"}
    session.close()
    with sharded_db.map("m") as session:
        assert dict(session) == {"seen": b"5"}
    assert sharded_db.scan("effect").count() == 1
    other = sharded_db.transaction(shard=(session.shard + 1) % 3)
    with sharded_db.map("m") as session:
        session["a"] = b""
        with pytest.raises(ValueError, match="shard"):
            session.commit(other)


def test_what_a_transaction_stores_late_is_stored_anew(db: Database) -> None:
    session = db.map("m")
    session.update(a=b"1", b=b"1")
    with db.transaction(shard=session.shard) as tx:
        session.commit(tx)
        session["a"] = b"2"
        del session["b"]
        session.commit()  # before the transaction, which replaces that by what it was given
    assert session.changed == {"a", "b"}
    session.commit()
    with db.map("m", takeover=True) as again:
        assert dict(again) == {"a": b"2"}


def test_large_maps(db: Database) -> None:
    entries = {f"key/{i}": b"%d" % i for i in range(25_000)}
    with db.map("m") as one:
        one.update(entries)
    with db.map("m") as one:
        assert dict(one) == entries
        one.clear()
    with db.map("m") as one:
        assert not one
    assert len([s for s in db.slabs() if s.retention_class.startswith("$topicdb")]) == 1


def test_users_cannot_write_there(db: Database) -> None:
    db.map("m").close()
    with pytest.raises(TopicError, match=r"\$topicdb/"):
        db.append([("$topicdb/map/m/a", 0, b"")])
    with pytest.raises(TopicError):
        db.append([("ok", 0, b""), ("$topicdb/x", 0, b"")])
    assert db.scan("ok").count() == 0


def test_after_the_database_is_closed(db: Database) -> None:
    one = db.map("m")
    one["a"] = b""
    db.close()
    with pytest.raises(ClosedError):
        one.commit()


@pytest.mark.parametrize("timestamp_bytes", [0, 8])
def test_maps_go_on_beside_rotations_and_without_time(
    db_path: Path, timestamp_bytes: Literal[0, 8]
) -> None:
    with topicdb.open(db_path, timestamp_bytes=timestamp_bytes, retention={"x/#": "1h"}) as db:
        one = db.map("m")
        for i in range(5):
            one["n"] = b"%d" % i
            one.commit()
            db.rotate()
            db.expire()
        one.close()
        assert dict(db.map("m")) == {"n": b"4"}


def test_a_full_database_refuses_what_adds_and_takes_what_removes(db_path: Path) -> None:
    with topicdb.open(db_path) as db, db.map("m") as one:
        one["a"] = b"x" * 1000
        db.append([("a", i, b"x" * 100) for i in range(5_000)])
        one.commit()
        one.close()
    with topicdb.open(db_path, quota_bytes=1000) as db, pytest.raises(QuotaError):
        db.map("m")


def test_its_type(db: Database) -> None:
    one: Map[bytes] = db.map("m")
    assert repr(one) == "<topicdb.Map 'm' of 0 keys>"
    assert one.name == "m"
