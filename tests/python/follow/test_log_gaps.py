"""Readers of the log come to generations that keep none: they are told, and miss nothing silently.

Such a generation has the layout skipstream. Everything that was committed before it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from settling import batches_of, packets_of
from support import PATIENCE_S

import topicdb
from topicdb import Retention, replay

NO_LOG = r"generation \d+ of shard \d of .* has the layout 'skipstream', which keeps no commit log"


@pytest.fixture
def db(db_path: Path) -> Iterator[topicdb.Database]:
    """A database whose topics a/# come into a generation of their own."""
    retention = {"a/#": None, "#": None}
    with topicdb.open(db_path, retention=retention, maintenance_interval=None) as database:
        yield database


def put(db: topicdb.Database, *numbers: int, topic: str = "a/x") -> None:
    for number in numbers:
        db.append([(topic, number, b"%d" % number)])


def serials_of(db: topicdb.Database) -> dict[int, int]:
    """Returns by shard the last commit; a rotation to another layout is one, too."""
    return {shard["shard"]: shard["serial"] for shard in db.stats()["shards"]}


def numbers(messages: object) -> list[int]:
    return [int(message.value) for message in messages]  # type: ignore[attr-defined]


def given(consumer: topicdb.Consumer) -> list[int]:
    """Returns the numbers of all messages that a consumer has now."""
    return [number for batch in batches_of(consumer) for number in numbers(batch)]


def until_gap(messages: Iterable[topicdb.Message]) -> list[int]:
    """Returns the numbers of messages up to a gap, which must come."""
    found: list[int] = []
    with pytest.raises(topicdb.SchemaError, match=NO_LOG):
        for message in messages:
            found.append(int(message.value))
    return found


class TestTail:
    def test_it_gives_everything_before_a_gap(self, db: topicdb.Database) -> None:
        put(db, 1, 2)
        with db.tail("a/#", after={}, timeout=0) as tail:
            assert numbers(tail) == [1, 2]
        with db.tail("a/#", after={}) as tail:
            put(db, 3)
            db.rotate("a/#", layout="skipstream")
            put(db, 4)
            assert until_gap(tail) == [1, 2, 3]
            with pytest.raises(topicdb.SchemaError, match=NO_LOG):  # it stays there
                next(iter(tail))

    def test_a_backlog_before_a_gap_can_be_read(self, db: topicdb.Database) -> None:
        put(db, 1, 2)
        db.rotate("a/#", layout="skipstream")
        put(db, 3)
        with db.tail("a/#", after={}) as tail:
            assert until_gap(tail) == [1, 2]

    def test_what_is_to_come_must_have_a_log(self, db: topicdb.Database) -> None:
        db.rotate("a/#", layout="skipstream")
        for filter in ("a/#", "a/x", "+/x", "#"):
            with pytest.raises(topicdb.SchemaError, match=NO_LOG):
                db.tail(filter, after=serials_of(db))
        with db.tail("b/#", timeout=0) as tail:
            put(db, 1, topic="b/x")
            put(db, 2)
            assert numbers(tail) == [1]

    def test_others_do_not_care(self, db: topicdb.Database) -> None:
        put(db, 1, topic="b/x")
        with db.tail("b/#", after={}, timeout=0) as tail, db.tail("#", after={}) as all_topics:
            db.rotate("a/#", layout="skipstream")
            put(db, 2)
            put(db, 3, topic="b/x")
            db.rotate(layout="columnar")
            put(db, 4, topic="b/x")
            assert numbers(tail) == [1, 3, 4]
            assert until_gap(all_topics) == [1]

    def test_behind_a_gap_there_is_a_log_again(self, db: topicdb.Database) -> None:
        put(db, 1)
        db.rotate(layout="skipstream")
        put(db, 2)
        db.rotate(layout="columnar")
        serials = serials_of(db)
        put(db, 3)
        with pytest.raises(topicdb.SchemaError, match=NO_LOG):
            db.tail("a/#", after={0: serials[0] - 1})
        with db.tail("a/#", after=serials, timeout=0) as tail:
            assert numbers(tail) == [3]

    def test_an_empty_generation_is_no_gap(self, db: topicdb.Database) -> None:
        put(db, 1)
        with db.tail("a/#", after={}, timeout=0) as tail:
            db.rotate(layout="skipstream")
            db.rotate(layout="columnar")
            put(db, 2)
            assert numbers(tail) == [1, 2]

    def test_it_may_end_before(self, db: topicdb.Database) -> None:
        last = db.append([("a/x", 1, b"1")]).serials
        db.rotate(layout="skipstream")
        put(db, 2)
        with db.tail("a/#", after={}, until=last) as tail:
            assert numbers(tail) == [1]

    def test_a_gap_that_is_dropped_is_none(self, db: topicdb.Database) -> None:
        put(db, 1)
        db.rotate("a/#", layout="skipstream")
        put(db, 2)
        db.rotate("a/#", layout="columnar")
        put(db, 3)
        gap = next(slab for slab in db.slabs() if slab.layout == "skipstream")
        db.drop_slab(gap)
        with db.tail("a/#", after={}, timeout=0) as tail:
            assert numbers(tail) == [1, 3]

    def test_a_class_may_get_it_while_somebody_waits(self, db: topicdb.Database) -> None:
        with db.tail("a/#", timeout=0) as tail:
            assert numbers(tail) == []
            db.set_retention({"a/#": Retention(layout="skipstream"), "#": None})
            assert numbers(tail) == [], "nothing is missing yet"
            put(db, 1)
            assert until_gap(tail) == []


