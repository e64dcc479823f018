"""Tests of the room at an endpoint: only messages that are not done with take it up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support import PATIENCE_S

import topicdb
from topicdb import replay

COMMITS = 20
ROOM = 1 << 20


@pytest.fixture
def db(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "log.db") as database:
        yield database


def messages(flow: replay.Flow) -> Iterator[replay.ReplayMessage]:
    while True:
        message = flow.receive(timeout=PATIENCE_S)
        assert message is not None
        yield message


def value_of(commit: int, row: int, size: int) -> bytes:
    return b"%03d %03d" % (commit, row) + b"x" * size


@pytest.mark.parametrize("kept", ["the first, as large as the others", "many small ones"])
def test_few_messages_without_an_acknowledgement_do_not_fill_an_endpoint(
    db: topicdb.Database, kept: str
) -> None:
    sizes = [20_000] * 20 if kept.startswith("the first") else [5] * 30 + [16_000] * 25
    first = 1 if kept.startswith("the first") else 30  # the first row that is acknowledged at once
    expected = [
        value_of(commit, row, size) for commit in range(COMMITS) for row, size in enumerate(sizes)
    ]
    with replay.open(db) as log:
        queue = log.queue("q", "a/#", spool_bytes=ROOM)
        for commit in range(COMMITS):
            rows = [value_of(commit, row, size) for row, size in enumerate(sizes)]
            log.publish([("a/1", None, value) for value in rows])
        held: list[replay.ReplayMessage] = []
        with queue.bind() as flow:
            for value, message in zip(expected, messages(flow), strict=False):
                assert message.value == value
                if int(value[4:7]) < first:
                    held.append(message)
                else:
                    flow.ack(message)
            assert queue.info()["messages"] == len(held)
            flow.ack(held[0])
            flow.release(*held[1:])
            for sent in held[1:]:
                again = next(messages(flow))
                assert again == sent._replace(redelivered=True)
        assert [one.value for one in queue.browse()] == [one.value for one in held[1:]]
    with replay.open(db) as log, log.endpoint("q").bind() as flow:
        for sent in held[1:]:
            again = next(messages(flow))
            assert again == sent._replace(redelivered=True)
            flow.ack(again)
        assert log.endpoint("q").info()["messages"] == 0


def test_a_batch_of_which_a_part_is_done_with_is_acknowledged_as_a_whole(
    db: topicdb.Database,
) -> None:
    with replay.open(db) as log:
        queue = log.queue("q", "a/#", exclusive=False)
        log.publish([("a/1", None, b"%d" % n) for n in range(10)])
        with queue.bind() as one, queue.bind() as other:
            first = one.receive_batch(6, timeout=PATIENCE_S)
            assert first is not None
            one.ack(*first.ids[:5])
            last = other.receive_batch(4, timeout=PATIENCE_S)
            assert last is not None
            with queue._parts.lock:
                queue._parts.contents.spool.pack()
            assert [m.value for m in first] == [b"%d" % n for n in range(6)]
            assert [m.value for m in last] == [b"%d" % n for n in range(6, 10)]
            other.ack(last)
            with pytest.raises(ValueError, match="done with"):
                one.ack(first)
            one.release(first.ids[5])
            message = other.receive(timeout=PATIENCE_S)
            assert message is not None and (message.value, message.redelivered) == (b"5", True)
            other.ack(message)
        assert queue.info()["messages"] == queue.info()["bytes"] == 0
