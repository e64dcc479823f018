"""Tests of durable sessions: exactly the packets in flight come again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from served import lose_answer, serving
from settling import packets_of
from support import PATIENCE_S, wait_until

import topicdb
from topicdb.follow.session_state import Qos


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "db"


@pytest.fixture
def db(path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(path, shards=2) as database:
        yield database


def put(db: topicdb.Database, *values: int, topic: str = "a/{}") -> None:
    db.append([(topic.format(v % 3), None, b"%d" % v) for v in values])


def numbers(packets: list[topicdb.Packet]) -> list[int]:
    return sorted(int(p.value) for p in packets)


def take(session: topicdb.Session, count: int = 1_000) -> list[topicdb.Packet]:
    found: list[topicdb.Packet] = []
    for packets in packets_of(session, count):
        found += packets
    return found


def test_what_was_not_acknowledged_comes_again(db: topicdb.Database) -> None:
    with db.session("c") as session:
        assert not session.resumed and session.poll(timeout=0) == []
        session.subscribe("a/#")
        put(db, *range(10))
        sent = {p.id: p for p in take(session)}
        assert sorted(sent) == list(range(1, 11)) and numbers(list(sent.values())) == [*range(10)]
        session.puback(1, 3, 7)
    put(db, 10, 11)
    with db.session("c") as session:
        assert session.resumed
        again = session.poll(100, timeout=PATIENCE_S)
        assert [p.id for p in again] == [2, 4, 5, 6, 8, 9, 10] and all(p.dup for p in again)
        assert [p._replace(dup=False) for p in again] == [sent[p.id] for p in again]
        new = take(session)
        assert [p.id for p in new] == [11, 12] and numbers(new) == [10, 11]
        session.puback(*session.in_flight)
    with db.session("c") as session:
        assert take(session) == []


def test_qos_2_to_its_end(db: topicdb.Database) -> None:
    session = db.session("c")
    session.subscribe("a/#", qos=2)
    put(db, 0, 1, 2)
    assert [p.id for p in take(session)] == [1, 2, 3]
    with pytest.raises(ValueError, match="PUBCOMP without PUBREC"):
        session.pubcomp(1)
    with pytest.raises(ValueError, match="QoS 1"):
        session.puback(1)
    session.pubrec(1, 2)
    session.pubrec(1)
    session.pubcomp(2)
    session.close()
    session = db.session("c")
    assert session.releases == [1]
    assert [(p.id, p.qos, p.dup) for p in take(session)] == [(3, 2, True)]
    session.pubcomp(1)
    assert session.in_flight == [3]
    session.close()


@pytest.mark.parametrize("qos", [1, 2])
def test_what_comes_again_keeps_to_receive_maximum(db: topicdb.Database, qos: Qos) -> None:
    with db.session("c", receive_maximum=8) as session:
        session.subscribe("a/#", qos)
        put(db, *range(10))
        sent = [p.id for p in take(session)]
        assert len(sent) == 8
        if qos == 2:
            session.pubrec(sent[7])
    with db.session("c", receive_maximum=3) as session:
        given = session.poll(100, timeout=PATIENCE_S)
        held = len(session.releases)  # PUBCOMP is still to come
        assert [p.id for p in given] == sent[: 3 - held] and all(p.dup for p in given)
        assert session.poll(100, timeout=0) == []
        answer(session, sent[7], sent[4], sent[0])  # not all of them have come again
        given = session.poll(100, timeout=PATIENCE_S)
        assert [p.id for p in given] == ([sent[2], sent[3]] if qos == 2 else [sent[3]])
        assert session.poll(100, timeout=0) == []
        answer(session, *sent[1:4])
        assert [p.id for p in session.poll(100, timeout=PATIENCE_S)] == sent[5:7]
        answer(session, *sent[5:7])
        assert [p.dup for p in take(session)] == [False, False]


def answer(session: topicdb.Session, *ids: int) -> None:
    for id in ids:
        if session._state.in_flight[id].qos == 1:
            session.puback(id)
        else:
            session.pubrec(id)
            session.pubcomp(id)


def test_overlapping_filters_and_qos_0(db: topicdb.Database) -> None:
    with db.session("c") as session:
        for filter, qos in (("a/#", 0), ("a/1", 1), ("+/1", 2), ("b", 1)):
            session.subscribe(filter, qos)  # type: ignore[arg-type]
        put(db, 0, 1, 2)
        db.append([("b", None, b"3")])
        found = {p.value: (p.qos, p.id > 0) for p in take(session)}
        assert found == {b"0": (0, False), b"1": (2, True), b"2": (0, False), b"3": (1, True)}
        session.subscribe("+/1", 0)
        put(db, 4)
        assert [p.qos for p in take(session)] == [1]


def test_subscribing_and_unsubscribing_between_messages(db: topicdb.Database) -> None:
    with db.session("c") as session:
        session.subscribe("a/#")
        put(db, 0)
        assert numbers(take(session)) == [0]
        put(db, 1)
        put(db, 2, topic="b/{}")
        session.subscribe("b/#")  # from now on, while message 1 is still to come
        put(db, 3, topic="b/{}")
        assert numbers(take(session)) == [1, 3]
        put(db, 4)
        assert session.unsubscribe("a/#") and not session.unsubscribe("a/#")
        put(db, 5)
        put(db, 6, topic="b/{}")
        assert numbers(take(session)) == [6]
        assert session.filters == {"b/#": 1}
        session.subscribe("a/#", start="earliest")
        assert numbers(take(session)) == [0, 1, 4, 5]  # and no message of b again
        put(db, 7)
        assert numbers(take(session)) == [7]
    with db.session("c") as session:
        assert numbers(take(session)) == [0, 0, 1, 1, 3, 4, 5, 6, 7]


def test_what_is_in_flight_of_a_filter_that_was_removed(db: topicdb.Database) -> None:
    with db.session("c") as session:
        session.subscribe("a/#")
        put(db, 0, 1)
        take(session)
        session.unsubscribe("a/#")
    put(db, 2)
    with db.session("c") as session:
        assert numbers(take(session)) == [0, 1] and session.filters == {}
        session.puback(*session.in_flight)
        session.flush()
    with db.session("c") as session:
        assert take(session) == []


def test_a_message_in_flight_that_was_deleted(db: topicdb.Database) -> None:
    with db.session("c") as session:
        session.subscribe("#", qos=2)
        put(db, 0, 1, 2)
        take(session)
    db.delete("a/1")
    with db.session("c") as session:
        assert numbers(take(session)) == [0, 2]
        assert len(session.in_flight) == 2


def test_receive_maximum(db: topicdb.Database) -> None:
    with db.session("c", receive_maximum=3) as session:
        session.subscribe("a/#")
        put(db, *range(10))
        first = session.poll(10, timeout=PATIENCE_S)
        assert len(first) <= 3
        while len(session.in_flight) < 3:
            first += session.poll(10, timeout=PATIENCE_S)
        assert session.poll(10, timeout=0.05) == []
        while len(first) < 10:
            session.puback(*session.in_flight)
            first += session.poll(10, timeout=PATIENCE_S)
        assert numbers(first) == list(range(10)) and take(session) == []


def test_a_poll_that_waits_goes_on(db: topicdb.Database) -> None:
    put(db, 0, 1)
    session = db.session("c", receive_maximum=1)
    found: list[topicdb.Packet] = []

    def poll(count: int) -> None:
        while len(found) < count and (packets := session.poll(timeout=None)):
            found.extend(packets)

    def begin(count: int) -> threading.Thread:
        thread = threading.Thread(target=poll, args=(count,))
        thread.start()
        return thread

    def while_it_waits(change: Callable[[], None]) -> None:
        may_give: Any = session._may_give

        def was_changed() -> bool:
            with session._lock:  # a waiting poll needs this lock to go on
                if not may_give._waiters:
                    return False
                change()
                return True

        wait_until(was_changed)

    thread = begin(2)  # this poll waits because there is no filter
    while_it_waits(lambda: session.subscribe("a/#", start="earliest"))
    wait_until(lambda: session.in_flight)
    session.puback(1)
    thread.join()
    assert numbers(found) == [0, 1]
    thread = begin(3)  # this poll waits because there is no room
    while_it_waits(session.close)
    thread.join()
    assert len(found) == 2


def test_ids_go_round_and_are_not_used_twice(db: topicdb.Database) -> None:
    with db.session("c", receive_maximum=10) as session:
        session.subscribe("a/#")
        put(db, 0)
        (held,) = session.poll(timeout=PATIENCE_S)
        session._state.next_id = 65_534
        put(db, *range(1, 6))
        ids = [p.id for p in take(session)]
        assert held.id == 1 and ids == [65_534, 65_535, 2, 3, 4]


def test_expiry(db: topicdb.Database) -> None:
    for name, expiry in (("short", "1ms"), ("long", "1h"), ("ever", None), ("held", "1ms")):
        session = db.session(name, expiry=expiry)
        session.subscribe("#")
        if name != "held":
            session.close()
        else:
            held = session
    time.sleep(0.01)
    assert db.sessions() == ["ever", "held", "long", "short"]
    with db.session("short") as session:
        assert not session.resumed and session.filters == {}
        assert not session.closed
    assert db.expire_sessions() == []  # short was stored anew, with the default expiry of an hour
    held.close()
    time.sleep(0.01)
    assert db.expire_sessions() == ["held"]
    with db.session("long", clean_start=True) as session:
        assert not session.resumed and session.filters == {}
    with db.session("ever") as session:
        assert session.resumed


def test_one_connection_at_a_time(db: topicdb.Database) -> None:
    first = db.session("c")
    first.subscribe("a/#")
    put(db, 0)
    take(first)
    with pytest.raises(topicdb.ConflictError, match="open already"):
        db.session("c")
    with pytest.raises(topicdb.ConflictError, match="open already"):
        db.drop_session("c")
    second = db.session("c", takeover=True)
    for call in (first.flush, lambda: first.puback(1), first.poll):
        with pytest.raises(topicdb.ClosedError, match="taken it over"):
            call()
    first.close()
    assert numbers(take(second)) == [0]
    second.close()
    db.drop_session("c")
    with pytest.raises(topicdb.NotFoundError):
        db.drop_session("c")
    assert db.sessions() == []


def test_closing_while_poll_reads_leaves_the_messages_to_the_next(
    db: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = db.session("c")
    first.subscribe("a/#")
    put(db, 0)
    subscription = first._subscribed()
    assert subscription is not None
    read = subscription._next

    def read_and_close(timeout_us: int | None, rows: int) -> Any:
        delivery = read(timeout_us, rows)
        first.close()
        return delivery

    monkeypatch.setattr(subscription, "_next", read_and_close)
    assert first.poll(timeout=PATIENCE_S) == []
    with db.session("c") as second:
        assert second.in_flight == []
        assert numbers(take(second)) == [0]


def test_what_cannot_be_stored_has_not_happened(path: Path) -> None:
    with topicdb.open(path, retention={"fill/#": "30d", "#": "30d"}) as db:
        with db.session("c") as session:
            session.subscribe("a/#", qos=2)
            put(db, 0)
            assert [p.id for p in take(session)] == [1]
        put(db, 1, 2, 3)
        db.append([("fill", i, random.Random(i).randbytes(100_000)) for i in range(20)])
    with topicdb.open(path, quota_bytes=1_000_000, quota_trim=None) as db:
        session = db.session("c")
        assert [(p.id, p.dup) for p in session.poll(timeout=PATIENCE_S)] == [(1, True)]
        for _ in range(2):  # packets that were not given are not in flight
            with pytest.raises(topicdb.QuotaError):
                session.poll(timeout=PATIENCE_S)
            assert session.in_flight == [1]
        refused: list[Callable[[], object]] = [
            lambda: session.subscribe("b/#"),
            lambda: session.subscribe("a/#", qos=0),
            lambda: session.unsubscribe("a/#"),
            lambda: session.pubrec(1),
        ]
        for change in refused:
            with pytest.raises(topicdb.QuotaError):
                change()
            assert session.filters == {"a/#": 2} and session.releases == []
        db.rotate()
        for slab in db.slabs():
            if slab.retention_class == "fill/#" and slab.read_only:
                db.drop_slab(slab)
        found: list[topicdb.Packet] = []

        def is_given() -> bool:
            try:
                found.extend(session.poll(timeout=0.1))
            except topicdb.QuotaError:
                return False
            return len(found) >= 3

        wait_until(is_given)
        assert [(p.value, p.dup) for p in found] == [(b"%d" % i, False) for i in (1, 2, 3)]
        assert len({1, *(p.id for p in found)}) == 4
        session.close()


def test_a_state_whose_answer_was_lost_is_the_own_one(
    db: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(db) as server, topicdb.connect(server.url) as remote:
        session = remote.session("c")
        session.subscribe("a/#")
        put(db, 0, 1)
        lose_answer(monkeypatch, "transaction.commit")
        with pytest.raises(topicdb.UnavailableError):
            session.poll(timeout=PATIENCE_S)
        assert session.in_flight == []
        assert numbers(take(session)) == [0, 1]
        session.puback(*session.in_flight)
        session.close()
    with db.session("c") as again:
        assert take(again) == [] and again.in_flight == []


def test_what_another_has_stored_is_not_overwritten(db: topicdb.Database) -> None:
    first = db.session("c")
    first.subscribe("a/#")
    db._readers._sessions.clear()  # as if the first session were open in another process
    second = db.session("c")
    second.subscribe("b/#")
    with pytest.raises(topicdb.ClosedError, match="taken it over"):
        first.subscribe("c/#")
    assert first.closed
    second.close()
    with db.session("c") as third:
        assert third.filters == {"a/#": 1, "b/#": 1}


def test_what_cannot_be(db: topicdb.Database, path: Path) -> None:
    for arguments in ({"receive_maximum": 0}, {"receive_maximum": 65_536}, {"expiry": "soon"}):
        with pytest.raises(ValueError, match=next(iter(arguments))):
            db.session("c", **arguments)
    with db.session("c") as session:
        with pytest.raises(ValueError, match="qos"):
            session.subscribe("a", 3)  # type: ignore[arg-type]
        with pytest.raises(topicdb.TopicError):
            session.subscribe("a/#/b")
        with pytest.raises(ValueError, match="none of QoS 1"):
            session.puback(5)
        with pytest.raises(ValueError, match="count"):
            session.poll(0)
        assert session.filters == {}
    assert repr(session) == "<topicdb.Session 'c' (closed)>" and session.client_id == "c"
    with pytest.raises(topicdb.ClosedError):
        session.subscribe("a")
    with topicdb.open(path, mode="r") as reader, pytest.raises(topicdb.ReadOnlyError):
        reader.session("c")
    assert db.sessions() == []


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 6)),
        st.tuples(st.just("poll"), st.integers(1, 6)),
        st.tuples(st.just("ack"), st.integers(0, 5)),
        st.tuples(st.just("reconnect"), st.booleans()),
        st.tuples(st.just("reopen"), st.booleans()),
        st.tuples(st.just("rotate"), st.just(0)),
    ),
    max_size=30,
)


@settings(max_examples=40)
@given(steps=STEPS, qos=st.sampled_from([1, 2]))
def test_exactly_the_unacknowledged_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, int]],
    qos: Qos,
) -> None:
    path = tmp_path_factory.mktemp("session") / "db"
    db = topicdb.open(path, shards=2)
    session = db.session("c", receive_maximum=8)
    session.subscribe("a/#", qos)
    count = 0
    flight: dict[int, bytes] = {}  # packets that the client holds
    again: set[int] = set()  # ids of packets that are to come again
    done: list[int] = []

    def take_in(packets: list[topicdb.Packet]) -> None:
        for packet in packets:
            if packet.dup:
                assert packet.id in again and flight[packet.id] == packet.value
                again.discard(packet.id)
            else:
                assert packet.id not in flight
                flight[packet.id] = packet.value

    def acknowledge(number: int) -> None:
        id = list(flight)[number % len(flight)]
        again.discard(id)
        done.append(int(flight.pop(id)))
        if qos == 1:
            session.puback(id)
        else:
            session.pubrec(id)
            session.pubcomp(id)

    for what, number in steps:
        if what == "append":
            put(db, *range(count, count + number))
            count += number
        elif what == "poll":
            take_in(session.poll(number, timeout=0))
        elif what == "ack" and flight and not again:
            acknowledge(number)
        elif what in ("reconnect", "reopen"):
            session.close()
            if what == "reopen":
                db.close()
                db = topicdb.open(path)
            session = db.session("c", receive_maximum=8)
            assert session.resumed
            again = set(flight)
        elif what == "rotate":
            db.rotate()
    while len(done) < count:
        take_in(session.poll(8, timeout=1))
        while flight and not again:
            acknowledge(0)
    assert sorted(done) == list(range(count))
    db.close()


PROGRAM = textwrap.dedent(
    """
    import sys
    import topicdb

    # A client that never forgets: it answers each packet on its standard output.
    with topicdb.open(sys.argv[1]) as db:
        print("open", flush=True)
        session = db.session("c", receive_maximum=20, expiry=None)
        for id in session.releases:
            print("release", id, flush=True)
            session.pubcomp(id)
        while (packets := session.poll(7, timeout=0.5)) or session._subscribed().lag() > 0:
            for packet in packets:
                print("publish", packet.id, packet.value.decode(), int(packet.dup), flush=True)
            session.pubrec(*[packet.id for packet in packets])
            for packet in packets:
                print("release", packet.id, flush=True)
            session.pubcomp(*[packet.id for packet in packets])
    print("done", flush=True)
    """
)


def test_qos_2_is_exactly_once_whatever_is_killed(path: Path) -> None:
    """The client does as MQTT says: it passes on a packet only if it does not hold its id."""
    with topicdb.open(path, shards=2) as db:
        with db.session("c", expiry=None) as session:
            session.subscribe("a/#", qos=2)
        put(db, *range(1_500))
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    held: dict[str, str] = {}
    passed: list[int] = []
    seen: set[str] = set()

    def follow(lines: Iterator[str]) -> bool:
        for line in lines:
            words = line.split()
            if words[:1] == ["publish"] and len(words) == 4:
                _, packet_id, value, dup = words
                assert dup == "1" or value not in seen, "it came before, and does not say so"
                if packet_id not in held:
                    passed.append(int(value))
                assert held.setdefault(packet_id, value) == value
                seen.add(value)
            elif words[:1] == ["release"] and line.endswith("\n"):
                held.pop(words[1], None)
        return words == ["done"]

    for kills in range(9):
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            if kills < 8:
                time.sleep(chance.uniform(0, 0.05))
                os.kill(process.pid, signal.SIGKILL)
                follow(iter([*process.stdout, "\n"]))
            else:
                assert follow(process.stdout)
    assert sorted(passed) == list(range(1_500)), f"seed {seed}"
