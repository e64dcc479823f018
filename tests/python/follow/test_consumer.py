"""Tests of consumers: their stored positions, and acknowledgements in transactions."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from served import lose_answer, lose_call, serving
from settling import batches_of
from support import PATIENCE_S

import topicdb
from topicdb import Place
from topicdb.follow.positions import Positions


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "db"


@pytest.fixture
def db(path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(path, shards=3) as database:
        yield database


LOST = (topicdb.ConflictError, topicdb.PreconditionError)


def fill(db: topicdb.Database, first: int, last: int) -> None:
    db.append([(f"a/{i % 5}", None, b"%d" % i) for i in range(first, last)])


def numbers(batch: topicdb.Batch) -> list[int]:
    return [int(value) for value in batch.values]


def drain(consumer: topicdb.Consumer, *, ack: bool = True) -> list[int]:
    """Returns the numbers of all messages that the consumer gives, sorted."""
    found: list[int] = []
    for batch in batches_of(consumer):
        found += [int(m.value) for m in batch]
        if ack:
            consumer.ack(batch)
    return sorted(found)


def test_it_goes_on_where_it_was(path: Path) -> None:
    with topicdb.open(path, shards=3) as db:
        fill(db, 0, 50)
        with db.consumer("c", "a/#") as consumer:
            assert drain(consumer) == list(range(50))
    with topicdb.open(path) as db:
        fill(db, 50, 60)
        consumer = db.consumer("c", "a/#")
        assert drain(consumer, ack=False) == list(range(50, 60))
    with topicdb.open(path) as db, db.consumer("c", "a/#") as consumer:
        assert drain(consumer) == list(range(50, 60))


def test_a_part_of_a_commit_is_acknowledged(db: topicdb.Database) -> None:
    db.append([("a", None, b"%d" % i) for i in range(10)])
    with db.consumer("c") as consumer:
        first = consumer.poll(3, timeout=PATIENCE_S)
        second = consumer.poll(3, timeout=PATIENCE_S)
        consumer.ack(first)
        assert (len(first), len(second), consumer.lag()) == (3, 3, 10)  # a commit counts as a whole
    with db.consumer("c") as consumer:
        assert drain(consumer) == list(range(3, 10))


def test_where_it_starts(db: topicdb.Database) -> None:
    fill(db, 0, 5)
    latest = db.consumer("latest", start="latest")
    db.append([("a/1", 77, b"5"), ("a/1", 5, b"6")])
    assert drain(db.consumer("time", start="-1h")) == list(range(5))
    assert drain(latest) == [5, 6]
    receipt = db.append([("a/1", None, b"7")])
    assert 7 not in drain(db.consumer("serials", start=receipt.serials))
    latest.close()
    assert drain(db.consumer("latest", start="earliest")) == [7]


def test_poll_gives_an_empty_batch(db: topicdb.Database) -> None:
    with db.consumer("c") as consumer:
        batch = consumer.poll(timeout=0)
        assert len(batch) == 0 and batch.to_list() == [] and batch.topics == []
        with pytest.raises(ValueError, match="rows"):
            consumer.poll(0)
        consumer.ack()
        consumer.ack(batch)


def test_acknowledgements_that_cannot_be(db: topicdb.Database) -> None:
    fill(db, 0, 20)
    with db.consumer("c") as consumer, db.consumer("other") as other:
        batches = [consumer.poll(5, timeout=PATIENCE_S) for _ in range(3)]
        consumer.ack(batches[1])
        for batch in batches[:2]:
            with pytest.raises(ValueError, match="already"):
                consumer.ack(batch)
        with pytest.raises(ValueError, match="not given"):
            consumer.ack(other.poll(5, timeout=PATIENCE_S))
        consumer.rewind()
        with pytest.raises(ValueError, match="since it was moved"):
            consumer.ack(batches[2])
        assert consumer.info()["unacknowledged"] == 0
    with pytest.raises(topicdb.ClosedError):
        consumer.ack()


def test_names(db: topicdb.Database) -> None:
    with pytest.raises(topicdb.NotFoundError, match="ghost"):
        db.drop_consumer("ghost")
    name = "etl/+#\0%é"
    with db.consumer(name, ["a/1", "b/#"]) as consumer:
        assert consumer.name == name
        with pytest.raises(topicdb.ConflictError, match="open already"):
            db.consumer(name, ["a/1", "b/#"])
        with pytest.raises(topicdb.ConflictError, match="open already"):
            db.drop_consumer(name)
        with pytest.raises(ValueError, match="has the filters"):
            db.consumer(name, "#", takeover=True)
        assert not consumer.closed
        consumer.ack()
    assert db.consumers() == [name]
    with pytest.raises(ValueError, match="on_change='replace'"):
        db.consumer(name)
    db.drop_consumer(name)
    assert db.consumers() == [] and list(db.scan("$topicdb/#")) == []
    with pytest.raises(ValueError, match="65535"):
        db.consumer("n" * 70_000)


def test_what_is_refused_leaves_nothing(db: topicdb.Database) -> None:
    bad: list[dict[str, Any]] = [{"window": 0}, {"window_bytes": 0}, {"start": "soon"}]
    for arguments in [*bad, {"filter": "#/#"}, {"on_change": "maybe"}]:
        with pytest.raises(ValueError, match=next(iter(arguments))):
            db.consumer("bad", **arguments)
    assert db.consumers() == []


def test_who_has_no_writing_handle_has_no_consumer(db: topicdb.Database, path: Path) -> None:
    with topicdb.open(path, mode="r") as reader, pytest.raises(topicdb.ReadOnlyError):
        reader.consumer("c")


def test_takeover(db: topicdb.Database) -> None:
    fill(db, 0, 10)
    old = db.consumer("c")
    batch = old.poll(timeout=PATIENCE_S)
    late = db.transaction(shard=1)
    late.write("effect", 0, b"")
    old.ack(batch, late)
    new = db.consumer("c", takeover=True)
    assert old.closed
    with pytest.raises(topicdb.ClosedError):
        old.ack()
    with pytest.raises(LOST):
        late.commit()
    assert drain(new) == list(range(10))


def test_an_acknowledgement_is_part_of_a_transaction(db: topicdb.Database) -> None:
    fill(db, 0, 10)
    with db.consumer("c") as consumer:
        batches = [consumer.poll(2, timeout=PATIENCE_S) for _ in range(3)]
        with pytest.raises(RuntimeError, match="stop"), db.transaction(shard=2) as transaction:
            consumer.ack(batches[0], transaction)
            raise RuntimeError("stop")
        for transaction_of in (None, db.transaction(shard=0)):
            with pytest.raises(ValueError, match="not committed"):
                consumer.ack(batches[1], transaction_of)
        # This acknowledges the first batch again, and the second.
        with db.transaction(shard=2) as transaction:
            consumer.ack(batches[0], transaction)
            consumer.ack(batches[1], transaction)
            assert consumer.info()["unacknowledged"] == 6
        assert consumer.info()["unacknowledged"] == 2
        consumer.ack(batches[2])
    with db.consumer("c") as consumer:
        assert len(drain(consumer)) == 4


def test_the_last_acknowledgement_counts_in_whichever_shard_it_is(db: topicdb.Database) -> None:
    db.append([("a", None, b"%d" % i) for i in range(10)])
    with db.consumer("c") as consumer:
        for shard in (2, 0, 1):
            batch = consumer.poll(2, timeout=PATIENCE_S)
            with db.transaction(shard=shard) as transaction:
                consumer.ack(batch, transaction)
    for _ in range(2):  # the second time from the state that the first consumer stored
        with db.consumer("c") as consumer:
            assert numbers(consumer.poll(timeout=PATIENCE_S)) == [6, 7, 8, 9]


def test_rewind_after_a_transaction_that_failed(db: topicdb.Database) -> None:
    fill(db, 0, 10)
    with db.consumer("c") as consumer:
        with db.transaction(shard=1) as transaction:
            consumer.ack(consumer.poll(5, timeout=PATIENCE_S), transaction)
            transaction.rollback()
        consumer.rewind()
        assert drain(consumer) == list(range(10))


@pytest.mark.parametrize("is_done", [True, False])
def test_rewind_after_a_commit_whose_answer_was_lost(
    db: topicdb.Database, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    fill(db, 0, 3)

    def add_up(batch: topicdb.Batch) -> None:
        with remote.transaction(key="sum") as transaction:
            total = int(transaction.get("sum") or 0)
            transaction.write("sum", 0, b"%d" % (total + len(batch)))
            consumer.ack(batch, transaction)

    with serving(db) as server, topicdb.connect(server.url) as remote:
        consumer = remote.consumer("etl", "a/#")
        batch = next(batches_of(consumer))
        (lose_answer if is_done else lose_call)(monkeypatch, "transaction.commit")
        with pytest.raises(topicdb.UnavailableError):
            add_up(batch)
        with pytest.raises(ValueError, match="rewind"):
            add_up(batch)  # it may have had its effect
        consumer.rewind()
        for batch in batches_of(consumer):
            add_up(batch)
        consumer.close()
    with db.transaction(key="sum") as transaction:
        assert transaction.get("sum") == b"3"
    with db.consumer("etl", "a/#") as again:
        assert list(batches_of(again)) == []


def test_a_transaction_from_before_a_rewind_is_not_committed(db: topicdb.Database) -> None:
    fill(db, 0, 3)
    with db.consumer("etl", "a/#") as consumer:
        batch = next(batches_of(consumer))
        transaction = db.transaction(shard=1)
        consumer.ack(batch, transaction)
        consumer.rewind()
        with pytest.raises(LOST):
            transaction.commit()
        assert sum(len(one) for one in batches_of(consumer)) == 3
        consumer.ack()
        assert consumer.lag() == 0


def test_a_seek_that_fails_moves_nothing(
    db: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(db, 0, 10)
    with serving(db) as server, topicdb.connect(server.url) as remote:
        consumer = remote.consumer("etl", "a/#")
        assert drain(consumer) == [*range(10)]
        places = consumer.places
        lose_call(monkeypatch, "transaction.commit")
        with pytest.raises(topicdb.UnavailableError):
            consumer.seek("earliest")
        assert consumer.places == places
        consumer.rewind()
        assert drain(consumer) == []
        consumer.close()


def test_a_consumer_that_was_taken_over_elsewhere_moves_nothing(db: topicdb.Database) -> None:
    fill(db, 0, 10)
    with serving(db) as server:
        old, new = topicdb.connect(server.url), topicdb.connect(server.url)
        first = old.consumer("etl", "a/#")
        assert drain(first, ack=False) == [*range(10)]
        first.ack(transaction=old.transaction(shard=0))
        second = new.consumer("etl", "a/#", takeover=True)
        assert drain(second) == [*range(10)]
        with pytest.raises(topicdb.ConflictError, match="taken over"):
            first.seek("earliest")
        with pytest.raises(topicdb.ConflictError, match="taken over"):
            first.rewind()
        fill(db, 10, 12)
        assert drain(second) == [10, 11]
        for client in (old, new):
            client.close()
    with db.consumer("etl", "a/#") as third:
        assert drain(third) == []


def test_of_two_clients_at_once_the_later_one_has_it(
    db: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(db, 0, 10)
    original = Positions._fence
    with serving(db) as server:
        early, late = topicdb.connect(server.url), topicdb.connect(server.url)
        faster: list[topicdb.Consumer] = []

        def fence(self: Positions) -> int:
            highest = original(self)
            if not faster:  # another client takes the name between reading and writing
                monkeypatch.setattr(Positions, "_fence", original)
                faster.append(late.consumer("etl", "a/#", takeover=True))
            return highest

        monkeypatch.setattr(Positions, "_fence", fence)
        slower = early.consumer("etl", "a/#", takeover=True)
        with pytest.raises(LOST):
            assert drain(faster[0]) == [*range(10)]
        assert drain(slower) == [*range(10)]
        for client in (early, late):
            client.close()


def test_who_is_overtaken_takes_no_shard_from_the_later_owner(
    db: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Positions._raise_fence
    with serving(db) as server:
        early, late = topicdb.connect(server.url), topicdb.connect(server.url)
        owners: list[topicdb.Consumer] = []

        def raise_fence(self: Positions, shard: int, epoch: int) -> bool:
            if not owners:  # another client takes the name when one shard has its fence
                monkeypatch.setattr(Positions, "_raise_fence", original)
                owners.append(late.consumer("etl", "a/#", takeover=True))
            return original(self, shard, epoch)

        monkeypatch.setattr(Positions, "_raise_fence", raise_fence)
        with pytest.raises(topicdb.ConflictError, match="taken over"):
            early.consumer("etl", "a/#", takeover=True)
        for shard in range(3):
            fill(db, shard, shard + 1)
            batch = owners[0].poll(timeout=PATIENCE_S)
            with late.transaction(shard=shard) as transaction:
                owners[0].ack(batch, transaction)
        for client in (early, late):
            client.close()


def test_seek(db: topicdb.Database) -> None:
    db.append([("a", 100 + i, b"%d" % i) for i in range(10)])
    db.append([("a", 50, b"10")])
    consumer = db.consumer("c")
    assert drain(consumer) == list(range(11))
    consumer.seek(105)
    assert drain(consumer) == list(range(5, 11))
    consumer.seek("earliest")
    assert consumer.lag() == 11
    consumer.close()
    consumer = db.consumer("c")
    assert drain(consumer) == list(range(11))
    places = consumer.places
    consumer.seek("latest")
    db.append([("a", 10, b"11")])
    assert drain(consumer) == [11]
    consumer.seek(places)
    assert drain(consumer) == [11]
    consumer.seek({0: Place(1, 0), 1: Place(1, 0), 2: Place(1, 0)})
    with db.transaction(shard=1) as transaction:
        consumer.ack(consumer.poll(timeout=PATIENCE_S), transaction)
        consumer.seek("latest")
        with pytest.raises(LOST):
            transaction.commit()
    assert drain(consumer) == []
    consumer.close()


def test_another_thread_may_close_it(db: topicdb.Database) -> None:
    consumer = db.consumer("c")
    batches: list[topicdb.Batch] = []
    thread = threading.Thread(target=lambda: batches.extend(consumer))
    thread.start()
    time.sleep(0.02)
    consumer.close()
    thread.join()
    assert batches == [] and repr(consumer) == "<topicdb.Consumer 'c' (closed)>"


def test_memory_of_what_nobody_acknowledges_is_bounded(db: topicdb.Database) -> None:
    fill(db, 0, 5_000)
    with db.consumer("c") as consumer:
        for _ in range(5_000):
            consumer.poll(1, timeout=PATIENCE_S)
        assert len(consumer._given) < 2_000
        consumer.ack()
        assert consumer.lag() == 0


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 20)),
        st.tuples(st.just("poll"), st.integers(1, 8)),
        st.tuples(st.just("ack"), st.integers(0, 5)),
        st.tuples(st.just("transact"), st.integers(0, 2)),
        st.tuples(st.just("fail"), st.integers(0, 2)),
        st.tuples(st.just("rotate")),
        st.tuples(st.just("reopen")),
        st.tuples(st.just("rewind")),
    ),
    max_size=30,
)


@settings(max_examples=40)
@given(steps=STEPS)
def test_nothing_is_left_out_and_what_is_acknowledged_comes_once(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[object, ...]]
) -> None:
    """A message comes again until it is acknowledged, and does not come again after that."""
    path = tmp_path_factory.mktemp("consumer") / "db"
    db = topicdb.open(path, shards=3)
    consumer = db.consumer("c")
    count = 0
    waiting: list[tuple[topicdb.Batch, list[int]]] = []  # given and not acknowledged
    done: list[int] = []

    def commit_of(number: int, *, fails: bool) -> None:
        batch = waiting[0][0]
        with db.transaction(shard=number) as transaction:
            transaction.write("effects", None, b"")
            consumer.ack(batch, transaction)
            if fails:
                transaction.rollback()
        if fails:
            consumer.rewind()
            waiting.clear()
        else:
            done.extend(waiting.pop(0)[1])

    for what, *arguments in steps:
        number = arguments[0] if arguments else 0
        assert isinstance(number, int)
        if what == "append":
            fill(db, count, count + number)
            count += number
        elif what == "poll":
            batch = consumer.poll(number, timeout=0)
            values = [int(m.value) for m in batch if m.topic != "effects"]
            if len(batch) > 0:
                waiting.append((batch, values))
        elif what == "ack" and waiting:
            upto = min(number, len(waiting) - 1)
            consumer.ack(waiting[upto][0])
            for _ in range(upto + 1):
                done.extend(waiting.pop(0)[1])
        elif what in ("transact", "fail") and waiting:
            commit_of(number, fails=what == "fail")
        elif what == "rotate":
            db.rotate()
        elif what == "reopen":
            db.close()
            db = topicdb.open(path)
            consumer = db.consumer("c")
            waiting.clear()
        elif what == "rewind":
            consumer.rewind()
            waiting.clear()
    for _, values in waiting:
        done.extend(values)
    consumer.ack()
    for batch in batches_of(consumer):
        done.extend(int(m.value) for m in batch if m.topic != "effects")
    assert sorted(done) == list(range(count))
    db.close()


PROGRAM = textwrap.dedent(
    """
    import sys
    import topicdb

    with topicdb.open(sys.argv[1]) as db:
        print("open", flush=True)
        with db.consumer("sums", "in/#", timeout=1) as consumer:
            while consumer.lag() > 0:
                batch = consumer.poll(7, timeout=0.5)
                if len(batch) == 0:
                    continue
                def effect(transaction):
                    for topic, _, value in batch:
                        key = topic.replace("in/", "out/")
                        count, total = map(int, (transaction.get(key) or b"0 0").split())
                        transaction.write(key, 0, b"%d %d" % (count + 1, total + int(value)))
                    consumer.ack(batch, transaction)
                db.transact(effect, key="sums")
    print("done", flush=True)
    """
)


def test_each_message_has_its_effect_once_whatever_is_killed(path: Path) -> None:
    with topicdb.open(path, shards=3) as db:
        for first in range(0, 3_000, 100):
            db.append([(f"in/{i % 7}", None, b"%d" % i) for i in range(first, first + 100)])
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    kills = 0
    while True:
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            if kills < 8:
                time.sleep(chance.uniform(0, 0.05))
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                kills += 1
                continue
            assert process.stdout.read() == "done\n"
        break
    with topicdb.open(path) as db, db.transaction(key="sums") as transaction:
        for topic in range(7):
            values = range(topic, 3_000, 7)
            found = (transaction.get(f"out/{topic}") or b"").split()
            assert found == [b"%d" % len(values), b"%d" % sum(values)], f"seed {seed}"
