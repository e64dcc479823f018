"""Tests of shared groups: each part has one member, and each message is worked on."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from settling import batches_of_member
from support import PATIENCE_S, wait_until

import topicdb
from topicdb.follow.group import Group


@pytest.fixture
def db(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "db", shards=2) as database:
        yield database


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def timed(group: Group) -> Clock:
    clock = Clock()
    group._clock = clock
    return clock


def fill(db: topicdb.Database, first: int, last: int, topics: int = 20) -> None:
    db.append([(f"jobs/{i % topics}", None, b"%d" % i) for i in range(first, last)])


def numbers(batch: topicdb.Batch) -> list[int]:
    return [int(value) for value in batch.values]


def work(member: topicdb.Member) -> list[int]:
    found: list[int] = []
    for batch in batches_of_member(member):
        found += numbers(batch)
        member.ack(batch)
    return found


def test_each_message_for_one_member(db: topicdb.Database) -> None:
    group = db.group("g", "jobs/#")
    found: dict[str, list[int]] = {f"w{i}": [] for i in range(4)}
    members = [group.join(name) for name in found]
    assert [len(parts) for parts in group.members().values()] == [16, 16, 16, 16]

    def run(member: topicdb.Member) -> None:
        for batch in member:
            found[member.name] += numbers(batch)
            member.ack(batch)

    threads = [threading.Thread(target=run, args=(member,)) for member in members]
    for thread in threads:
        thread.start()
    for first in range(0, 2_000, 100):
        fill(db, first, first + 100)
    # This waits until all is acknowledged and not only given out, because a closed member may not
    # acknowledge.
    wait_until(lambda: group.lag() == 0)
    for member in members:
        member.close()
    for thread in threads:
        thread.join()
    assert sorted(itertools.chain.from_iterable(found.values())) == list(range(2_000))
    for mine in found.values():  # messages of a topic come in their order
        for topic in range(20):
            of_topic = [number for number in mine if number % 20 == topic]
            assert of_topic == sorted(of_topic)


def test_positions_last(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db", shards=2) as db:
        fill(db, 0, 100)
        with db.group("g", "jobs/#", parts=4).join() as member:
            done = numbers(first := member.poll(timeout=PATIENCE_S))
            member.ack(first)
            lost = numbers(member.poll(timeout=PATIENCE_S))
            assert lost
    with topicdb.open(tmp_path / "db") as db, db.group("g", "jobs/#").join() as member:
        assert member.parts == [0, 1, 2, 3]
        assert sorted(done + work(member)) == list(range(100))


def test_parts_change_hands_when_they_are_acknowledged(db: topicdb.Database) -> None:
    fill(db, 0, 200)
    group = db.group("g", "jobs/#", parts=8)
    old = group.join("old")
    batches = list(batches_of_member(old))
    busy = {old._batches[batch][0].number for batch in batches}
    new = group.join("new")
    free = 8 - len(busy)
    assert len(new.parts) == min(4, free)
    assert not set(new.parts) & busy
    assert new.poll(timeout=0) is not None
    for batch in batches:
        old.ack(batch)
    assert len(new.parts) == len(old.parts) == 4
    fill(db, 200, 400)
    assert sorted(work(old) + work(new)) == list(range(200, 400))


def test_who_leaves_gives_back_what_is_not_acknowledged(db: topicdb.Database) -> None:
    fill(db, 0, 100)
    group = db.group("g", "jobs/#")
    first, second = group.join(), group.join()
    assert (first.name, second.name) == ("member-1", "member-2")
    given = []
    for batch in batches_of_member(first):
        given += numbers(batch)
    first.close()
    assert sorted(work(second)) == list(range(100)) and given
    with pytest.raises(topicdb.ClosedError):
        first.poll()
    with pytest.raises(topicdb.ClosedError):
        first.heartbeat()


@pytest.mark.parametrize("closed", ["member", "group"])
def test_iterating_ends_when_it_is_closed_between_two_batches(
    db: topicdb.Database, closed: str
) -> None:
    fill(db, 0, 10)
    group = db.group("g", "jobs/#")
    member = group.join()
    batches = 0
    for batch in member:
        batches += 1
        member.ack(batch)
        (member if closed == "member" else group).close()
    assert batches == 1


def test_who_is_silent_is_dropped_and_told(db: topicdb.Database) -> None:
    fill(db, 0, 100)
    group = db.group("g", "jobs/#", member_timeout=10)
    clock = timed(group)
    silent, other = group.join("silent"), group.join("other")
    batch = silent.poll(timeout=PATIENCE_S)
    assert len(batch) > 0
    for _ in range(3):
        clock.now += 6
        other.heartbeat()
    assert group.members() == {"other": list(range(64))}
    assert silent.closed
    for call in (silent.poll, silent.heartbeat, lambda: silent.ack(batch)):
        with pytest.raises(topicdb.ConflictError, match="silent"):
            call()
    assert sorted(work(other)) == list(range(100))
    back = group.join("silent")
    assert len(back.parts) == 32


def test_a_part_that_is_not_given_back_is_taken(db: topicdb.Database) -> None:
    fill(db, 0, 100)
    group = db.group("g", "jobs/#", parts=2, member_timeout=10)
    clock = timed(group)
    old = group.join("old")
    batches = list(batches_of_member(old))
    assert {old._batches[batch][0].number for batch in batches} == {0, 1}
    new = group.join("new")
    assert new.parts == []
    for _ in range(3):
        clock.now += 5
        old.heartbeat()
        new.heartbeat()
    assert len(new.parts) == 1
    again = work(new)
    refused = 0
    for batch in batches:
        if old._batches[batch][0].number in old.parts:
            old.ack(batch)
            continue
        with pytest.raises(topicdb.ConflictError, match="was taken from"):
            old.ack(batch)
        refused += len(batch)
    assert refused == len(again) > 0


def test_what_cannot_be(db: topicdb.Database, tmp_path: Path) -> None:
    for arguments, word in (
        ({"parts": 0}, "parts"),
        ({"parts": 5_000}, "parts"),
        ({"member_timeout": 0}, "member_timeout"),
        ({"window": 0}, "window"),
        ({"start": "never"}, "start"),
    ):
        with pytest.raises(ValueError, match=word):
            db.group("bad", **arguments)
    assert db.groups() == []
    group = db.group("g", "jobs/#")
    assert db.group("g", "jobs/#") is group
    with pytest.raises(ValueError, match="has the filters"):
        db.group("g")
    member = group.join("m")
    with pytest.raises(topicdb.ConflictError, match="member 'm'"):
        group.join("m")
    fill(db, 0, 50)
    with pytest.raises(ValueError, match="rows"):
        member.poll(0)
    batch = member.poll(timeout=PATIENCE_S)
    member.ack(batch)
    with pytest.raises(ValueError, match="already"):
        member.ack(batch)
    with group.join("n") as other, pytest.raises(ValueError, match="not given"):
        other.ack(batch)
    with pytest.raises(topicdb.ConflictError, match="open already"):
        db.drop_group("g")
    group.close()
    with pytest.raises(topicdb.ClosedError):
        group.join()
    with pytest.raises(topicdb.ClosedError):
        member.poll()
    db.drop_group("g")
    with pytest.raises(topicdb.NotFoundError):
        db.drop_group("g")
    assert "g" not in db.groups()
    with topicdb.open(tmp_path / "db", mode="r") as reader, pytest.raises(topicdb.ReadOnlyError):
        reader.group("g")


def test_a_closed_database_ends_it(tmp_path: Path) -> None:
    db = topicdb.open(tmp_path / "db")
    member = db.group("g").join()
    db.close()
    with pytest.raises(topicdb.ClosedError):
        member.poll(timeout=PATIENCE_S)


NAMES = ["a", "b", "c", "d"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 30)),
        st.tuples(st.just("join"), st.sampled_from(NAMES)),
        st.tuples(st.just("leave"), st.sampled_from(NAMES)),
        st.tuples(st.just("poll"), st.sampled_from(NAMES)),
        st.tuples(st.just("ack"), st.sampled_from(NAMES)),
        st.tuples(st.just("beat"), st.sampled_from(NAMES)),
        st.tuples(st.just("wait"), st.integers(1, 12)),
        st.tuples(st.just("reopen"), st.none()),
    ),
    max_size=40,
)


class Workers:
    """Members of one group, the batches that they hold, and the messages that were worked on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.done: list[int] = []
        self.count = 0
        self.open()

    def open(self) -> None:
        self.db = topicdb.open(self.path, shards=2)
        self.group = self.db.group("g", "jobs/#", parts=6, member_timeout=10)
        self.clock = timed(self.group)
        self.members: dict[str, topicdb.Member] = {}
        self.held: dict[str, list[topicdb.Batch]] = {}

    def step(self, what: str, argument: object) -> None:
        if what == "append":
            assert isinstance(argument, int)
            fill(self.db, self.count, self.count + argument)
            self.count += argument
        elif what == "wait":
            assert isinstance(argument, int)
            self.clock.now += argument
        elif what == "reopen":
            self.db.close()
            self.open()
        else:
            assert isinstance(argument, str)
            self.step_of(what, argument)

    def step_of(self, what: str, name: str) -> None:
        member = self.members.get(name)
        if what == "join" and (member is None or member.closed):
            self.members[name] = self.group.join(name)
            self.held[name] = []
        if member is None:
            return
        try:
            if what == "poll" and len(batch := member.poll(5, timeout=0)) > 0:
                self.held[name].append(batch)
            elif what == "ack" and self.held[name]:
                batch = self.held[name].pop(0)
                member.ack(batch)
                self.done += numbers(batch)
            elif what == "beat":
                member.heartbeat()
        except topicdb.ConflictError:
            pass
        except topicdb.ClosedError:
            assert member.closed
        if what == "leave":
            member.close()

    def check(self) -> None:
        lent = [part for parts in self.group.members().values() for part in parts]
        assert len(lent) == len(set(lent))
        sizes = [len(parts) for parts in self.group.members().values()]
        held = sum(len(batches) for batches in self.held.values())
        assert not sizes or held or (sum(sizes) == 6 and max(sizes) - min(sizes) <= 1)


@settings(max_examples=40)
@given(steps=STEPS)
def test_a_part_has_one_member_and_nothing_is_left_out(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, object]]
) -> None:
    workers = Workers(tmp_path_factory.mktemp("group") / "db")
    for what, argument in steps:
        workers.step(what, argument)
        workers.check()
    workers.clock.now += 100  # the members that are there have been silent for too long
    with workers.group.join("last") as member:
        assert member.parts == list(range(6))
        workers.done += work(member)
    assert sorted(set(workers.done)) == list(range(workers.count))
    workers.db.close()