class TestSubscribe:
    def test_it_gives_everything_before_a_gap(self, db: topicdb.Database) -> None:
        put(db, 1, 2)
        with db.subscribe("a/#", start="earliest") as missing, db.subscribe("b/#") as other:
            db.rotate("a/#", layout="skipstream")
            put(db, 3)
            put(db, 4, topic="b/x")
            assert until_gap(iter(missing)) == [1, 2]
            assert missing.info()["state"] == "failed"
            assert next(iter(other)).value == b"4"

    def test_by_time_only_what_is_wanted_counts(self, db: topicdb.Database) -> None:
        db.rotate("a/#", layout="skipstream")
        put(db, 1, 2)
        db.rotate("a/#", layout="columnar")
        put(db, 1_000)
        for start in ("earliest", 2):
            with db.subscribe("a/#", start=start) as subscription:
                assert until_gap(iter(subscription)) == []
        with db.subscribe("a/#", start=3) as subscription:
            assert next(iter(subscription)).value == b"1000"

    def test_it_begins_where_there_is_a_log(self, db: topicdb.Database) -> None:
        db.set_retention({"a/#": Retention(layout="skipstream"), "#": None})
        with pytest.raises(topicdb.SchemaError, match=NO_LOG):
            db.subscribe("a/#")
        with db.subscribe("b/#") as subscription:
            put(db, 1, topic="b/x")
            assert next(iter(subscription)).value == b"1"


