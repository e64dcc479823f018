"""Tests of what an endpoint reads again after a restart: only what was not done with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import PATIENCE_S, wait_until

import topicdb
from topicdb import replay


@pytest.fixture
def db(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "log.db") as database:
        yield database


def publish(log: replay.ReplayLog, *values: int) -> None:
    log.publish([("a/1", None, b"%d" % value) for value in values])


def receive(flow: replay.Flow, count: int) -> list[replay.ReplayMessage]:
    found = [flow.receive(timeout=PATIENCE_S) for _ in range(count)]
    return [message for message in found if message is not None]


def reaches(queue: replay.Endpoint, state: replay.State) -> None:
    wait_until(lambda: queue.state is state)


def left(queue: replay.Endpoint) -> list[bytes]:
    """Returns what is at the endpoint once it has read everything, and acknowledges it."""
    wait_until(lambda: queue.step() and queue.lag() == 0)
    with queue.bind() as flow:
        found = receive(flow, queue.info()["messages"])
        flow.ack(*found)
    return [message.value for message in found]


def hold_first(log: replay.ReplayLog, *, is_replay: bool = False) -> replay.Endpoint:
    """Returns a queue that holds the first of ten messages; a client had all and has done nine."""
    queue = log.queue("q", "a/#")
    publish(log, *range(10))
    if is_replay:
        queue.replay()
    with queue.bind() as flow:
        flow.ack(*receive(flow, 10)[1:])
    return queue


@pytest.mark.parametrize(
    "change",
    [lambda queue: queue.subscribe("b/#"), lambda queue: queue.unsubscribe("a/#"), lambda _: None],
    ids=["subscribe", "unsubscribe", "nothing"],
)
def test_a_change_right_after_a_restart_brings_nothing_back(
    db: topicdb.Database, change: Callable[[replay.Endpoint], None]
) -> None:
    with replay.open(db) as log:
        hold_first(log)
    with replay.open(db) as log:
        change(log.endpoint("q"))
    with replay.open(db) as log:
        log.endpoint("q").subscribe("c/#")
        assert left(log.endpoint("q")) == [b"0"]
    with replay.open(db) as log:
        publish(log, 10)
        expected = [b"10"] if "a/#" in log.endpoint("q").subscriptions else []
        assert left(log.endpoint("q")) == expected


def test_a_restart_before_all_was_read_again_brings_nothing_back(db: topicdb.Database) -> None:
    with replay.open(db) as log:
        queue = log.queue("q", "a/#", spool=5)
        publish(log, *range(20))
        queue.replay()
        with queue.bind() as flow:
            flow.ack(*receive(flow, 5)[1:])
            queue.pause_replay()  # so that the next one reads nothing again
    for _ in range(2):
        with replay.open(db) as log:
            reaches(log.endpoint("q"), replay.State.ACTIVE)
    with replay.open(db) as log, log.endpoint("q").bind() as flow:
        log.endpoint("q").resume_replay()
        found: list[int] = []
        while len(found) < 16:
            (message,) = receive(flow, 1)
            found.append(int(message.value))
            flow.ack(message)
        assert found == [0, *range(5, 20)]


def test_a_replay_cancelled_right_after_a_restart_brings_nothing_back(
    db: topicdb.Database,
) -> None:
    with replay.open(db) as log:
        queue = hold_first(log, is_replay=True)
        reaches(queue, replay.State.PENDING_COMPLETE)
        with queue.bind() as flow:
            replayed = receive(flow, 1)
            publish(log, 10, 11, 12)
            live = receive(flow, 3)
            assert [message.value for message in replayed + live] == [b"0", b"10", b"11", b"12"]
            flow.ack(live[0], live[2])
    with replay.open(db) as log:
        log.endpoint("q").cancel_replay()
        assert left(log.endpoint("q")) == [b"11"]  # the replayed message is gone, too
