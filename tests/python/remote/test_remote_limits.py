"""What clients of a server are told, and what they keep open there, when limits are reached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from served import serving

import topicdb


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "db") as database:
        yield database


@pytest.fixture
def server(embedded: topicdb.Database, tmp_path: Path) -> Iterator[Any]:
    with serving(embedded, snapshots=tmp_path) as server:
        yield server


@pytest.fixture
def db(server: Any) -> Iterator[topicdb.Database]:
    with topicdb.connect(server.url) as database:
        yield database


# Errors that say much


def test_a_conflict_of_many_topics_is_a_conflict(
    db: topicdb.Database, embedded: topicdb.Database
) -> None:
    topics = [f"state/{'é' * 40}/{number}" for number in range(500)]
    attempts: list[int] = []

    def change(tx: topicdb.Transaction) -> None:
        for topic in topics:
            tx.get(topic)
        if not attempts:
            embedded.append([(topic, 0, b"other") for topic in topics])
        attempts.append(1)
        tx.write("state/sum", 0, b"")

    with pytest.raises(topicdb.ConflictError) as caught:
        db.transact(change, retries=0)
    found = caught.value.conflicts
    assert 0 < len(found) < 500 and {one[0] for one in found} <= set(topics)
    attempts.clear()
    db.transact(change)
    assert len(attempts) == 2


def test_a_requirement_of_a_large_value_fails_as_such(db: topicdb.Database) -> None:
    db.append([("small", 1, b"1"), ("large", 1, b"2" * 20_000)])
    with pytest.raises(topicdb.PreconditionError) as caught, db.transaction() as tx:
        tx.require("small", 1, b"3")
        tx.require("large", 1, b"4")
    assert caught.value.failures == [("small", 1, b"3", b"1")]


@pytest.mark.parametrize(("letter", "times"), [("x", 30_000), ("é", 5_000), ("\U0001f600", 5_000)])
def test_a_long_text_of_an_error_is_cut(db: topicdb.Database, letter: str, times: int) -> None:
    name = letter * times
    with pytest.raises(ValueError, match=f"^snapshot: '/{letter}+…$"):
        db._connection.call("snapshot", f"/{name}", None, False)  # type: ignore[attr-defined]
