"""Tests of replays into a broker that a bridge of the same database follows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from brokers import MOSQUITTO, Broker, free_port, mosquitto
from cli_runs import error_in, run_here
from mqtt_clients import Publisher, Subscriber, connected, has_stored
from support import wait_until

import topicdb
from topicdb.bridge import Bridge
from topicdb.replay import Envelope
from topicdb.replay.broker.broker import REPLAY_PROPERTY, BrokerReplay

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")

Protocol = Literal["5", "3.1.1"]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with mosquitto(tmp_path / "broker") as started:
        yield started


@pytest.fixture
def db(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "bridge.db", shards=2) as database:
        yield database


def publish(broker: Broker, count: int = 3) -> None:
    with Publisher(broker.port) as publisher:
        for number in range(count):
            publisher.publish(f"a/{number}", b"%d" % number, UserProperty=[("unit", "K")])


def replay_to(
    broker: Broker, db: topicdb.Database, filter: str = "a/#", **options: Any
) -> BrokerReplay:
    return BrokerReplay(db, filter, **{"host": "127.0.0.1", "port": broker.port, **options})


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_bridge_passes_by_what_is_replayed(
    broker: Broker, db: topicdb.Database, qos: Literal[0, 1, 2]
) -> None:
    with Bridge(db, "127.0.0.1", broker.port) as bridge, Subscriber(broker.port) as subscriber:
        connected(bridge)
        publish(broker)
        has_stored(bridge, 3)
        db.append([("a/bare", None, b"as it is")])
        replay = replay_to(broker, db, qos=qos)
        replay.run()
        with Publisher(broker.port) as publisher:
            publisher.publish("end", b"")
        has_stored(bridge, 4)
        wait_until(lambda: bridge.status().replays == 4)
        wait_until(lambda: len(subscriber.messages) == 8)
        assert db.scan("a/#").count() == 4
    replayed = [one for one in subscriber.messages[3:] if one.topic != "end"]
    marks = [dict(one.properties["UserProperty"])[REPLAY_PROPERTY] for one in replayed]
    assert marks == [replay.id] * 4
    assert [("unit", "K") in one.properties["UserProperty"] for one in replayed].count(True) == 3


def test_a_bridge_may_be_asked_to_store_it(broker: Broker, db: topicdb.Database) -> None:
    """A message that is replayed twice has only the mark of the last replay."""
    ids = []
    with Bridge(db, "127.0.0.1", broker.port, store_replays=True) as bridge:
        connected(bridge)
        publish(broker, 1)
        has_stored(bridge, 1)
        for stored in (2, 4):
            replay = replay_to(broker, db)
            ids.append(replay.id)
            replay.run()
            has_stored(bridge, stored)
        assert bridge.status().replays == 0
    messages = db.scan("a/#", order="time", raw=True)
    found = [Envelope.decode(message.value) for message in messages]
    users = [one.user_properties for one in found if one is not None]
    marked = [(("unit", "K"), (REPLAY_PROPERTY, id)) for id in (ids[0], ids[1], ids[1])]
    assert users == [(("unit", "K"),), *marked]


def test_what_is_not_marked_is_stored(broker: Broker, db: topicdb.Database) -> None:
    with Bridge(db, "127.0.0.1", broker.port) as bridge:
        connected(bridge)
        publish(broker)
        has_stored(bridge, 3)
        replay_to(broker, db, mark=False, stored_again="allow").run()
        has_stored(bridge, 6)


@pytest.mark.parametrize(
    ("of_bridge", "options"),
    [("3.1.1", {}), ("5", {"protocol": "3.1.1"}), ("5", {"mark": False})],
)
def test_what_no_bridge_could_tell_is_refused(
    broker: Broker, db: topicdb.Database, of_bridge: Protocol, options: dict[str, Any]
) -> None:
    with Bridge(db, "127.0.0.1", broker.port, filters=["a/#"], protocol=of_bridge) as bridge:
        connected(bridge)
        publish(broker)
        has_stored(bridge, 3)
    refused = partial(pytest.raises, ValueError, match="'topicdb-bridge'.*stored_again='allow'")
    with topicdb.open(db.path, mode="r") as reader:
        for database in (db, reader):
            for host in ("127.0.0.1", "localhost"):
                with refused():
                    replay_to(broker, database, host=host, **options)
    with refused():
        replay_to(broker, db, "#", **options)
    with refused():
        replay_to(broker, db, remap={"a/0": "a/other", "a/#": "test/#"}, **options).run()
    replay_to(broker, db, "b/#", **options)  # the bridge does not follow this filter
    replay_to(broker, db, port=free_port(), **options)
    replay_to(broker, db, remap={"a/#": "test/#"}, **options).run()
    replay_to(broker, db, remap=lambda topic: f"test/{topic}", **options).run()
    replay_to(broker, db, stored_again="allow", **options).run()


def test_a_bridge_of_3_1_1_that_was_asked_to_store_replays(
    broker: Broker, db: topicdb.Database
) -> None:
    with Bridge(
        db, "127.0.0.1", broker.port, filters="a/#", protocol="3.1.1", store_replays=True
    ) as bridge:
        connected(bridge)
        publish(broker)
        has_stored(bridge, 3)
        replay_to(broker, db).run()
        has_stored(bridge, 6)


def test_the_command_says_what_helps(broker: Broker, db: topicdb.Database) -> None:
    with Bridge(db, "127.0.0.1", broker.port, protocol="3.1.1") as bridge:
        connected(bridge)
    command = ["replay", "run", db.path, "--broker", f"127.0.0.1:{broker.port}"]
    assert "--allow-stored-again" in error_in(run_here(*command))
    assert run_here(*command, "--allow-stored-again").returncode == 0


def test_options_that_are_none(db: topicdb.Database) -> None:
    with pytest.raises(ValueError, match="stored_again"):
        BrokerReplay(db, host="127.0.0.1", stored_again="perhaps")  # type: ignore[arg-type]