class TestConsumer:
    def test_nothing_is_stored_of_one_that_cannot_begin(self, db: topicdb.Database) -> None:
        db.rotate("a/#", layout="skipstream")
        put(db, 1)
        for make in (db.consumer, db.group):
            starts: tuple[Any, ...] = ("latest", {0: (2, 0)})
            for start in starts:
                with pytest.raises(topicdb.SchemaError, match=NO_LOG):
                    make("c", "a/#", start=start)
        assert db.standings() == []
        with db.consumer("c", "b/#") as consumer:  # the name is free
            put(db, 2, topic="b/x")
            assert [numbers(batch) for batch in batches_of(consumer)] == [[2]]

    def test_it_seeks_behind_a_gap(self, db: topicdb.Database) -> None:
        put(db, 1)
        with db.consumer("c", "a/#", start="earliest") as consumer:
            db.rotate("a/#", layout="skipstream")
            before = serials_of(db)
            put(db, 2)
            db.rotate("a/#", layout="columnar")
            put(db, 3)
            given: list[int] = []
            with pytest.raises(topicdb.SchemaError, match=NO_LOG):
                for batch in batches_of(consumer):
                    given += numbers(batch)
                    consumer.ack(batch)
            assert given == [1]
        with db.consumer("c", "a/#") as consumer:  # its place is kept
            with pytest.raises(topicdb.SchemaError, match=NO_LOG):
                consumer.poll(timeout=PATIENCE_S)
            places = consumer.places
            with pytest.raises(topicdb.SchemaError, match=NO_LOG):
                consumer.seek(before)
            assert consumer.places == places, "it stays where it was"
            consumer.seek("latest")
            put(db, 4)
            assert [numbers(batch) for batch in batches_of(consumer)] == [[4]]

    def test_a_gap_that_is_dropped_is_a_loss(self, db: topicdb.Database) -> None:
        losses: list[topicdb.Loss] = []
        put(db, 1)
        with db.consumer("c", "a/#", start="earliest", on_loss=losses.append) as consumer:
            for batch in batches_of(consumer):
                consumer.ack(batch)
        db.rotate("a/#", layout="skipstream")
        put(db, 2, 3)
        db.rotate("a/#", layout="columnar")
        put(db, 4)
        db.drop_slab(next(slab for slab in db.slabs() if slab.layout == "skipstream"))
        with db.consumer("c", "a/#", on_loss=losses.append) as consumer:
            assert [numbers(batch) for batch in batches_of(consumer)] == [[4]]
            assert [(loss.messages, loss.generation) for loss in losses] == [(2, 2)]
            assert consumer.lost == 2

    def test_new_filters_need_a_log(self, db: topicdb.Database) -> None:
        with db.consumer("c", "b/#") as consumer:
            db.rotate("a/#", layout="skipstream")
            put(db, 1, topic="b/x")
            assert given(consumer) == [1]
            consumer.ack()
            places = consumer.places
            with pytest.raises(topicdb.SchemaError, match=NO_LOG):
                consumer.set_filters(["a/#", "b/#"])
            assert (consumer.filters, consumer.places) == (["b/#"], places)
            put(db, 2, topic="b/x")
            assert given(consumer) == [2]
            consumer.ack()
        with pytest.raises(topicdb.SchemaError, match=NO_LOG):
            db.consumer("c", "#", on_change="replace")
        group = db.group("g", "b/#", start="latest")
        with pytest.raises(topicdb.SchemaError, match=NO_LOG):
            group.set_filters("a/#")
        group.set_filters(["b/#", "c"])
        group.close()
        with pytest.raises(topicdb.SchemaError, match=NO_LOG):
            db.group("g", "+/x", on_change="replace")
        filters = {one.name: one.filters for one in db.standings()}
        assert filters == {"c": ["b/#"], "g": ["b/#", "c"]}
        with db.consumer("c", "c/#", on_change="replace") as consumer:
            assert consumer.filters == ["c/#"]

    def test_other_filters_lead_past_a_gap(self, db: topicdb.Database) -> None:
        put(db, 1)
        with db.consumer("c", ["a/#", "b/#"], start="earliest") as consumer:
            db.rotate("a/#", layout="skipstream")
            put(db, 2)
            put(db, 3, topic="b/x")
            with pytest.raises(topicdb.SchemaError, match=NO_LOG):
                for batch in batches_of(consumer):
                    consumer.ack(batch)
            consumer.set_filters("b/#")
            assert given(consumer) == [3]

    def test_a_group_stops_there_too(self, db: topicdb.Database) -> None:
        put(db, 1, 2)
        group = db.group("g", "a/#", start="earliest")
        with group.join() as member:
            db.rotate("a/#", layout="skipstream")
            put(db, 3)
            given: list[int] = []
            with pytest.raises(topicdb.SchemaError, match=NO_LOG):
                while len(batch := member.poll(timeout=PATIENCE_S)) > 0:
                    given += numbers(batch)
                    member.ack(batch)
            assert given == [1, 2]


