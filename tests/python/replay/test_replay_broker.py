"""Tests of replays into a real Mosquitto, which is killed and started again."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from brokers import MOSQUITTO, Broker, free_port, mosquitto
from forwarding import first_arrivals, numbered
from mqtt_clients import SECOND_US, START_US, Subscriber, fill
from support import PATIENCE_S, run_child, wait_until

import topicdb
from topicdb.forward import PermanentError
from topicdb.mqtt.envelope import Envelope
from topicdb.replay.broker.broker import BrokerReplay
from topicdb.replay.broker.link import Outgoing, Target
from topicdb.replay.broker.progress import Tracker
from topicdb.replay.broker.work import BATCH_ROWS
from topicdb.replay.pacing import Pacer, parse_rate

pytestmark = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with mosquitto(tmp_path / "mosquitto") as started:
        yield started


@pytest.fixture
def db(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "db", shards=2) as database:
        yield database


def replay_to(
    broker: Broker, db: topicdb.Database, filter: str = "#", **options: Any
) -> BrokerReplay:
    quick = {"retry_max": 0.1}
    return BrokerReplay(db, filter, host="127.0.0.1", port=broker.port, **{**quick, **options})


# What arrives


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_all_shards_by_time(broker: Broker, db: topicdb.Database, qos: int, protocol: str) -> None:
    items = numbered(2_500)
    fill(db, items[1_000:])
    fill(db, items[:1_000])  # these are committed late
    with Subscriber(broker.port) as subscriber:
        replay = replay_to(broker, db, qos=qos, protocol=protocol)
        replay.run()
        wait_until(lambda: len(subscriber.items) >= len(items))
        assert subscriber.items == items
        assert {message.qos for message in subscriber.messages} == {qos}
        assert [m.topic for m in subscriber.messages] == [f"site/{i % 3}/t" for i in range(2_500)]
    progress = replay.progress()
    assert progress.state == "complete" and progress.done == 2_500 and progress.eta_s == 0.0
    assert progress.position == START_US + 2_499 * 1_000 + 1
    assert (progress.unconfirmed, progress.refused, progress.reconnects) == (0, 0, 0)


ENVELOPE = Envelope(
    payload=b"\x00\xffpayload",
    qos=2,
    retain=True,
    client_id="pump-7",
    payload_format=0,
    message_expiry_s=3600,
    content_type="text/plain",
    response_topic="answers",
    correlation_data=b"\x01\x02",
    user_properties=(("a", "1"), ("a", "2"), ("client-id", "pump-7")),
)
PROPERTIES = {
    "ContentType": "text/plain",
    "ResponseTopic": "answers",
    "CorrelationData": "0102",
    "UserProperty": [("a", "1"), ("a", "2"), ("client-id", "pump-7")],
}


def test_properties_that_a_bridge_has_stored(broker: Broker, db: topicdb.Database) -> None:
    bare = ENVELOPE._replace(
        qos=0,
        retain=False,
        payload_format=None,
        message_expiry_s=None,
        content_type=None,
        response_topic=None,
        correlation_data=None,
        user_properties=(),
    )
    values = [ENVELOPE.encode(), b"as it is", bare.encode()]
    rows = [(f"a/{number}", START_US + number, value) for number, value in enumerate(values)]
    db.append(rows, raw=True)
    with Subscriber(broker.port) as subscriber:
        as_stored: dict[str, Any] = {"mark": False, "expired": "send"}
        replay_to(broker, db, qos=None, retain=None, **as_stored).run()
        wait_until(lambda: len(subscriber.messages) >= 3)
        replay_to(broker, db, **as_stored).run()
        replay_to(broker, db, retain=True, protocol="3.1.1", **as_stored).run()
        wait_until(lambda: len(subscriber.messages) >= 9)
    # Messages of QoS 2 arrive a little later.
    messages = sorted(subscriber.messages[:3]) + subscriber.messages[3:]
    payloads = [b"\x00\xffpayload", b"as it is", b"\x00\xffpayload"]
    assert [message.payload for message in messages] == payloads * 3
    flags = [(message.qos, message.retain) for message in messages]
    assert flags == [(2, True), (1, False), (0, False)] + [(1, False)] * 3 + [(1, True)] * 3
    found = [message.properties for message in messages]
    for full in (found[0], found[3]):
        assert 3590 <= full.pop("MessageExpiryInterval") <= 3600  # the broker counts it down
        assert full.pop("PayloadFormatIndicator", 0) == 0
        assert full == PROPERTIES
    assert not any(found[number] for number in (1, 2, 4, 5, 6, 7, 8))


def test_a_part_under_other_names(broker: Broker, db: topicdb.Database) -> None:
    fill(db, numbered(30))
    db.append([("other", START_US, b"no")])
    with Subscriber(broker.port) as subscriber:
        replay_to(
            broker,
            db,
            "site/#",
            start=START_US + 10_000,
            end=START_US + 20_000,
            remap={"site/0/#": "test/zero/#", "site/+/t": "test/{1}"},
        ).run()
        replay_to(broker, db, "other", remap=str.upper).run()
        replay_to(broker, db, "nothing").run()
        wait_until(partial(subscriber.has, b"no"))
    names = ["test/zero/t", "test/1", "test/2"]
    expected = [(names[number % 3], b"%d" % number) for number in range(10, 20)]
    assert [(m.topic, m.payload) for m in subscriber.messages] == [*expected, ("OTHER", b"no")]


# When it arrives


def test_gaps_are_kept(broker: Broker, db: topicdb.Database) -> None:
    fill(db, numbered(3), gap_us=3_600 * SECOND_US)
    with Subscriber(broker.port) as subscriber:
        replay = replay_to(broker, db, rate="1x")
        with replay:
            wait_until(partial(subscriber.has, b"0"))
            wait_until(lambda: replay.progress().done == 1 and replay.progress().total == 3)
            wait_until(lambda: replay.progress().state == "replaying")
            eta_s = replay.progress().eta_s
            assert eta_s is not None
            assert 3_600 < eta_s <= 7_200
            assert subscriber.items == [b"0"]
            replay.set_rate("1000000x")
            wait_until(lambda: replay.progress().state == "complete")
        wait_until(partial(subscriber.has, b"2"))
        assert subscriber.items == numbered(3)


def test_a_pause(broker: Broker, db: topicdb.Database) -> None:
    fill(db, numbered(2_000))
    # The rate is low so that the replay does not end before the pause.
    with Subscriber(broker.port) as subscriber, replay_to(broker, db, rate=50) as replay:
        wait_until(lambda: len(subscriber.items) >= 20)
        replay.pause()
        wait_until(lambda: replay.progress().state == "paused")
        wait_until(lambda: replay.progress().unconfirmed == 0)
        wait_until(lambda: replay.progress().total == 2_000)  # counted in the background
        before = replay.progress()
        time.sleep(0.3)
        assert replay.progress()._replace(per_s=0) == before._replace(per_s=0)
        assert before.eta_s is None and before.done < 2_000
        assert before.position == START_US + before.done * 1_000
        replay.set_rate("max")
        replay.resume()
        assert replay.wait(PATIENCE_S)
        wait_until(partial(subscriber.has, b"1999"))
        assert subscriber.items == numbered(2_000)


def test_seek(broker: Broker, db: topicdb.Database) -> None:
    fill(db, numbered(1_000), gap_us=SECOND_US)
    with Subscriber(broker.port) as subscriber:
        replay = replay_to(broker, db, start=START_US + 500 * SECOND_US, rate="1x")
        with replay:
            wait_until(partial(subscriber.has, b"500"))
            replay.seek(START_US + 900 * SECOND_US - 1)
            wait_until(partial(subscriber.has, b"900"))
            replay.pause()
            replay.seek(START_US + 100 * SECOND_US)  # during a pause, to a time before ``start``
            wait_until(lambda: replay.progress().position == START_US + 100 * SECOND_US)
            assert replay.progress().done == 0
            wait_until(lambda: replay.progress().total == 900)
            replay.set_rate("max")
            replay.resume()
            wait_until(lambda: replay.progress().state == "complete")
        wait_until(partial(subscriber.has, b"999"))
        found = [int(item) for item in subscriber.items]
        assert found[:1] == [500] and found[-900:] == list(range(100, 1_000))
        assert 900 in found[:-900] and 899 not in found[:-900]
        replay.seek(START_US + 998 * SECOND_US)
        assert replay.progress().position == START_US + 998 * SECOND_US
        replay.run()
        wait_until(lambda: len(subscriber.items) == len(found) + 2)
        assert subscriber.items[-2:] == [b"998", b"999"]
    with pytest.raises(ValueError, match="end of the replay"):
        replay_to(broker, db, end=START_US).seek(START_US)


def test_it_goes_on_where_it_was_stopped(broker: Broker, db: topicdb.Database) -> None:
    items = numbered(3_000)
    fill(db, items)
    with Subscriber(broker.port) as subscriber:
        # The rate is low so that the replay does not end before it is stopped.
        replay = replay_to(broker, db, rate=200, unconfirmed_max=50)
        replay.start()
        with pytest.raises(RuntimeError, match="runs already"):
            replay.run()
        wait_until(partial(subscriber.has, b"200"))
        assert replay.stop()
        first = replay.progress()
        assert first.state == "stopped" and 200 < first.done < 3_000
        assert first.position == START_US + first.done * 1_000
        wait_until(lambda: len(subscriber.items) == first.done)
        replay.set_rate("max")
        replay.start()
        assert replay.wait(PATIENCE_S) and replay.progress().state == "complete"
        assert replay.progress().done == 3_000 - first.done
        wait_until(partial(subscriber.has, items[-1]))
        assert subscriber.items == items
        assert replay.stop() and replay.wait(0)
        replay.run()  # starts from the beginning
        wait_until(lambda: len(subscriber.items) == 6_000)
        assert subscriber.items == items * 2


def test_messages_of_one_time_are_not_passed_over(broker: Broker, db: topicdb.Database) -> None:
    """It is stopped behind a batch, and the next one begins with the same timestamp."""
    items = numbered(BATCH_ROWS + 500)
    db.append([(f"a/{number % 7}", START_US, item) for number, item in enumerate(items)])
    taken: list[str] = []

    def stops(topic: str) -> str:
        taken.append(topic)
        if len(taken) == BATCH_ROWS:
            broker.hang()  # so that it confirms nothing before the replay has seen the request
            replay.stop(PATIENCE_S)  # in the replay's thread, as in a signal handler
        return topic

    with Subscriber(broker.port) as subscriber:
        replay = replay_to(broker, db, remap=stops)
        replay.start()
        wait_until(lambda: replay.progress().done + replay.progress().unconfirmed == BATCH_ROWS)
        broker.process.send_signal(signal.SIGCONT)
        assert replay.wait(PATIENCE_S)
        first = replay.progress()
        assert (first.state, first.done) == ("stopped", BATCH_ROWS)
        assert first.position == START_US
        replay.run()
        last = replay.progress()
        assert (last.state, last.done) == ("complete", len(items))
        assert last.position == START_US + 1
        wait_until(lambda: len(subscriber.items) >= BATCH_ROWS + len(items))
        assert set(subscriber.items) == set(items)


# Brokers that fail


@pytest.mark.parametrize("qos", [1, 2])
def test_a_broker_killed_in_the_middle_loses_nothing(
    broker: Broker, db: topicdb.Database, tmp_path: Path, qos: int
) -> None:
    items = numbered(4_500)
    fill(db, items)
    # With QoS 2 the subscriber would wait for PUBREL, which a killed Mosquitto forgets.
    with Subscriber(broker.port, qos=1) as subscriber:
        broker.process.send_signal(signal.SIGUSR1)  # has Mosquitto write its sessions to disk
        wait_until((tmp_path / "mosquitto" / "mosquitto.db").exists)
        # The rate is low so that the replay does not end before the last kill.
        with replay_to(broker, db, qos=qos, rate=500, unconfirmed_max=100) as replay:
            for kills in range(3):
                # The kill comes only while the subscriber is connected; LastingSubscriber says why.
                wait_until(partial(subscriber.has, items[1_000 * kills + 300]))
                broker.kill_when_sent()
                wait_until(lambda: replay.progress().state == "retrying")
                assert replay.progress().last_error
                broker.start()
                wait_until(partial(subscriber.was_connected, kills + 2))
            replay.set_rate("max")
            assert replay.wait(PATIENCE_S) and replay.progress().state == "complete"
        wait_until(partial(subscriber.has, items[-1]))
        progress = replay.progress()
        assert progress.reconnects >= 3 and progress.done == 4_500
    assert first_arrivals(subscriber.items) == items


def test_nobody_listens_at_first(broker: Broker, db: topicdb.Database) -> None:
    fill(db, numbered(10))
    broker.kill()
    with replay_to(broker, db) as replay:
        wait_until(lambda: replay.progress().state == "retrying")
        assert "refused" in str(replay.progress().last_error)
        assert replay.progress().position == 0 and replay.progress().done == 0
        other = replay_to(broker, db)
        other.start()
        wait_until(lambda: other.progress().state == "retrying")
        assert other.stop() and other.progress().state == "stopped"
        broker.start()
        wait_until(lambda: replay.progress().state == "complete")
    assert replay.progress().done == 10


def test_it_may_give_up(db: topicdb.Database) -> None:
    fill(db, numbered(10))
    replay = BrokerReplay(
        db, host="127.0.0.1", port=free_port(), start=START_US, give_up_after=0.2, retry_max=0.05
    )
    with pytest.raises(ConnectionRefusedError):
        replay.run()
    assert replay.progress().state == "failed" and replay.progress().position == START_US


def test_what_is_wrong_with_the_database_is_not_tried_again(
    broker: Broker, db: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CorruptionError is an OSError, but no failure of the broker."""

    def damaged(self: object) -> bool:
        raise topicdb.CorruptionError("a page is damaged")

    fill(db, numbered(3))
    monkeypatch.setattr("topicdb.replay.broker.work._Source.has_more", damaged)
    replay = replay_to(broker, db, give_up_after=None)
    with pytest.raises(topicdb.CorruptionError, match="damaged"):
        replay.run()
    assert replay.progress().state == "failed" and replay.progress().done == 0


