"""Readers get no deleted messages; they count and report messages that were dropped unread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from settling import all_given, packets_of
from support import PATIENCE_S, wait_until

import topicdb

MORE_S = 0.2  # how long a test waits for what should not come


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "db"


@pytest.fixture
def db(path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(path) as database:
        yield database


def generations(db: topicdb.Database, count: int = 3, topic: str = "a/{}") -> None:
    """Makes ``count`` generations of 1,000 messages in 10 commits each, and an empty one."""
    for generation in range(count):
        for commit in range(10):
            first = 1_000 * generation + 100 * commit
            db.append([(topic.format(i % 7), None, b"%d" % i) for i in range(first, first + 100)])
        db.rotate()


def drop(db: topicdb.Database, *wanted: int) -> None:
    for slab in db.slabs():
        if slab.retention_class == "#" and slab.generation in wanted:
            db.drop_slab(slab)


def numbers(batch: topicdb.Batch) -> list[int]:
    return [int(value) for value in batch.values]


def drain(reader: topicdb.Consumer) -> list[int]:
    """Acknowledges all that a consumer gives, and returns the numbers, sorted."""
    return drained(reader, reader.lag)


def drain_member(member: topicdb.Member, group: topicdb.Group) -> list[int]:
    """Acknowledges all that the only member of a group gives, and returns the numbers, sorted."""
    return drained(member, group.lag)


def drained(reader: topicdb.Consumer | topicdb.Member, lag: Callable[[], int]) -> list[int]:
    found: list[int] = []
    for batch in all_given(lambda wait: reader.poll(timeout=wait), lambda: lag() == 0, MORE_S):
        found += numbers(batch)
        reader.ack(batch)
    return sorted(found)


def count_given(subscription: topicdb.Subscription) -> int:
    """Returns how many messages come until the subscription has given all that is stored."""
    given = all_given(
        lambda wait: [] if (found := subscription.next(wait)) is None else [found],
        lambda: subscription.lag() == 0,
        MORE_S,
    )
    count = 0
    for (delivery,) in given:
        subscription.ack(delivery.seqno)
        count += len(delivery.batch)
    return count


def count_sent(session: topicdb.Session) -> int:
    """Returns how many packets come until the session has sent all that is stored."""
    return sum(map(len, packets_of(session, 10_000, MORE_S)))


def read_by_all(db: topicdb.Database, name: str) -> list[int]:
    """Returns how many messages a new reader of each kind gets."""
    with db.subscribe(start="earliest") as subscription:
        counts = [count_given(subscription)]
    with db.consumer(name) as consumer:
        counts.append(len(drain(consumer)))
        assert consumer.lag() == 0
    group = db.group(name)
    with group.join() as member:
        counts.append(len(drain_member(member, group)))
    session = db.session(name)
    session.subscribe("#", 0, start="earliest")
    sent = count_sent(session)
    session.close()
    tail = db.tail(timeout=0)
    return [*counts, sent, sum(1 for _ in tail)]


class TestWhatIsGone:
    def test_nobody_begins_with_what_was_deleted(self, db: topicdb.Database) -> None:
        generations(db)
        with db.subscribe(start="earliest", window=10) as slow:
            assert slow.next() is not None  # what this was read from is kept for other readers
            assert read_by_all(db, "before") == [3_000] * 5
            db.delete("a/1", durability="disk")
            left = db.scan("#").count()
            assert read_by_all(db, "after") == [left] * 5
            db.delete("#", durability="disk")
            assert read_by_all(db, "later") == [0] * 5

    def test_nobody_begins_with_what_was_dropped(self, db: topicdb.Database) -> None:
        generations(db)
        with db.subscribe(start="earliest", window=10) as slow:
            assert slow.next() is not None
            assert read_by_all(db, "before") == [3_000] * 5
            drop(db, 1)
            assert read_by_all(db, "after") == [2_000] * 5

    def test_a_consumer_that_is_moved_or_opened_anew(self, db: topicdb.Database) -> None:
        generations(db, 1)
        consumer = db.consumer("c")
        assert len(consumer.poll(10, timeout=PATIENCE_S)) == 10
        db.delete("#")
        consumer.rewind()
        assert len(consumer.poll(timeout=0.2)) == 0
        consumer.seek("earliest")
        assert len(consumer.poll(timeout=0.2)) == 0
        with db.consumer("c", takeover=True) as consumer:
            assert len(consumer.poll(timeout=0.2)) == 0

    def test_lag_comes_to_nothing(self, db: topicdb.Database) -> None:
        generations(db, 1)
        with db.consumer("c", "a/#") as consumer, db.subscribe(start="earliest") as subscription:
            group = db.group("g")
            consumer.ack(consumer.poll(10, timeout=PATIENCE_S))
            db.delete("a/+")
            assert consumer.lag() == 0
            assert group.lag() == 0
            assert subscription.lag() == 0
            generations(db, 1)
            db.delete("a/3")
            assert consumer.lag() == group.lag() == db.scan("a/#").count()


class TestLosses:
    def test_a_subscription_counts_what_it_missed(
        self, db: topicdb.Database, caplog: pytest.LogCaptureFixture
    ) -> None:
        generations(db)
        with db.subscribe(start="earliest", window=100) as subscription:
            first = subscription.next(rows=100)
            assert first is not None
            drop(db, 1, 2)
            subscription.ack(first.seqno)
            second = subscription.next()
            assert second is not None
            assert numbers(second.batch)[0] == 2_000
            assert subscription.info()["lost"] == 1_900
        assert "generation 1 of class '#' in shard 0 was dropped" in caplog.text
        assert "a subscription has lost up to 900 messages" in caplog.text

    def test_it_raises_where_they_are_missing(self, db: topicdb.Database) -> None:
        generations(db)
        with db.subscribe(start="earliest", window=100, on_loss="raise") as subscription:
            first = subscription.next(rows=100)
            assert first is not None
            drop(db, 1)
            subscription.ack(first.seqno)
            with pytest.raises(topicdb.LossError, match=r"900 messages.*Read on") as told:
                subscription.next()
            loss = told.value.loss
            assert loss[:3] == (0, "#", 1)
            assert loss.messages == 900
            assert isinstance(told.value, topicdb.Error)
            assert isinstance(told.value, RuntimeError)
            second = subscription.next()
            assert second is not None
            assert numbers(second.batch)[0] == 1_000

    def test_a_callback_is_told(self, db: topicdb.Database) -> None:
        generations(db)
        told: list[topicdb.Loss] = []
        with db.consumer("c", window=100, on_loss=told.append) as consumer:
            consumer.ack(consumer.poll(100, timeout=PATIENCE_S))
            wait_until(lambda: consumer.info()["waiting"] == 100)  # the window is full again
            drop(db, 1, 2)
            assert drain(consumer) == [*range(100, 200), *range(2_000, 3_000)]
        assert [(loss.generation, loss.messages) for loss in told] == [(1, 800), (2, 1_000)]

    def test_a_consumer_is_told_after_a_restart(self, path: Path) -> None:
        with topicdb.open(path) as db:
            generations(db)
            with db.consumer("c") as consumer:
                consumer.ack(consumer.poll(100, timeout=PATIENCE_S))
            drop(db, 1)
        with topicdb.open(path) as db:
            drop(db, 2)
            standing = db.standings()[0]
            assert (standing.kind, standing.name, standing.lost) == ("consumer", "c", 1_900)
            with db.consumer("c", on_loss="raise") as consumer:
                for lost in (900, 1_900):
                    with pytest.raises(topicdb.LossError, match="consumer 'c' has lost up to"):
                        consumer.poll(timeout=PATIENCE_S)
                    assert consumer.lost == lost
            # The loss is not stored yet.
            with db.consumer("c", on_loss="raise", takeover=True) as consumer:
                for _ in range(2):
                    with pytest.raises(topicdb.LossError):
                        consumer.poll(timeout=PATIENCE_S)
                assert drain(consumer) == list(range(2_000, 3_000))
                assert consumer.info()["lost"] == 1_900
        with topicdb.open(path) as db, db.consumer("c", on_loss="raise") as consumer:
            assert consumer.lost == 1_900
            assert drain(consumer) == []
            generations(db, 1)
            assert len(drain(consumer)) == 1_000
            drop(db, 4)
            assert drain(consumer) == []
            assert consumer.lost == 1_900
            assert db.standings()[0].lost == 1_900

    def test_a_loss_with_nothing_behind_it_is_told_until_it_is_acknowledged(
        self, db: topicdb.Database
    ) -> None:
        generations(db, 1)
        db.consumer("c").close()
        drop(db, 1)
        for _ in range(2):
            with (
                db.consumer("c", on_loss="raise") as consumer,
                pytest.raises(topicdb.LossError),
            ):
                consumer.poll(timeout=PATIENCE_S)
        with db.consumer("c") as consumer:

            def is_told() -> bool:
                assert len(consumer.poll(timeout=0.1)) == 0
                return consumer.lost == 1_000

            wait_until(is_told)
            consumer.ack()
            assert consumer.lost == 1_000
        with db.consumer("c", on_loss="raise") as consumer:
            assert len(consumer.poll(timeout=0.2)) == 0
            assert consumer.lost == 1_000

    def test_what_was_read_or_is_not_wanted_is_no_loss(self, path: Path) -> None:
        with topicdb.open(path) as db:
            db.append([("alarm/fire", None, b"!")])
            generations(db)
            with db.consumer("alarms", "alarm/#", on_loss="raise") as consumer:
                assert [m.topic for m in consumer.poll(timeout=PATIENCE_S)] == ["alarm/fire"]
                consumer.ack()
            with db.consumer("all", on_loss="raise") as consumer:
                assert len(consumer.poll(10_000, timeout=PATIENCE_S)) == 3_001
                consumer.ack()
            drop(db, 1, 2, 3)
        with topicdb.open(path) as db:
            assert {reader.lost for reader in db.standings()} == {0}
            for name, filter in (("alarms", "alarm/#"), ("all", "#")):
                with db.consumer(name, filter, on_loss="raise") as consumer:
                    assert drain(consumer) == []
                    assert consumer.lost == 0

    def test_what_was_deleted_is_no_loss(self, db: topicdb.Database) -> None:
        generations(db)
        with db.consumer("c", window=100, on_loss="raise") as consumer:
            consumer.ack(consumer.poll(100, timeout=PATIENCE_S))
            held = 100  # how many messages the consumer may have in memory
            db.delete("#")
            drop(db, 1, 2, 3)
            assert len(drain(consumer)) <= held
            assert consumer.lost == 0

    def test_what_keep_last_leaves_out_is_no_loss(self, path: Path) -> None:
        retention = {"#": topicdb.Retention(keep_last=1)}
        with (
            topicdb.open(path, retention=retention, maintenance_interval=None) as db,
            db.consumer("c", on_loss="raise", window=10) as consumer,
        ):
            generations(db, 2)
            consumer.ack(consumer.poll(10, timeout=PATIENCE_S))
            db.maintain()
            assert 7 <= len(drain(consumer)) < 1_990
            assert consumer.lost == 0

    def test_retention_loses_what_nobody_has_read(self, path: Path) -> None:
        with topicdb.open(path, retention={"#": "1h"}, maintenance_interval=None) as db:
            with db.consumer("c", on_loss="raise") as consumer:
                consumer.close()
            generations(db, 1)
            assert len(db.expire(now="2100-01-01T00:00:00Z")) == 1
            with (
                db.consumer("c", on_loss="raise") as consumer,
                pytest.raises(topicdb.LossError, match="1,000"),
            ):
                consumer.poll(timeout=PATIENCE_S)

    def test_a_new_start_loses_nothing(self, db: topicdb.Database) -> None:
        generations(db)
        with db.consumer("c", window=10, on_loss="raise") as consumer:
            consumer.ack(consumer.poll(10, timeout=PATIENCE_S))
            drop(db, 1)
            consumer.seek("earliest")
            assert drain(consumer) == list(range(1_000, 3_000))
            assert consumer.lost == 0
        with db.consumer("d", on_loss="raise") as consumer:
            assert drain(consumer) == list(range(1_000, 3_000))

    def test_a_group_counts_each_message_once(self, path: Path) -> None:
        with topicdb.open(path) as db:
            generations(db)
            group = db.group("g", parts=8, window=10)
            with group.join() as member:
                member.ack(member.poll(timeout=PATIENCE_S))
                drop(db, 1)
                assert drain_member(member, group)[-1] == 2_999
                assert 900 <= group.lost <= 1_000
            lost = group.lost
            group.close()
            assert db.standings()[0][:2] == ("group", "g")
            assert db.standings()[0].lost == lost
        with topicdb.open(path) as db:
            group = db.group("g")
            with group.join() as member:
                assert drain_member(member, group) == []
            assert group.lost == lost

    def test_a_member_raises(self, db: topicdb.Database) -> None:
        db.group("g", parts=4).close()
        generations(db)
        drop(db, 1)
        group = db.group("g", on_loss="raise")
        with group.join() as member:
            with pytest.raises(topicdb.LossError, match="group 'g' has lost up to 1,000") as told:
                member.poll(timeout=PATIENCE_S)
            assert told.value.loss.generation == 1
            assert len(drain_member(member, group)) == 2_000
        assert group.lost == 1_000

    def test_a_session_counts(self, path: Path) -> None:
        with topicdb.open(path) as db:
            session = db.session("s")
            session.subscribe("a/#", 0, start="earliest")
            session.close()
            generations(db)
            drop(db, 1)
            session = db.session("s")
            assert count_sent(session) == 2_000
            assert session.lost == 1_000
            session.close()
            session = db.session("s")
            assert session.poll(timeout=0.1) == []
            assert session.lost == 1_000

    def test_bad_options_are_refused(self, db: topicdb.Database) -> None:
        with pytest.raises(ValueError, match="on_loss: expected 'report', 'raise'"):
            db.subscribe(on_loss="ignore")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="on_loss"):
            db.consumer("c", on_loss=7)  # type: ignore[arg-type]
        assert db.consumers() == []


def test_an_empty_batch_needs_no_acknowledgement(db: topicdb.Database) -> None:
    with db.consumer("c") as consumer:
        consumer.ack(consumer.poll(timeout=0))
        with db.transaction(key="x") as transaction:
            consumer.ack(consumer.poll(timeout=0), transaction)
    consumer.close()
    with pytest.raises(topicdb.ClosedError):
        consumer.ack()
    with db.group("g").join() as member:
        member.ack(member.poll(timeout=0))


def test_a_reader_of_the_database_lists_who_reads_it(path: Path) -> None:
    with topicdb.open(path, shards=3) as db:
        generations(db, 1)
        with db.consumer("c", "a/#") as consumer:
            consumer.ack(consumer.poll(400, timeout=PATIENCE_S))
        db.group("g", "b/#").close()
        db.session("s").close()
        session = db.session("t")
        session.subscribe("a/#")
        session.close()
        expected = db.standings()
    with topicdb.open(path, mode="r") as reader:
        assert reader.consumers() == ["c"]
        assert reader.groups() == ["g"]
        assert reader.sessions() == ["t"]
        assert reader.standings() == expected
        assert [(one.kind, one.name, one.filters) for one in expected] == [
            ("consumer", "c", ["a/#"]),
            ("group", "g", ["b/#"]),
        ]
        assert 600 <= expected[0].lag < 1_000
        with pytest.raises(topicdb.ReadOnlyError):
            reader.consumer("c", "a/#")
