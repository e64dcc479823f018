"""Consumers and groups whose filters change: nothing is lost or doubled of what stays wanted."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from served import lose_answer, lose_call, serving
from settling import batches_of, batches_of_member
from support import PATIENCE_S, Child, wait_until

import topicdb
from topicdb import Place

LOST = (topicdb.ConflictError, topicdb.PreconditionError)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "db"


@pytest.fixture
def db(path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(path, shards=3) as database:
        yield database


def fill(db: topicdb.Database, first: int, last: int) -> None:
    """Appends messages to topics a/0 to a/4 and b/0 to b/4 in turn."""
    db.append([(f"{'ab'[i % 2]}/{i // 2 % 5}", None, b"%d" % i) for i in range(first, last)])


def values(batches: Any) -> list[int]:
    return sorted(int(value) for batch in batches for value in batch.values)


def drain(consumer: topicdb.Consumer) -> list[int]:
    found = values(batches_of(consumer))
    consumer.ack()
    return found


def filters_of(db: topicdb.Database, name: str) -> list[str] | None:
    (found,) = [one.filters for one in db.standings() if one.name == name]
    return found


def test_they_apply_from_where_it_stands(path: Path) -> None:
    with topicdb.open(path) as db, db.consumer("c", "a/#") as consumer:
        for topic, value in (("b/1", b"0"), ("a/1", b"1")):
            serial = db.append([(topic, None, value)]).serials[0]
        assert drain(consumer) == [1]
        for topic, value in (("b/1", b"2"), ("a/1", b"3"), ("b/2", b"4"), ("c", b"5")):
            db.append([(topic, None, value)])
        stood = consumer.places
        applied = consumer.set_filters(["a/#", "b/#"])
        assert applied == stood and stood[0] in (Place(serial, 1), Place(serial + 1, 0))
        assert consumer.filters == ["a/#", "b/#"]
        assert drain(consumer) == [2, 3, 4]
        consumer.set_filters("b/#")
        fill(db, 6, 10)
        assert drain(consumer) == [7, 9]
        assert consumer.lag() == 0 and filters_of(db, "c") == ["b/#"]


def test_they_last(path: Path) -> None:
    with topicdb.open(path, shards=3) as db:
        fill(db, 0, 10)
        consumer = db.consumer("c", "a/#", durability="disk")
        consumer.set_filters("b/#")
    with topicdb.open(path) as db:
        with pytest.raises(ValueError, match="has the filters"):
            db.consumer("c", "a/#")
        assert db.consumers() == ["c"]
        with db.consumer("c", "b/#") as consumer:
            assert drain(consumer) == list(range(1, 10, 2))


def test_a_consumer_is_opened_with_others(path: Path) -> None:
    with topicdb.open(path, shards=3) as db:
        fill(db, 0, 10)
        with db.consumer("c", "a/#") as consumer:
            assert drain(consumer) == list(range(0, 10, 2))
        fill(db, 10, 20)
        with db.consumer("c", None, on_change="replace") as everything:
            assert everything.filters is None
        with db.consumer("c", ["a/#", "b/#"], on_change="replace") as consumer:
            found = drain(consumer)
            assert set(range(10, 20)) <= set(found) and not set(found) & set(range(0, 10, 2))
        with db.consumer("c", ["a/#", "b/#"], on_change="replace") as consumer:
            assert drain(consumer) == []
        with db.consumer("new", "a/#", on_change="replace") as consumer:
            assert drain(consumer) == list(range(0, 20, 2))


def test_the_same_filters_change_nothing(db: topicdb.Database) -> None:
    fill(db, 0, 4)
    with db.consumer("c", "a/#") as consumer:
        batch = next(batches_of(consumer))
        consumer.set_filters(["a/#"])
        consumer.ack(batch)


def test_what_was_given_comes_again_if_it_is_still_wanted(db: topicdb.Database) -> None:
    fill(db, 0, 10)
    with db.consumer("c", ["a/#", "b/#"]) as consumer:
        batches = list(batches_of(consumer))
        consumer.set_filters("b/#")
        with pytest.raises(ValueError, match="since it was moved"):
            consumer.ack(batches[0])
        consumer.ack()
        assert consumer.info()["unacknowledged"] == 0
        assert drain(consumer) == list(range(1, 10, 2))


def test_an_open_transaction_cannot_store_its_place(db: topicdb.Database) -> None:
    fill(db, 0, 10)
    with db.consumer("c", "a/#") as consumer:
        transaction = db.transaction(shard=1)
        transaction.write("effect", 0, b"")
        consumer.ack(next(batches_of(consumer)), transaction)
        consumer.set_filters(["a/#", "b/#"])
        with pytest.raises(LOST):
            transaction.commit()
        assert drain(consumer) == list(range(10))


@pytest.mark.parametrize("is_done", [True, False])
def test_a_commit_whose_answer_was_lost_counts(
    db: topicdb.Database, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    fill(db, 0, 10)
    with serving(db) as server, topicdb.connect(server.url) as remote:
        consumer = remote.consumer("c", "a/#")
        for batch in batches_of(consumer):
            transaction = remote.transaction(shard=1)
            transaction.write("effect", None, b"")
            consumer.ack(batch, transaction)
            (lose_answer if is_done else lose_call)(monkeypatch, "transaction.commit")
            with pytest.raises(topicdb.UnavailableError):
                transaction.commit()
            break
        consumer.set_filters(["a/#", "b/#"])
        found = drain(consumer)
        given_before = values([batch])
        assert not set(found) & set(given_before) if is_done else set(given_before) <= set(found)
        assert set(range(10)) == {*found, *given_before} | set(range(1, 10, 2))
        consumer.close()


def test_bad_filters_change_nothing(db: topicdb.Database) -> None:
    fill(db, 0, 10)
    with db.consumer("c", "a/#") as consumer:
        batch = next(batches_of(consumer))
        bad: list[tuple[Any, type[Exception]]] = [
            ("#/#", topicdb.TopicError),
            (["a/#", ""], topicdb.TopicError),
            (5, TypeError),
        ]
        for filter, error in bad:
            with pytest.raises(error):
                consumer.set_filters(filter)
        assert consumer.filters == ["a/#"]
        consumer.ack(batch)
    with pytest.raises(topicdb.ClosedError):
        consumer.set_filters("b/#")
    assert filters_of(db, "c") == ["a/#"]


def test_who_was_taken_over_changes_nothing(db: topicdb.Database) -> None:
    fill(db, 0, 10)
    with serving(db) as server:
        old, new = topicdb.connect(server.url), topicdb.connect(server.url)
        first = old.consumer("c", "a/#")
        second = new.consumer("c", "a/#", takeover=True)
        with pytest.raises(topicdb.ConflictError, match="taken over"):
            first.set_filters("b/#")
        assert first.filters == ["a/#"] and filters_of(db, "c") == ["a/#"]
        assert drain(second) == list(range(0, 10, 2))
        with pytest.raises(topicdb.ConflictError, match="open already"):
            old.consumer("c", "b/#", on_change="replace")
        third = old.consumer("c", "b/#", on_change="replace", takeover=True)
        with pytest.raises(topicdb.ConflictError, match="taken over"):
            second.set_filters("b/#")
        fill(db, 10, 12)
        found = drain(third)
        assert 11 in found and all(value % 2 == 1 for value in found)
        for client in (old, new):
            client.close()


def test_a_change_that_fails_leaves_it_as_it_was(
    db: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(db, 0, 10)
    with serving(db) as server, topicdb.connect(server.url) as remote:
        consumer = remote.consumer("c", "a/#")
        lose_call(monkeypatch, "transaction.commit")
        with pytest.raises(topicdb.UnavailableError):
            consumer.set_filters("b/#")
        assert consumer.filters == ["a/#"]
        consumer.rewind()
        assert drain(consumer) == list(range(0, 10, 2))
        consumer.close()


def test_a_token_has_to_read_the_new_ones(db: topicdb.Database, tmp_path: Path) -> None:
    from topicdb.remote.server.tokens import add

    tokens = tmp_path / "tokens.json"
    text = add(tokens, {"name": "t", "read": ["a/#"], "names": ["consumer/c", "group/g"]})
    fill(db, 0, 10)
    with (
        serving(db, tokens=tokens) as server,
        topicdb.connect(server.url, token=text) as remote,
    ):
        with remote.consumer("c", "a/#") as consumer:
            with pytest.raises(topicdb.AccessError):
                consumer.set_filters("b/#")
            assert drain(consumer) == list(range(0, 10, 2))
        with pytest.raises(topicdb.AccessError):
            remote.consumer("c", "b/#", on_change="replace")
        group = remote.group("g", "a/#")
        with pytest.raises(topicdb.AccessError):
            group.set_filters("b/#")
        with pytest.raises(topicdb.AccessError):
            remote.group("g", "b/#", on_change="replace")
        group.set_filters("a/0")
    assert filters_of(db, "c") == ["a/#"] and filters_of(db, "g") == ["a/0"]


def test_what_was_lost_is_told_and_counted_once(db: topicdb.Database) -> None:
    losses: list[topicdb.Loss] = []
    fill(db, 0, 10)
    with db.consumer("c", "a/#", window=1, on_loss=losses.append) as consumer:
        db.rotate()
        for slab in db.slabs():
            if slab.read_only:
                db.drop_slab(slab)
        (standing,) = db.standings()
        consumer.rewind()

        def is_all_told() -> bool:
            assert len(consumer.poll(timeout=0)) == 0
            return consumer.lost >= standing.lost

        wait_until(is_all_told)
        assert drain(consumer) == []
        told = sum(loss.messages for loss in losses)
        assert consumer.lost == told > 0
        fill(db, 10, 20)
        consumer.set_filters(["a/0", "a/1", "a/2", "a/3", "a/4"])
        assert drain(consumer) == list(range(10, 20, 2))
        assert consumer.lost == told == sum(loss.messages for loss in losses)


# Groups


def work(member: topicdb.Member) -> list[int]:
    found = []
    for batch in batches_of_member(member):
        found += [int(value) for value in batch.values]
        member.ack(batch)
    return sorted(found)


def test_a_group_goes_on_where_its_parts_are(path: Path) -> None:
    with topicdb.open(path, shards=3) as db:
        fill(db, 0, 20)
        group = db.group("g", "a/#", parts=4)
        with group.join() as member:
            assert work(member) == list(range(0, 20, 2))
        fill(db, 20, 30)
        group.set_filters(["a/#", "b/#"])
        assert group.filters == ["a/#", "b/#"]
        with group.join() as member:
            found = work(member)
        assert set(range(20, 30)) <= set(found) and not set(found) & set(range(0, 20, 2))
        group.close()
    with topicdb.open(path) as db:
        with pytest.raises(ValueError, match="has the filters"):
            db.group("g", "a/#")
        group = db.group("g", "b/#", on_change="replace")
        assert group.filters == ["b/#"] == filters_of(db, "g")
        fill(db, 30, 34)
        with group.join() as member:
            assert work(member) == [31, 33]


def test_a_group_with_members_keeps_its_filters(db: topicdb.Database) -> None:
    group = db.group("g", "a/#")
    with group.join("worker") as member:
        with pytest.raises(topicdb.ConflictError, match="worker"):
            group.set_filters("b/#")
        with pytest.raises(topicdb.ConflictError, match="has members"):
            db.group("g", "b/#", on_change="replace")
        group.set_filters("a/#")
        fill(db, 0, 4)
        assert work(member) == [0, 2]
    with pytest.raises(topicdb.TopicError):
        group.set_filters("#/#")
    assert db.group("g", "b/#", on_change="replace") is group and group.filters == ["b/#"]


def test_a_group_at_a_server(db: topicdb.Database) -> None:
    with serving(db) as server:
        one, two = topicdb.connect(server.url), topicdb.connect(server.url)
        group = one.group("g", "a/#")
        other = two.group("g", "a/#")
        with other.join():
            with pytest.raises(topicdb.ConflictError, match="has members"):
                group.set_filters("b/#")
            with pytest.raises(topicdb.ConflictError, match="has members"):
                one.group("g", "b/#", on_change="replace")
        group.set_filters("b/#")
        with pytest.raises(ValueError, match="has the filters"):
            two.group("g", "a/#")
        assert two.group("g", ["a/#", "b/#"], on_change="replace").filters == ["a/#", "b/#"]
        fill(db, 0, 10)
        found: list[Any] = []
        with other.join() as member:
            while len(found) < 10:
                batch = member.poll(timeout=PATIENCE_S)
                found += [int(value) for value in batch.values]
                member.ack(batch)
        assert sorted(found) == list(range(10))
        for client in (one, two):
            client.close()


# Any order of calls


class Stored(NamedTuple):
    value: int
    topic: str
    shard: int
    place: Place


class Model:
    """What a consumer has to give: all that match from where it stands, and is not acknowledged."""

    def __init__(self, filters: list[str]) -> None:
        self.messages: list[Stored] = []
        self.acknowledged: set[int] = set()
        self.filters = filters
        self.places: dict[int, Place] = {}

    def append(self, topics: list[str], receipt: topicdb.Receipt) -> None:
        rows: dict[int, int] = {}
        for topic in topics:
            shard = topicdb.shard_of(topic, 3)
            row = rows[shard] = rows.get(shard, -1) + 1
            place = Place(receipt.serials[shard], row)
            self.messages.append(Stored(len(self.messages), topic, shard, place))

    def wants(self, message: Stored) -> bool:
        return any(topicdb.topic_matches(one, message.topic) for one in self.filters)

    def due(self) -> set[int]:
        return {
            one.value
            for one in self.messages
            if one.place >= self.places.get(one.shard, Place(1, 0))
            and self.wants(one)
            and one.value not in self.acknowledged
        }

    def move(self, places: dict[int, Place], filters: list[str]) -> None:
        """Checks that nothing gets lost, or comes again, by a change of places and filters."""
        due = self.due()
        self.filters = filters
        for one in self.messages:
            is_behind = one.place >= places.get(one.shard, Place(1, 0))
            if one.value in due and self.wants(one):
                assert is_behind, f"{one} gets lost"
            assert not (one.value in self.acknowledged and is_behind), f"{one} comes again"
        self.places = places


FILTERS = [["a/#"], ["b/#"], ["a/0", "b/+"], ["a/#", "b/#"], ["c"]]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 12)),
        st.tuples(st.just("poll"), st.integers(1, 5)),
        st.tuples(st.just("ack"), st.integers(0, 3)),
        st.tuples(st.just("set"), st.integers(0, len(FILTERS) - 1)),
        st.tuples(st.just("reopen"), st.integers(0, len(FILTERS) - 1)),
        st.tuples(st.just("rewind"), st.just(0)),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_nothing_is_lost_or_doubled(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    db = topicdb.open(tmp_path_factory.mktemp("filters") / "db", shards=3)
    model = Model(FILTERS[0])
    consumer = db.consumer("c", model.filters)
    waiting: list[topicdb.Batch] = []  # given and not acknowledged
    count = 0
    for what, number in steps:
        if what == "append":
            topics = [f"{'ab'[i % 2]}/{i // 2 % 5}" for i in range(count, count + number)]
            rows = [(topic, None, b"%d" % (count + i)) for i, topic in enumerate(topics)]
            model.append(topics, db.append(rows))
            count += number
        elif what == "poll":
            batch = consumer.poll(number, timeout=0)
            given = set(values([batch]))
            assert given <= model.due() - set(values(waiting))
            waiting += [batch] if given else []
        elif what == "ack" and waiting:
            done = waiting[: number + 1]
            consumer.ack(done[-1])
            model.acknowledged.update(values(done))
            waiting = waiting[number + 1 :]
        elif what == "set" and FILTERS[number] != model.filters:
            model.move(consumer.set_filters(FILTERS[number]), FILTERS[number])
            waiting = []
        elif what == "reopen":
            consumer.close()
            consumer = db.consumer("c", FILTERS[number], on_change="replace")
            model.move(consumer.places, FILTERS[number])
            waiting = []
        elif what == "rewind":
            consumer.rewind()
            model.move(consumer.places, model.filters)
            waiting = []
    for batch in waiting:
        model.acknowledged.update(values([batch]))
    consumer.ack()
    assert drain(consumer) == sorted(model.due())
    db.close()


PROGRAM = """
    import sys, topicdb
    path, number = sys.argv[1], int(sys.argv[2])
    with topicdb.open(path) as db:
        with db.consumer("c", ["a/#", f"n/{number}"], on_change="replace") as consumer:
            print(number, -1, flush=True)
            while True:
                db.append([("a/1", None, b"%d" % number), ("b/1", None, b"")])
                batch = consumer.poll(2, timeout=0.01)
                consumer.ack(batch)
                done = int(batch.values[-1]) if len(batch) > 0 else -1
                number += 1
                consumer.set_filters(["a/#", f"n/{number}"])
                print(number, done, flush=True)
"""


def test_a_kill_leaves_the_old_filters_or_the_new_ones(path: Path) -> None:
    """What both match is neither lost nor doubled."""
    with topicdb.open(path, shards=3) as db:
        db.consumer("c", ["a/#"]).close()
    chance = random.Random(7)
    expected = 0  # the first message that is not acknowledged for certain
    start = 0
    for _ in range(8):
        with Child(PROGRAM, path, start) as child:
            said = [child.read_line() for _ in range(chance.randrange(1, 6))]
            time.sleep(chance.uniform(0, 0.02))
            child.kill()
            said += child.finish()[1].splitlines()
        numbers = [int(line.split()[0]) for line in said]
        done = max(int(line.split()[1]) for line in said)
        with topicdb.open(path) as db:
            found = filters_of(db, "c")
            assert found is not None and found[0] == "a/#"
            assert int(found[1].removeprefix("n/")) in (numbers[-1], numbers[-1] + 1)
            with db.consumer("c", found) as consumer:
                left = drain(consumer)
        first = left[0] if left else numbers[-1]
        assert left == list(range(first, first + len(left)))
        assert first >= max(expected, done + 1)
        assert first + len(left) >= numbers[-1]
        expected = start = first + len(left)
