"""Tests of retained messages: which copies the bridge stores, which it passes by, and clearing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from brokers import MOSQUITTO, Broker, mosquitto
from mqtt_clients import Publisher, connected, has_stored
from paho.mqtt.client import Client, MQTTv5, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from support import wait_until

import topicdb
from topicdb.bridge import Bridge, Status
from topicdb.bridge.storing import Arrival, Store
from topicdb.replay import Envelope

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")

Protocol = Literal["5", "3.1.1"]
PROTOCOLS: list[Protocol] = ["5", "3.1.1"]
DEVICES = 20


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with mosquitto(tmp_path / "broker") as started:
        yield started


@pytest.fixture
def db(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "bridge.db", shards=2) as database:
        yield database


def publish_states(broker: Broker, payload: bytes = b"on", count: int = DEVICES) -> None:
    with Publisher(broker.port) as publisher:
        for number in range(count):
            publisher.publish(f"device/{number}/state", payload, retain=True)


def envelopes(db: topicdb.Database, filter: str = "#") -> list[Envelope]:
    found = []
    for message in db.scan(filter, order="time", raw=True):
        envelope = Envelope.decode(message.value)
        assert envelope is not None
        found.append(envelope)
    return found


def passes(broker: Broker, bridge: Bridge, number: int) -> None:
    """Waits until the bridge has stored, or passed by, all that was published before."""
    with Publisher(broker.port) as publisher:
        publisher.publish("mark", b"%d" % number)
    wait_until(lambda: bridge._database.scan("mark").count() > number)


def is_counted(status: Status) -> bool:
    """Returns whether the bridge has counted all that it has received."""
    told = status.stored + status.duplicates + status.refused + status.copies + status.replays
    return told == status.received


def lose_session(broker: Broker, name: str = "topicdb-bridge") -> None:
    """Makes the broker forget the session of a bridge of this name."""
    client = Client(CallbackAPIVersion.VERSION2, name, protocol=MQTTv311, clean_session=True)
    connections: list[object] = []
    client.on_connect = lambda *of: connections.append(of)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    wait_until(lambda: len(connections) == 1)
    client.disconnect()
    client.loop_stop()


def a_round(broker: Broker, db: topicdb.Database, number: int, **options: Any) -> tuple[int, int]:
    """Connects a bridge; returns the number of messages of devices, and of copies passed by."""
    with Bridge(db, "127.0.0.1", broker.port, **options) as bridge:
        connected(bridge)
        passes(broker, bridge, number)
        wait_until(lambda: is_counted(bridge.status()))  # the bridge counts after the commit
        return db.scan("device/#").count(), bridge.status().copies


@pytest.mark.parametrize("envelope", [True, False])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_reconnection_stores_no_retained_message_again(
    broker: Broker, db: topicdb.Database, protocol: Protocol, envelope: bool
) -> None:
    publish_states(broker)
    options: dict[str, Any] = {"protocol": protocol, "envelope": envelope}
    found = [a_round(broker, db, number, **options) for number in range(3)]
    assert [stored for stored, _ in found] == [DEVICES] * 3
    # With MQTT 5 the broker does not send the copies at all.
    known = 0 if protocol == "5" else DEVICES
    assert [copies for _, copies in found] == [0, known, known]


@pytest.mark.parametrize("envelope", [True, False])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nor_does_a_lost_session(
    broker: Broker, tmp_path: Path, protocol: Protocol, envelope: bool
) -> None:
    """The broker knows no session of a new name; the database is opened anew for each."""
    publish_states(broker)
    options: dict[str, Any] = {"protocol": protocol, "envelope": envelope}
    found = []
    for number in range(3):
        with topicdb.open(tmp_path / "bridge.db", shards=2) as db:
            found.append(a_round(broker, db, number, name=f"bridge-{number}", **options))
    assert found == [(DEVICES, 0), (DEVICES, DEVICES), (DEVICES, DEVICES)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_copy_that_is_new_is_stored(
    broker: Broker, db: topicdb.Database, protocol: Protocol
) -> None:
    """A state that returns is stored again: on, off, and on while no bridge was connected."""
    publish_states(broker, b"on")
    assert a_round(broker, db, 0, protocol=protocol, name="first")[0] == DEVICES
    with Bridge(db, "127.0.0.1", broker.port, protocol=protocol, name="second") as bridge:
        connected(bridge)
        publish_states(broker, b"off", 5)
        passes(broker, bridge, 1)
    publish_states(broker, b"on", 5)
    assert a_round(broker, db, 2, protocol=protocol, name="third") == (DEVICES + 10, DEVICES - 5)
    payloads = [one.payload for one in envelopes(db, "device/3/state")]
    assert payloads == [b"on", b"off", b"on"]
    assert envelopes(db, "device/3/state")[-1].retain


def test_other_properties_make_another_message(broker: Broker, db: topicdb.Database) -> None:
    for number, unit in enumerate(("K", "K", "°C")):
        with Publisher(broker.port) as publisher:
            publisher.publish("device/1", b"1", retain=True, UserProperty=[("unit", unit)])
        a_round(broker, db, number, name=f"bridge-{number}")
    assert [dict(one.user_properties)["unit"] for one in envelopes(db, "device/#")] == ["K", "°C"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_published_again_with_the_same_content_is_stored(
    broker: Broker, db: topicdb.Database, protocol: Protocol
) -> None:
    """A retained message that is published anew is no copy, even if its content is the same."""
    publish_states(broker, count=1)
    for number, name in enumerate(("first", "second")):
        with Bridge(db, "127.0.0.1", broker.port, protocol=protocol, name=name) as bridge:
            connected(bridge)
            passes(broker, bridge, number)  # the copy that comes first does not count
            wait_until(lambda: is_counted(bridge.status()))
            before = bridge.status().stored
            for beat in range(3):
                publish_states(broker, count=1)
                wait_until(lambda: bridge.status().stored > before + beat)  # noqa: B023
    assert db.scan("device/#").count() == 1 + 3 + 3


def test_live_retained_messages_keep_their_flag(broker: Broker, db: topicdb.Database) -> None:
    with Bridge(db, "127.0.0.1", broker.port) as bridge, Publisher(broker.port) as publisher:
        connected(bridge)
        publisher.publish("a", b"kept", 2, retain=True)
        publisher.publish("b", b"not kept", 2)
        has_stored(bridge, 2)
    found = {one.payload: one for one in envelopes(db)}
    assert found[b"kept"].retain and not found[b"not kept"].retain
    assert found[b"kept"].subscription_ids == ()  # the bridge's own identifiers are not stored


def test_what_is_cleared_is_seen_as_cleared(broker: Broker, db: topicdb.Database) -> None:
    with Bridge(db, "127.0.0.1", broker.port) as bridge, Publisher(broker.port) as publisher:
        connected(bridge)
        publisher.publish("a", b"kept", retain=True)
        publisher.publish("b", b"kept", retain=True)
        publisher.publish("a", b"", retain=True)
        publisher.publish("b", b"", retain=False)
        has_stored(bridge, 4)
    newest = {message.topic: Envelope.decode(message.value) for message in db.last("#", raw=True)}
    assert newest["a"] == Envelope(b"", qos=1, retain=True)
    assert newest["b"] == Envelope(b"", qos=1)


def test_copies_behind_other_messages_are_known(broker: Broker, db: topicdb.Database) -> None:
    """The copy of a retained message is known although its topic has later messages."""
    with Bridge(db, "127.0.0.1", broker.port) as bridge, Publisher(broker.port) as publisher:
        connected(bridge)
        publisher.publish("device/1", b"born", retain=True)
        publisher.publish("device/1", b"event")
        has_stored(bridge, 2)
    lose_session(broker)
    assert a_round(broker, db, 0) == (2, 1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_copies_are_known_when_what_was_stored_is_gone(
    broker: Broker, db: topicdb.Database, protocol: Protocol
) -> None:
    publish_states(broker)
    assert a_round(broker, db, 0, protocol=protocol) == (DEVICES, 0)
    db.delete("device/#")
    lose_session(broker)
    assert a_round(broker, db, 1, protocol=protocol) == (0, DEVICES)


def test_overlapping_filters_store_a_copy_once(broker: Broker, db: topicdb.Database) -> None:
    publish_states(broker)
    options: dict[str, Any] = {"filters": ["device/+/state", "device/3/#", "mark"]}
    assert a_round(broker, db, 0, **options) == (DEVICES, 1)


def test_new_filters_bring_what_is_retained_there(broker: Broker, db: topicdb.Database) -> None:
    publish_states(broker)
    assert a_round(broker, db, 0, filters=["mark"]) == (0, 0)
    assert a_round(broker, db, 1, filters=["mark", "device/#"]) == (DEVICES, 0)
    assert a_round(broker, db, 2, filters=["mark", "device/#"]) == (DEVICES, 0)


def test_copies_in_one_batch_with_what_came_before_them(db: topicdb.Database) -> None:
    store = Store(db._core, "b", None, 0)
    on, off = Envelope(b"on", retain=True), Envelope(b"off", retain=True)

    def arrival(envelope: Envelope, *, copy: bool) -> Arrival:
        return Arrival("t", envelope.encode(), 0, "", envelope=envelope, copy=copy)

    first = [arrival(on, copy=True), arrival(off, copy=False), arrival(off, copy=True)]
    assert store.store(first, [])[:2] == (2, 0)
    assert store.store([arrival(off, copy=True), arrival(on, copy=True)], []).stored == 1
    assert [one.payload for one in envelopes(db)] == [b"on", b"off", b"on"]


def test_many_copies_are_looked_up_together(db: topicdb.Database) -> None:
    envelope = Envelope(b"on", retain=True)
    store = Store(db._core, "b", None, 0, filters=["device/#", "$x/#"])
    copies = [
        Arrival(topic, envelope.encode(), 0, "", envelope=envelope, copy=True)
        for topic in [*(f"device/{n}" for n in range(500)), "$x/1"]
    ]
    db.append([(one.topic, None, one.value) for one in copies[::2]], raw=True)
    outcome = store.store(copies, [])
    assert (outcome.stored, outcome.copies) == (250, 251)
    assert store.store(copies, []).copies == 501


def test_the_session_of_an_older_bridge_goes_on(broker: Broker, db: topicdb.Database) -> None:
    """Its subscriptions have no identifier, so the bridge takes retained messages for copies."""
    lasting: Any = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    lasting.SessionExpiryInterval = 3600
    older = Client(CallbackAPIVersion.VERSION2, "topicdb-bridge", protocol=MQTTv5)
    older.connect("127.0.0.1", broker.port, clean_start=False, properties=lasting)
    older.subscribe("#", 2)
    subscribed: list[int] = []
    older.on_subscribe = lambda *_: subscribed.append(1)
    older.loop_start()
    wait_until(lambda: len(subscribed) == 1)
    older.disconnect()
    older.loop_stop()
    publish_states(broker)
    assert a_round(broker, db, 0)[0] == DEVICES
    assert a_round(broker, db, 1)[0] == DEVICES


def test_a_publisher_of_3_1_1_clears_too(broker: Broker, db: topicdb.Database) -> None:
    with (
        Bridge(db, "127.0.0.1", broker.port) as bridge,
        Publisher(broker.port, MQTTv311) as publisher,
    ):
        connected(bridge)
        publisher.publish("a", b"kept", retain=True)
        publisher.publish("a", b"", retain=True)
        has_stored(bridge, 2)
    assert envelopes(db)[-1] == Envelope(b"", qos=1, retain=True)
