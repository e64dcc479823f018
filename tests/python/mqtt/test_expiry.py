"""Tests of MQTT 5 message expiry: expired messages are not delivered.

Other messages are delivered with the time that they have left.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from brokers import MOSQUITTO, Broker, mosquitto
from cli_runs import run_here
from mqtt_clients import Asker, Subscriber, connected
from settling import batches_of_member, packets_of
from support import PATIENCE_S, wait_until

import topicdb
from topicdb.arguments.times import now_us
from topicdb.bridge import Bridge
from topicdb.mqtt.expiry import expires_at_us, remaining_s
from topicdb.replay import Envelope
from topicdb.replay.broker.broker import BrokerReplay

needs_mosquitto = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")
SECOND_US = 1_000_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with mosquitto(tmp_path / "broker") as started:
        yield started


@pytest.fixture
def db(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "bridge.db", shards=2) as database:
        yield database


def value(payload: bytes, expiry_s: int | None) -> bytes:
    return Envelope(payload, qos=1, message_expiry_s=expiry_s).encode()


def fill(db: topicdb.Database) -> None:
    """Appends five messages of a minute ago: two have expired, and one has no expiry."""
    then = now_us() - 60 * SECOND_US
    for number, expiry_s in enumerate((30, None, 3_660, 0, 4_000_000_000)):
        db.append([("a", then + number, value(b"%d" % number, expiry_s))], raw=True)


def test_what_is_left() -> None:
    then = 1_700_000_000 * SECOND_US
    for passed_us, expected in (
        (0, 60),
        (1, 60),
        (SECOND_US, 59),
        (59 * SECOND_US, 1),
        (60 * SECOND_US - 1, 1),
        (60 * SECOND_US, 0),
        (1 << 60, 0),
        (-5 * SECOND_US, 60),  # the clock was set back
    ):
        assert remaining_s(60, then, then + passed_us) == expected
    assert remaining_s(0, then, then) == 0
    assert remaining_s((1 << 32) - 1, then, then + SECOND_US) == (1 << 32) - 2


def test_it_counts_from_the_reception() -> None:
    now = now_us()
    envelope = Envelope(b"", message_expiry_s=60)
    assert expires_at_us(envelope, now) == now + 60 * SECOND_US
    received = envelope._replace(received=now)  # the timestamp is then the device's own
    assert expires_at_us(received, now - 90 * SECOND_US) == now + 60 * SECOND_US


@needs_mosquitto
@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_a_replay_passes_by_what_has_expired(
    broker: Broker, db: topicdb.Database, protocol: str
) -> None:
    fill(db)
    with Subscriber(broker.port) as subscriber:
        replay = BrokerReplay(
            db,
            host="127.0.0.1",
            port=broker.port,
            protocol=protocol,  # type: ignore[arg-type]
        )
        replay.pause()  # until the messages are counted
        with replay:
            wait_until(lambda: replay.progress().total == 5)
            replay.resume()
            wait_until(lambda: replay.progress().state == "complete")
        wait_until(lambda: len(subscriber.messages) == 3)
    assert subscriber.items == [b"1", b"2", b"4"]
    progress = replay.progress()
    assert (progress.done, progress.expired, progress.total) == (3, 2, 5)
    assert progress.state == "complete" and progress.eta_s == 0.0
    found = [one.properties.get("MessageExpiryInterval") for one in subscriber.messages]
    if protocol == "5":
        assert found[0] is None and 3_500 < found[1] <= 3_600  # type: ignore[operator]
        assert 3_999_999_000 < found[2] <= 3_999_999_940  # type: ignore[operator]
    else:
        assert found == [None] * 3


@needs_mosquitto
def test_or_it_begins_anew(broker: Broker, db: topicdb.Database) -> None:
    fill(db)
    with Subscriber(broker.port) as subscriber:
        replay = BrokerReplay(db, host="127.0.0.1", port=broker.port, expired="send")
        replay.run()
        wait_until(lambda: subscriber.items[-1:] == [b"4"])
    assert replay.progress().expired == 0 and replay.progress().done == 5
    found = [one.properties.get("MessageExpiryInterval") for one in subscriber.messages]
    by_item: dict[bytes, Any] = dict(zip(subscriber.items, found, strict=True))
    assert 0 < by_item[b"0"] <= 30 and 3_600 < by_item[b"2"] <= 3_660
    with pytest.raises(ValueError, match="expired"):
        BrokerReplay(db, host="127.0.0.1", expired="perhaps")  # type: ignore[arg-type]


@needs_mosquitto
def test_the_command_counts_them(broker: Broker, db: topicdb.Database) -> None:
    fill(db)
    command = ["replay", "run", db.path, "--broker", f"127.0.0.1:{broker.port}"]
    assert "2 had expired" in run_here(*command).stdout
    sent = run_here(*command, "--send-expired").stdout
    assert "replayed 5 messages" in sent and "expired" not in sent


@needs_mosquitto
def test_answers_of_history_do_so_too(broker: Broker, db: topicdb.Database) -> None:
    fill(db)
    with Bridge(db, "127.0.0.1", broker.port, history="a/#") as bridge:
        connected(bridge)
        asker = Asker(broker.port)
        try:
            *answers, end = asker.ask("a/#")
        finally:
            asker.close()
        assert [one.payload for one in answers] == [b"1", b"2", b"4"]
        assert asker.users(end)["end"] == "3" and asker.users(end)["expired"] == "2"
        left: Any = answers[1].properties
        assert 3_500 < left.MessageExpiryInterval <= 3_600
        wait_until(lambda: bridge.status().expired == 2)


# Groups


def work(member: topicdb.Member) -> list[bytes]:
    """Acknowledges all that a member gives, and returns the payloads."""
    found: list[bytes] = []
    for batch in batches_of_member(member):
        found += batch.values
        member.ack(batch)
    return found


def test_a_group_gives_nothing_that_has_expired(db: topicdb.Database) -> None:
    fill(db)
    group = db.group("g", "a", parts=1)
    with group.join() as member:
        assert work(member) == [b"1", b"2", b"4"]
        assert group.expired == 2 and group.lag() == 0
        old = now_us() - 60 * SECOND_US
        db.append([("a", old, value(b"old", 1))] * 3, raw=True)
        assert work(member) == [] and group.expired == 5 and group.lag() == 0
        db.append([("a", None, value(b"new", 1_000)), ("a", old, value(b"old", 1))], raw=True)
        assert work(member) == [b"new"] and group.expired == 6
    group.close()
    group = db.group("g", "a", parts=1)
    with group.join() as member:
        assert work(member) == [] and group.expired == 0


def test_what_has_expired_behind_what_is_worked_on_goes_with_it(db: topicdb.Database) -> None:
    """Expired messages do not keep a part from going over to another member."""
    old = now_us() - 60 * SECOND_US
    group = db.group("g", "a", parts=1)
    first = group.join("first")
    db.append([("a", None, value(b"new", 1_000))], raw=True)
    batch = first.poll(timeout=PATIENCE_S)
    db.append([("a", old, value(b"old", 1))], raw=True)
    wait_until(lambda: len(first.poll(timeout=0)) == 0 and group.expired == 1)
    second = group.join("second")
    first.ack(batch)
    first.close()
    assert group.members() == {"second": [0]}
    db.append([("a", None, value(b"next", 1_000))], raw=True)
    assert work(second) == [b"next"] and group.lag() == 0
    second.close()
    group.close()


# Sessions


def packets(session: topicdb.Session) -> list[topicdb.Packet]:
    return [packet for some in packets_of(session, 100) for packet in some]


def payloads(found: list[topicdb.Packet]) -> list[bytes]:
    return [packet.value for packet in found]


def test_a_session_delivers_nothing_that_has_expired(db: topicdb.Database) -> None:
    with db.session("client", expiry="1h") as session:
        session.subscribe("a", 1)
        fill(db)
        found = packets(session)
        assert payloads(found) == [b"1", b"2", b"4"] and session.expired == 2
        assert found[0].message_expiry_s is None
        assert found[1].message_expiry_s is not None
        assert 3_500 < found[1].message_expiry_s <= 3_600
        assert [packet.id for packet in found] == [1, 2, 3]  # an id names no expired message
        session.puback(1)
    # A delivery that has begun is completed, as MQTT demands.
    with db.session("client", expiry="1h") as session:
        again = packets(session)
        assert payloads(again) == [b"2", b"4"] and all(packet.dup for packet in again)
        assert again[0].message_expiry_s is not None and again[0].message_expiry_s <= 3_600
        assert session.expired == 0