def test_a_broker_that_hangs_does_not_hold_up_stop(broker: Broker, db: topicdb.Database) -> None:
    items = numbered(1_000)
    fill(db, items)
    with Subscriber(broker.port) as subscriber:
        # The rate is low so that not all is sent before the broker hangs.
        replay = replay_to(broker, db, unconfirmed_max=20, rate=100)
        replay.start()
        wait_until(partial(subscriber.has, b"20"))
        broker.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: replay.progress().unconfirmed == 20)
        assert not replay.stop(timeout=0.1)
        stopped = replay.progress()
        assert stopped.state == "stopped" and stopped.position == START_US + stopped.done * 1_000
        broker.process.send_signal(signal.SIGCONT)
        replay_to(broker, db, start=stopped.position).run()
        wait_until(partial(subscriber.has, items[-1]))
    assert first_arrivals(subscriber.items) == items


def test_it_keeps_to_what_the_broker_can_take(db: topicdb.Database, tmp_path: Path) -> None:
    """Mosquitto ends a connection that sends more messages at once, or a larger one."""
    fill(db, numbered(300))
    db.append([("big", START_US + 100_500, b"x" * 1_000)])
    limits = ["max_inflight_messages 7", "max_packet_size 1000"]
    with mosquitto(tmp_path / "mosquitto", *limits) as broker:
        replay = replay_to(broker, db)
        with pytest.raises(PermanentError, match=r"'big', timestamp 1700000000100500.*'skip'"):
            replay.run()
        failed = replay.progress()
        assert failed.state == "failed" and failed.done == 101
        assert failed.position == START_US + 100_500
        skipping = replay_to(broker, db, refused="skip", qos=2)
        skipping.run()
        progress = skipping.progress()
        assert (progress.done, progress.refused, progress.reconnects) == (300, 1, 0)


