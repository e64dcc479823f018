"""Tests of databases that shard by key: where messages go, and that every read finds them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from keys import by_shard, key_in_shard, values_by_shard
from retained import HOUR, now, opened
from settling import batches_of, batches_of_member, packets_of
from support import PATIENCE_S, Child, Layout, nothing_written

import topicdb
from model.model import shard_of
from topicdb import Database, SchemaError, jobs

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError:
    pa = pc = None

SHARDS = 4
KEYS = [key_in_shard(shard, SHARDS) for shard in range(SHARDS)]
untyped: Any = topicdb


@pytest.fixture
def keyed(db_path: Path, layout: Layout) -> Iterator[Database]:
    """An empty database that shards by key, in each layout."""
    with topicdb.open(db_path, shards=SHARDS, shard_by="key", layout=layout) as db:
        yield db


@pytest.fixture
def logged(db_path: Path) -> Iterator[Database]:
    """An empty database that shards by key and keeps a log of commits."""
    with topicdb.open(db_path, shards=SHARDS, shard_by="key") as db:
        yield db


def spread(db: Database, topic: str = "site/1/rpm", each: int = 3) -> list[bytes]:
    """Stores messages of one topic in all shards, and returns their values."""
    values = []
    for number in range(each * SHARDS):
        values.append(b"%d" % number)
        db.append([(topic, 1_000 + number, values[-1])], key=KEYS[number % SHARDS])
    return sorted(values)


def test_the_schema_says_what_decides(db_path: Path, tmp_path: Path) -> None:
    with topicdb.open(db_path, shards=2, shard_by="key") as db:
        assert db.schema["shard_by"] == "key"
    with topicdb.open(db_path, shard_by="key", mode="r") as db:
        assert db.schema["shard_by"] == "key"
    with pytest.raises(SchemaError, match=r"shard_by: 'topic' was asked for, but .* has 'key'"):
        topicdb.open(db_path, shard_by="topic")
    with pytest.raises(SchemaError, match="shard_by: expected 'topic' or 'key', got 'client'"):
        untyped.open(tmp_path / "new", shard_by="client")
    assert not (tmp_path / "new").exists()
    with topicdb.open(tmp_path / "topics") as db:
        assert db.schema["shard_by"] == "topic"
    with pytest.raises(SchemaError, match="shard_by"):
        topicdb.open(tmp_path / "topics", shard_by="key")


def test_one_key_puts_all_messages_of_a_call_in_one_shard(keyed: Database) -> None:
    for shard, key in enumerate(KEYS):
        receipt = keyed.append([(f"t/{i}", i, b"%d" % shard) for i in range(10)], key=key)
        assert list(receipt.serials) == [shard]
    assert values_by_shard(keyed) == {s: [b"%d" % s] * 10 for s in range(SHARDS)}


def test_each_message_may_have_a_key_of_its_own(keyed: Database) -> None:
    keys: list[Any] = [KEYS[2], None, b"\x00\xff", "c/+/#", "é", "é".encode()]
    rows: list[Any] = [(f"t/{i}", i, b"%d" % i) for i in range(len(keys))]
    receipt = keyed.append(rows, key=iter(keys))
    homes = [shard_of(rows[i][0] if key is None else key, SHARDS) for i, key in enumerate(keys)]
    assert homes[4] == homes[5], "text stands for its UTF-8"
    assert sorted(receipt.serials) == sorted(set(homes))
    expected: dict[int, list[bytes]] = {}
    for i, shard in enumerate(homes):
        expected.setdefault(shard, []).append(b"%d" % i)
    assert values_by_shard(keyed) == expected


def test_without_keys_the_topics_decide(keyed: Database) -> None:
    keyed.append([(f"t/{i}", i, b"") for i in range(50)])
    for shard, messages in by_shard(keyed).items():
        assert {topicdb.shard_of(topic, SHARDS) for topic, _, _ in messages} == {shard}


def test_the_shard_of_a_key_can_be_asked_for() -> None:
    for key in ("a", "a/b", "c/+/#", "é", b"\xff\x00", "x" * 100_000):
        assert topicdb.shard_of_key(key, 7) == shard_of(key, 7)
    assert topicdb.shard_of_key("a/b", 7) == topicdb.shard_of("a/b", 7)
    with pytest.raises(ValueError, match="key: it is empty"):
        topicdb.shard_of_key(b"", 2)
    with pytest.raises(ValueError, match="shards: expected 1"):
        topicdb.shard_of_key("a", 0)
    with pytest.raises(TypeError, match=r"key: expected .*bytes.*, got int"):
        untyped.shard_of_key(5, 2)


BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "empty": ("", ValueError, "key: it is empty"),
    "empty bytes": (b"", ValueError, "key: it is empty"),
    "one empty": (["a", ""], ValueError, "row 1: key: it is empty"),
    "surrogate": ("\ud800", ValueError, "key: it has lone surrogates"),
    "one surrogate": (["a", "\ud800"], ValueError, "row 1: key: it has lone surrogates"),
    "number": (5, TypeError, "key: expected str, bytes, or an iterable .*, got int"),
    "one number": (["a", 5], TypeError, "row 1: key: expected str, bytes or None, got int"),
    "array": (bytearray(b"a"), TypeError, "row 0: key: expected str, bytes or None, got int"),
    "too few": (["a"], ValueError, r"each message \(2\).* got a list of 1$"),
    "too many": (["a"] * 3, ValueError, r"each message \(2\).* got a list of 3$"),
    "none": ([], ValueError, r"each message \(2\).* got a list of 0$"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("how", ["append", "append_async", "stage"])
def test_a_bad_key_changes_nothing(keyed: Database, case: str, how: str) -> None:
    key, error, text = BAD[case]
    rows: list[Any] = [("a", 1, b"x"), ("b", 2, b"y")]
    spread(keyed)
    with nothing_written(keyed):
        if how == "stage":
            with (
                jobs.StagedWriter(keyed.path, "bad") as writer,
                pytest.raises(error, match=text),
            ):
                writer.append(rows, key=key)
            assert writer.staged.messages == 0
        else:
            with pytest.raises(error, match=text):
                getattr(keyed, how)(rows, key=key)


@pytest.mark.parametrize("rows", [[], [("a", 1, b"x")]])
def test_a_database_that_shards_by_topic_takes_no_keys(
    sharded_db: Database, rows: list[Any]
) -> None:
    with nothing_written(sharded_db):
        for key in ("k", ["k"] * len(rows), [None] * len(rows)):
            with pytest.raises(SchemaError, match=f"key: {sharded_db.path} is sharded by topic"):
                sharded_db.append(rows, key=key)
            with pytest.raises(SchemaError, match="sharded by topic"):
                sharded_db.append_async(rows, key=key)
        with (
            jobs.StagedWriter(sharded_db.path, "keyed") as writer,
            pytest.raises(SchemaError, match=f"key: {sharded_db.path} is sharded by topic"),
        ):
            writer.append(rows, key="k")


@pytest.mark.skipif(pa is None, reason="pyarrow is not installed")
@pytest.mark.parametrize("kind", ["string", "large_string", "binary", "dictionary", "run ends"])
def test_arrow_data_has_a_column_of_keys(keyed: Database, kind: str) -> None:
    keys = [KEYS[0], KEYS[0], None, KEYS[3], KEYS[3]]
    column = pa.array(keys)
    if kind == "dictionary":
        column = column.dictionary_encode()
    elif kind == "run ends":
        column = pc.run_end_encode(column)
    else:
        column = column.cast(getattr(pa, kind)())
    topics = [f"t/{i}" for i in range(len(keys))]
    values = [b"%d" % i for i in range(len(keys))]
    table = pa.table({"key": column, "value": values, "topic": topics})
    keyed.append(pa.concat_tables([table[:2], table[2:]]))
    expected: dict[int, list[bytes]] = {0: [b"0", b"1"], 3: [b"3", b"4"]}
    expected.setdefault(topicdb.shard_of("t/2", SHARDS), []).append(b"2")
    assert values_by_shard(keyed) == {s: sorted(found) for s, found in expected.items()}
    plain = table.drop_columns(["key"])
    assert list(keyed.append(plain, key=KEYS[1]).serials) == [1]
    assert list(keyed.append(plain, key=[KEYS[2]] * len(keys)).serials) == [2]


@pytest.mark.skipif(pa is None, reason="pyarrow is not installed")
def test_a_bad_column_of_keys_changes_nothing(keyed: Database) -> None:
    def table(keys: Any) -> Any:
        return pa.table({"topic": ["a", "b"], "value": [b"x", b"y"], "key": keys})

    with nothing_written(keyed):
        with pytest.raises(ValueError, match="column 'key': expected strings or binary"):
            keyed.append(table([1, 2]))
        with pytest.raises(ValueError, match="row 1: key: it is empty"):
            keyed.append(table(["k", ""]))
        with pytest.raises(ValueError, match="have a column 'key', too"):
            keyed.append(table(["k", "k"]), key="k")
        with pytest.raises(ValueError, match="have a column 'key', too"):
            keyed.append_async(table(["k", "k"]), key=["k", "k"])


@pytest.mark.skipif(pa is None, reason="pyarrow is not installed")
def test_a_column_of_keys_needs_a_database_that_shards_by_key(sharded_db: Database) -> None:
    table = pa.table({"topic": ["a"], "value": [b"x"], "key": ["k"]})
    with nothing_written(sharded_db), pytest.raises(SchemaError, match="sharded by topic"):
        sharded_db.append(table)


def test_appends_in_the_background_have_keys(keyed: Database) -> None:
    futures = [keyed.append_async([("t", i, b"%d" % i)], key=KEYS[i % SHARDS]) for i in range(100)]
    for i, future in enumerate(futures):
        assert list(future.result().serials) == [i % SHARDS]

    async def append() -> topicdb.Receipt:
        return await keyed.append_await([("t", 100, b"")], key=[KEYS[2]])

    assert list(asyncio.run(append()).serials) == [2]


def test_an_append_is_repeated_with_its_keys(keyed: Database) -> None:
    rows: list[Any] = [("a", 1, b"x"), ("b", 2, b"y")]
    first = keyed.append(rows, key=[KEYS[0], KEYS[1]], id="x")
    with nothing_written(keyed):
        again = keyed.append(rows, key=[KEYS[0].encode(), KEYS[1]], id="x")
        assert again.repeated and again.serials == first.serials
        for key in (None, KEYS[0], [KEYS[1], KEYS[0]], [KEYS[0], None]):
            with pytest.raises(ValueError, match="id 'x' was used for another append"):
                keyed.append(rows, key=key, id="x")
    one = keyed.append(rows, key=KEYS[2], id="y")
    assert keyed.append(rows, key=[KEYS[2]] * 2, id="y").serials == one.serials


def test_every_read_finds_a_topic_in_all_shards(keyed: Database) -> None:
    values = spread(keyed)
    keyed.append([("site/2/rpm", None, b"other")])
    for filter in ("site/1/rpm", "site/+/rpm", "site/1/#", "+/1/rpm"):
        orders: list[Any] = ["stream", "time", "none"]
        for order in orders:
            found = [m.value for m in keyed.scan(filter, order=order) if m.topic == "site/1/rpm"]
            assert sorted(found) == values
    times = [m.timestamp for m in keyed.scan("site/1/rpm", order="time")]
    assert times == sorted(times)
    assert keyed.scan("site/1/rpm", start=1_004, end=1_008).count() == 4
    assert {stream.shard for stream in keyed.streams("site/1/rpm")} == set(range(SHARDS))
    paged = []
    for stream in keyed.streams("site/1/rpm"):
        iterator = keyed.iterator(stream, "site/1/rpm")
        while len(batch := (page := keyed.next(iterator, 2)).batch):
            paged += batch.values
            iterator = page.iterator
    assert sorted(paged) == values
    slices = keyed.slices("site/1/rpm")
    assert {one.shard for one in slices} == set(range(SHARDS))
    assert sorted(m.value for m in keyed.scan_slices(slices, "site/1/rpm")) == values
    assert keyed.explain("site/1/rpm")["slabs"] == SHARDS


def test_the_last_message_of_a_topic_is_the_newest_of_all_shards(keyed: Database) -> None:
    for shard, key in enumerate(KEYS):
        value = b"%d" % shard
        keyed.append([("t", 10 + shard % 2, value), ("u", 5, value)], key=key)
    assert [m.value for m in keyed.last("#")] == [b"3", b"3"], "of equal times the greatest shard"
    assert [m.value for m in keyed.state_at(10, "t")] == [b"2"]
    keyed.append([("t", 12, b"newest")], key=KEYS[0])
    keyed.append([("late", 99, b"x")], key=KEYS[1])
    assert [m.value for m in keyed.last("t")] == [b"newest"]
    assert [m.value for m in keyed.last("u")] == [b"3"]
    keyed.delete("u", end=6)
    assert keyed.last("u").count() == 0


def test_a_delete_reaches_all_shards(keyed: Database) -> None:
    spread(keyed)
    keyed.append([("site/2/rpm", 1, b"other")])
    receipt = keyed.delete("site/1/rpm", end=1_006)
    assert receipt.count == 6 and set(receipt.serials) == set(range(SHARDS))
    left = sorted(m.value for m in keyed.scan("site/1/rpm"))
    assert left == sorted(b"%d" % number for number in range(6, 3 * SHARDS))
    assert keyed.trim("1d", "site/1/rpm", dry_run=False).messages == 6
    assert [m.value for m in keyed.scan("#")] == [b"other"]


def test_in_skipstream_a_topic_and_time_is_one_message_in_each_shard(db_path: Path) -> None:
    with topicdb.open(db_path, shards=SHARDS, shard_by="key", layout="skipstream") as db:
        for value in (b"old", b"new"):
            for key in KEYS[:3]:
                db.append([("t", 7, value)], key=key)
        assert [tuple(m) for m in db.scan("t")] == [("t", 7, b"new")] * 3
    with topicdb.open(
        db_path.with_name("map"), shards=SHARDS, shard_by="key", timestamp_bytes=0
    ) as db:
        for key in KEYS[:2]:
            db.append([("sessions/7/state", 0, b"old"), ("sessions/7/owner", 0, b"me")], key=key)
            with db.transaction(key=key) as tx:
                assert tx.get("sessions/7/owner") == b"me"
                tx.write("sessions/7/state", 0, key.encode())
        states = values_by_shard(db, "sessions/7/state")
        assert states == {shard: [KEYS[shard].encode()] for shard in range(2)}


def test_a_transaction_has_the_messages_of_its_key(keyed: Database) -> None:
    keyed.append([("a", 1, b"mine"), ("b", 1, b"mine")], key=KEYS[1])
    keyed.append([("a", 1, b"of another"), ("a", 2, b"of another")], key=KEYS[2])
    with keyed.transaction(key=KEYS[1]) as tx:
        assert tx.shard == 1
        assert tx.get("a", 1) == b"mine"
        assert [m.value for m in tx.scan("#")] == [b"mine", b"mine"]
        tx.require_absent("a", 2)
        tx.delete("a")
        tx.write("c", 5, b"written")
    assert values_by_shard(keyed) == {1: [b"mine", b"written"], 2: [b"of another"] * 2}
    with keyed.transaction(key=b"\xff") as tx:
        assert tx.shard == topicdb.shard_of_key(b"\xff", SHARDS)


def test_commits_of_the_same_shard_alone_are_conflicts(keyed: Database) -> None:
    """The check of a transaction is about its shard: the topic may change in others meanwhile."""
    tx = keyed.transaction(key=KEYS[1])
    assert tx.get("a", 1) is None
    keyed.append([("a", 1, b"elsewhere")], key=KEYS[2])
    tx.write("b", 1, b"x")
    tx.commit()
    tx = keyed.transaction(key=KEYS[1])
    assert list(tx.scan("a")) == []
    keyed.append([("a", 1, b"here")], key=KEYS[1])
    tx.write("b", 1, b"y")
    with pytest.raises(topicdb.ConflictError):
        tx.commit()


def test_the_log_gives_each_key_in_its_order(logged: Database) -> None:
    """Messages of a key keep their order everywhere, whatever their topics and times are."""
    rows: list[Any] = [(f"t/{i % 3}", 1_000 - i, b"%d" % i) for i in range(60)]
    for i, row in enumerate(rows):
        logged.append([row], key=KEYS[i % SHARDS])
    in_order = {s: [b"%d" % i for i in range(60) if i % SHARDS == s] for s in range(SHARDS)}

    def check(batches: Any) -> None:
        found: dict[int, list[bytes]] = {}
        for value in (value for batch in batches for value in batch.values):
            found.setdefault(int(value) % SHARDS, []).append(value)
        assert found == in_order

    check(logged.tail("t/#", timeout=0).batches())
    with logged.subscribe("t/+", start="earliest") as subscription:
        check(delivered(subscription, 60))
    with logged.consumer("c", "t/#") as consumer:
        check(batches_of(consumer))
        consumer.ack()
        assert consumer.lag() == 0
    with logged.subscribe("t/1", start="earliest") as subscription:
        given = [message for batch in delivered(subscription, 20) for message in batch]
        assert {message.topic for message in given} == {"t/1"}


def delivered(subscription: Any, count: int) -> list[Any]:
    """Returns the batches of a subscription with its first ``count`` messages."""
    batches: list[Any] = []
    while sum(map(len, batches)) < count:
        delivery = subscription.next(timeout=PATIENCE_S)
        batches.append(delivery.batch)
        subscription.ack(delivery.seqno)
    return batches


def test_a_group_gives_a_topic_to_one_member_whatever_its_shards(logged: Database) -> None:
    for topic in ("a", "b", "c", "d"):
        spread(logged, topic)
    group = logged.group("workers", "#")
    members = [group.join(), group.join()]
    of_topic: dict[str, set[int]] = {}
    messages = 0
    for number, member in enumerate(members):
        for batch in batches_of_member(member):
            messages += len(batch)
            for message in batch:
                of_topic.setdefault(message.topic, set()).add(number)
            member.ack(batch)
    assert messages == 4 * 3 * SHARDS
    assert all(len(numbers) == 1 for numbers in of_topic.values())
    assert group.lag() == 0
    group.close()


def test_a_handle_of_some_shards_takes_their_keys_alone(db_path: Path) -> None:
    topicdb.open(db_path, shards=SHARDS, shard_by="key").close()
    with topicdb.open(db_path, only_shards=[1, 2]) as db:
        assert list(db.append([("a", 1, b"x")], key=KEYS[1]).serials) == [1]
        text = f"topic 'b' with the key '{KEYS[3]}': shard 3 is not open here"
        with nothing_written(db), pytest.raises(topicdb.ReadOnlyError, match=re.escape(text)):
            db.append([("a", 2, b"x"), ("b", 2, b"x")], key=[KEYS[2], KEYS[3]])
        with topicdb.open(db_path, only_shards=[3]) as other:
            other.append([("a", 3, b"y")], key=KEYS[3])
    with topicdb.open(db_path, mode="r") as db:
        assert values_by_shard(db, "a") == {1: [b"x"], 3: [b"y"]}


def test_keep_last_keeps_the_last_ones_of_each_shard(db_path: Path, layout: Layout) -> None:
    last_one = {"#": topicdb.Retention(keep_last=1, rotate="1h")}
    with opened(db_path, last_one, shards=SHARDS, shard_by="key", layout=layout) as db:
        spread(db, "t")
        db.maintain(now() + 2 * HOUR)
        kept = {shard: [b"%d" % (2 * SHARDS + shard)] for shard in range(SHARDS)}
        assert values_by_shard(db) == kept
        assert [m.value for m in db.last("t")] == [b"%d" % (3 * SHARDS - 1)]


def test_what_is_kept_among_own_topics_is_found(logged: Database) -> None:
    """Maps, consumers and sessions have shards by their own names."""
    for number in range(8):
        with logged.map(f"map {number}") as one:
            one["k"] = b"%d" % number
    with logged.session("client-7") as session:
        session.subscribe("t", start="earliest")
        for key in KEYS:
            logged.append([("t", 1, key.encode())], key=key)
        given = [packet.value for packets in packets_of(session, 10) for packet in packets]
        assert sorted(given) == sorted(key.encode() for key in KEYS)
    for number in range(8):
        with logged.map(f"map {number}") as one:
            assert dict(one) == {"k": b"%d" % number}


def test_jobs_have_keys(keyed: Database) -> None:
    with jobs.StagedWriter(keyed.path, "j") as writer:
        writer.append([("t", i, b"%d" % i) for i in range(10)], key=KEYS[3])
        writer.append([("t", 10 + i, b"1%d" % i) for i in range(4)], key=KEYS)
        writer.append([("t", 20, b"20")])
    committed = jobs.commit(keyed.path, "j", [writer.staged])
    home = topicdb.shard_of("t", SHARDS)
    expected = {shard: [b"1%d" % shard] for shard in range(SHARDS)}
    expected[3] += [b"%d" % i for i in range(10)]
    expected[home].append(b"20")
    assert values_by_shard(keyed) == {s: sorted(values) for s, values in expected.items()}
    assert set(committed.serials) == set(range(SHARDS))


def test_what_was_acknowledged_survives_being_killed(db_path: Path) -> None:
    with Child(
        """
        import sys, time, topicdb
        db = topicdb.open(sys.argv[1], shards=4, shard_by="key")
        for i in range(500):
            db.append([(f"t/{i % 3}", i, b"%d" % i)], key=f"client {i % 9}")
        print("stored", flush=True)
        time.sleep(1000)
        """,
        db_path,
    ) as child:
        child.expect("stored")
        child.kill()
    expected: dict[int, list[bytes]] = {}
    for i in range(500):
        shard = topicdb.shard_of_key(f"client {i % 9}", SHARDS)
        expected.setdefault(shard, []).append(b"%d" % i)
    with topicdb.open(db_path) as db:
        assert values_by_shard(db) == {s: sorted(values) for s, values in expected.items()}
        assert db.schema["shard_by"] == "key"
    assert topicdb.verify(db_path, deep=True).ok


def test_a_restored_copy_shards_by_key(logged: Database, tmp_path: Path) -> None:
    values = spread(logged)
    logged.snapshot(tmp_path / "copy")
    topicdb.restore(tmp_path / "copy", tmp_path / "restored")
    with topicdb.open(tmp_path / "restored") as db:
        assert db.schema["shard_by"] == "key"
        assert sorted(m.value for m in db.scan("#")) == values
        assert list(db.append([("t", 1, b"x")], key=KEYS[2]).serials) == [2]
