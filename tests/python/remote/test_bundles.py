"""Small appends of a client that the server stores as one, and what their callers are told."""

from __future__ import annotations

import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from served import lose_answer, lose_call, serving
from support import PATIENCE_S, wait_until

import topicdb
from topicdb.remote.client.connection import Connection
from topicdb.remote.errors import packed

SHARDS = 4
APPENDS = 400


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "db", shards=SHARDS) as database:
        yield database


@contextmanager
def held(patch: pytest.MonkeyPatch) -> Iterator[list[list[int]]]:
    """Keeps appends in the background from being sent before the end of the block.

    Yields a list, which gets for each call the number of messages of each of its bundles.
    """
    call, go, calls = Connection.call, threading.Event(), list[list[int]]()

    def wait(self: Connection, method: str, *args: Any, **options: Any) -> Any:
        if method == "append_async":
            calls.append(args[1])
            assert go.wait(PATIENCE_S)
        return call(self, method, *args, **options)

    patch.setattr(Connection, "call", wait)
    try:
        yield calls
    finally:
        go.set()


def first_of(db: topicdb.Database, calls: list[list[int]]) -> None:
    """Begins an append, and returns once it is on its way, so that those behind it wait for it."""
    db.append_async([("first", 0, b"")], id="first")
    wait_until(lambda: calls)


def receipts(futures: list[Future[topicdb.Receipt]]) -> list[topicdb.Receipt]:
    return [future.result(PATIENCE_S) for future in futures]


def values(db: topicdb.Database, topic: str) -> list[bytes]:
    """Returns the values of a topic in the order in which the messages were stored."""
    found: list[tuple[int, int, bytes]] = []
    for batch in db.scan(topic).batches(serials=True):
        assert batch.serials is not None
        rows = zip(batch.serials.tolist(), range(len(batch)), batch.values, strict=True)
        found += rows
    return [value for _, _, value in sorted(found, key=lambda one: one[0])]


def table_of(rows: list[tuple[str, int, bytes]]) -> pa.Table:
    topics, timestamps, values = zip(*rows, strict=True)
    return pa.table({"topic": topics, "timestamp": timestamps, "value": values})


