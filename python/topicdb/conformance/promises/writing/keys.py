"""Keys of messages, which decide their shards."""

from __future__ import annotations

from topicdb import _core
from topicdb.conformance import expect
from topicdb.conformance.lab import Lab
from topicdb.conformance.promise import promise

KEYS = [f"client-{number}" for number in range(12)]


@promise()
def keys_are_refused_where_topics_decide(lab: Lab) -> None:
    """An engine that shards by topic refuses keys with SchemaError, and stores nothing then."""
    if lab.engine.schema.get("shard_by", "topic") == "key":
        return  # the next promise is about these
    rows = [("a", 1, b"1"), ("b", 1, b"2")]
    for key in ("client", b"client", ["client", None], [None, None]):
        with (
            lab.nothing_changes(f"key {key!r}"),
            expect.raises(_core.SchemaError, f"append_rows with the key {key!r}"),
        ):
            lab.engine.append_rows(rows, None, False, None, key)
    lab.engine.append_rows(rows, None, False, None, None)
    expect.equal(lab.everything(), rows, "what is stored without keys")


@promise()
def a_column_of_keys_is_refused_there_too(lab: Lab) -> None:
    """An engine that shards by topic refuses Arrow data with a column of keys with SchemaError."""
    if lab.engine.schema.get("shard_by", "topic") == "key":
        return  # the next promises are about these
    pa = lab.need_arrow()
    for keys in (["client", None], [b"client", b"client"], pa.array([None, None], pa.binary())):
        table = pa.table({"topic": ["a", "b"], "value": [b"1", b"2"], "key": keys})
        with lab.nothing_changes("keys"), expect.raises(_core.SchemaError, f"the keys {keys}"):
            lab.engine.append_arrow(table, None)
    with lab.nothing_changes("keys"), expect.raises(ValueError, "keys that are numbers"):
        lab.engine.append_arrow(pa.table({"topic": ["a"], "value": [b"1"], "key": [1]}), None)


@promise()
def keys_decide_the_shards(lab: Lab) -> None:
    """An engine that shards by key stores a message in the shard of its key, if it has one."""
    if lab.engine.schema.get("shard_by", "topic") != "key":
        return
    for key in KEYS:
        receipt = lab.engine.append_rows([("same", 1, key.encode())], None, False, None, key)
        wanted = _core.shard_of_key(key, lab.shards)
        expect.equal(set(receipt.serials), {wanted}, f"the shards of key {key!r}")
    rows = [("same", 2, b"of its key"), ("same", 3, b"of its topic")]
    receipt = lab.engine.append_rows(rows, None, False, None, [KEYS[0].encode(), None])
    wanted_shards = {_core.shard_of_key(KEYS[0], lab.shards), lab.shard_of("same")}
    expect.equal(set(receipt.serials), wanted_shards, "the shards of a key and of a topic")
    found = lab.messages("same")
    expect.equal(len(found), len(KEYS) + 2, "the messages of the topic, from all shards")
    for bad, kind in (("", ValueError), (["one"], ValueError), (7, TypeError)):
        with lab.nothing_changes(f"key {bad!r}"), expect.raises(kind, f"the key {bad!r}"):
            lab.engine.append_rows(rows, None, False, None, bad)  # type: ignore[arg-type]


@promise()
def a_column_of_keys_decides_the_shards(lab: Lab) -> None:
    """An engine that shards by key takes the keys of Arrow data from a column, but not twice."""
    if lab.engine.schema.get("shard_by", "topic") != "key":
        return
    pa = lab.need_arrow()
    rows = {"topic": ["same"] * 2, "timestamp": [1, 2], "value": [b"of its key", b"of its topic"]}
    for key in (KEYS[0], KEYS[0].encode()):
        receipt = lab.engine.append_arrow(pa.table({**rows, "key": [key, None]}), None)
        wanted = {_core.shard_of_key(KEYS[0], lab.shards), lab.shard_of("same")}
        expect.equal(set(receipt.serials), wanted, "the shards of a key and of a topic")
    with lab.nothing_changes("keys twice"), expect.raises(ValueError, "keys twice"):
        table = pa.table({**rows, "key": [KEYS[0], None]})
        lab.engine.append_arrow(table, None, False, None, KEYS[1])