def test_partial_readers_are_told_too(db_path: Path) -> None:
    with topicdb.open(db_path, shards=2, maintenance_interval=None) as db:
        db.append([(f"a/{i}", i, b"%d" % i) for i in range(9)])
        db.rotate(layout="skipstream")
    (db_path / "shards" / "0001").rename(db_path.parent / "0001")
    behind = {0: 9}
    with topicdb.open(db_path, on_damage="skip", maintenance_interval=None) as db:
        with pytest.raises(topicdb.MissingShardError):
            db.subscribe("#", start=behind)
        with pytest.raises(topicdb.SchemaError, match=NO_LOG):
            db.subscribe("#", start=behind, partial=True)
        with pytest.raises(topicdb.SchemaError, match=NO_LOG):
            db.tail("#", after=behind, partial=True)


class TestSession:
    def test_a_filter_that_has_no_log_is_refused(self, db: topicdb.Database) -> None:
        db.rotate("a/#", layout="skipstream")
        session = db.session("s")
        with pytest.raises(topicdb.SchemaError, match=NO_LOG):
            session.subscribe("a/#", 1)
        assert session.filters == {}
        session.subscribe("b/#", 1)
        put(db, 1, topic="b/x")
        sent = [packet for packets in packets_of(session, 10) for packet in packets]
        assert [packet.value for packet in sent] == [b"1"]
        session.close()

    def test_it_stops_at_a_gap(self, db: topicdb.Database) -> None:
        session = db.session("s")
        session.subscribe("a/#", 0)
        put(db, 1)
        db.rotate("a/#", layout="skipstream")
        put(db, 2)
        sent: list[bytes] = []
        with pytest.raises(topicdb.SchemaError, match=NO_LOG):
            while packets := session.poll(10, timeout=PATIENCE_S):
                sent += [packet.value for packet in packets]
        assert sent == [b"1"]
        session.close()


class TestReplay:
    def test_a_log_needs_one(self, db: topicdb.Database) -> None:
        db.rotate("a/#", layout="skipstream")
        with pytest.raises(topicdb.SchemaError, match=NO_LOG):
            replay.open(db)
        with replay.open(db, include="b/#") as log:
            with pytest.raises(topicdb.SchemaError, match=NO_LOG):
                log.set_filters(["a/#"])
            assert log.include == ("b/#",)

    def test_a_replay_stops_before_a_gap(self, db: topicdb.Database) -> None:
        with replay.open(db, include="a/#") as log:
            flow = log.queue("q", "a/#").bind()
            put(db, 1, 2)
            db.rotate("a/#", layout="skipstream")
            put(db, 3)
            for number in (1, 2):
                message = flow.receive(timeout=PATIENCE_S)
                assert message is not None and message.value == b"%d" % number
                flow.ack(message)
            with pytest.raises(topicdb.SchemaError, match=NO_LOG):
                flow.receive(timeout=PATIENCE_S)
        with pytest.raises(topicdb.SchemaError, match=NO_LOG):
            replay.open(db)  # what is to be logged has no log
        db.rotate("a/#", layout="columnar")
        with replay.open(db) as log:  # the endpoint is still at the gap
            flow = log.endpoint("q").bind()
            with pytest.raises(topicdb.SchemaError, match=NO_LOG):
                flow.receive(timeout=PATIENCE_S)

    def test_a_new_log_begins_with_what_is_stored(self, db: topicdb.Database) -> None:
        put(db, 1)
        db.rotate("a/#", layout="skipstream")
        put(db, 2)
        db.rotate("a/#", layout="columnar")
        with replay.open(db, include="a/#") as log:  # it can be read up to the gap
            flow = log.queue("q", "a/#").bind(replay="beginning")
            message = flow.receive(timeout=PATIENCE_S)
            assert message is not None and message.value == b"1"
            flow.ack(message)
            with pytest.raises(replay.MessageUnavailableError, match=NO_LOG):
                flow.receive(timeout=PATIENCE_S)