@pytest.mark.parametrize("qos", [1, 2])
def test_what_is_not_authorized_is_retried(db: topicdb.Database, tmp_path: Path, qos: int) -> None:
    fill(db, numbered(5))
    directory = tmp_path / "mosquitto"
    directory.mkdir()
    rules = directory / "acl"
    rules.write_text("topic read #\n")
    # Without a limit of queued messages, Mosquitto 2.0.11 disconnects unauthorized clients.
    with mosquitto(directory, f"acl_file {rules}", "max_queued_messages 1000") as broker:
        with replay_to(broker, db, refused="skip", qos=qos) as replay:
            wait_until(lambda: replay.progress().reconnects > 1)
            assert "Not authorized" in str(replay.progress().last_error)
            rules.write_text("topic readwrite #\n")
            broker.process.send_signal(signal.SIGHUP)
            wait_until(lambda: replay.progress().state == "complete")
        assert (replay.progress().done, replay.progress().refused) == (5, 0)


def test_properties_that_cannot_be_sent(db: topicdb.Database, tmp_path: Path) -> None:
    """One message is too large with its properties; one has a text that no packet can hold."""
    fill(db, numbered(10))
    large = ENVELOPE._replace(user_properties=(("a", "x" * 1_000),))
    wrong = ENVELOPE._replace(content_type="x" * 70_000)
    db.append(
        [("large", START_US + 100, large.encode()), ("wrong", START_US + 1, wrong.encode())],
        raw=True,
    )
    with mosquitto(tmp_path / "mosquitto", "max_packet_size 1000") as broker:
        for limits in (0, 1):
            replay = replay_to(
                broker, db, start=START_US + 2 * limits, end=START_US + 1_000, expired="send"
            )
            with pytest.raises(PermanentError, match=["'wrong', time", "'large', time"][limits]):
                replay.run()
        replay = replay_to(broker, db, refused="skip", expired="send")
        replay.run()
        progress = replay.progress()
        assert (progress.done, progress.refused, progress.reconnects) == (10, 2, 0)


