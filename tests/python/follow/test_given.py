"""Subscriptions and tails that begin exactly behind saved iterators."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from served import serving
from settling import all_given
from support import PATIENCE_S, wait_until

import topicdb
from topicdb import Database, Message

MORE_S = 0.2  # how long a test waits for what should not come


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "db"


@pytest.fixture
def db(path: Path) -> Iterator[Database]:
    with open_db(path) as database:
        yield database


def open_db(path: Path) -> Database:
    """Opens a database of two shards, in which all topics of a kind are one stream in each."""
    return topicdb.open(path, shards=2, structures=["a/+", "b/+", "c/+"], maintenance_interval=None)


def rows_of(first: int, count: int, kinds: str = "abc") -> list[tuple[str, int, bytes]]:
    """Returns messages whose times go to and fro."""
    return [
        (f"{kinds[i % len(kinds)]}/{i % 5}", i * 37 % 101, b"%d" % i)
        for i in range(first, first + count)
    ]


def numbers(messages: list[Message]) -> list[int]:
    return sorted(int(message.value) for message in messages)


def given_by(subscription: topicdb.Subscription) -> list[Message]:
    """Acknowledges and returns what a subscription gives until it has given what is stored."""
    found: list[Message] = []
    settled = all_given(
        lambda wait: [] if (one := subscription.next(wait)) is None else [one],
        lambda: subscription.lag() == 0,
        MORE_S,
    )
    for (delivery,) in settled:
        found += delivery.batch.to_list()
        subscription.ack(delivery.seqno)
    return found


class Steps:
    """Reads all streams of a filter in steps, with an iterator for each, which it stores."""

    def __init__(self, db: Database, filter: str = "#", *, start: int | None = None) -> None:
        self.saved = [
            bytes(db.iterator(stream, filter, start=start)) for stream in db.streams(filter)
        ]
        self.given: list[Message] = []

    def take(self, db: Database, rows: int, *, but: int = 0) -> None:
        """Reads a page of each stream, without the first ``but``."""
        for i in range(but, len(self.saved)):
            page = db.next(self.iterators()[i], rows)
            self.given += page.batch.to_list()
            self.saved[i] = bytes(page.iterator)

    def read_all(self, db: Database) -> None:
        """Reads each stream to its end, until a page is empty."""
        while True:
            before = len(self.given)
            self.take(db, 1_000)
            if len(self.given) == before:
                return

    def iterators(self) -> list[topicdb.Iterator]:
        return [topicdb.Iterator.from_bytes(data) for data in self.saved]


@pytest.mark.parametrize("rows", [0, 1, 4, 1_000])
@pytest.mark.parametrize("reopened", [False, True])
def test_it_gives_the_rest_and_what_follows(path: Path, rows: int, reopened: bool) -> None:
    db = open_db(path)
    for commit in range(5):
        db.append(rows_of(30 * commit, 30))
    steps = Steps(db)
    if rows:
        steps.take(db, rows)
        steps.take(db, rows, but=2)
    if reopened:
        db.close()
        db = open_db(path)
    with db, db.subscribe(given=steps.iterators()) as subscription:
        rest = given_by(subscription)
        assert numbers(steps.given + rest) == list(range(150))
        assert sorted(db.tail(given=steps.iterators(), timeout=0)) == sorted(rest)
        db.append(rows_of(150, 10))
        assert numbers(given_by(subscription)) == list(range(150, 160))
        assert subscription.info()["lost"] == 0


def test_one_iterator_is_enough(db: Database) -> None:
    db.append(rows_of(0, 40, "a"))
    steps = Steps(db)
    steps.take(db, 7, but=1)
    (iterator,) = steps.iterators()[1:]
    with db.subscribe("a/#", given=iterator) as subscription:
        assert numbers(steps.given + given_by(subscription)) == list(range(40))
    with db.tail("a/#", given=iterator, timeout=0) as tail:
        assert numbers(steps.given + list(tail)) == list(range(40))


def test_what_is_late_is_given(db: Database) -> None:
    db.append(rows_of(0, 60))
    steps = Steps(db)
    steps.read_all(db)
    assert numbers(steps.given) == list(range(60))
    late = [(f"{kind}/0", 0, b"%d" % (100 + i)) for i, kind in enumerate("abcabc")]
    db.append(late)
    with db.subscribe(given=steps.iterators()) as subscription:
        assert numbers(given_by(subscription)) == list(range(100, 106))


def test_it_takes_over_while_others_write(db: Database) -> None:
    stop = threading.Event()
    written = [0]

    def write() -> None:
        while not stop.is_set():
            db.append([(topic, None, value) for topic, _, value in rows_of(written[0], 7)])
            written[0] += 7

    db.append([(topic, None, value) for topic, _, value in rows_of(1_000_000, 90)])
    thread = threading.Thread(target=write)
    thread.start()
    try:
        steps = Steps(db)
        for _ in range(20):
            steps.take(db, 13)
        with db.subscribe(given=steps.iterators(), window=50_000) as subscription:
            moment = written[0]
            wait_until(lambda: written[0] > moment + 500)
            stop.set()
            thread.join()
            rest = given_by(subscription)
    finally:
        stop.set()
        thread.join()
    expected = [*range(written[0]), *range(1_000_000, 1_000_090)]
    assert numbers(steps.given + rest) == expected


def test_it_goes_on_from_its_places(path: Path) -> None:
    with open_db(path) as db:
        for commit in range(4):
            db.append(rows_of(25 * commit, 25))
        steps = Steps(db)
        steps.take(db, 5)
    found = list(steps.given)
    places: dict[int, topicdb.Place | int] = {}
    serials: dict[int, int] = {}
    tailed = list(steps.given)
    for _ in range(6):  # each in a process of its own, as it were
        with open_db(path) as db:
            given = steps.iterators()
            with db.subscribe(start=places or "earliest", given=given, window=5) as subscription:
                delivery = subscription.next(PATIENCE_S)
                assert delivery is not None
                found += delivery.batch.to_list()
                places[delivery.shard] = delivery.next
            with db.tail(after=serials, given=given, timeout=0) as tail:
                done, _ = islice(tail.batches(rows=1), 2)  # the second is not done with
                tailed += done.to_list()
                serials = tail.serials
    with open_db(path) as db:
        given = steps.iterators()
        with db.subscribe(start=places, given=given) as subscription:
            assert numbers(found + given_by(subscription)) == list(range(100))
        with db.tail(after=serials, given=given, timeout=0) as tail:
            assert numbers(tailed + list(tail)) == list(range(100))


def test_others_that_want_the_same_get_everything(db: Database) -> None:
    db.append(rows_of(0, 90))
    steps = Steps(db)
    steps.take(db, 9)
    with (
        db.subscribe(given=steps.iterators()) as rest,
        db.subscribe(start="earliest") as whole,
        db.subscribe("#", given=steps.iterators()[:1]) as some,
    ):
        assert numbers(given_by(whole)) == list(range(90))
        assert numbers(steps.given + given_by(rest)) == list(range(90))
        assert len(given_by(some)) == 90 - 9
        db.append(rows_of(90, 3))
        for subscription in (rest, whole, some):
            assert numbers(given_by(subscription)) == [90, 91, 92]


def test_a_wider_filter_gets_what_the_iterators_did_not_want(db: Database) -> None:
    db.append(rows_of(0, 60))
    steps = Steps(db, "a/1")
    steps.read_all(db)
    assert 0 < len(steps.given) < 20
    for filter in ("#", None, ["a/+", "b/+", "c/+"]):
        with db.subscribe(filter, given=steps.iterators()) as subscription:
            assert numbers(steps.given + given_by(subscription)) == list(range(60))
    assert list(db.tail("a/1", given=steps.iterators(), timeout=0)) == []


def test_what_was_passed_over_before_a_start_is_left_out(db: Database) -> None:
    db.append(rows_of(0, 60))
    steps = Steps(db, start=50)
    steps.read_all(db)
    assert numbers(steps.given) == numbers(db.scan("#", start=50).to_list())
    assert list(db.tail(given=steps.iterators(), timeout=0)) == []


def test_older_generations_count_as_given(db: Database) -> None:
    db.append(rows_of(0, 30))
    db.rotate()
    db.append(rows_of(30, 30))
    steps = Steps(db)
    newest = [
        topicdb.Iterator.from_bytes(data)
        for data, stream in zip(steps.saved, db.streams(), strict=True)
        if stream.generation == 2
    ]
    assert len(newest) == 6
    assert numbers(list(db.tail(given=newest, timeout=0))) == list(range(30, 60))
    (shard,) = {iterator.shard for iterator in newest[:1]}
    old = [row for row in rows_of(0, 30) if topicdb.shard_of(row[0], 2) != shard]
    expected = numbers([Message(*row) for row in old]) + list(range(30, 60))
    assert numbers(list(db.tail(given=newest[:1], timeout=0))) == expected
    assert numbers(list(db.tail(given=steps.iterators(), timeout=0))) == list(range(60))


def drop(db: Database, generation: int) -> int:
    """Drops a generation in all shards, and returns how many messages it had."""
    slabs = [slab for slab in db.slabs() if slab.generation == generation]
    for slab in slabs:
        db.drop_slab(slab)
    return sum(slab.messages for slab in slabs)


class TestLosses:
    """What was dropped before the iterators came to it is lost, and told as elsewhere."""

    def test_it_is_told(self, path: Path, caplog: pytest.LogCaptureFixture) -> None:
        with open_db(path) as db:
            db.append(rows_of(0, 60))
            steps = Steps(db)
            steps.take(db, 3)
            db.rotate()
            db.append(rows_of(60, 5))
            dropped = drop(db, 1)
        with open_db(path) as db:
            losses: list[topicdb.Loss] = []
            with db.subscribe(given=steps.iterators(), on_loss=losses.append) as subscription:
                assert numbers(given_by(subscription)) == list(range(60, 65))
            assert {(loss.retention_class, loss.generation) for loss in losses} == {("#", 1)}
            assert {loss.shard for loss in losses} == {0, 1}
            lost = sum(loss.messages for loss in losses)
            assert dropped - len(steps.given) <= lost <= dropped
            with (
                db.subscribe(given=steps.iterators(), on_loss="raise") as subscription,
                pytest.raises(topicdb.LossError, match="generation 1 of class '#'"),
            ):
                subscription.next(PATIENCE_S)
            with (
                caplog.at_level(logging.WARNING, "topicdb"),
                db.subscribe(given=steps.iterators()) as subscription,
            ):
                assert numbers(given_by(subscription)) == list(range(60, 65))
                assert subscription.info()["lost"] == lost
            assert "has lost up to" in caplog.text
            with pytest.raises(topicdb.NotFoundError, match="generation 1"):
                db.tail(given=steps.iterators())

    def test_who_had_everything_has_lost_nothing(self, db: Database) -> None:
        db.append(rows_of(0, 60))
        steps = Steps(db)
        steps.read_all(db)
        db.rotate()
        db.append(rows_of(60, 5))
        drop(db, 1)
        with db.subscribe(given=steps.iterators(), on_loss="raise") as subscription:
            assert numbers(given_by(subscription)) == list(range(60, 65))
        assert numbers(list(db.tail(given=steps.iterators(), timeout=0))) == list(range(60, 65))

    def test_what_nobody_has_begun_to_read_is_lost_too(self, db: Database) -> None:
        db.append(rows_of(0, 60))
        steps = Steps(db, "a/#")
        steps.read_all(db)
        db.rotate()
        drop(db, 1)
        losses: list[topicdb.Loss] = []
        with db.subscribe("#", given=steps.iterators(), on_loss=losses.append) as subscription:
            assert given_by(subscription) == []
        assert sum(loss.messages for loss in losses) == 40
        with db.subscribe("a/#", given=steps.iterators(), on_loss="raise") as subscription:
            assert given_by(subscription) == []

    def test_a_merged_generation_ends_it(self, path: Path) -> None:
        keep = {"#": topicdb.Retention(keep_last=1, rotate="1h")}
        with topicdb.open(path, retention=keep, maintenance_interval=None) as db:
            db.append(rows_of(0, 60))
            steps = Steps(db)
            steps.take(db, 3)
            db.rotate()
            db.maintain()
            with pytest.raises(topicdb.NotFoundError, match="merged"):
                db.subscribe(given=steps.iterators())
            with pytest.raises(topicdb.NotFoundError, match="merged"):
                db.tail(given=steps.iterators())


class TestGenerationsWithoutALog:
    """What iterators have read of them needs no log; what they have not is in none."""

    @pytest.fixture
    def mixed(self, db: Database) -> Database:
        db.append(rows_of(0, 30))
        db.rotate(layout="skipstream")
        db.append(rows_of(30, 30))
        db.rotate(layout="columnar")
        db.append(rows_of(60, 10))
        return db

    def test_what_was_read_is_left_out(self, mixed: Database) -> None:
        steps = Steps(mixed)
        steps.read_all(mixed)
        assert numbers(steps.given) == list(range(70))
        assert list(mixed.tail(given=steps.iterators(), timeout=0)) == []
        with mixed.subscribe(given=steps.iterators()) as subscription:
            mixed.append(rows_of(70, 5))
            assert numbers(given_by(subscription)) == list(range(70, 75))
        newest = [one for one in steps.iterators() if one.generation == 3]
        assert numbers(list(mixed.tail(given=newest, timeout=0))) == list(range(70, 75))

    def test_what_was_not_is_refused_in_words(self, mixed: Database) -> None:
        steps = Steps(mixed)
        steps.take(mixed, 1)
        for call in (mixed.subscribe, mixed.tail):
            with pytest.raises(topicdb.SchemaError, match=r"generation 2 .*keeps no commit log"):
                call(given=steps.iterators())
        steps.read_all(mixed)
        some = [one for one in steps.iterators() if one.generation == 2]
        with (
            mixed.subscribe(given=some[1:]) as subscription,
            pytest.raises(topicdb.SchemaError, match=r"generation 2 .*keeps no commit log"),
        ):
            for _ in subscription:
                pass

    def test_no_iterator_goes_on_in_one_that_takes_messages(self, db: Database) -> None:
        db.append(rows_of(0, 30))
        db.rotate(layout="skipstream")
        db.append(rows_of(30, 30))
        steps = Steps(db)
        steps.read_all(db)
        for call in (db.subscribe, db.tail):
            with pytest.raises(topicdb.SchemaError, match=r"generation 2 .*keeps no commit log"):
                call(given=steps.iterators())
        with serving(db) as server, topicdb.connect(server.url) as remote:
            for call in (remote.subscribe, remote.tail):
                with pytest.raises(topicdb.SchemaError, match="keeps no commit log"):
                    call(given=steps.iterators())
        db.rotate(layout="columnar")
        steps.read_all(db)
        db.append(rows_of(60, 5))
        assert numbers(list(db.tail(given=steps.iterators(), timeout=0))) == list(range(60, 65))


def test_what_cannot_be_is_refused(db: Database, tmp_path: Path) -> None:
    db.append(rows_of(0, 10))
    steps = Steps(db)
    wrong: list[Any] = ["x", b"x", 5, [5], [None], steps.saved]
    for given in wrong:
        for call in (db.subscribe, db.tail):
            with pytest.raises(TypeError, match="given: expected"):
                call(given=given)
    with topicdb.open(tmp_path / "other") as other:
        for call in (other.subscribe, other.tail):
            with pytest.raises(topicdb.NotFoundError, match="another database"):
                call(given=steps.iterators())
    with topicdb.open(tmp_path / "states", layout="skipstream") as states:
        states.append([("a", 1, b"")])
        iterator = states.iterator(states.streams()[0])
        for call in (states.subscribe, states.tail):
            with pytest.raises(ValueError, match="commit log"):
                call(given=iterator)


def test_without_given_it_is_as_it_was(db: Database) -> None:
    db.append(rows_of(0, 10))
    with db.subscribe(given=[]) as latest, db.subscribe() as latest_too:
        db.append(rows_of(10, 2))
        assert numbers(given_by(latest)) == numbers(given_by(latest_too)) == [10, 11]
    steps = Steps(db)
    with db.subscribe(start="latest", given=steps.iterators()) as latest:
        db.append(rows_of(12, 2))
        assert numbers(given_by(latest)) == [12, 13]
