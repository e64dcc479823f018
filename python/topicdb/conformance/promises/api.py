"""``topicdb.Database`` put over the engine: what is built on the contract works."""

from __future__ import annotations

from topicdb import _core
from topicdb.conformance import expect
from topicdb.conformance.lab import Lab
from topicdb.conformance.promise import promise
from topicdb.follow.consumer import Consumer
from topicdb.follow.member import Member
from topicdb.transaction import Transaction


@promise()
def a_database_reads_and_writes(lab: Lab) -> None:
    """Database.over() gives appends and scans; closing the database closes the engine."""
    with lab.database() as db:
        receipt = db.append([("api/a", 1, b"1"), ("api/b", None, b"2")])
        expect.equal(receipt.count, 2, "the count")
        expect.equal([m.value for m in db.scan("api/+", order="time")], [b"1", b"2"], "a scan")
        expect.equal(db.scan("api/#").count(), 2, "a count")
        expect.equal([m.value for m in db.last("api/a")], [b"1"], "the newest message")
        expect.true(db.stats()["messages"] >= 2, "stats")
        expect.true(db.engine is lab.engine, "the engine of the database is the one it is over")
    expect.equal(lab.engine.closed, True, "closed, of the engine")


@promise()
def appends_in_the_background(lab: Lab) -> None:
    """append_async() stores appends in their order; close() finishes what is queued."""
    db = lab.database()
    topic = lab.topic_in(0)
    futures = [db.append_async([(topic, None, b"%d" % n)]) for n in range(50)]
    serials = [future.result(lab.patience_s).serials[0] for future in futures]
    expect.equal(serials, sorted(serials), "the serials of appends in their order")
    expect.equal(
        [m.value for m in db.scan(topic)], [b"%d" % n for n in range(50)], "what is stored"
    )
    with expect.raises(_core.TopicError, "a bad topic, at once"):
        db.append_async([("a/#", 1, b"")])
    futures = [db.append_async([(topic, None, b"%d" % n)]) for n in range(50, 80)]
    db.close()
    expect.equal([f.result(0).count for f in futures], [1] * 30, "what was queued before close()")
    with expect.raises(_core.ClosedError, "append_async() afterwards"):
        db.append_async([(topic, 1, b"")])


@promise("transactions")
def maps_are_kept(lab: Lab) -> None:
    """A map stores what is committed, has one owner, and can be taken over."""
    db = lab.database()
    with db.map("m") as first:
        first["a"] = b"1"
        first["b"] = b"2"
        first.commit()
        del first["b"]
        first["c"] = b"3"
    second = db.map("m")
    expect.equal(dict(second), {"a": b"1", "c": b"3"}, "what the map has")
    with expect.raises(_core.ConflictError, "opening it again"):
        db.map("m")
    third = db.map("m", takeover=True)
    second["a"] = b"lost"
    with expect.raises(_core.ConflictError, "a commit of the one that lost it"):
        second.commit()
    third.close()
    expect.equal(db.scan("#").count(), 0, "messages that the filter # finds of it")


@promise("transactions")
def conflicts_are_tried_again(lab: Lab) -> None:
    """transact() runs a function again after a conflict."""
    db = lab.database()
    attempts: list[int] = []
    topic = lab.topic_in(0)

    def add(transaction: Transaction) -> int:
        found = int(transaction.get(topic) or 0)
        attempts.append(found)
        if len(attempts) < 3:
            with db.transaction(shard=0) as other:
                other.write(topic, 0, b"%d" % (found + 10))
        transaction.write(topic, 0, b"%d" % (found + 1))
        return found + 1

    expect.equal(db.transact(add, shard=0), 21, "what it returns")
    expect.equal(attempts, [0, 10, 20], "what each attempt has read")