def test_what_cannot_be_sent_holds_no_place_of_what_is_on_its_way(broker: Broker) -> None:
    target = Target("127.0.0.1", broker.port, topic="-")
    wrong = ENVELOPE._replace(content_type="x" * 70_000, message_expiry_s=None)
    link = target.connect()
    try:
        message = Outgoing(START_US, "a", wrong, 1, False, None, True)
        link.send(message)
        assert isinstance(message.error, PermanentError)
        assert not link._client._out_messages and link._client._inflight_messages == 0
    finally:
        link.close()


# What else may end a replay


def test_a_name_that_cannot_be_given_loses_nothing(broker: Broker, db: topicdb.Database) -> None:
    items = numbered(20)
    fill(db, items)
    names = {"site/0/t": "zero"}

    def naming(topic: str) -> str:
        return names[topic]

    with Subscriber(broker.port) as subscriber:
        replay = replay_to(broker, db, remap=naming)
        with pytest.raises(KeyError, match="site/1/t"):
            replay.run()
        assert replay.progress().state == "failed" and "site/1/t" in str(
            replay.progress().last_error
        )
        names.update({"site/1/t": "one", "site/2/t": "two"})
        replay.run()
        wait_until(partial(subscriber.has, items[-1]))
        assert first_arrivals(subscriber.items) == items


