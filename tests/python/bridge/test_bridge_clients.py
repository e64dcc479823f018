"""Tests of a bridge that gives the messages of each client one shard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from brokers import MOSQUITTO, Broker, mosquitto
from keys import by_shard, key_in_shard
from mqtt_clients import Publisher, connected, has_stored
from support import topic_in_shard, wait_until

import topicdb
from topicdb.bridge import Bridge
from topicdb.bridge.storing import Arrival, Store
from topicdb.replay import Envelope

needs_mosquitto = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")
SHARDS = 3
CLIENTS = [key_in_shard(shard, SHARDS) for shard in range(SHARDS)]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with mosquitto(tmp_path / "broker") as started:
        yield started


@pytest.fixture
def db(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "bridge.db", shards=SHARDS, shard_by="key") as database:
        yield database


def payloads(db: topicdb.Database, filter: str = "#") -> dict[int, list[bytes]]:
    """Returns what readers see of each shard's messages, sorted."""
    return {
        shard: sorted(m[2] for m in messages) for shard, messages in by_shard(db, filter).items()
    }


@needs_mosquitto
def test_a_user_property_names_the_client(broker: Broker, db: topicdb.Database) -> None:
    bridge = Bridge(db, "127.0.0.1", broker.port, shard_by="client", client_id_property="who")
    with bridge, Publisher(broker.port) as publisher:
        connected(bridge)
        for number in range(9):
            name = CLIENTS[number % SHARDS]
            publisher.publish("t", b"%d" % number, 2, UserProperty=[("who", name)])
        publisher.publish("t", b"nobody", 1, UserProperty=[("client-id", CLIENTS[0])])
        publisher.publish("t", b"nothing", 0)
        has_stored(bridge, 11)
        wait_until(lambda: bridge.status().unnamed == 2)
    home = topicdb.shard_of("t", SHARDS)
    expected = {s: [b"%d" % n for n in range(9) if n % SHARDS == s] for s in range(SHARDS)}
    expected[home] += [b"nobody", b"nothing"]
    assert payloads(db) == expected


@needs_mosquitto
def test_a_level_of_the_topic_names_the_client(broker: Broker, db: topicdb.Database) -> None:
    names = ["pump-1", "pump-2", "pump-3", "pump-4"]
    bridge = Bridge(
        db, "127.0.0.1", broker.port, shard_by="client", client_level=2, protocol="3.1.1"
    )
    with bridge, Publisher(broker.port) as publisher:
        connected(bridge)
        for name in names:
            for what in ("rpm", "state"):
                publisher.publish(f"site/{name}/{what}", f"{name} {what}".encode())
        publisher.publish("site", b"too short")
        publisher.publish("site//rpm", b"empty")
        has_stored(bridge, 10)
        wait_until(lambda: bridge.status().unnamed == 2)
    expected: dict[int, list[bytes]] = {}
    for name in names:
        shard = topicdb.shard_of_key(name, SHARDS)
        expected.setdefault(shard, []).extend([f"{name} rpm".encode(), f"{name} state".encode()])
    for topic, value in (("site", b"too short"), ("site//rpm", b"empty")):
        expected.setdefault(topicdb.shard_of(topic, SHARDS), []).append(value)
    assert payloads(db) == {shard: sorted(values) for shard, values in expected.items()}


def arrival(
    value: bytes, client: int, *, mid: int = 0, name: str = "", retain: bool = False
) -> Arrival:
    envelope = Envelope(value, retain=retain)
    return Arrival("t", envelope.encode(), mid, name, envelope=envelope, key=CLIENTS[client])


def test_packets_of_all_shards_are_known_after_a_restart(db: topicdb.Database) -> None:
    store = Store(db._core, "b", None, 5)
    arrivals = [arrival(b"%d" % n, n % SHARDS, mid=n, name=f"n-{n}") for n in range(1, 10)]
    assert store.store(arrivals, []).stored == 9
    again = [one._replace(dup=True) for one in arrivals]
    store = Store(db._core, "b", None, 5)
    assert store.store(again, []) == (0, 9, 0, "", 0)
    assert sorted(store.received) == list(range(1, 10))
    assert store.store([], range(1, 10)).stored == 0
    assert Store(db._core, "b", None, 5).received == {}
    named = [one._replace(mid=0) for one in arrivals]
    assert store.store(named, []).duplicates == 9
    assert payloads(db) == {
        s: [b"%d" % n for n in range(1, 10) if n % SHARDS == s] for s in range(SHARDS)
    }


def test_copies_are_known_whichever_client_has_published_them(db: topicdb.Database) -> None:
    """A topic has one retained message, whose digest is in the shard of the topic."""
    store = Store(db._core, "b", None, 0)
    on, off = (arrival(value, n, retain=True) for n, value in enumerate([b"on", b"off"]))
    assert store.store([on, off], []).stored == 2
    db.delete("t")
    store = Store(db._core, "b", None, 0)
    copies = [one._replace(copy=True) for one in (off, on)]
    outcome = store.store(copies[:1], [])
    assert (outcome.stored, outcome.copies) == (0, 1), "the last one is remembered"
    outcome = store.store(copies[1:], [])
    assert (outcome.stored, outcome.copies) == (1, 0), "it was published again meanwhile"
    assert payloads(db) == {0: [b"on"]}


def test_a_digest_is_not_stored_before_its_message(db: topicdb.Database) -> None:
    """Whatever part of a plan is stored last before a crash, no message is taken for stored."""
    topic = topic_in_shard(0, SHARDS)
    for parts in range(SHARDS + 2):
        store = Store(db._core, f"bridge {parts}", None, 0)
        new = [
            arrival(b"of %d" % client, client, retain=True)._replace(topic=topic, copy=True)
            for client in range(SHARDS)
        ]
        plan = store.plan(new, [])
        assert len(plan.parts) == SHARDS + 1
        for part in plan.parts[:parts]:
            store._commit(part)
        store = Store(db._core, f"bridge {parts}", None, 0)
        is_known = store.plan([new[-1]], []).copies == 1
        is_stored = any(m.value == b"of 2" for m in db.scan(topic))
        assert is_stored or not is_known
        assert is_known or parts <= SHARDS
        db.delete(topic)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"shard_by": "key"}, "shard_by: expected 'topic' or 'client'"),
        ({"client_level": 2}, "client_level: it names the client for shard_by='client' only"),
        ({"shard_by": "client", "client_level": 0}, "client_level: levels .* count from 1"),
        ({"shard_by": "client", "protocol": "3.1.1"}, "shard_by: with protocol '3.1.1'"),
    ],
)
def test_bad_options(db: topicdb.Database, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Bridge(db, "127.0.0.1", **options)


def test_clients_need_a_database_that_shards_by_key(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "topics.db", shards=2) as db:
        with pytest.raises(topicdb.SchemaError, match=r"shard_by: .* is sharded by topic"):
            Bridge(db, "127.0.0.1", shard_by="client")
        assert db.scan(None).count() == 0
