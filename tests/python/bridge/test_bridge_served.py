"""Tests of the bridge with a database of a server, whose answers may be lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from brokers import MOSQUITTO, Broker, mosquitto
from mqtt_clients import Publisher, connected, has_stored, values
from served import serving
from support import topic_in_shard

import topicdb
from topicdb.bridge import Bridge
from topicdb.bridge.storing import Arrival, StaleError, Store
from topicdb.remote.client.connection import Connection

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")
NAME = "topicdb-bridge"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with mosquitto(tmp_path / "broker") as started:
        yield started


@pytest.fixture
def db(tmp_path: Path) -> Iterator[topicdb.Database]:
    with (
        topicdb.open(tmp_path / "bridge.db", shards=2) as database,
        serving(database) as server,
        topicdb.connect(server.url) as connected,
    ):
        yield connected


class Fragile:
    """Loses the first commit of messages under "x", or the answer to it.

    ``when`` says when the server carries it out: "before" the connection breaks, "never", or
    "after" the next attempt. ``errors``: what the server then had against it.
    """

    def __init__(self, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.errors: list[type[BaseException]] = []
        self._when = when
        self._late: Callable[[], Any] | None = None
        self.lost = 0
        call = Connection.call

        def fails(connection: Connection, method: str, *args: Any, **options: Any) -> Any:
            if method == "close" and self._late is not None:
                raise topicdb.UnavailableError("the end of the transaction is lost, too")
            if method != "transaction.commit" or not any(c[1].startswith("x/") for c in args[1]):
                return call(connection, method, *args, **options)
            return self._commit(lambda: call(connection, method, *args, **options))

        monkeypatch.setattr(Connection, "call", fails)

    def _commit(self, commit: Callable[[], Any]) -> Any:
        if self.lost == 0:
            self.lost = 1
            if self._when == "before":
                commit()
            elif self._when == "after":
                self._late = commit
            raise topicdb.UnavailableError("the answer is lost")
        answer = commit()
        if self._late is not None:
            late, self._late = self._late, None
            try:
                late()
            except topicdb.Error as error:
                self.errors.append(type(error))
        return answer


@pytest.mark.parametrize("when", ["before", "never"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_lost_answer_to_a_commit_stores_nothing_twice(
    broker: Broker,
    db: topicdb.Database,
    monkeypatch: pytest.MonkeyPatch,
    qos: Literal[0, 1, 2],
    when: str,
) -> None:
    fragile = Fragile(when, monkeypatch)
    with Bridge(db, "127.0.0.1", broker.port) as bridge, Publisher(broker.port) as publisher:
        connected(bridge)
        publisher.publish("x/1", b"once", qos)
        has_stored(bridge, 1)
        publisher.publish("x/2", b"again", qos)
        has_stored(bridge, 2)
        assert (bridge.status().connections, bridge.status().duplicates) == (1, 0)
    assert fragile.lost == 1
    assert values(db) == [b"once", b"again"]


def test_a_commit_that_was_on_its_way_for_long_is_refused(
    db: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server carries out the first attempt behind the second one."""
    fragile = Fragile("after", monkeypatch)
    store = Store(db._core, NAME, None, 0)
    plan = store.plan([Arrival("x/1", b"once", 0, "")], [])
    with pytest.raises(topicdb.UnavailableError):
        store.commit(plan)
    assert store.commit(plan).stored == 1
    assert fragile.errors in ([topicdb.PreconditionError], [topicdb.ConflictError])
    assert db.scan("x/#").count() == 1


def test_another_bridge_of_the_same_name_is_noticed(db: topicdb.Database) -> None:
    one, other = (Store(db._core, NAME, None, 0) for _ in range(2))
    arrival = Arrival("x/1", b"once", 7, "")
    assert one.store([arrival], []).stored == 1
    plan = other.plan([arrival], [])
    for _ in range(2):
        with pytest.raises(StaleError, match=f"another bridge named {NAME!r}"):
            other.commit(plan)
    other.refresh()
    assert other.received == one.received
    again = [arrival._replace(dup=True), Arrival("x/2", b"new", 8, "")]
    assert other.store(again, []) == (1, 1, 0, "", 0)
    with pytest.raises(StaleError):
        one.forget_session()
    assert db.scan("x/#").count() == 2


def test_a_bridge_goes_on_when_another_of_its_name_was_there(
    broker: Broker, db: topicdb.Database
) -> None:
    with Bridge(db, "127.0.0.1", broker.port) as bridge, Publisher(broker.port) as publisher:
        connected(bridge)
        other = [Arrival(topic_in_shard(shard, 2, "x"), b"other", 0, "") for shard in range(2)]
        Store(db._core, NAME, None, 0).store(other, [])
        publisher.publish("y", b"once", 2)
        has_stored(bridge, 1)
        connected(bridge, 2)
    assert sorted(values(db, "y")) == [b"once"]
