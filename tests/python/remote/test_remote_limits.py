"""What clients of a server are told, and what they keep open there, when limits are reached."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from served import serving
from support import PATIENCE_S, wait_until

import topicdb
from topicdb.remote.client import lease
from topicdb.remote.client.connection import Connection
from topicdb.remote.server.handles import Limits


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "db") as database:
        yield database


@pytest.fixture
def server(embedded: topicdb.Database, tmp_path: Path) -> Iterator[Any]:
    with serving(embedded, snapshots=tmp_path) as server:
        yield server


@pytest.fixture
def db(server: Any) -> Iterator[topicdb.Database]:
    with topicdb.connect(server.url) as database:
        yield database


# Errors that say much


def test_a_conflict_of_many_topics_is_a_conflict(
    db: topicdb.Database, embedded: topicdb.Database
) -> None:
    topics = [f"state/{'é' * 40}/{number}" for number in range(500)]
    attempts: list[int] = []

    def change(tx: topicdb.Transaction) -> None:
        for topic in topics:
            tx.get(topic)
        if not attempts:
            embedded.append([(topic, 0, b"other") for topic in topics])
        attempts.append(1)
        tx.write("state/sum", 0, b"")

    with pytest.raises(topicdb.ConflictError) as caught:
        db.transact(change, retries=0)
    found = caught.value.conflicts
    assert 0 < len(found) < 500 and {one[0] for one in found} <= set(topics)
    attempts.clear()
    db.transact(change)
    assert len(attempts) == 2


def test_a_requirement_of_a_large_value_fails_as_such(db: topicdb.Database) -> None:
    db.append([("small", 1, b"1"), ("large", 1, b"2" * 20_000)])
    with pytest.raises(topicdb.PreconditionError) as caught, db.transaction() as tx:
        tx.require("small", 1, b"3")
        tx.require("large", 1, b"4")
    assert caught.value.failures == [("small", 1, b"3", b"1")]


@pytest.mark.parametrize(("letter", "times"), [("x", 30_000), ("é", 5_000), ("\U0001f600", 5_000)])
def test_a_long_text_of_an_error_is_cut(db: topicdb.Database, letter: str, times: int) -> None:
    name = letter * times
    with pytest.raises(ValueError, match=f"^snapshot: '/{letter}+…$"):
        db._connection.call("snapshot", f"/{name}", None, False)  # type: ignore[attr-defined]


# Appends that go together


def hold_appends(patch: pytest.MonkeyPatch) -> threading.Event:
    """Lets appends in the background wait for the event, so that many of them go together."""
    call, go = Connection.call, threading.Event()

    def wait(self: Connection, method: str, *args: Any, **options: Any) -> Any:
        assert method != "append_async" or go.wait(PATIENCE_S)
        return call(self, method, *args, **options)

    patch.setattr(Connection, "call", wait)
    return go


@pytest.mark.parametrize("letter", ["x", "é"])
def test_appends_with_long_ids_go_together(
    db: topicdb.Database, monkeypatch: pytest.MonkeyPatch, letter: str
) -> None:
    go = hold_appends(monkeypatch)
    futures = [db.append_async([("a", n, b"")], id=f"{letter * 120}{n}") for n in range(2_000)]
    go.set()
    assert all(future.result(PATIENCE_S).count == 1 for future in futures)
    assert db.scan("a").count() == 2_000


def test_small_appends_go_together_as_far_as_the_server_takes_them(
    embedded: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = Limits(append_bytes_max=50_000)
    with serving(embedded, limits=limits) as server, topicdb.connect(server.url) as db:
        go = hold_appends(monkeypatch)
        sizes = [1_000] * 200 + [40_000] + [1_000] * 200
        futures = [db.append_async([("a", n, bytes(size))]) for n, size in enumerate(sizes)]
        too_large = db.append_async([("a", 0, bytes(60_000))])
        go.set()
        assert all(future.result(PATIENCE_S).count == 1 for future in futures)
        with pytest.raises(topicdb.QuotaError, match="50000 bytes"):
            too_large.result(PATIENCE_S)
        assert [message.timestamp for message in db.scan("a")] == list(range(401))


def test_a_callback_that_exits_holds_up_no_other_future(
    db: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = hold_appends(monkeypatch)
    first = db.append_async([("a", 1, b"")])
    first.add_done_callback(lambda _: sys.exit(1))
    go.set()
    first.result(PATIENCE_S)
    assert db.append_async([("a", 2, b"")]).result(PATIENCE_S).count == 1


def test_a_subscription_that_is_left_is_closed(
    db: topicdb.Database, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "PING_INTERVAL_S", 0.1)
    db.append([("a", n, b"") for n in range(10)])
    left = [db.subscribe("a", start=start) for start in ("earliest", "latest", "earliest")]
    assert left[0].next(PATIENCE_S) is not None
    (client,) = [one for one in server.service.clients.all() if one.handles()]
    left.clear()
    gc.collect()
    wait_until(lambda: not client.handles() and server._gate.calls == 1)
    with db.subscribe("a", start="earliest") as messages:
        assert messages.next(PATIENCE_S) is not None


# What is closed while the server takes no more calls


def refuse(patch: pytest.MonkeyPatch, *methods: str) -> list[str]:
    """Lets the first call of each of these methods be one too many; returns those that were."""
    call = Connection.call
    refused: list[str] = []

    def called(self: Connection, method: str, *args: Any, **options: Any) -> Any:
        if method in methods and method not in refused:
            refused.append(method)
            raise topicdb.QuotaError("too many calls")
        return call(self, method, *args, **options)

    patch.setattr(Connection, "call", called)
    patch.setattr(lease, "PING_INTERVAL_S", 0.1)
    return refused


def test_a_commit_that_is_not_let_in_leaves_no_transaction_open(
    db: topicdb.Database, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = refuse(monkeypatch, "transaction.commit", "close")
    tx = db.transaction()
    tx.write("a", 1, b"")
    (client,) = [one for one in server.service.clients.all() if one.handles()]
    with pytest.raises(topicdb.QuotaError):
        tx.commit()
    assert refused == ["transaction.commit", "close"] and not tx.open
    wait_until(lambda: not client.handles())
    assert db.scan("a").count() == 0


def test_a_name_is_free_again_though_there_are_too_many_calls(
    db: topicdb.Database, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = db.consumer("c", "a")
    tail = db.tail("a")
    (client,) = [one for one in server.service.clients.all() if one.handles()]
    refused = refuse(monkeypatch, "close")
    tail.close()
    refused.clear()
    consumer.close()
    assert refused == ["close"]
    wait_until(lambda: not client.handles())
    with topicdb.connect(server.url) as other, other.consumer("c", "a") as again:
        assert again.name == "c"