def test_a_database_that_is_closed(broker: Broker, tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "closing") as db:
        fill(db, numbered(5_000))
        replay = replay_to(broker, db, rate=100)
        replay.start()
        wait_until(lambda: replay.progress().done > 0)
    replay.set_rate("max")
    assert replay.wait(PATIENCE_S)
    progress = replay.progress()
    assert progress.state in ("failed", "complete")
    assert progress.state == "complete" or "closed" in str(progress.last_error)


def test_a_program_that_ends_without_stop(broker: Broker, db: topicdb.Database) -> None:
    fill(db, numbered(10), gap_us=3_600 * SECOND_US)
    code = """
        import sys, time, topicdb
        from topicdb.replay.broker.broker import BrokerReplay
        db = topicdb.open(sys.argv[1], mode="r")
        replay = BrokerReplay(db, host="127.0.0.1", port=int(sys.argv[2]), rate="1x")
        replay.start()
        while replay.progress().done == 0:
            time.sleep(0.01)
        print(replay.progress().done)
    """
    assert run_child(code, db.path, broker.port) == "1\n"


@pytest.mark.parametrize(
    ("options", "error", "why"),
    [
        ({"filter": "a/#/b"}, topicdb.TopicError, "a/#/b"),
        ({"start": "soon"}, ValueError, "start"),
        ({"end": 1.5}, TypeError, "end"),
        ({"rate": "fast"}, ValueError, "rate"),
        ({"qos": 3}, ValueError, "qos"),
        ({"retain": "yes"}, ValueError, "retain"),
        ({"refused": "drop"}, ValueError, "refused"),
        ({"remap": {"a": "b/+"}}, ValueError, "remap a=b/"),
        ({"remap": "a=b"}, TypeError, "remap"),
        ({"protocol": "3"}, ValueError, "protocol"),
        ({"unconfirmed_max": 0}, ValueError, "unconfirmed_max"),
        ({"retry_max": None}, ValueError, "retry_max"),
        ({"give_up_after": -1}, ValueError, "give_up_after"),
    ],
)
def test_what_cannot_be(
    db: topicdb.Database, options: dict[str, Any], error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        BrokerReplay(db, **{"host": "127.0.0.1", **options})


def test_of_one_that_has_not_begun(db: topicdb.Database) -> None:
    replay = BrokerReplay(db, "a/#", host="127.0.0.1", start=START_US)
    assert replay.stop() and replay.wait(0)
    progress = replay.progress()
    assert (progress.state, progress.position, progress.total) == ("stopped", START_US, None)
    assert repr(replay) == "<topicdb.BrokerReplay of 'a/#' to 127.0.0.1:1883: stopped>"
    for wrong in (replay.seek, replay.set_rate):
        with pytest.raises(ValueError, match="soon"):
            wrong("soon")


# Figures, with a clock of the test


def test_what_progress_tells() -> None:
    now_s = 100.0

    def clock() -> float:
        return now_s

    tracker = Tracker(START_US, clock)
    fast, slow, timed = (Pacer(parse_rate(rate), clock) for rate in ("max", "10/s", "2x"))
    assert timed.allowed(np.array([START_US])) == (1, 0.0)
    tracker.enter("replaying")
    assert tracker.progress(fast).eta_s is None
    tracker.counted(1_000, START_US + 100 * SECOND_US)
    assert tracker.progress(fast).eta_s is None
    assert tracker.progress(slow).eta_s == pytest.approx(100)
    for second in range(1, 11):
        now_s += 1
        tracker.moved(START_US + second * SECOND_US, 10 if second <= 5 else 20, 3)
    progress = tracker.progress(fast)
    assert (progress.done, progress.total, progress.unconfirmed) == (150, 1_000, 3)
    assert progress.per_s == pytest.approx(20) and progress.elapsed_s == pytest.approx(10)
    assert progress.eta_s == pytest.approx(850 / 20)
    assert tracker.progress(slow).eta_s == pytest.approx(85)
    assert tracker.progress(timed).eta_s == pytest.approx(40)
    tracker.enter("paused")
    now_s += 1_000
    paused = tracker.progress(timed)
    assert paused.eta_s is None and paused.elapsed_s == pytest.approx(10)
    tracker.enter("complete", OSError("x"))
    complete = tracker.progress(fast)
    assert complete.eta_s == 0.0 and complete.per_s == pytest.approx(15)
    assert complete.last_error == "x"
    tracker.begin(7)
    assert tracker.progress(fast)[1:4] == (7, 0, None)
