"""Tests of direct messages that no rule promotes: clients that are connected get them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support import PATIENCE_S, wait_until

import topicdb
from topicdb import replay
from topicdb.follow.positions import Place
from topicdb.replay.endpoint import direct
from topicdb.replay.endpoint.direct import DirectMessage, DirectMessages
from topicdb.types import Message

BASE = 1_700_000_000_000_000


@pytest.fixture
def db(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "log.db") as database:
        yield database


@pytest.fixture
def log(db: topicdb.Database) -> Iterator[replay.ReplayLog]:
    with replay.open(db, promote=["logged/#"]) as opened:
        yield opened


def publish(log: replay.ReplayLog, *values: bytes, topic: str = "a/1", qos: int = 0) -> None:
    log.publish([(topic, BASE, value) for value in values], qos=qos)  # type: ignore[arg-type]


def received(flow: replay.Flow) -> replay.ReplayMessage:
    message = flow.receive(timeout=PATIENCE_S)
    assert message is not None
    return message


def values(flow: replay.Flow, count: int) -> list[bytes]:
    found = [received(flow) for _ in range(count)]
    flow.ack(*found)
    return [message.value for message in found]


def counted(endpoint: replay.Endpoint) -> tuple[int, int]:
    counts = endpoint.info()["counts"]
    return counts["direct"], counts["direct_lost"]


def test_they_reach_clients_that_are_bound_and_nobody_else(
    db: topicdb.Database, log: replay.ReplayLog
) -> None:
    queue, alone, other = log.queue("q", "a/#"), log.queue("alone", "#"), log.queue("other", "b")
    with queue.bind() as flow, other.bind() as bystander:
        log.publish([("a/1", BASE, b"x"), ("a/2", None, b"y")], qos=0)
        first, second = received(flow), received(flow)
        assert first[:3] == ("a/1", BASE, b"x") and second[::2] == ("a/2", b"y", False)
        assert second.timestamp > BASE and first.is_direct and first.envelope is None
        assert bystander.receive(timeout=0.05) is None
    with alone.bind() as flow:
        assert flow.receive(timeout=0.05) is None  # it came too late
    assert db.scan("#").count() == 0
    assert log.direct == {"logged": 0, "no rule": 2, "over budget": 0}
    assert [counted(one) for one in (queue, alone, other)] == [(2, 0), (0, 0), (0, 0)]


def test_they_come_behind_what_was_stored_before_them(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#")
    with queue.bind() as flow:
        publish(log, b"0", qos=1)
        publish(log, b"1")
        publish(log, b"2", qos=1)
        rows = [("logged/1", BASE, b"3"), ("a", BASE, b"4"), ("logged/1", BASE, b"5")]
        log.publish([*rows, ("a", BASE, b"6")], qos=0)
        found = [received(flow) for _ in range(7)]
        assert [message.value for message in found] == [b"%d" % n for n in range(7)]
        assert [message.is_direct for message in found] == [n in (1, 4, 6) for n in range(7)]


def test_batches_are_of_one_kind(log: replay.ReplayLog) -> None:
    with log.queue("q", "#").bind() as flow:
        publish(log, b"0", b"1", qos=1)
        publish(log, b"2", b"3")
        publish(log, b"4", qos=2)
        found: list[tuple[bool, list[bytes]]] = []
        while sum(len(one) for _, one in found) < 5:
            batch = flow.receive_batch(10, timeout=PATIENCE_S)
            assert batch is not None and not any(batch.redelivered)
            kinds = {message.is_direct for message in batch}
            assert len(kinds) == 1 and [id.is_stored for id in batch.ids] == [
                not message.is_direct for message in batch
            ]
            found.append((kinds.pop(), batch.batch.values))
            flow.ack(batch)
        assert (True, [b"2", b"3"]) in found
        assert [value for _, one in found for value in one] == [b"%d" % n for n in range(5)]


def test_nothing_of_them_is_acknowledged(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#")
    with queue.bind(window=1) as flow:
        publish(log, b"stored", qos=1)
        stored = received(flow)  # the window is full
        publish(log, b"0", b"1", b"2")
        messages = [received(flow) for _ in range(3)]
        for settle in (flow.ack, flow.release, flow.reject):
            settle(messages[0], messages[1].id)
            settle(messages[0])
        assert len({message.id for message in messages}) == 3
        flow.ack(stored)
        assert flow.receive(timeout=0.05) is None
    counts = queue.info()["counts"]
    assert (counts["acknowledged"], counts["rejected"], counts["direct"]) == (1, 0, 3)


def test_there_is_no_replay_from_one(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#")
    with queue.bind() as flow:
        publish(log, b"x")
        id = received(flow).id
        publish(log, b"y", qos=1)
        assert replay.MessageId.parse(str(id)) == id < received(flow).id
    with pytest.raises(replay.StartMessageUnavailableError, match="direct message"):
        queue.replay(id)


def test_clients_share_them(log: replay.ReplayLog) -> None:
    shared, exclusive = log.queue("s", "#", exclusive=False), log.queue("e", "#")
    flows = [shared.bind(), shared.bind()]
    first, second = exclusive.bind(), exclusive.bind()
    publish(log, *(b"%d" % n for n in range(6)))
    assert [received(flows[n % 2]).value for n in range(6)] == [b"%d" % n for n in range(6)]
    assert second.receive(timeout=0.05) is None
    assert values(first, 6) == [b"%d" % n for n in range(6)]


def test_selectors_and_subscriptions_decide(log: replay.ReplayLog) -> None:
    pytest.importorskip("sqlglot")
    queue = log.queue("q", ["a/#", "b"], exclusive=False)
    endpoint = log.topic_endpoint("t", "a/#", selector="topic = 'a/1'")
    with queue.bind(selector="topic = 'a/2'") as two, endpoint.bind() as one, queue.bind() as rest:
        for topic in ("a/1", "a/2", "b"):
            publish(log, topic.encode(), topic=topic)
        assert received(two).topic == "a/2"
        assert [received(rest).topic for _ in range(2)] == ["a/1", "b"]
        assert received(one).topic == "a/1" and one.receive(timeout=0.05) is None
        queue.unsubscribe("b")
        publish(log, b"x", topic="b")
        publish(log, b"y", topic="a/3")
        assert received(rest).value == b"y"


def test_who_is_too_slow_has_the_newest(
    log: replay.ReplayLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "MESSAGES_MAX", 10)
    queue = log.queue("q", "#")
    with queue.bind() as flow:
        publish(log, *(b"%d" % n for n in range(25)))
        assert values(flow, 10) == [b"%d" % n for n in range(15, 25)]
    assert counted(queue) == (10, 15)


def test_their_bytes_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "BYTES_MAX", 100)
    waiting = DirectMessages(7)
    place = Place(1, 0)

    def message(size: int) -> DirectMessage:
        return DirectMessage(place, Message("t", 1, bytes(size)))

    assert waiting.add([message(49), message(49)]) == 0  # 50 bytes each, with their topic
    assert waiting.add([message(0)]) == 1
    assert waiting.add([message(200)]) == 3  # it is larger than all of the room
    assert waiting.add([message(99)]) == 0 and len(waiting) == 1
    assert waiting.first(None) == place and waiting.first(lambda _: False) is None
    given = waiting.take(5, place, None)
    assert given.ids() == [replay.MessageId(7, 0, 0)] and len(waiting) == 0
    assert waiting.add([message(99)]) == 0
    assert waiting.take(5, place, None).ids() == [replay.MessageId(7, 0, 1)]


def test_they_go_with_the_last_client(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#", exclusive=False)
    one, other = queue.bind(), queue.bind()
    publish(log, b"0", b"1")
    one.close()
    assert values(other, 1) == [b"0"]
    other.close()
    with queue.bind() as flow:
        assert flow.receive(timeout=0.05) is None
    assert counted(queue) == (1, 1)


def test_a_replay_comes_before_them(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#", spool=1)
    publish(log, b"0", b"1", b"2", qos=1)
    queue.replay()
    with queue.bind() as flow:
        publish(log, b"direct")
        publish(log, b"3", qos=1)
        first = received(flow)
        queue.pause_replay()
        flow.ack(first)
        assert flow.receive(timeout=0.05) is None
        queue.resume_replay()
        assert values(flow, 1) == [b"1"] and values(flow, 1) == [b"2"]
        assert values(flow, 1) == [b"direct"] and values(flow, 1) == [b"3"]


def test_a_replay_removes_those_that_wait(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#")
    publish(log, b"0", qos=1)
    flow = queue.bind()
    publish(log, b"waits")
    queue.replay()
    with pytest.raises(replay.ReplayStartedError):
        flow.receive(timeout=PATIENCE_S)
    with queue.bind() as again:
        assert values(again, 1) == [b"0"]
        assert again.receive(timeout=0.05) is None
        wait_until(lambda: queue.state is replay.State.COMPLETE)
        publish(log, b"after")
        assert values(again, 1) == [b"after"]
    assert counted(queue) == (1, 1)


def test_values_come_as_they_were_published(log: replay.ReplayLog) -> None:
    envelope = replay.Envelope(b"payload", qos=0, content_type="text/plain")
    with log.queue("q", "#").bind() as flow:
        log.publish([("a", BASE, envelope.encode())], qos=0, raw=True)
        log.publish([("a", BASE, envelope.encode())], qos=0)
        first, second = received(flow), received(flow)
        assert (first.value, first.envelope) == (b"payload", envelope)
        assert second.value == envelope.encode()
        log.publish([("a", BASE, envelope.encode())] * 2, qos=0, raw=True)
        batch = flow.receive_batch(timeout=PATIENCE_S)
        assert batch is not None and batch.batch.values == [b"payload"] * 2


@pytest.mark.parametrize("topic", ["a/#", "", "$topicdb/x", "+"])
def test_bad_topics_are_refused_and_nothing_is_given(
    db: topicdb.Database, log: replay.ReplayLog, topic: str
) -> None:
    with log.queue("q", "#").bind() as flow:
        rows = [("logged/1", BASE, b""), ("a", BASE, b""), (topic, BASE, b"")]
        with pytest.raises(topicdb.TopicError):
            log.publish(rows, qos=0)
        assert flow.receive(timeout=0.05) is None
    assert db.scan("#").count() == 0


def test_what_cannot_be_logged_is_not_given_either(
    log: replay.ReplayLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with log.queue("q", "#").bind() as flow:
        with monkeypatch.context() as patched:

            def full(*_: object, **__: object) -> None:
                raise topicdb.QuotaError("there is no room")

            patched.setattr(topicdb.Database, "append", full)
            with pytest.raises(topicdb.QuotaError):
                log.publish([("a", BASE, b"x"), ("logged/1", BASE, b"")], qos=0)
        assert flow.receive(timeout=0.05) is None
