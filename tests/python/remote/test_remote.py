"""A database of a server is used as a local one, and errors are reported."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from served import Process, lose_answer, serving
from support import PATIENCE_S, Child, wait_until

import topicdb
from topicdb.remote.client import connection, lease
from topicdb.remote.server.handles import Limits

ROWS = [("a/b", 1, b"one"), ("a/c", 2, b""), ("x", 3, b"\x00\xff")]


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "db", shards=2) as database:
        yield database


@pytest.fixture
def server(embedded: topicdb.Database, tmp_path: Path) -> Iterator[Any]:
    (tmp_path / "snapshots").mkdir()
    with serving(embedded, snapshots=tmp_path / "snapshots") as server:
        yield server


@pytest.fixture
def db(server: Any) -> Iterator[topicdb.Database]:
    with topicdb.connect(server.url) as database:
        yield database


# Writing and reading


def test_rows_and_arrow_are_stored_as_they_are_here(
    db: topicdb.Database, embedded: topicdb.Database
) -> None:
    now = datetime(2026, 1, 31, 14, 2, tzinfo=timezone.utc)
    receipt = db.append([*ROWS, ("t", now, bytearray(b"v")), ("u", None, memoryview(b"w"))])
    assert receipt.count == 5 and receipt.durability == "os" and set(receipt.serials) <= {0, 1}
    assert db.append(pa.table({"topic": ["p"], "value": [b"1"]})).count == 1
    assert db.append(next(embedded.scan("a/#").batches()), durability="disk").durability == "disk"
    assert db.append([]).count == 0 == db.append(iter([])).count
    assert sorted(db.scan()) == sorted(embedded.scan())
    assert db.scan("a/#", order="time").to_arrow() == embedded.scan("a/#", order="time").to_arrow()
    assert db.scan("p").to_list()[0].timestamp > now.timestamp() * 1e6
    assert pa.table(db.scan("a/b")).num_rows == 2
    (batch,) = db.scan("x").batches(serials=True)
    (here,) = embedded.scan("x").batches(serials=True)
    assert batch.serials is not None and batch.serials.tolist() == here.serials.tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("messages", "error", "word"),
    [
        ([("a", 1, b""), ("a/#", 1, b"")], topicdb.TopicError, "row 1"),
        ([("$topicdb/x", 1, b"")], topicdb.TopicError, "own"),
        ([("a", -5, b"")], ValueError, "row 0"),
        ([("a", 1, "text")], TypeError, "row 0"),
        ([("a", 1)], (TypeError, ValueError), "row 0"),
        ([("\ud800", 1, b"")], topicdb.TopicError, "row 0"),
        (pa.table({"topic": ["a"]}), ValueError, "value"),
        (pa.table({"topic": [None, "a"], "value": [b"", b""]}), ValueError, "row 0"),
        (pa.table({"topic": [1], "value": [b""]}), ValueError, "topic"),
        (pa.table({"topic": ["a"], "time": [1], "value": [b""]}), ValueError, "'time' is unknown"),
        (
            pa.Table.from_arrays([["a"], ["b"], [b""]], ["topic", "topic", "value"]),
            ValueError,
            "column 'topic' is there twice",
        ),
        (5, TypeError, "messages: expected"),
    ],
)
def test_bad_messages_are_refused_as_here(
    db: topicdb.Database, messages: Any, error: Any, word: str
) -> None:
    with pytest.raises(error, match=word):
        db.append(messages)
    with pytest.raises(error, match=word):
        db.append_async(messages).result(PATIENCE_S)
    assert db.scan().count() == 0


def test_many_appends_in_the_background(db: topicdb.Database) -> None:
    futures: list[Future[topicdb.Receipt]] = []

    def write(thread: int) -> None:
        futures.extend(
            db.append_async([(f"t/{thread}", i, b"%d" % i)], durability=("os", "none")[i % 50 > 40])
            for i in range(300)
        )

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(future.result(PATIENCE_S).count == 1 for future in futures)
    for number in range(3):
        serials = [batch.serials for batch in db.scan(f"t/{number}").batches(serials=True)]
        flat = [int(serial) for part in serials if part is not None for serial in part]
        assert len(flat) == 300 and flat == sorted(flat), "in the order of one thread"


def test_one_bad_append_of_many_fails_alone(db: topicdb.Database) -> None:
    def append(i: int) -> Future[topicdb.Receipt]:
        rows = 1 + i % 3
        topics = pa.array([None if i % 10 == 5 else "a"] * rows, pa.string())
        times = pa.array([i] * rows, pa.timestamp("us", "UTC"))
        values = pa.array([b"%d" % i] * rows, pa.binary())
        return db.append_async(pa.table({"topic": topics, "timestamp": times, "value": values}))

    futures = [append(i) for i in range(200)]
    for number, future in enumerate(futures):
        if number % 10 == 5:  # a null is found by the server alone
            with pytest.raises(ValueError, match="row 0"):
                future.result(PATIENCE_S)
        else:
            assert future.result(PATIENCE_S).count == 1 + number % 3
    assert db.scan("a").count() == sum(1 + i % 3 for i in range(200) if i % 10 != 5)


def test_bad_topics_are_told_at_once(db: topicdb.Database) -> None:
    pa_rows = pa.table({"topic": ["a", "b/+"], "value": [b"", b""]})
    for messages in ([("a", 1, b""), ("b/+", 1, b"")], pa_rows):
        with pytest.raises(topicdb.TopicError, match=r"row 1: .*wildcard"):
            db.append_async(messages)
    with pytest.raises(topicdb.TopicError, match=r"row 0: .*TopicDB's own"):
        db.append_async([("$topicdb/a", 1, b"")])
    assert db.scan().count() == 0


def test_appends_for_asyncio(db: topicdb.Database) -> None:
    async def run() -> list[topicdb.Receipt]:
        return list(await asyncio.gather(*(db.append_await([("a", i, b"")]) for i in range(20))))

    assert sum(receipt.count for receipt in asyncio.run(run())) == 20


def test_a_large_append_is_one(db: topicdb.Database, embedded: topicdb.Database) -> None:
    rows = [(f"a/{i % 100}", i, b"x" * 50) for i in range(200_000)]
    receipt = db.append(rows)
    assert receipt.count == 200_000 and set(receipt.serials.values()) == {1}
    assert db.scan("a/7").count() == 2_000
    assert db.scan().to_arrow() == embedded.scan().to_arrow()


def test_streams_iterators_slices(db: topicdb.Database, embedded: topicdb.Database) -> None:
    db.append([(f"a/{i % 5}", i, b"%d" % i) for i in range(100)])
    assert db.streams("a/#") == embedded.streams("a/#")
    found = []
    for stream in db.streams("a/#"):
        iterator = topicdb.Iterator.from_bytes(bytes(db.iterator(stream, "a/+", start=10)))
        while len((page := db.next(iterator, 7)).batch):
            found += page.batch.to_list()
            iterator = page.iterator
    assert sorted(found) == sorted(embedded.scan("a/+", start=10))
    assert sorted(db.scan_slices(db.slices("a/#"), "a/#")) == sorted(embedded.scan("a/#"))
    assert db.scan(streams=db.streams("a/#")[:1]).count() > 0
    assert db.last("a/+").to_list() == embedded.last("a/+").to_list()
    assert db.state_at(50, "a/+").to_list() == embedded.state_at(50, "a/+").to_list()
    assert db.explain("a/#")["rows_matched"] == 100 and db.structures("a/#")


def test_the_life_of_the_data(db: topicdb.Database, embedded: topicdb.Database) -> None:
    db.append(ROWS)
    assert db.delete("x").count == 1
    db.set_retention({"a/#": topicdb.Retention("1d", keep_last=3)})
    assert db.retention == embedded.retention and db.retention["a/#"].keep_last == 3
    db.rotate()
    assert db.slabs() == embedded.slabs()
    db.drop_slab(next(slab for slab in db.slabs() if slab.read_only))
    with pytest.raises(topicdb.NotFoundError):
        db.drop_slab(topicdb_slab_like(db))
    assert db.usage()[0] == embedded.usage()[0] and db.usage(by="structure") is not None
    assert db.forecast().disk_bytes > 0 and db.trim("1h", "a/#").messages >= 0
    assert db.maintain().rotated == 0 and db.expire() == []
    assert db.stats()["messages"] == embedded.stats()["messages"]
    assert db.schema == embedded.schema
    db.flush()
    db.refresh()


def topicdb_slab_like(db: topicdb.Database) -> topicdb.Slab:
    """Returns a slab that was dropped."""
    db.rotate()
    slab = next(slab for slab in db.slabs() if slab.read_only)
    db.drop_slab(slab)
    return slab


def test_snapshots_stay_in_their_folder(db: topicdb.Database, tmp_path: Path) -> None:
    db.append(ROWS)
    made = db.snapshot("first")
    assert made.path == str(tmp_path / "snapshots" / "first")
    with topicdb.open(made.path, mode="r") as copy:
        assert copy.scan().count() == 3
    assert db.snapshot("second", base="first", copy=True).files > 0
    for name in ("", "..", ".", "a/b", "/tmp/x", "../x", "a\0b"):
        with pytest.raises(ValueError, match="no name"):
            db.snapshot(name)
    assert db.verify().ok and db.verify(deep=False).shards == 2
    with pytest.raises(NotImplementedError, match="topicdb import"):
        db.import_parquet("x.parquet")
    db.export_parquet(tmp_path / "out.parquet")
    assert (tmp_path / "out.parquet").exists()


def test_a_relative_folder_is_that_of_the_call(
    embedded: topicdb.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "snapshots"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    with serving(embedded, snapshots="snapshots") as server, topicdb.connect(server.url) as db:
        monkeypatch.chdir(folder)
        assert db.snapshot("here").path == str(folder / "here")


def test_without_a_folder_there_are_no_snapshots(embedded: topicdb.Database) -> None:
    with (
        serving(embedded) as server,
        topicdb.connect(server.url) as db,
        pytest.raises(topicdb.AccessError, match="no snapshots"),
    ):
        db.snapshot("x")


# Transactions


def test_transactions_read_what_they_write_and_lose_to_others(db: topicdb.Database) -> None:
    with db.transaction(key="k") as tx:
        tx.write("k/a", 1, b"old")
        tx.write("k/serial", 1, topicdb.SERIAL)
        assert tx.get("k/a", 1) == b"old" and tx.scan("k/#").count() >= 1
    assert tx.receipt is not None and tx.receipt.count == 2 and not tx.open
    first, second = db.transaction(key="k"), db.transaction(key="k")
    for transaction in (first, second):
        assert transaction.get("k/a", 1) == b"old"
        transaction.write("k/a", 1, b"new")
    first.commit()
    with pytest.raises(topicdb.ConflictError, match="k/a") as lost:
        second.commit()
    assert lost.value.conflicts[0][0] == "k/a"
    with pytest.raises(topicdb.PreconditionError) as failed, db.transaction(key="k") as tx:
        tx.require("k/serial", 1, b"other")
    assert failed.value.failures[0][:3] == ("k/serial", 1, b"other")
    with pytest.raises(topicdb.PreconditionError) as failed, db.transaction(key="k") as tx:
        tx.require_present("k/serial", 1)
        tx.require_present("k/none", 1)
    assert failed.value.failures == [("k/none", 1, True, None)]
    with pytest.raises(topicdb.ClosedError):
        second.write("k/a", 1, b"")
    called = []
    with db.transaction(key="k") as tx:
        tx.delete("k/#")
        tx.on_commit(lambda: called.append(1))
    assert called == [1] and db.scan("k/#").count() == 0
    assert db.transact(lambda tx: tx.write("k/a", 2, b""), key="k") is None


def test_commits_for_which_nobody_waits_keep_their_order(db: topicdb.Database) -> None:
    transactions = []
    for n in range(200):
        tx = db.transaction(shard=n % 2)
        tx.write("k/a", n % 2, b"%d" % n)
        transactions.append(tx)
    transactions[7].require_present("none", 0)
    futures = [tx.commit_async() for tx in transactions]
    assert not any(tx.open for tx in transactions)
    with pytest.raises(topicdb.PreconditionError) as unmet:
        futures.pop(7).result(PATIENCE_S)
    assert unmet.value.failures == [("none", 0, True, None)]
    assert all(future.result(PATIENCE_S).count == 1 for future in futures)
    for shard, value in ((0, b"198"), (1, b"199")):
        with db.transaction(shard=shard) as tx:
            assert tx.get("k/a", shard) == value


def _held(patch: pytest.MonkeyPatch, method: str) -> tuple[threading.Event, threading.Event]:
    """Lets calls of a method wait; returns the events that one has come, and that they may go."""
    call, came, go = connection.Connection.call, threading.Event(), threading.Event()

    def wait(self: connection.Connection, name: str, *args: Any, **options: Any) -> Any:
        if name == method:
            came.set()
            assert go.wait(PATIENCE_S)
        return call(self, name, *args, **options)

    patch.setattr(connection.Connection, "call", wait)
    return came, go


def test_a_commit_on_its_way_to_the_server_can_be_withdrawn(
    db: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    came, go = _held(monkeypatch, "transaction.commit_each")
    first = db.transaction(shard=0)
    first.write("a", 1, b"")
    core = first._core
    on_its_way = first.commit_async()
    assert came.wait(PATIENCE_S)
    behind = db.transaction(shard=0)
    behind.write("a", 2, b"")
    with pytest.raises(topicdb.CommitTimeoutError, match="nothing is stored") as late:
        behind.commit(timeout=0.01)  # it was not sent
    assert late.value.known == "not stored" and late.value.outcome is None
    assert db._appends.give_up(core) == "not stored"  # the server has not begun it
    go.set()
    with pytest.raises(topicdb.ClosedError):
        on_its_way.result(PATIENCE_S)
    assert db.scan("a").count() == 0
    with db.transaction(shard=0, commit_timeout=PATIENCE_S) as tx:
        tx.write("a", 3, b"")
    assert [m.timestamp for m in db.scan("a")] == [3]


def test_what_is_known_is_unknown_if_the_answer_is_lost(
    db: topicdb.Database, embedded: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_answer(monkeypatch, "transaction.commit_each")
    tx = db.transaction(shard=0)
    tx.write("a", 1, b"")
    with pytest.raises(topicdb.UnavailableError):
        tx.commit_async().result(PATIENCE_S)
    assert tx._may_be_stored and embedded.scan("a").count() == 1


def test_closing_sends_what_was_begun(server: Any, embedded: topicdb.Database) -> None:
    db = topicdb.connect(server.url)
    futures = []
    for n in range(50):
        tx = db.transaction(shard=0)
        tx.write("a", n, b"")
        futures.append(tx.commit_async())
    db.close()
    assert all(future.result(0).count == 1 for future in futures)
    assert embedded.scan("a").count() == 50


def test_a_transaction_that_is_left_holds_up_nobody(
    db: topicdb.Database, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "PING_INTERVAL_S", 0.2)
    tx = db.transaction(shard=0)
    tx.write("a", 1, b"")
    (client,) = [one for one in server.service.clients.all() if one.handles()]
    del tx
    gc.collect()
    wait_until(lambda: not client.handles())
    assert db.scan("a").count() == 0


def test_an_error_of_a_change_ends_the_transaction(db: topicdb.Database) -> None:
    tx = db.transaction(shard=0)
    tx.write("waits", 1, b"")
    bad: Any
    for bad in (
        lambda: tx.write("a/#", 1, b""),
        lambda: tx.write("$topicdb/x", 1, b""),
        lambda: tx.write("a", -1, b""),
        lambda: tx.write("a", 1, "text"),  # type: ignore[arg-type]
        lambda: tx.delete("$topicdb/#"),
        lambda: tx.delete("a", 5, 4),
        lambda: tx.require("a/#", 1, b""),
        lambda: tx.require_present("a/#", 1),
        lambda: tx.get("a/#"),
        lambda: tx.scan("a/#/b"),
    ):
        with pytest.raises((ValueError, TypeError)):
            bad()
    assert tx.open
    tx.write("a", 1, b"x" * 100)
    tx.commit()


# Following


def test_subscriptions_come_in_order_and_go_on(db: topicdb.Database) -> None:
    db.append([("a", i, b"%d" % i) for i in range(50)])
    with db.subscribe("a", start="earliest", window=20) as messages:
        first = messages.next(PATIENCE_S, rows=5)
        assert first is not None and first.batch.values == [b"%d" % i for i in range(5)]
        assert first.seqno == 5 and first.rows.tolist() == [0, 1, 2, 3, 4]
        second = messages.next(PATIENCE_S, rows=7)
        assert second is not None and (second.seqno, len(second.batch)) == (12, 7)
        with pytest.raises(ValueError, match="not delivered"):
            messages.ack(13)
        messages.ack(5)
        with pytest.raises(ValueError, match="already"):
            messages.ack(5)
        assert messages.info()["delivered"] == 12 and messages.lag() == 50
        assert messages.info()["places"][second.shard] == second.next
    with db.subscribe("a", start={second.shard: second.next}, timeout=PATIENCE_S) as rest:
        assert [m.timestamp for m in itertools.islice(rest, 38)] == list(range(12, 50))
        assert rest.lag() == 0


def test_encodings_of_strings_and_bytes_travel(db: topicdb.Database) -> None:
    topics = pa.array(["a", "b"])
    values = pa.array([b"1", b"2"])
    for topic in (topics.dictionary_encode(), topics.cast(pa.string_view())):
        for value in (values.dictionary_encode(), values.cast(pa.binary(1))):
            db.append(pa.table({"topic": topic, "value": value}))
    assert sorted(m[::2] for m in db.scan("#")) == [("a", b"1")] * 4 + [("b", b"2")] * 4


def test_a_window_that_is_full_stops_the_server(
    db: topicdb.Database, embedded: topicdb.Database
) -> None:
    messages = db.subscribe("a", start="earliest", window=10)
    embedded.append([("a", i, b"") for i in range(100)])
    wait_until(lambda: messages.info()["state"] == "full")
    assert messages.info()["waiting"] <= 10
    with db.subscribe("a", start="earliest", timeout=PATIENCE_S) as other:
        assert sum(1 for _ in itertools.islice(other, 100)) == 100, "who is slow delays nobody"
    found = [messages.next(PATIENCE_S) for _ in range(1)]
    assert found[0] is not None and len(found[0].batch) <= 10
    messages.close()
    assert messages.next(1) is None and messages.info()["state"] == "closed"


def test_subscriptions_for_asyncio_and_callbacks(db: topicdb.Database) -> None:
    async def read() -> list[int]:
        found: list[int] = []
        async for message in db.subscribe("a", start="earliest", timeout=PATIENCE_S):
            found.append(message.timestamp)
            if len(found) == 30:
                return found
        return found

    seen: list[int] = []
    called = db.subscribe("a", callback=lambda batch: seen.extend(batch.timestamps.tolist()))
    db.append([("a", i, b"") for i in range(20)])
    timer = threading.Timer(0.2, lambda: db.append([("a", i, b"") for i in range(20, 30)]))
    timer.start()
    assert asyncio.run(read()) == list(range(30))
    timer.join()
    wait_until(lambda: len(seen) == 30)
    called.close()
    assert called.join(PATIENCE_S) and seen == list(range(30))


def test_acknowledgements_arrive_though_one_of_them_cannot(db: topicdb.Database) -> None:
    with db.subscribe("a", start="earliest", window=10) as messages:
        db.append([("a", i, b"") for i in range(100)])
        lease = db._connection.lease()  # type: ignore[attr-defined]
        seen = 0
        while seen < 100:
            delivery = messages.next(PATIENCE_S)
            assert delivery is not None
            with lease._changed:  # a number that the server does not know comes first
                lease._acknowledged[999_999] = 1
            messages.ack(delivery.seqno)
            seen = delivery.seqno


def test_acknowledgements_arrive_though_there_are_too_many_calls(
    db: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with db.subscribe("a", start="earliest", window=10) as messages:
        db.append([("a", i, b"") for i in range(30)])
        lease = db._connection.lease()  # type: ignore[attr-defined]
        tell = lease._tell_once
        refused: list[dict[int, int]] = []

        def tell_later(acknowledged: dict[int, int]) -> None:
            if acknowledged and len(refused) < 3:
                refused.append(acknowledged)
                raise topicdb.QuotaError("too many calls")
            tell(acknowledged)

        monkeypatch.setattr(lease, "_tell_once", tell_later)
        seen = 0
        while seen < 30:
            delivery = messages.next(PATIENCE_S)
            assert delivery is not None
            messages.ack(delivery.seqno)
            seen = delivery.seqno
        assert len(refused) == 3


def test_what_is_left_is_closed_though_there_are_too_many_calls(
    db: topicdb.Database, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [db.transaction(shard=0), db.transaction(shard=0), db.transaction(shard=0)]
    lease = db._connection.lease()  # type: ignore[attr-defined]
    (client,) = [one for one in server.service.clients.all() if one.handles()]
    call = lease.call
    calls: list[str] = []

    def called(method: str, *args: Any) -> Any:
        calls.append(method)
        if len(calls) in (2, 3):
            raise topicdb.QuotaError("too many calls")
        return call(method, *args)

    monkeypatch.setattr(lease, "call", called)
    left.clear()
    lease.acknowledge(999_999, 1)  # wakes the thread that sends acknowledgements
    wait_until(lambda: not client.handles())
    assert calls == ["close"] * 5 and not lease.lost


def test_a_number_means_one_thing_for_ever(db: topicdb.Database, server: Any) -> None:
    lease = db._connection.lease()  # type: ignore[attr-defined]
    tx = db.transaction(shard=0)
    for client in server.service.clients.all():
        client.end()
    number = lease.call("begin", 0, None, None)  # before the client knows that the connection broke
    with pytest.raises((topicdb.ClosedError, topicdb.UnavailableError)):
        tx.write("a", 1, b"")
        tx.commit()
    assert number != tx._core._handle.number  # type: ignore[attr-defined]
    assert db.scan("a").count() == 0


def test_a_connection_that_breaks_ends_what_is_open(
    embedded: topicdb.Database, server: Any
) -> None:
    with topicdb.connect(server.url) as db:
        messages, tail = db.subscribe("a"), db.tail("a", timeout=PATIENCE_S)
        consumer = db.consumer("c", "a")
        tx = db.transaction(shard=0)
        for client in server.service.clients.all():
            client.end()  # as if the client had been silent
        for use in (
            lambda: messages.next(PATIENCE_S),
            lambda: list(tail),
            lambda: consumer.poll(timeout=PATIENCE_S),
        ):
            with pytest.raises((topicdb.UnavailableError, topicdb.ClosedError)):
                use()
        wait_until(lambda: not tx.open)
        embedded.append([("a", 1, b"")])
        with db.consumer("c", "a", takeover=True, timeout=PATIENCE_S) as again:
            assert len(again.poll(timeout=PATIENCE_S)) == 1
        with db.subscribe("a", start="earliest") as anew:
            assert anew.next(PATIENCE_S) is not None


def test_tails_and_watches(db: topicdb.Database) -> None:
    receipt = db.append([("a", 1, b"1")])
    tail = db.tail("a", timeout=0)
    assert [m.value for m in tail] == [b"1"]
    db.append([("a", 2, b"2")])
    assert [m.value for m in db.tail("a", after=tail.serials, timeout=0)] == [b"2"]
    until = {0: 0, 1: 0, **receipt.serials}
    assert [m.value for m in db.tail("a", until=until)] == [b"1"]
    watch = db.watch_streams("n/#", timeout=PATIENCE_S)
    timer = threading.Timer(0.2, lambda: db.append([("n/1", 1, b"")]))
    timer.start()
    assert len(watch.next_streams()) == 1
    timer.join()
    watch.close()
    with pytest.raises(topicdb.ClosedError):
        watch.next_streams()


def test_a_name_is_open_once_among_all_clients(db: topicdb.Database, server: Any) -> None:
    with topicdb.connect(server.url) as other:
        first = db.consumer("c", "a/#", timeout=0.2)
        with pytest.raises(topicdb.ConflictError, match="open already"):
            other.consumer("c", "a/#")
        db.append([("a/1", 1, b"1"), ("a/1", 2, b"2")])
        batch = first.poll(timeout=PATIENCE_S)
        assert len(batch) == 2
        taken = other.consumer("c", "a/#", takeover=True, timeout=0.2)
        with pytest.raises(topicdb.ConflictError, match="taken over"):
            first.ack(batch)
        assert len(taken.poll(timeout=PATIENCE_S)) == 2
        taken.ack()
        taken.close()
        first.close()
        assert list(db.consumer("c", "a/#", timeout=0.2)) == []
        session = other.session("s")
        session.subscribe("a/#")
        with pytest.raises(topicdb.ConflictError, match="open already"):
            db.session("s")
    wait_until(lambda: not server.service._holds.has("session", "s"))
    db.session("s").close()
    assert db.sessions() == ["s"] and db.consumers() == ["c"]
    db.drop_session("s")


def test_effects_are_exactly_once_over_the_wire(db: topicdb.Database) -> None:
    db.append([("a/1", i, b"%d" % i) for i in range(10)])
    with db.consumer("sum", "a/#") as consumer:
        while consumer.lag() > 0:
            batch = consumer.poll(timeout=PATIENCE_S)
            with db.transaction(key="total") as tx:
                total = int(tx.get("total", 0) or 0) + sum(map(int, batch.values))
                tx.write("total", 0, b"%d" % total)
                consumer.ack(batch, tx)
    assert db.scan("total").to_list()[-1].value == b"45" and consumer.closed


def test_sessions_give_again_what_was_not_acknowledged(db: topicdb.Database) -> None:
    with db.session("client") as session:
        session.subscribe("a/#", 1)
        session.subscribe("a/+", 2)
        db.append([("a/1", None, b"1"), ("a/2", None, b"2")])
        packets: list[topicdb.Packet] = []
        while len(packets) < 2:
            packets += session.poll(timeout=PATIENCE_S)
        session.pubrec(packets[0].id)
        session.pubcomp(packets[0].id)
    with db.session("client") as session:
        assert session.resumed
        (again,) = session.poll()
        assert again.dup and again.id == packets[1].id and again.value == packets[1].value


def test_members_of_a_group_are_anywhere(db: topicdb.Database, server: Any) -> None:
    db.append([(f"jobs/{i}", None, b"%d" % i) for i in range(100)])
    with topicdb.connect(server.url) as other:
        one = db.group("g", "jobs/#", parts=8).join("one")
        two = other.group("g", "jobs/#").join("two")
        assert db.group("g", "jobs/#") is db.group("g", "jobs/#")
        with pytest.raises(topicdb.ConflictError, match="'two'"):
            db.group("g", "jobs/#").join("two")
        with pytest.raises(ValueError, match="has the filters"):
            other.group("g", "other/#")
        found: list[int] = []
        while len(found) < 100:
            for member in (one, two):
                if not len(batch := member.poll(timeout=0.2)):
                    continue
                found += [int(value) for value in batch.values]
                member.ack(batch)
                with pytest.raises(ValueError, match="already"):
                    member.ack(batch)
                last = batch
        assert sorted(found) == list(range(100)), "each once, while nobody is killed"
        group = other.group("g", "jobs/#")
        assert group.filters == ["jobs/#"] and (group.name, group.parts) == ("g", 8)
        assert not group.closed and "'g'" in repr(group) and "'two' of 'g'" in repr(two)
        assert {len(parts) for parts in db.group("g", "jobs/#").members().values()} == {4}
        with pytest.raises(ValueError, match="not given"):
            (two if last in one._numbers else one).ack(last)  # type: ignore[attr-defined]
        one.ack(one.poll(timeout=0))  # an empty batch, as nothing came
    wait_until(lambda: list(db.group("g", "jobs/#").members()) == ["one"])
    assert len(one.parts) == 8
    with pytest.raises(topicdb.ConflictError):
        db.drop_group("g")
    one.close()
    with pytest.raises(topicdb.ClosedError):
        one.poll()
    db.drop_group("g")
    assert db.groups() == []


# What clients may not do to a server


def stream_of(batch: pa.RecordBatch, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def test_malformed_arrow_data_is_refused(db: topicdb.Database) -> None:
    offsets = pa.py_buffer(b"".join(i.to_bytes(4, "little") for i in (0, 1 << 30, 1)))
    column = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"a")])
    bad = pa.RecordBatch.from_arrays([column, pa.array([b"v"] * 2)], names=["topic", "value"])
    values = pa.array([b"v"])
    not_text = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(bytes(4) + b"\x02\0\0\0"), pa.py_buffer(b"\xff\xfe")]
    )
    no_text = pa.RecordBatch.from_arrays([not_text, values], names=["topic", "value"])
    good = pa.RecordBatch.from_arrays([pa.array(["a"]), values], names=["topic", "value"])
    whole = stream_of(good)
    coded = pa.RecordBatch.from_arrays(
        [pa.array(["a"]).dictionary_encode(), values], names=["topic", "value"]
    )
    wide = pa.record_batch({f"c{i}": values for i in range(4)})
    broken = [whole[:cut] for cut in range(0, len(whole) - 8, 7)]
    broken += [whole[:cut] + b"\xff" + whole[cut + 1 :] for cut in range(0, 200, 3)]
    refused = 0
    for data in (stream_of(bad), stream_of(no_text), stream_of(coded), stream_of(wide), *broken):
        for counts in ([], [[1]]):
            method = "append_async" if counts else "append"
            try:
                db._core.connection.call(method, None, *counts, pa.py_buffer(data))  # type: ignore[attr-defined]
            except (ValueError, topicdb.TopicError):
                refused += 1
    assert refused > len(broken)
    before = db.scan().count()
    for data in (stream_of(good, compression="zstd"), stream_of(good, compression="lz4")):
        with pytest.raises(ValueError, match="compressed"):
            db._core.connection.call("append", None, pa.py_buffer(data))  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="expected Arrow data"):
        db._core.connection.call("append", None, whole)  # type: ignore[attr-defined]
    assert db.append([("a", 1, b"")]).count == 1 and db.scan().count() == before + 1


def test_columns_of_every_layout_are_stored_as_plain_ones(db: topicdb.Database) -> None:
    topics, values = pa.array(["a/1", "a/1", "a/2"]), pa.array([b"x", b"x", b"y"])
    run_ends = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), ["a/1", "a/2"])
    for topic, value in (
        (topics.dictionary_encode(), values.dictionary_encode()),
        (topics.cast(pa.string_view()), values.cast(pa.binary_view())),
        (run_ends, values),
    ):
        db.append(pa.table({"topic": topic, "value": value}))
        found = [(message.topic, message.value) for message in db.scan("a/#")]
        assert sorted(found) == [("a/1", b"x"), ("a/1", b"x"), ("a/2", b"y")]
        db.delete("a/#")


def test_limits_of_a_token(embedded: topicdb.Database) -> None:
    limits = Limits(handles_max=4, append_bytes_max=100_000)
    with serving(embedded, limits=limits) as server, topicdb.connect(server.url) as db:
        with pytest.raises(topicdb.QuotaError, match="100000 bytes"):
            db.append([("a", i, b"x" * 1_000) for i in range(200)])
        with pytest.raises(topicdb.QuotaError, match="100000 bytes"):
            db.append_async([("a", i, b"x" * 1_000) for i in range(200)]).result(PATIENCE_S)
        with pytest.raises(topicdb.QuotaError, match="100000 bytes"), db.transaction(shard=0) as tx:
            for i in range(200):
                tx.write("a", i, b"x" * 1_000)
        assert db.scan().count() == 0
        opened = [db.transaction(shard=0) for _ in range(4)]
        with (
            topicdb.connect(server.url) as other,
            pytest.raises(topicdb.QuotaError, match="4 transactions"),
        ):
            other.transaction(shard=0)
        for transaction in opened:
            transaction.rollback()
        db.transaction(shard=0).rollback()


def test_calls_of_a_token_are_limited(embedded: topicdb.Database) -> None:
    limits = Limits(calls_max=10)
    with serving(embedded, limits=limits) as server, topicdb.connect(server.url) as db:
        opened: list[topicdb.Subscription] = []
        with pytest.raises(topicdb.QuotaError, match="10 calls at a time"):
            while len(opened) < 20:
                opened.append(db.subscribe("a"))
                opened[-1].next(0.05)
        assert len(opened) >= 7
        for subscription in opened:
            subscription.close()
        wait_until(lambda: _works(lambda: db.append([("a", 1, b"")])))


def _works(use: Any) -> bool:
    try:
        use()
    except topicdb.QuotaError:
        return False
    return True


def test_calls_that_cannot_be_are_refused(db: topicdb.Database) -> None:
    db.append(ROWS)
    core: Any = db._core
    scan = core.scan("#", None, None, "stream", None)
    for rows, size in ((0, 1), (1, 0), (-1, 1), ("1", 1)):
        with pytest.raises((ValueError, TypeError)):
            scan.next_batch(rows, size)
        scan = core.scan("#", None, None, "stream", None)
    iterator = db.iterator(db.streams("#")[0])
    with pytest.raises(ValueError, match="at least 1"):
        core.next(iterator, 0, 1)
    with pytest.raises(ValueError, match="at least 1"):
        core.next_of_scan(db.scan_iterator("#"), 1, 0)
    for call, wrong in (("next", db.scan_iterator("#")), ("next_of_scan", iterator)):
        with pytest.raises(TypeError, match="expected an iterator"):
            core.connection.call(call, wrong, 1, 1)
    for args in ((), (1,), (1, None, None), ("#", None, "x")):
        with pytest.raises((ValueError, TypeError)):
            core.connection.call("explain", *args)
    assert db.scan().count() == 3


def test_a_reader_that_stops_costs_the_server_little(tmp_path: Path) -> None:
    def resident(process: Process) -> int:
        status = Path(f"/proc/{process.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024

    path = tmp_path / "db"
    with topicdb.open(path) as database:
        for _ in range(10):  # 100 MB that do not compress
            database.append([("a", None, os.urandom(10_000)) for _ in range(1_000)])
    with Process(path) as process, topicdb.connect(process.url) as db:
        db.scan("a").count()  # puts the messages into the cache
        before = resident(process)
        scans = [db.scan("a").batches(rows=100) for _ in range(8)]
        subscriptions = [db.subscribe("a", start="earliest", window=100) for _ in range(8)]
        for scan in scans:
            assert len(next(scan)) == 100
        for subscription in subscriptions:
            delivery = subscription.next(PATIENCE_S)
            assert delivery is not None
        time.sleep(1)
        assert resident(process) - before < 250_000_000, "1,600 MB are waiting to be read"
        assert sum(len(batch) for batch in scans[0]) == 9_900, "it goes on"
        for scan in scans:
            scan.close()  # type: ignore[attr-defined]


def test_who_is_silent_has_gone(embedded: topicdb.Database) -> None:
    limits = Limits(client_timeout_s=0.5)
    with serving(embedded, limits=limits) as server, topicdb.connect(server.url) as db:
        tx = db.transaction(shard=0)
        tx.write("a", 1, b"")
        # The client pings less often than the timeout demands.
        wait_until(lambda: not any(client.handles() for client in server.service.clients.all()))
        with pytest.raises((topicdb.ClosedError, topicdb.UnavailableError)):
            tx.commit()
        assert db.scan("a").count() == 0
        with embedded.transaction(shard=0) as tx:  # the other transaction has ended
            tx.write("a", 1, b"")


# How servers and clients end


def test_a_server_that_closes_lets_calls_end(embedded: topicdb.Database) -> None:
    server = topicdb.serve(embedded)
    db = topicdb.connect(server.url)
    messages = db.subscribe("a")
    stop = threading.Event()
    stored: list[int] = []
    errors: list[BaseException] = []

    def write() -> None:
        for number in range(1_000_000):
            if stop.is_set():
                return
            try:
                db.append([("a", number, b"")])
            except topicdb.Error as error:
                errors.append(error)
                return
            stored.append(number)

    thread = threading.Thread(target=write)
    thread.start()
    wait_until(lambda: len(stored) > 20)
    assert server.shutdown(20)
    thread.join()
    assert isinstance(errors[0], topicdb.UnavailableError)
    found = {message.timestamp for message in embedded.scan("a")}
    assert set(stored) <= found and len(found) <= len(stored) + 1
    with pytest.raises(topicdb.UnavailableError, match="shutting down"):
        while messages.next(PATIENCE_S) is not None:
            pass
    with pytest.raises(topicdb.UnavailableError):
        db.scan("a").to_list()
    db.close()
    with pytest.raises(topicdb.ClosedError):
        db.append([("a", 1, b"")])
    assert server.shutdown(1), "it may be repeated"


def test_acknowledged_messages_outlive_a_server_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "db"
    stored: list[int] = []
    number = 0
    for _ in range(4):
        with Process(path) as process, topicdb.connect(process.url) as db:
            enough = len(stored) + 100

            def kill(process: Process = process, enough: int = enough) -> None:
                wait_until(lambda: len(stored) >= enough)
                process.process.kill()

            thread = threading.Thread(target=kill)
            thread.start()
            with pytest.raises(topicdb.UnavailableError):
                while True:
                    number += 1
                    db.append([("a", number, b"%d" % number)])
                    stored.append(number)
            thread.join()
    with topicdb.open(path, mode="r") as database:
        found = [message.timestamp for message in database.scan("a")]
    assert set(stored) <= set(found) and len(found) <= len(stored) + 4


def test_a_client_that_is_killed_leaves_nothing_open(server: Any, db: topicdb.Database) -> None:
    code = """
        import sys, topicdb
        db = topicdb.connect(sys.argv[1])
        tx = db.transaction(shard=0)
        tx.write("a", 1, b"")
        tx.get("a", 1)
        messages = db.subscribe("a")
        consumer = db.consumer("c", "a")
        member = db.group("g", "a").join()
        print("open", flush=True)
        sys.stdin.readline()
    """
    with Child(code, server.url) as child:
        child.expect("open")
        assert sum(len(client.handles()) for client in server.service.clients.all()) >= 5
        child.kill()
    wait_until(lambda: not any(client.handles() for client in server.service.clients.all()))
    assert db.group("g", "a").members() == {} and db.scan("a").count() == 0
    db.consumer("c", "a").close()


def test_in_a_forked_process_nothing_works_and_nothing_hangs(db: topicdb.Database) -> None:
    tx = db.transaction(shard=0)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            db.append([("a", 1, b"")])
        except topicdb.ForkedError:
            tx.rollback()
            db.close()
            code = 0
        os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    tx.write("a", 1, b"")
    tx.commit()


def test_queued_appends_are_stored_when_the_program_ends(
    server: Any, embedded: topicdb.Database
) -> None:
    code = """
        import sys, topicdb
        db = topicdb.connect(sys.argv[1])
        for i in range(500):
            db.append_async([("a", i, b"")])
    """
    with Child(code, server.url) as child:
        status, _, errors = child.finish()
    assert (status, errors) == (0, "") and embedded.scan("a").count() == 500


def test_urls_and_addresses(embedded: topicdb.Database, tmp_path: Path) -> None:
    for url in ("localhost:8815", "http://x:1", "grpc://", "grpc://h:0", "grpc://h:x", "grpc://:5"):
        with pytest.raises(ValueError, match="url: expected"):
            topicdb.connect(url)
    with pytest.raises(ValueError, match="for everybody to read"):
        topicdb.connect("grpc://example.org:8815", token="t")
    with pytest.raises(topicdb.UnavailableError, match=r"127\.0\.0\.1:1:"):
        topicdb.connect("grpc://127.0.0.1:1")
    with pytest.raises(ValueError, match="can be reached from other machines"):
        topicdb.serve(embedded, host="0.0.0.0")
    with pytest.raises(ValueError, match="give both"):
        topicdb.serve(embedded, tls_key=tmp_path / "key")
    with serving(embedded) as server:
        with pytest.raises(topicdb.StorageError, match=str(server.port)):
            topicdb.serve(embedded, port=server.port)
        assert server.url == f"grpc://127.0.0.1:{server.port}"


def test_a_forgotten_client_ends(server: Any) -> None:
    db: Any = topicdb.connect(server.url)
    tx = db.transaction(shard=0)
    assert any(client.handles() for client in server.service.clients.all())
    del db, tx
    gc.collect()
    wait_until(lambda: not any(client.handles() for client in server.service.clients.all()))


def _sockets() -> int:
    """Returns how many sockets this process has open."""
    count = 0
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the descriptor of the listing itself
            count += os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:")
    return count


def test_a_connection_that_is_closed_keeps_no_socket(tmp_path: Path) -> None:
    topicdb.open(tmp_path / "db").close()
    process = Process(tmp_path / "db")
    before = _sockets()
    kept: list[Any] = []  # so that the garbage collector closes nothing
    for name in "abc":
        db = topicdb.connect(process.url)
        db.append([("a", None, b"1"), ("a", None, b"2")])
        consumer = db.consumer(name)
        consumer.ack(consumer.poll(1))
        member = db.group("g").join()
        member.poll(timeout=0)
        tail = db.tail(timeout=0)
        watch = db.watch_streams()
        session = db.session(name)
        session.subscribe("#")
        session.poll(timeout=0)
        scan = iter(db.scan("#"))
        next(scan)
        assert db.append_async([("a", None, b"3")]).result(PATIENCE_S)
        kept += [db, consumer, member, iter(tail), watch, session, scan, db.subscribe()]
        next(kept[-5])
        assert _sockets() > before
        db.close()
    try:
        wait_until(lambda: _sockets() == before)
    finally:
        process.kill()
