"""Tests of messages that were dropped before they came to an endpoint, or to a replay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support import PATIENCE_S, wait_until

import topicdb
from topicdb import replay
from topicdb.replay.endpoint.reading import AHEAD_ROWS

BASE = 1_700_000_000_000_000
COMMIT = 10_000
COUNT = AHEAD_ROWS + 2 * COMMIT  # more than an endpoint reads ahead


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


def opened(path: Path) -> topicdb.Database:
    return topicdb.open(path, retention={"a/#": None, "#": None}, maintenance_interval=None)


def fill(db: topicdb.Database) -> None:
    """Stores ``COUNT`` messages in commits of ``COMMIT``."""
    for first in range(0, COUNT, COMMIT):
        db.append([("a/1", BASE + i, b"%d" % i) for i in range(first, first + COMMIT)])


def drop(db: topicdb.Database) -> None:
    """Drops all messages of the class, and stores one more."""
    db.rotate()
    for slab in db.slabs():
        if slab.retention_class == "a/#" and slab.read_only:
            db.drop_slab(slab)
    db.append([("a/1", BASE + COUNT, b"last")])


def has_read_ahead(endpoint: replay.Endpoint) -> None:
    """Waits until the endpoint has read ahead as far as it does."""
    contents = endpoint._parts.contents

    def is_full() -> bool:
        reader = contents._reader
        return reader is not None and reader._core.info()["state"] == "full"

    wait_until(is_full)


def rest(flow: replay.Flow) -> Iterator[bytes]:
    """Acknowledges messages up to the last one, and gives their values."""
    value = b""
    while value != b"last":
        batch = flow.receive_batch(timeout=PATIENCE_S)
        assert batch is not None
        *_, value = values = batch.batch.values
        yield from values
        flow.ack(batch)


def told(log: replay.ReplayLog, endpoint: str) -> int:
    return sum("dropped by retention" in e.text for e in log.events() if e.endpoint == endpoint)


@pytest.mark.parametrize("has_older", [False, True])
def test_what_retention_drops_under_an_endpoint_is_counted_and_told_once(
    path: Path, has_older: bool
) -> None:
    with opened(path) as db, replay.open(db) as log:
        if has_older:
            db.append([("b/1", BASE, b"in another class")])
        queue, calm = log.queue("q", "a/#", spool=10), log.queue("calm", "b/#")
        fill(db)
        has_read_ahead(queue)
        drop(db)
        log.maintain()
        with queue.bind() as flow:
            came = len(list(rest(flow))) - 1
        assert AHEAD_ROWS <= came < COUNT
        lost = queue.info()["counts"]["lost"]
        assert COUNT - came <= lost < COUNT - came + COMMIT  # a commit counts as a whole
        assert told(log, "q") == 1
        queue.subscribe("c/#")  # which reads on from there
        db.append([("a/1", BASE, b"last")])
        with queue.bind() as flow:
            assert list(rest(flow)) == [b"last"]
        assert queue.info()["counts"]["lost"] == lost and told(log, "q") == 1
        assert calm.info()["counts"]["lost"] == told(log, "calm") == 0
    with opened(path) as db, replay.open(db) as log:
        db.append([("a/1", BASE, b"last")])
        with log.endpoint("q").bind() as flow:
            assert list(rest(flow)) == [b"last"]
        assert log.endpoint("q").info()["counts"]["lost"] == lost


def test_what_was_dropped_while_the_log_was_closed_is_counted(path: Path) -> None:
    with opened(path) as db:
        with replay.open(db) as log:
            log.queue("q", "a/#")
        db.append([("a/1", BASE + i, b"%d" % i) for i in range(10)])
        drop(db)
        with replay.open(db) as log:
            with log.endpoint("q").bind() as flow:
                assert list(rest(flow)) == [b"last"]
            assert log.endpoint("q").info()["counts"]["lost"] == 10 and told(log, "q") == 1


@pytest.mark.parametrize("has_older", [False, True])
def test_a_replay_fails_when_it_comes_to_what_retention_has_dropped(
    path: Path, has_older: bool
) -> None:
    with opened(path) as db, replay.open(db) as log:
        queue, calm = log.queue("q", "#", spool=10), log.queue("calm", "b/#", spool=10)
        if has_older:
            db.append([("b/1", BASE, b"in another class")])
        fill(db)
        queue.replay()
        calm.replay()
        has_read_ahead(queue)
        drop(db)
        log.maintain()
        flow = queue.bind()
        with pytest.raises(replay.MessageUnavailableError, match="dropped by retention"):
            list(rest(flow))
        flow.close()
        with queue.bind() as flow:
            assert list(rest(flow)) == [b"last"]  # it came after the replay had begun
        assert queue.info()["counts"]["lost"] == 0
        with calm.bind() as flow:
            for _ in range(has_older):
                message = flow.receive(timeout=PATIENCE_S)
                assert message is not None
                flow.ack(message)
            wait_until(lambda: calm.state is replay.State.COMPLETE)


def test_a_replay_begun_after_a_drop_misses_nothing(path: Path) -> None:
    with opened(path) as db, replay.open(db) as log:
        db.append([("b/1", BASE, b"b")])
        queue = log.queue("q", "#")
        db.append([("a/1", BASE, b"a")])
        drop(db)
        queue.replay()
        with queue.bind() as flow:
            assert list(rest(flow)) == [b"b", b"last"]
        wait_until(lambda: queue.state is replay.State.COMPLETE)
        assert queue.info()["counts"]["lost"] == 0


@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_replay_does_not_miss_what_was_trimmed_and_is_not_of_it(
    path: Path, is_reopened: bool
) -> None:
    with opened(path) as db:
        log = replay.open(db)
        queue = log.queue("q", "a/#", spool=1)
        db.append([("a/1", BASE, b"first")])
        log.ingress = False
        fill(db)  # not logged, so not replayed
        log.ingress = True
        log.trim(BASE)  # nothing; but what is there by now can be dropped as a whole
        log.publish([("a/1", BASE + 2 * COUNT, b"last")])
        queue.replay()
        has_read_ahead(queue)
        with queue.bind() as flow:
            first = flow.receive(timeout=PATIENCE_S)
            assert first is not None and first.value == b"first"
            queue.pause_replay()
            flow.ack(first)
        assert log.trim(BASE + 2 * COUNT) > 0
        if is_reopened:
            log.close()
            log = replay.open(db)
            queue = log.endpoint("q")
        queue.resume_replay()
        with queue.bind() as flow:
            assert list(rest(flow)) == [b"last"]
        wait_until(lambda: queue.state is replay.State.COMPLETE)
        assert queue.info()["counts"]["lost"] == 0
        log.close()
