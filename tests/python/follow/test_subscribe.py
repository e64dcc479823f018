"""Tests of subscriptions: history and then new messages, each message once."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import PATIENCE_S, wait_until

import topicdb
from topicdb import Place


@pytest.fixture
def db(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "db", shards=2) as database:
        yield database


def append(db: topicdb.Database, first: int, last: int, topic: str = "a/{}") -> None:
    db.append([(topic.format(i), None, b"%d" % i) for i in range(first, last)])


def values(messages: Iterator[topicdb.Message] | topicdb.Subscription, count: int) -> list[int]:
    return sorted(int(m.value) for m in itertools.islice(messages, count))


def test_history_and_then_what_comes(db: topicdb.Database) -> None:
    append(db, 0, 10)
    with db.subscribe("a/#", start="earliest") as subscription:
        messages = iter(subscription)
        assert values(messages, 10) == list(range(10))
        append(db, 10, 20)
        append(db, 0, 5, "other/{}")
        append(db, 20, 21)
        assert values(messages, 11) == list(range(10, 21))


def test_a_loop_that_is_left_goes_on_with_the_next(db: topicdb.Database) -> None:
    db.append([("a", None, b"%d" % i) for i in range(10)])
    with db.subscribe(start="earliest", timeout=0.05) as subscription:
        wait_until(lambda: bool(subscription.info()["waiting"] == 10))
        for message in subscription:
            assert message.value == b"0"
            break
        gc.collect()

        async def next_three() -> list[int]:
            found: list[int] = []
            async for message in subscription:
                found.append(int(message.value))
                if len(found) == 3:
                    break
            return found

        assert asyncio.run(next_three()) == [1, 2, 3]
        assert subscription.info()["acknowledged"] == 0
        assert values(subscription, 20) == list(range(4, 10))
        assert subscription.info()["acknowledged"] == 10


def test_latest_is_from_now_on(db: topicdb.Database) -> None:
    append(db, 0, 10)
    with db.subscribe(timeout=0.05) as subscription:
        assert list(subscription) == []
        append(db, 10, 11)
        wait_until(lambda: bool(subscription.info()["waiting"] == 1))
        assert values(subscription, 2) == [10]


def test_a_start_that_is_a_time_leaves_out_what_is_older(db: topicdb.Database) -> None:
    db.append([("a", 99, b"old"), ("a", 100, b"1")])
    with db.subscribe(start=100, timeout=PATIENCE_S) as subscription:
        assert values(subscription, 1) == [1]
        db.append([("a", 5, b"late"), ("a", 101, b"2")])
        assert values(subscription, 1) == [2]
    receipt = db.append([("a", None, b"now")])
    with db.subscribe(start="-1h", timeout=0.05) as subscription:
        wait_until(lambda: bool(subscription.info()["waiting"] == 1))
        assert [m.value for m in subscription] == [b"now"]
    with db.subscribe(start=receipt.serials, timeout=0.05) as subscription:
        db.append([("a", None, b"3")])
        wait_until(lambda: bool(subscription.info()["waiting"] > 0))
        found = [m.value for m in subscription if m.topic == "a"]
        assert b"now" not in found and found[-1] == b"3"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"window": 0}, "window"),
        ({"window_bytes": 0}, "window_bytes"),
        ({"start": {9: 1}}, "start"),
        ({"start": "yesterday"}, "start"),
        ({"timeout": -1}, "timeout"),
        ({"filter": "a/#/b"}, "#"),
    ],
)
def test_what_cannot_be_is_refused(
    db: topicdb.Database, arguments: dict[str, object], word: str
) -> None:
    with pytest.raises(ValueError, match=word):
        db.subscribe(**arguments)  # type: ignore[arg-type]


def test_skipstream_has_no_log(tmp_path: Path) -> None:
    with (
        topicdb.open(tmp_path / "db", layout="skipstream") as db,
        pytest.raises(ValueError, match="commit log"),
    ):
        db.subscribe()


def test_acknowledgements_that_cannot_be(db: topicdb.Database) -> None:
    db.append([("a", None, b"%d" % i) for i in range(5)])
    with db.subscribe(start="earliest") as subscription:
        with pytest.raises(ValueError, match="not delivered"):
            subscription.ack(1)
        delivery = subscription.next(PATIENCE_S)
        assert delivery is not None and delivery.seqno == 5
        subscription.ack(2)
        for seqno in (0, 1, 2):
            with pytest.raises(ValueError, match="already"):
                subscription.ack(seqno)
        with pytest.raises(ValueError, match="not delivered"):
            subscription.ack(6)
        subscription.ack(5)


def test_info_and_lag(db: topicdb.Database) -> None:
    db.append([("a", None, b"0123456789") for _ in range(30)])
    with db.subscribe("a", start="earliest", window=10) as subscription:
        wait_until(lambda: bool(subscription.info()["state"] == "full"))
        info = subscription.info()
        assert (info["delivered"], info["waiting"], info["waiting_bytes"]) == (0, 10, 110)
        assert subscription.lag() == 30
        delivery = subscription.next()
        assert delivery is not None and delivery.seqno == 10 and not delivery.is_live
        assert subscription.info()["places"][delivery.shard] == delivery.next
        subscription.ack(10)
        subscription.pause()
        assert subscription.info()["state"] == "paused"
        assert subscription.next(0.01) is None
        subscription.resume()
        assert len(list(itertools.islice(subscription, 20))) == 20
        wait_until(lambda: bool(subscription.info()["state"] == "live"))
        db.append([("b", None, b"")] * 7)
        assert subscription.lag() == 0
        assert db.stats()["subscriptions"]["subscriptions"] == 1
    assert subscription.info()["state"] == "closed"
    assert db.stats()["subscriptions"]["subscriptions"] == 0


def test_threads_share_one(db: topicdb.Database) -> None:
    found: list[int] = []
    subscription = db.subscribe("a/#", window=20)

    def work() -> None:
        for delivery in subscription.deliveries():
            found.extend(int(m.value) for m in delivery.batch)
            with lock:
                newest[0] = max(newest[0], delivery.seqno)
                if newest[0] > acknowledged[0]:
                    subscription.ack(newest[0])
                    acknowledged[0] = newest[0]

    lock = threading.Lock()
    newest, acknowledged = [0], [0]
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(0, 500, 5):
        append(db, i, i + 5)
    wait_until(lambda: len(found) == 500)
    subscription.close()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(500))


def test_a_callback_until_it_fails_or_is_closed(db: topicdb.Database) -> None:
    seen: list[int] = []
    with db.subscribe("a/#", callback=lambda batch: seen.extend(int(m.value) for m in batch)) as s:
        append(db, 0, 50)
        wait_until(lambda: len(seen) == 50)
        assert not s.join(0)
    assert s.join(0) and sorted(seen) == list(range(50))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_of_a_callback_ends_it(db: topicdb.Database) -> None:
    def fail(batch: topicdb.Batch) -> None:
        raise RuntimeError("no more of that")

    subscription = db.subscribe("a/#", callback=fail)
    append(db, 0, 1)
    assert subscription.join(PATIENCE_S)
    assert subscription.closed


def test_closing_the_database_ends_all(tmp_path: Path) -> None:
    db = topicdb.open(tmp_path / "db")
    waiting = db.subscribe()
    called = db.subscribe(callback=lambda batch: None)
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            waiting.next()
        except topicdb.ClosedError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    db.close()
    thread.join()
    assert called.join(PATIENCE_S)
    assert "is closed" in str(errors[0])
    with pytest.raises(topicdb.ClosedError):
        next(iter(waiting))
    with pytest.raises(topicdb.ClosedError):
        db.subscribe()


def test_in_a_fork(db: topicdb.Database) -> None:
    subscription = db.subscribe()
    append(db, 0, 1)
    gc.collect()
    gc.freeze()  # the child collects nothing that earlier tests have left, such as servers
    child = os.fork()
    if child == 0:
        code = 1
        try:
            subscription.next(1)
        except topicdb.ForkedError:
            subscription.close()
            del subscription
            gc.collect()
            code = 0
        os._exit(code)
    gc.unfreeze()
    assert os.waitpid(child, 0)[1] == 0
    assert values(subscription, 1) == [0]
    subscription.close()


def test_a_reader_follows_a_writer(tmp_path: Path) -> None:
    with (
        topicdb.open(tmp_path / "db") as db,
        topicdb.open(tmp_path / "db", mode="r") as reader,
        reader.subscribe(start="earliest", timeout=PATIENCE_S) as subscription,
    ):
        append(db, 0, 5)
        assert values(subscription, 5) == list(range(5))
        append(db, 5, 9)
        assert values(subscription, 4) == list(range(5, 9))


async def _collect(subscription: topicdb.Subscription, count: int) -> list[int]:
    found: list[int] = []
    async for batch in subscription.batches():
        found.extend(int(m.value) for m in batch)
        if len(found) == count:
            break
    return found


def test_asyncio(db: topicdb.Database) -> None:
    async def follow() -> None:
        append(db, 0, 10)
        subscriptions = [db.subscribe("a/#", start="earliest", window=4) for _ in range(50)]
        tasks = [asyncio.create_task(_collect(one, 40)) for one in subscriptions]
        for i in range(10, 40, 10):
            await asyncio.sleep(0.005)
            append(db, i, i + 10)
        for found in await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE_S):
            assert sorted(found) == list(range(40))
        assert await subscriptions[0].next_await(timeout=0.01) is None
        for one in subscriptions:
            one.close()

    async def elsewhere() -> None:
        with db.subscribe("a/#", timeout=0.01) as subscription:
            assert [m async for m in subscription] == []

    asyncio.run(follow())
    asyncio.run(elsewhere())


def test_a_task_that_waits_ends_with_its_subscription(db: topicdb.Database) -> None:
    async def follow() -> None:
        subscription = db.subscribe()
        task = asyncio.create_task(subscription.next_await())
        await asyncio.sleep(0.01)
        subscription.close()
        assert await asyncio.wait_for(task, PATIENCE_S) is None

    asyncio.run(follow())


FILTERS = ["#", "t/+/a", "t/1/#", "t/2/b", "u/#", "$x/#", "+/1/a"]
TOPICS = ["t/1/a", "t/1/b", "t/2/a", "t/2/b", "u/1/a", "u", "$x/1"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.sampled_from(TOPICS), max_size=12)),
        st.tuples(st.just("rotate")),
        st.tuples(st.just("flush")),
        st.tuples(st.just("reopen")),
        st.tuples(st.just("subscribe"), st.sampled_from(FILTERS), st.integers(1, 20)),
        st.tuples(st.just("take"), st.integers(0, 9), st.integers(1, 9)),
        st.tuples(st.just("ack"), st.integers(0, 9), st.integers(1, 20)),
        st.tuples(st.just("pause"), st.integers(0, 9)),
        st.tuples(st.just("resume"), st.integers(0, 9)),
        st.tuples(st.just("reconnect"), st.integers(0, 9)),
    ),
    max_size=40,
)


class Follower:
    """A subscriber that connects again from its places, and keeps the messages that it got."""

    def __init__(self, filter: str, window: int) -> None:
        self.filter = filter
        self.window = window
        self.places: dict[int, Place] = {}
        self.found: list[tuple[str, bytes]] = []
        self.subscription: topicdb.Subscription | None = None
        self.seqno = 0
        self.acknowledged = 0

    def connect(self, db: topicdb.Database) -> None:
        if self.subscription is not None:
            self.subscription.close()
        self.subscription = db.subscribe(self.filter, start=self.places, window=self.window)
        self.seqno = self.acknowledged = 0

    def take(self, timeout: float) -> bool:
        assert self.subscription is not None
        delivery = self.subscription.next(timeout)
        if delivery is None:
            return False
        assert delivery.seqno == self.seqno + len(delivery.batch)
        self.seqno = delivery.seqno
        assert self.seqno - self.acknowledged <= self.window
        self.found.extend((m.topic, m.value) for m in delivery.batch)
        self.places[delivery.shard] = delivery.next
        return True

    def ack(self, count: int) -> None:
        assert self.subscription is not None
        upto = min(self.acknowledged + count, self.seqno)
        if upto > self.acknowledged:
            self.subscription.ack(upto)
            self.acknowledged = upto


@settings(max_examples=40)
@given(steps=STEPS)
def test_hand_over_under_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]]
) -> None:
    path = tmp_path_factory.mktemp("subscribe") / "db"
    db = topicdb.open(path, shards=2)
    written: list[tuple[str, bytes]] = []
    followers = [Follower("#", 5)]
    followers[0].connect(db)
    for what, *arguments in steps:
        if what == "append":
            batch = [(topic, b"%d" % (len(written) + i)) for i, topic in enumerate(arguments[0])]
            db.append([(topic, None, value) for topic, value in batch])
            written += batch
        elif what == "rotate":
            db.rotate()
        elif what == "flush":
            db.flush()
        elif what == "reopen":
            db.close()
            db = topicdb.open(path)
            for follower in followers:
                follower.connect(db)
        elif what == "subscribe":
            followers.append(Follower(*arguments))
            followers[-1].connect(db)
        else:
            _step_of(followers[arguments[0] % len(followers)], what, arguments[1:], db)
    for follower in followers:
        wanted = [item for item in written if topicdb.topic_matches(follower.filter, item[0])]
        assert follower.subscription is not None
        follower.subscription.resume()
        follower.ack(follower.window)
        while len(follower.found) < len(wanted) and follower.take(20):
            follower.ack(follower.window)
        for topic in TOPICS:  # in their order per topic, as a topic lives in one shard
            assert [v for t, v in follower.found if t == topic] == [
                v for t, v in wanted if t == topic
            ]
        assert follower.subscription.next(0) is None
    db.close()


def _step_of(follower: Follower, what: object, arguments: list[Any], db: topicdb.Database) -> None:
    assert follower.subscription is not None
    if what == "take":
        for _ in range(arguments[0]):
            follower.take(0)
    elif what == "ack":
        follower.ack(arguments[0])
    elif what == "pause":
        follower.subscription.pause()
    elif what == "resume":
        follower.subscription.resume()
    else:
        follower.connect(db)


def test_only_who_wants_what_is_damaged_gets_the_error(tmp_path: Path) -> None:
    value = random.Random(5).randbytes(1_000)
    with topicdb.open(tmp_path / "db", retention={"alarm/#": None, "#": None}) as db:
        db.append([("alarm/1", None, b"%d" % i) for i in range(50)])
        db.append([("other/1", None, value)])
        db.append([("alarm/1", None, b"50")])
        db.flush()
    for file in (tmp_path / "db").rglob("*.sst"):
        data = bytearray(file.read_bytes())
        if (place := data.find(value)) >= 0:
            data[place + 500] ^= 1
            file.write_bytes(data)
            break
    else:
        raise AssertionError("the value is stored in none of the files as it is")
    with (
        topicdb.open(tmp_path / "db") as db,
        db.subscribe("#", start="earliest") as all_of_it,
        db.subscribe("alarm/#", start="earliest") as alarms,
    ):
        assert values(alarms, 51) == list(range(51))
        with pytest.raises(topicdb.CorruptionError, match="shard 0"):
            list(all_of_it)
        assert all_of_it.info()["state"] == "failed"
        db.append([("alarm/1", None, b"51"), ("other/1", None, b"")])
        assert values(alarms, 1) == [51]