@promise("transactions", "log", "subscriptions")
def a_consumer_goes_on(lab: Lab) -> None:
    """A consumer gives each message, goes on behind what it acknowledged, and counts what is
    left; its position may be stored together with other writes."""
    db = lab.database()
    db.append([(f"c/{n % 3}", None, b"%d" % n) for n in range(30)])

    def drain(count: int) -> list[int]:
        found: list[int] = []
        with db.consumer("etl", "c/#") as consumer:
            while len(found) < count:
                batch = consumer.poll(7, timeout=lab.patience_s)
                expect.true(len(batch), f"a consumer has {count - len(found)} more messages")
                found += [int(value) for value in batch.values]
                consumer.ack(batch)
            expect.equal(consumer.lag(), 0, "its lag")
        return sorted(found)

    expect.equal(drain(30), list(range(30)), "what it gives")
    db.append([("c/0", None, b"30"), ("c/1", None, b"31")])
    expect.equal(drain(2), [30, 31], "what it gives afterwards")
    db.append([("c/0", None, b"32")])
    with db.consumer("etl", "c/#") as consumer:
        batch = consumer.poll(timeout=lab.patience_s)
        with db.transaction(shard=0) as transaction:
            transaction.write(lab.topic_in(0, "sum"), 0, b"32")
            consumer.ack(batch, transaction)
    with db.consumer("etl", "c/#") as consumer:
        expect.equal(consumer.lag(), 0, "its lag, when a transaction has acknowledged")
    expect.equal(db.consumers(), ["etl"], "the consumers that there are")


@promise("transactions", "log", "subscriptions")
def a_group_divides_messages(lab: Lab) -> None:
    """The members of a group together get each message once."""
    db = lab.database()
    db.append([(f"g/{n % 20}", None, b"%d" % n) for n in range(100)])
    group = db.group("workers", "g/#", parts=4)
    found: list[int] = []
    with group.join() as one, group.join() as two:

        def has_all() -> bool:
            for member in (one, two):
                batch = member.poll(timeout=0.05)
                found.extend(int(value) for value in batch.values)
                member.ack(batch)
            return len(found) >= 100

        lab.wait_until(has_all, "the members get all messages")
    expect.equal(sorted(found), list(range(100)), "what they got")
    group.close()


@promise("transactions", "log", "subscriptions")
def filters_can_be_replaced(lab: Lab) -> None:
    """The filters of a consumer, and of a group without members, can be replaced: they go on where
    they stand, and give what the new filters match from there on."""
    db = lab.database()
    a, b = lab.topic_in(0, "a"), lab.topic_in(0, "b")

    def drain(reader: Consumer | Member, count: int) -> list[bytes]:
        found: list[bytes] = []
        while len(found) < count:
            batch = reader.poll(timeout=lab.patience_s)
            expect.true(len(batch), f"there are {count - len(found)} more messages")
            found += batch.values
            reader.ack(batch)
        return found

    for topic, value in ((b, b"before"), (a, b"1")):
        db.append([(topic, None, value)])
    with db.consumer("etl", a) as consumer, db.group("workers", a, parts=1).join() as member:
        expect.equal(drain(consumer, 1), [b"1"], "what the consumer gives")
        expect.equal(drain(member, 1), [b"1"], "what the group gives")
        consumer.set_filters([a, b])
    group = db.group("workers", a)
    group.set_filters([a, b])
    for topic, value in ((b, b"2"), (a, b"3"), (b, b"4")):
        db.append([(topic, None, value)])
    with expect.raises(ValueError, "the consumer with the filters that it had"):
        db.consumer("etl", a)
    wanted = [b"2", b"3", b"4"]
    with db.consumer("etl", [a, b]) as consumer, group.join() as member:
        expect.equal(drain(consumer, 3), wanted, "what the consumer gives with other filters")
        expect.equal(drain(member, 3), wanted, "what the group gives with other filters")
    group.close()


@promise("transactions", "log", "subscriptions")
def a_session_comes_back(lab: Lab) -> None:
    """An MQTT session has its subscriptions, and what came meanwhile, when it is opened again."""
    db = lab.database()
    session = db.session("client")
    session.subscribe("s/#", 1)
    session.close()
    db.append([("s/a", None, b"while away")])
    session = db.session("client")
    packets = session.poll(10, timeout=lab.patience_s)
    expect.equal([packet.value for packet in packets], [b"while away"], "what it gives")
    expect.equal(db.sessions(), ["client"], "the sessions that there are")
    session.close()


@promise("streams")
def structures_are_streams_by_name(lab: Lab) -> None:
    """Database.structures() lists the streams by structure, next() reads one."""
    db = lab.database()
    db.append([("st/a", 1, b"1"), ("st/b/c", 1, b"2")])
    found = db.structures("st/#")
    expect.equal(sorted(found), sorted({s.structure for s in db.streams("st/#")}), "structures")
    read = [m.value for s in db.streams("st/#") for m in db.next(db.iterator(s, "st/#")).batch]
    expect.equal(sorted(read), [b"1", b"2"], "what their streams hold")