def test_small_appends_of_a_shard_are_one_commit(
    embedded: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = [f"t/{number}" for number in range(APPENDS)]
    with serving(embedded) as server, topicdb.connect(server.url) as db:
        with held(monkeypatch) as calls:
            first_of(db, calls)
            # The second message of an append goes where the first one goes.
            futures = [db.append_async([(one, 1, b"1"), (one, 1, b"2")]) for one in topics]
        told = receipts(futures)
    appends = Counter(topicdb.shard_of(topic, SHARDS) for topic in topics)
    assert calls == [[1], [2 * count for count in appends.values()]]
    for topic, receipt in zip(topics, told, strict=True):
        assert receipt.count == 2 and receipt.durability == "os" and not receipt.repeated
        assert list(receipt.serials) == [topicdb.shard_of(topic, SHARDS)]
        assert values(embedded, topic) == [b"1", b"2"]
    assert len({next(iter(one.serials.items())) for one in told}) == SHARDS
    told[0].serials.clear()
    assert all(one.serials for one in told[1:]), "each has its own"


def test_appends_of_every_kind_stay_in_their_order(
    embedded: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(35)
    ids = itertools.count()
    expected: list[bytes] = []
    futures: list[Future[topicdb.Receipt]] = []

    def rows(count: int, topics: tuple[str, ...] = ("t",)) -> list[tuple[str, int, bytes]]:
        begun = len(expected)
        given = [(one, 1, b"%d" % (begun + n)) for n in range(count) for one in topics]
        expected.extend(value for topic, _, value in given if topic == "t")
        return given

    with serving(embedded) as server, topicdb.connect(server.url) as db:
        kinds: list[Callable[[], Future[topicdb.Receipt]]] = [
            lambda: db.append_async(rows(1)),
            lambda: db.append_async(rows(1), id=f"id {next(ids)}"),
            lambda: db.append_async(rows(40)),
            lambda: db.append_async(rows(1, ("t", "a", "b", "c", "d"))),
            lambda: db.append_async(table_of(rows(2))),
            lambda: db.append_async(rows(1), durability="none"),
        ]
        with held(monkeypatch) as calls:
            first_of(db, calls)
            for _ in range(60):
                kind = chance.choice(kinds)
                futures += [kind() for _ in range(chance.randint(1, 200))]
        assert all(receipts(futures))
    assert values(embedded, "t") == expected
    assert sum(map(len, calls)) < len(futures), "some were stored as one"


@pytest.mark.parametrize("servers", [1, 2])
def test_the_id_of_an_append_is_the_one_that_was_given(
    embedded: topicdb.Database, servers: int
) -> None:
    with serving(embedded) as server, topicdb.connect([server.url] * servers) as db:
        told = receipts([db.append_async([("t", 1, b"1")], id="given") for _ in range(3)])
        assert [one.repeated for one in told] == [False, True, True]
        assert db.append([("t", 1, b"1")], id="given").repeated
    assert values(embedded, "t") == [b"1"]


def test_a_message_that_is_refused_keeps_no_other_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        topicdb.open(tmp_path / "timeless", timestamp_bytes=0) as timeless,
        serving(timeless) as server,
        topicdb.connect(server.url) as db,
    ):
        with held(monkeypatch) as calls:
            first_of(db, calls)
            futures = [
                db.append_async([(f"t/{number}", int(number % 10 == 5), b"%d" % number)])
                for number in range(APPENDS)
            ]
        for number, future in enumerate(futures):
            if number % 10 == 5:
                with pytest.raises(ValueError, match="row 0"):
                    future.result(PATIENCE_S)
            else:
                assert future.result(PATIENCE_S).count == 1
        expected = [b"%d" % number for number in range(APPENDS) if number % 10 != 5]
        assert values(timeless, "t/#") == expected
        assert calls == [[1], [APPENDS], [1] * APPENDS]


@pytest.mark.parametrize("lose", [lose_answer, lose_call])
def test_a_bundle_that_is_repeated_is_stored_once(
    embedded: topicdb.Database,
    monkeypatch: pytest.MonkeyPatch,
    lose: Callable[[pytest.MonkeyPatch, str], None],
) -> None:
    expected = [b"%d" % number for number in range(2 * APPENDS)]
    lose(monkeypatch, "append_async")
    with serving(embedded) as server, topicdb.connect([server.url, server.url]) as db:
        with held(monkeypatch):
            futures = [db.append_async([("t", 1, value)]) for value in expected]
        told = receipts(futures)
    assert values(embedded, "t") == expected
    assert any(one.repeated for one in told) == (lose is lose_answer)


def test_after_a_lost_answer_nothing_is_sent_in_another_bundle(
    embedded: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an append alone would be told says nothing about the bundle that may be stored."""
    lose_answer(monkeypatch, "append_async")
    call, attempts = Connection.call, list[int]()

    def refuse_second(self: Connection, method: str, *args: Any, **options: Any) -> Any:
        if method == "append_async":
            attempts.append(len(args[1]))
            if len(attempts) == 2:
                return [(0, True, packed(topicdb.AccessError("revoked")))]
        return call(self, method, *args, **options)

    monkeypatch.setattr(Connection, "call", refuse_second)
    with serving(embedded) as server, topicdb.connect([server.url, server.url]) as db:
        with held(monkeypatch):
            futures = [db.append_async([("t", 1, b"")]) for _ in range(APPENDS)]
        for future in futures[:2]:
            with pytest.raises(topicdb.AccessError, match="revoked"):
                future.result(PATIENCE_S)
    assert embedded.scan("t").count() <= APPENDS
