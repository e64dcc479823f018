"""Replay logs that earlier releases have stored go on.

tests/data/make_golden_replay.py made them.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import PATIENCE_S, wait_until

import topicdb
from topicdb import replay

DATA = Path(__file__).resolve().parents[2] / "data"
BASE = 1_700_000_000_000_000


@pytest.fixture(params=["replay", "replay-letters"])
def opened(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[str, topicdb.Database]]:
    """Which one it is, and the database, open for writing."""
    with zipfile.ZipFile(DATA / "v1" / f"{request.param}.zip") as archive:
        archive.extractall(tmp_path / "db")
    with topicdb.open(tmp_path / "db") as db:
        yield request.param, db


def received(flow: replay.Flow, count: int) -> list[tuple[bytes, bool]]:
    found = []
    for _ in range(count):
        message = flow.receive(timeout=PATIENCE_S)
        assert message is not None
        found.append((message.value, message.redelivered))
        flow.ack(message)
    return found


def numbers(*values: int) -> list[bytes]:
    return [b"%d" % value for value in values]


def test_the_rules_are_as_they_were(opened: tuple[str, topicdb.Database]) -> None:
    name, db = opened
    with replay.open(db) as log:
        assert (log.quota_bytes, log.ingress, log.egress) == (1 << 30, True, True)
        assert log._record.promote == [replay.Promotion("b"), replay.Promotion("a/#", 5, 1_000)]
        assert len(log._record.eras) == 3
        assert log.temporary_replays is (name == "replay-letters")
        assert [one.name for one in log.endpoints()] == ["again", "orders", "shared"]
        info = log.endpoint("orders").info()
        wanted = ("$dead", "remove") if name == "replay-letters" else (None, "give")
        assert (info["dead_letter"], info["expired"]) == wanted
        assert info["counts"]["acknowledged"] == 3
        assert info["counts"]["rejected"] == (name == "replay-letters")
    with replay.open(db, "night/shift") as log:
        assert (log.include, log.exclude, log.egress) == (("a/#",), ("a/x",), False)


def test_what_endpoints_held_is_there(opened: tuple[str, topicdb.Database]) -> None:
    name, db = opened
    with replay.open(db) as log:
        orders, shared = log.endpoint("orders"), log.endpoint("shared")
        assert orders.subscriptions == ["a/#"]
        with pytest.raises(topicdb.AccessError, match="others may read"):
            orders.bind(client="another")
        left = [2, *range(4 if name == "replay" else 5, 20)]
        with orders.bind(client="till") as flow:
            found = received(flow, len(left))
            assert [value for value, _ in found] == numbers(*left)
            assert found[0][1] and not found[-1][1]
            assert flow.receive(timeout=0.05) is None
        with shared.bind() as flow:
            assert [value for value, _ in received(flow, 10)] == numbers(*range(0, 20, 2))
        letters = [message.value for message in db.scan("$dead/#")]
        assert letters == (numbers(4) if name == "replay-letters" else [])


def test_a_replay_goes_on(opened: tuple[str, topicdb.Database]) -> None:
    _, db = opened
    with replay.open(db) as log:
        again = log.endpoint("again")
        assert again.state.runs and again.info()["last_start"][2] == str(BASE + 4)
        again.resume_replay()
        with again.bind() as flow:
            found = received(flow, 8)
            # Messages 10 to 14 were not logged, and 18 is the end.
            assert [value for value, _ in found] == numbers(5, 6, 7, 8, 9, 15, 16, 17)
            wait_until(lambda: again.state is replay.State.COMPLETE)


def test_trimmed_messages_are_not_replayed(opened: tuple[str, topicdb.Database]) -> None:
    _, db = opened
    with replay.open(db) as log:
        queue = log.queue("new", "#")
        with pytest.raises(replay.StartTimeUnavailableError):
            queue.replay(BASE + 1)
        with queue.bind(replay="beginning") as flow:
            expected = numbers(*range(2, 10), *range(15, 20))
            assert [value for value, _ in received(flow, len(expected))] == expected
