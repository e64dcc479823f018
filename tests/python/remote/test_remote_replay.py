"""Replay logs of a server are used as local ones, also when connections break and servers die."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from served import Process, lose_answer, lose_call, serving
from support import PATIENCE_S, wait_until

import topicdb
from topicdb import replay
from topicdb.remote.client.replaying import (
    RemoteBrowser,
    RemoteEndpoint,
    RemoteFlow,
    RemoteReplayLog,
)
from topicdb.remote.message_ids import ids_of, runs_of
from topicdb.remote.server.handles import Limits
from topicdb.replay.log.status import LogStatuses

BASE = 1_700_000_000_000_000


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "db") as database:
        yield database


@pytest.fixture
def server(embedded: topicdb.Database) -> Iterator[Any]:
    with serving(embedded) as server:
        yield server


@pytest.fixture
def db(server: Any) -> Iterator[topicdb.Database]:
    with topicdb.connect(server.url) as database:
        yield database


@pytest.fixture
def log(db: topicdb.Database) -> Iterator[replay.ReplayLog]:
    with replay.open(db) as opened:
        yield opened


def publish(log: replay.ReplayLog, count: int, topic: str = "a/1", first: int = 0) -> None:
    rows = [(topic, BASE + (first + n) * 1_000, b"%d" % (first + n)) for n in range(count)]
    log.publish(rows)


def numbers(begin: int, end: int) -> list[bytes]:
    return [b"%d" % n for n in range(begin, end)]


def taken(flow: replay.Flow, count: int) -> list[bytes]:
    """Acknowledges ``count`` messages, and returns their values."""
    found = []
    for _ in range(count):
        message = flow.receive(timeout=PATIENCE_S)
        assert message is not None
        found.append(message.value)
        flow.ack(message)
    return found


# What there is


@pytest.mark.parametrize(
    ("local", "remote"),
    [
        (replay.ReplayLog, RemoteReplayLog),
        (replay.Endpoint, RemoteEndpoint),
        (replay.Flow, RemoteFlow),
        (replay.Browser, RemoteBrowser),
    ],
)
def test_nothing_that_users_call_is_left_to_the_local_class(local: type, remote: type) -> None:
    """What the remote classes inherit would look for the log in this process."""
    not_for_users = {
        *("record", "filters", "step", "store", "flush", "holds_from", "trimmed", "fail_replay"),
        *("drop", "end", "give_direct", "number", "account", "recount", "disconnect", "page"),
    }
    if local is replay.ReplayLog:
        not_for_users.remove("flush")
    inherited = {
        name
        for name, value in inspect.getmembers(remote)
        if not name.startswith("_")
        and name in vars(local)
        and value is inspect.getattr_static(local, name, None)
    }
    # ``name`` of a log and ``client`` of a flow are kept here, under the names of the base class.
    assert inherited - not_for_users <= {"name", "client"}


def test_a_log_of_a_server_is_used_as_one_here(log: replay.ReplayLog) -> None:
    queue = log.queue("orders", ["a/#", "b"], spool=500)
    publish(log, 3)
    publish(log, 1, "b", first=3)
    publish(log, 1, "c", first=4)
    with queue.bind(client="till", window=10) as flow:
        first = flow.receive(timeout=PATIENCE_S)
        assert first is not None and first[:3] == ("a/1", BASE, b"0") and not first.redelivered
        batch = flow.receive_batch(timeout=PATIENCE_S)
        assert batch is not None and 1 <= len(batch) <= 3
        assert flow.active and flow.client == "till" and flow.window == 10 and not flow.closed
        flow.ack(first, batch.ids[0])
        assert queue.info()["clients"] == ["till"]
        flow.release(*batch.ids[1:])
        found = [flow.receive(timeout=PATIENCE_S) for _ in range(2)]
        assert [one and one.value for one in found] == numbers(2, 4)
        assert flow.receive(timeout=0) is None
        flow.reject(found[0].id)  # type: ignore[union-attr]
        with pytest.raises(ValueError, match="done with"):
            flow.ack(first)
    with queue.bind() as flow:
        (again,) = [flow.receive(timeout=PATIENCE_S)]
        assert again is not None and again.value == b"3" and again.redelivered
        assert [message.value for message in queue.browse()] == [b"3"]
        flow.ack(again)
    info = queue.info()
    assert (info["counts"]["acknowledged"], info["counts"]["rejected"]) == (3, 1)
    assert queue.is_exclusive and queue.subscriptions == ["a/#", "b"] and queue.lag() == 0
    assert queue.state is replay.State.NONE and queue.selector is None and not queue.closed
    assert log.queue("orders").name == log.endpoint("orders").name == "orders"
    assert [endpoint.name for endpoint in log.endpoints()] == ["orders"]
    log.flush()
    log.drop_endpoint("orders")
    assert queue.closed
    with pytest.raises(topicdb.NotFoundError, match="no endpoint 'orders'"):
        log.endpoint("orders")


def test_iterating_acknowledges(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#")
    publish(log, 3)
    with queue.bind() as flow:
        for message in flow:
            if message.value == b"2":
                break
    with queue.bind() as flow:
        assert taken(flow, 1) == [b"2"]


def test_replays_are_governed_from_outside(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#", spool=2)
    publish(log, 10)
    told: list[replay.Event] = []
    log.on_event(told.append)
    queue.replay(rate=1_000_000)
    wait_until(lambda: queue.state is replay.State.ACTIVE)
    queue.pause_replay()
    wait_until(lambda: queue.progress().state is replay.State.ACTIVE)
    with queue.bind() as flow:
        queue.seek_replay(BASE + 7_000)
        queue.set_replay_rate(None)
        queue.resume_replay()
        assert taken(flow, 3) == numbers(7, 10)
        wait_until(lambda: queue.state is replay.State.COMPLETE)
        queue.replay(BASE - 1, on_early="clamp", end=BASE + 2_000, stall_timeout="1h")
        with pytest.raises(replay.ReplayStartedError):
            flow.receive(timeout=PATIENCE_S)
        with pytest.raises(replay.ReplayStartedError):
            flow.ack()
        assert flow.closed
    queue.cancel_replay()
    with pytest.raises(topicdb.ReplayError, match="no replay runs"):
        queue.cancel_replay()
    with queue.bind(replay=BASE + 8_000, stall_timeout=None) as flow:
        assert taken(flow, 2) == numbers(8, 10)
        id = flow.receive(timeout=0)
        assert id is None
    wait_until(lambda: log.events() and told == log.events())
    assert {event.endpoint for event in told} == {"q"}
    assert replay.State.COMPLETE in {event.state for event in told}


def test_a_replay_from_an_id_and_starts_that_cannot_be(log: replay.ReplayLog) -> None:
    queue, shared = log.queue("q", "#"), log.queue("s", "#", exclusive=False)
    publish(log, 3)
    with queue.bind() as flow:
        first = flow.receive(timeout=PATIENCE_S)
        assert first is not None
    with queue.bind(replay=first.id) as flow:
        assert taken(flow, 2) == numbers(1, 3)
    cases: list[tuple[Any, type[Exception]]] = [
        (BASE - 1, replay.StartTimeUnavailableError),
        (first.id._replace(serial=1_000), replay.StartMessageUnavailableError),
        (first.id._replace(origin=1), replay.IdsNotComparableError),
        ("yesterday", ValueError),
        (1.5, TypeError),
    ]
    for start, error in cases:
        with pytest.raises(error):
            queue.replay(start)
        with pytest.raises(error):
            queue.bind(replay=start)
    with pytest.raises(replay.NonExclusiveError):
        shared.bind(replay="beginning")
    with pytest.raises(replay.BrowserError):
        queue.browse(replay="beginning")
    with pytest.raises(ValueError, match="rate"):
        queue.replay(rate="fast")
    with pytest.raises(ValueError, match="window"):
        queue.bind(window=0)
    with pytest.raises(ValueError, match="rows"):
        queue.bind().receive_batch(0)
    with pytest.raises(TypeError):
        log.queue("x", "#", sppol=3)  # type: ignore[call-arg]
    with pytest.raises(topicdb.TopicError):
        log.queue("x", "a/#/b")
    assert [endpoint.name for endpoint in log.endpoints()] == ["q", "s"]


def test_the_rules_of_the_log(log: replay.ReplayLog, embedded: topicdb.Database) -> None:
    log.set_filters("a/#", exclude="a/x")
    log.set_promotion([replay.Promotion("a/#", messages_per_s=5), "b"])
    log.ingress = log.egress = False
    log.temporary_replays = True
    log.quota_bytes = 1_000_000
    assert (log.include, log.exclude) == (("a/#",), ("a/x",))
    assert (log.ingress, log.egress, log.temporary_replays) == (False, False, True)
    assert log.quota_bytes == 1_000_000 == log.info()["quota_bytes"]
    with pytest.raises(ValueError, match="negative"):
        log.quota_bytes = -1
    queue = log.queue("q", "#")
    with pytest.raises(replay.ReplayDisabledError):
        queue.replay()
    publish(log, 3)
    assert log.trim("now") == 0  # the queue holds them
    log.maintain()
    assert isinstance(log.info()["first"], tuple)
    queue.subscribe("$x/#")
    queue.unsubscribe("#")
    assert queue.subscriptions == ["$x/#"]
    queue.set_dead_letter("$dead", expired="remove")
    assert queue.info()["dead_letter"] == "$dead"
    endpoint = log.topic_endpoint("t", "a")
    endpoint.change("b")
    assert endpoint.subscriptions == ["b"]
    assert log.origin == replay.open(embedded, "other").origin


def test_direct_messages_reach_clients_of_a_server(
    log: replay.ReplayLog, embedded: topicdb.Database
) -> None:
    queue = log.queue("q", "#")
    with queue.bind() as flow:
        log.set_promotion(["logged"])
        rows = [("a", BASE, b"x"), ("logged", None, b"y"), ("a", BASE, b"z")]
        assert log.publish(rows, qos=0).count == 1
        found = [flow.receive(timeout=PATIENCE_S) for _ in range(3)]
        assert [one and (one.value, one.is_direct) for one in found] == [
            (b"x", True),
            (b"y", False),
            (b"z", True),
        ]
        flow.ack(*[one for one in found if one is not None])
        with pytest.raises(ValueError, match="qos"):
            log.publish([], qos=3)  # type: ignore[arg-type]
    assert embedded.scan("#").count() == 1
    assert log.direct == {"logged": 1, "no rule": 2, "over budget": 0}


def test_dead_letters_of_a_server(log: replay.ReplayLog) -> None:
    queue, dead = log.queue("q", "#", dead_letter="$dead"), log.queue("dead", "$dead/#")
    publish(log, 1)
    with queue.bind() as flow:
        message = flow.receive(timeout=PATIENCE_S)
        assert message is not None
        flow.reject(message)
    with dead.bind() as flow:
        letter = flow.receive(timeout=PATIENCE_S)
        assert letter is not None and letter.topic == "$dead/a/1" and letter.envelope is not None


def test_a_browser_has_all_there_is(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#")
    publish(log, 2_500)
    with queue.browse() as browser:
        assert [message.value for message in browser] == numbers(0, 2_500)
        with pytest.raises(replay.BrowserError):
            browser.ack(next(iter(browser)))
        queue.replay()
        with pytest.raises(replay.ReplayStartedError):
            next(iter(browser))


# Who has it open


def test_the_log_of_the_servers_process_is_the_one_that_clients_have(
    embedded: topicdb.Database, db: topicdb.Database
) -> None:
    with replay.open(embedded, replays_max=1) as here:
        here.queue("q", "#", exclusive=False)
        log, other = replay.open(db), replay.open(db)
        assert [endpoint.name for endpoint in other.endpoints()] == ["q"]
        with here.endpoint("q").bind() as one, log.endpoint("q").bind() as two:
            publish(log, 10)
            found = []
            for number in range(10):
                found += taken((one, two)[number % 2], 1)
            assert found == numbers(0, 10)
        replay.open(db, quota_bytes=5_000_000, promote=["a"], include="a/#")
        assert here.quota_bytes == 5_000_000 and here.include == ("a/#",)
        for options in ({"replays_max": 3}, {"durability": "disk"}):
            with pytest.raises(ValueError, match="is open already"):
                replay.open(db, **options)
        with pytest.raises(topicdb.ConflictError):
            replay.drop(db)
        with pytest.raises(topicdb.ConflictError):
            replay.open(embedded)
        flow = log.endpoint("q").bind()
    with pytest.raises(topicdb.ClosedError):
        flow.receive(timeout=PATIENCE_S)


def test_a_log_that_a_client_opens_goes_on_without_it(
    embedded: topicdb.Database, server: Any
) -> None:
    with topicdb.connect(server.url) as db, replay.open(db) as log:
        log.queue("q", "#")
    with topicdb.connect(server.url) as db:
        publish(replay.open(db), 2)
        with pytest.raises(topicdb.ConflictError, match="open already"):
            replay.open(embedded)
        with replay.open(db).endpoint("q").bind() as flow:
            assert taken(flow, 2) == numbers(0, 2)
            with pytest.raises(topicdb.ConflictError, match="has clients"):
                replay.drop(db)
        replay.drop(db)
        with pytest.raises(topicdb.NotFoundError):
            replay.drop(db)
    with replay.open(embedded) as here:
        assert here.endpoints() == []


def test_names_of_logs_do_not_mix(db: topicdb.Database) -> None:
    one, other = replay.open(db, "one"), replay.open(db, "an/other")
    one.queue("q", "#")
    assert [endpoint.name for endpoint in one.endpoints()] == ["q"]
    assert other.endpoints() == [] and other.name == "an/other"
    one.close()
    with pytest.raises(topicdb.ClosedError):
        one.endpoints()
    one.close()
    flow = other.queue("q", "#").bind(client="x")
    other.close()
    assert flow.closed and other.closed
    assert replay.open(db, "an/other").endpoint("q").info()["clients"] == []


@pytest.mark.parametrize(
    ("options", "words"), [({"shards": 2}, "2 shards"), ({"layout": "skipstream"}, "skipstream")]
)
def test_databases_without_one_order_are_refused(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with (
        topicdb.open(tmp_path / "x.db", **options) as embedded,
        serving(embedded) as server,
        topicdb.connect(server.url) as db,
        pytest.raises(topicdb.SchemaError, match=words),
    ):
        replay.open(db)


def test_an_endpoint_may_not_hold_more_than_the_server_allows(embedded: topicdb.Database) -> None:
    with (
        serving(embedded, limits=Limits(window_bytes_max=1 << 20)) as server,
        topicdb.connect(server.url) as db,
        replay.open(db) as log,
    ):
        with pytest.raises(topicdb.QuotaError, match="spool_bytes"):
            log.queue("q", "#", spool_bytes=2 << 20)
        log.queue("q", "#", spool_bytes=1 << 20)


# Connections that break


def test_what_a_client_has_comes_again_when_its_connection_ends(server: Any) -> None:
    with topicdb.connect(server.url) as watching:
        log = replay.open(watching)
        queue = log.queue("q", "#")
        log.temporary_replays = True
        log.queue("t", "#", durable=False)
        publish(log, 3)
        with topicdb.connect(server.url) as db:
            there = replay.open(db)
            flow = there.endpoint("q").bind()
            assert taken(flow, 1) == [b"0"]
            assert flow.receive(timeout=PATIENCE_S) is not None
            temporary = there.endpoint("t").bind(replay="beginning")
            assert taken(temporary, 1) == [b"0"]
        wait_until(lambda: queue.info()["clients"] == [])
        wait_until(lambda: [one.name for one in log.endpoints()] == ["q"])
        with pytest.raises(topicdb.ClosedError):
            flow.receive(timeout=PATIENCE_S)
        with queue.bind() as again:
            found = [again.receive(timeout=PATIENCE_S) for _ in range(2)]
            assert [one and (one.value, one.redelivered) for one in found] == [
                (b"1", True),
                (b"2", False),
            ]


@pytest.mark.parametrize("method", ["flow.receive", "flow.settle"])
@pytest.mark.parametrize("lose", [lose_answer, lose_call])
def test_nothing_is_lost_with_a_call_that_breaks(
    log: replay.ReplayLog, monkeypatch: pytest.MonkeyPatch, method: str, lose: Any
) -> None:
    queue = log.queue("q", "#")
    publish(log, 5)
    seen: list[bytes] = []

    def take(flow: replay.Flow) -> None:
        message = flow.receive(timeout=PATIENCE_S)
        assert message is not None
        seen.append(message.value)
        flow.ack(message)

    flow = queue.bind()
    take(flow)
    take(flow)
    lose(monkeypatch, method)
    with pytest.raises(topicdb.UnavailableError):
        take(flow)
    assert flow.closed
    with pytest.raises(topicdb.ClosedError):
        flow.receive(timeout=0)
    with queue.bind() as again:
        while len(seen) < 5 or queue.info()["messages"] > 0:
            take(again)
    assert seen[:2] == numbers(0, 2) and set(seen) == set(numbers(0, 5))
    assert queue.info()["counts"]["acknowledged"] == 5  # each was settled once


def test_a_killed_server_loses_nothing_that_was_not_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "db"
    seen: list[bytes] = []
    with Process(path) as process, topicdb.connect(process.url) as db:
        log = replay.open(db, temporary_replays=True)
        queue = log.queue("q", "#", spool=50)
        publish(log, 500)
        queue.replay()
        flow = queue.bind()
        seen += taken(flow, 200)
        log.flush()
        flushed = len(seen)
        seen += taken(flow, 20)
        process.kill()
        with pytest.raises(topicdb.UnavailableError):
            while True:
                seen += taken(flow, 1)
    assert seen == numbers(0, len(seen))
    with Process(path) as process, topicdb.connect(process.url) as db:
        log = replay.open(db)
        assert log.temporary_replays
        queue = log.endpoint("q")
        with queue.bind() as flow:
            first = flow.receive(timeout=PATIENCE_S)
            assert first is not None and flushed <= int(first.value) <= len(seen)
            flow.ack(first)
            rest = taken(flow, 499 - int(first.value))
            assert [first.value, *rest] == numbers(int(first.value), 500)
        wait_until(lambda: queue.state is replay.State.COMPLETE)


def test_a_server_goes_on_with_its_logs_without_a_client(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with topicdb.open(path) as db:
        replay.open(db, "night", quota_bytes=10_000).close()
        for _ in range(20):  # nobody trims the log meanwhile
            db.append([("a", None, bytes(1_000))])
    with Process(path), topicdb.open(path, mode="r") as reader:
        statuses = LogStatuses(reader)

        def is_trimmed() -> bool:
            reader.refresh()
            (status,) = statuses.read()
            return status.quota_used is not None and status.quota_used < 0.9

        wait_until(is_trimmed)


# Ids on their way


def test_ids_travel_as_runs() -> None:
    ids = [replay.MessageId(7, *place) for place in [(1, 0), (1, 1), (1, 3), (2, 0), (2, 1)]]
    runs = runs_of(ids)
    assert runs == [[1, 0, 2], [1, 3, 1], [2, 0, 2]]
    assert ids_of(7, runs, 5) == ids and runs_of([]) == []
    with pytest.raises(ValueError, match="at most 4"):
        ids_of(7, runs, 4)
    bad: list[Any] = [5, [5], [[1, 2]], [[1, 2, 0]], [[-1, 0, 1]], [[1, 1 << 32, 1]], [[1, 0, 1.0]]]
    for one in [*bad, [[1, 0, 10**18]], [[True, 0, 1]]]:
        with pytest.raises(ValueError, match="ids"):
            ids_of(7, one, 100)
