"""Tests of replay logs and endpoints: clients, replays, failures, trimming, ids."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE_S, Child, wait_until

import topicdb
from topicdb import replay
from topicdb.follow.positions import lag_of

BASE = 1_700_000_000_000_000


@pytest.fixture
def db(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "log.db") as database:
        yield database


@pytest.fixture
def log(db: topicdb.Database) -> Iterator[replay.ReplayLog]:
    with replay.open(db) as opened:
        yield opened


def publish(log: replay.ReplayLog, count: int, topic: str = "a/1", first: int = 0) -> None:
    rows = [(topic, BASE + (first + n) * 1_000, b"%d" % (first + n)) for n in range(count)]
    log.publish(rows)


def lag(flow: replay.Flow) -> int:
    """Returns the lag of the flow's endpoint."""
    parts = flow._parts
    with parts.lock:
        place, filters = parts.contents.next, parts.interest.filters
    return lag_of(parts.host.core, filters, 0, {0: place})


def taken(flow: replay.Flow, *, is_paused: bool = False) -> list[bytes]:
    """Acknowledges messages until all that are stored have come, and returns their values."""
    found = []
    while True:
        is_last = is_paused or lag(flow) == 0
        message = flow.receive(timeout=0.2)
        if message is not None:
            found.append(message.value)
            flow.ack(message)
        elif is_last:
            return found


def given(flow: replay.Flow, count: int) -> list[replay.ReplayBatch]:
    """Returns batches of ``count`` messages together, and acknowledges none of them."""
    found: list[replay.ReplayBatch] = []
    while (missing := count - sum(map(len, found))) > 0:
        batch = flow.receive_batch(missing, timeout=PATIENCE_S)
        assert batch is not None
        found.append(batch)
    return found


def numbers(begin: int, end: int) -> list[bytes]:
    return [b"%d" % n for n in range(begin, end)]


def reaches(endpoint: replay.Endpoint, state: replay.State) -> None:
    wait_until(lambda: endpoint.state is state)


# Ids


def test_ids_have_the_order_of_the_log_also_as_text(log: replay.ReplayLog) -> None:
    flow = log.queue("q", "#").bind()
    publish(log, 3)
    publish(log, 300, first=3)
    ids: list[replay.MessageId] = []
    while len(ids) < 303:
        batch = flow.receive_batch(timeout=PATIENCE_S)
        assert batch is not None
        ids += batch.ids
        flow.ack(batch)
    assert ids == sorted(ids) and [str(id) for id in ids] == sorted(str(id) for id in ids)
    assert [replay.MessageId.parse(str(id)) for id in ids] == ids
    assert ids[0] < ids[1] <= ids[1] and ids[1] > ids[0] and ids[1] >= ids[1]


def test_ids_of_different_databases_have_no_order() -> None:
    one, other = replay.MessageId(1, 1, 0), replay.MessageId(2, 1, 0)
    assert one != other
    for compare in (one.__lt__, one.__le__, one.__gt__, one.__ge__):
        with pytest.raises(replay.IdsNotComparableError, match="different databases"):
            compare(other)
    with pytest.raises(TypeError):
        assert one < 3


@pytest.mark.parametrize("text", ["", "1-2-3", "g" * 16 + "-" + "0" * 16 + "-" + "0" * 8, "x"])
def test_text_that_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no message id"):
        replay.MessageId.parse(text)


# Opening


def test_a_log_is_open_once_and_as_it_was_left(db: topicdb.Database) -> None:
    with replay.open(db, include="a/#", quota_bytes=10_000_000, promote=["a/#"]) as log:
        log.queue("q", "a/#")
        with pytest.raises(topicdb.ConflictError, match="open already"):
            replay.open(db)
        with pytest.raises(topicdb.ConflictError, match="close it"):
            replay.drop(db)
    with replay.open(db) as log:
        assert log.include == ("a/#",) and log.quota_bytes == 10_000_000
        assert [endpoint.name for endpoint in log.endpoints()] == ["q"]
    with replay.open(db, include="b/#") as log:
        assert log.include == ("b/#",)
    replay.drop(db)
    with pytest.raises(topicdb.NotFoundError):
        replay.drop(db)
    with replay.open(db) as log:
        assert log.include == ("#",) and log.endpoints() == []


def test_databases_without_one_order_are_refused(tmp_path: Path) -> None:
    with (
        topicdb.open(tmp_path / "two.db", shards=2) as db,
        pytest.raises(topicdb.SchemaError, match="2 shards"),
    ):
        replay.open(db)
    with (
        topicdb.open(tmp_path / "skip.db", layout="skipstream") as db,
        pytest.raises(topicdb.SchemaError, match="skipstream"),
    ):
        replay.open(db)
    with topicdb.open(tmp_path / "log.db"):
        pass
    with topicdb.open(tmp_path / "log.db", mode="r") as db, pytest.raises(topicdb.ReadOnlyError):
        replay.open(db)


def test_bad_options_change_nothing(db: topicdb.Database) -> None:
    bad: list[dict[str, Any]] = [
        {"include": []},
        {"include": "a/#/b"},
        {"exclude": "a#"},
        {"quota_bytes": -1},
        {"promote": ["#/a"]},
        {"promote": [replay.Promotion("#", 0)]},
        {"replays_max": 0},
    ]
    for options in bad:
        with pytest.raises(ValueError):  # noqa: PT011
            replay.open(db, **options)
    with pytest.raises(topicdb.NotFoundError):
        replay.drop(db)


def test_closing_the_database_ends_the_log_and_its_clients(tmp_path: Path) -> None:
    db = topicdb.open(tmp_path / "log.db")
    log = replay.open(db)
    flow = log.queue("q", "#").bind()
    failures: list[BaseException] = []

    def receive() -> None:
        try:
            assert flow.receive(timeout=PATIENCE_S) is None
        except topicdb.ClosedError as error:
            failures.append(error)

    thread = threading.Thread(target=receive)
    thread.start()
    db.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    with pytest.raises(topicdb.ClosedError):
        flow.receive(timeout=0)
    log.close()
    with pytest.raises(topicdb.ClosedError):
        log.queue("r", "#")


# Endpoints and clients


def test_a_queue_has_what_is_committed_after_it_was_made(log: replay.ReplayLog) -> None:
    publish(log, 3)
    queue = log.queue("q", ["a/#", "b/#"])
    publish(log, 3, first=3)
    publish(log, 1, "c", first=9)
    log._database.append([("b/x", BASE, b"appended")])  # appended without the log
    with queue.bind() as flow:
        assert taken(flow) == [*numbers(3, 6), b"appended"]


def test_messages_come_as_they_were_stored(log: replay.ReplayLog) -> None:
    flow = log.queue("q", "#").bind()
    log.publish([("a/ü", BASE, b"\x00\xff")])
    message = flow.receive(timeout=PATIENCE_S)
    assert message is not None
    assert message[:3] == ("a/ü", BASE, b"\x00\xff")
    assert not message.redelivered and message.envelope is None


def test_the_window_limits_what_is_not_acknowledged(log: replay.ReplayLog) -> None:
    flow = log.queue("q", "#").bind(window=2)
    publish(log, 4)
    first, second = flow.receive(timeout=PATIENCE_S), flow.receive(timeout=PATIENCE_S)
    assert first is not None and second is not None
    assert flow.receive(timeout=0.05) is None
    flow.ack(second.id)
    assert flow.receive(timeout=PATIENCE_S) is not None
    assert flow.receive(timeout=0.05) is None


def test_what_is_released_or_left_comes_again_marked(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#")
    publish(log, 3)
    with queue.bind() as flow:
        messages = [flow.receive(timeout=PATIENCE_S) for _ in range(3)]
        assert messages[0] is not None and messages[1] is not None
        flow.release(messages[1])
        again = flow.receive(timeout=PATIENCE_S)
        assert again is not None and again.id == messages[1].id and again.redelivered
        flow.ack(messages[0])
    with queue.bind() as flow:
        found = [flow.receive(timeout=PATIENCE_S) for _ in range(2)]
        assert [one and (one.value, one.redelivered) for one in found] == [
            (b"1", True),
            (b"2", True),
        ]


def test_acknowledging_what_one_does_not_have_is_refused_and_changes_nothing(
    log: replay.ReplayLog,
) -> None:
    queue = log.queue("q", "#", exclusive=False)
    one, other = queue.bind(client="one"), queue.bind(client="other")
    publish(log, 2)
    mine, theirs = one.receive(timeout=PATIENCE_S), other.receive(timeout=PATIENCE_S)
    assert mine is not None and theirs is not None
    for bad in (theirs, theirs.id, mine.id._replace(origin=1), mine.id._replace(row=7)):
        with pytest.raises(ValueError, match="not given to this client"):
            one.ack(mine, bad)
    one.ack(mine, mine.id)  # names the same message twice
    with pytest.raises(ValueError, match="done with"):
        one.ack(mine)
    assert queue.info()["counts"]["acknowledged"] == 1


def test_what_is_named_twice_in_one_call_is_settled_once(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#")
    publish(log, 6)
    with queue.bind(window=6) as flow:
        batches = given(flow, 6)
        first = next(iter(batches[0]))
        flow.release(*batches, *batches, first)
        batches = given(flow, 6)
        flow.ack(batches[-1].ids[-1], *batches, *batches, first, batches[0].ids[0])
        info = queue.info()
        assert (info["messages"], info["bytes"]) == (0, 0)
        assert info["counts"]["acknowledged"] == 6
        publish(log, 7, first=6)
        assert sum(map(len, given(flow, 6))) == 6
        assert flow.receive(timeout=0.05) is None  # the window is full


def test_a_rejected_message_is_removed_and_counted(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#")
    flow = queue.bind()
    publish(log, 2)
    message = flow.receive(timeout=PATIENCE_S)
    assert message is not None
    flow.reject(message)
    assert taken(flow) == [b"1"]
    counts = queue.info()["counts"]
    assert (counts.pop("acknowledged"), counts.pop("rejected")) == (1, 1)
    assert counts == dict.fromkeys(("expired", "lost", "direct", "direct_lost"), 0)


def test_of_an_exclusive_endpoint_one_client_is_active(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#")
    first, second = queue.bind(), queue.bind()
    publish(log, 2)
    assert second.receive(timeout=0.05) is None
    assert first.active and not second.active
    assert first.receive(timeout=PATIENCE_S) is not None
    first.close()
    assert second.active
    assert taken(second) == numbers(0, 2)


def test_clients_of_a_shared_endpoint_divide_the_messages(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#", exclusive=False)
    flows = [queue.bind(), queue.bind()]
    publish(log, 10)
    found = []
    for turn in range(10):
        message = flows[turn % 2].receive(timeout=PATIENCE_S)
        assert message is not None
        flows[turn % 2].ack(message)
        found.append(message.value)
    assert found == numbers(0, 10)


def test_a_selector_lets_messages_pass_by(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#", exclusive=False)
    fast = queue.bind(selector="topic = 'a/1'")
    assert fast.selector == "topic = 'a/1'"
    publish(log, 1, "a/2")
    publish(log, 1, "a/1", first=1)
    assert taken(fast) == [b"1"]
    with queue.bind() as rest:
        assert taken(rest) == [b"0"]


def test_a_topic_endpoints_selector_decides_what_comes(log: replay.ReplayLog) -> None:
    endpoint = log.topic_endpoint("t", "a/#", selector="topic = 'a/1'")
    publish(log, 1, "a/2")
    publish(log, 1, "a/1", first=1)
    with endpoint.bind() as flow:
        assert taken(flow) == [b"1"]
        with pytest.raises(ValueError, match="one of its own"):
            endpoint.bind(selector="topic = 'a/2'")
        publish(log, 1, "a/1", first=2)
        endpoint.change("a/#", "topic = 'a/2'")  # removes message 2
        publish(log, 1, "a/1", first=3)
        publish(log, 1, "a/2", first=4)
        assert taken(flow) == [b"4"]
    with pytest.raises(ValueError, match="one subscription"):
        endpoint.subscribe("b")
    with pytest.raises(ValueError, match="is a queue"):
        log.queue("q", "#").change("b")


def test_what_a_change_removed_may_still_be_answered(log: replay.ReplayLog) -> None:
    endpoint = log.topic_endpoint("t", "a/#")
    with endpoint.bind(window=3) as flow:
        publish(log, 3)
        batches = given(flow, 3)
        endpoint.change("a/#")
        publish(log, 1, first=3)
        assert taken(flow) == [b"3"]  # the window has room for it
        for answer in (flow.ack, flow.reject, flow.release):
            answer(*batches)
            answer(batches[0].ids[0])
        info = endpoint.info()
        assert (info["messages"], info["bytes"]) == (0, 0)
        assert info["counts"]["acknowledged"] == 1 and info["counts"]["rejected"] == 0


def test_a_browser_takes_nothing(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#")
    publish(log, 3)
    with queue.browse() as browser:
        assert [message.value for message in browser] == numbers(0, 3)
        with pytest.raises(replay.BrowserError):
            browser.ack(next(iter(browser)))
    with queue.bind() as flow:
        assert taken(flow) == numbers(0, 3)


def test_a_temporary_endpoint_goes_with_its_last_client(log: replay.ReplayLog) -> None:
    queue = log.queue("t", "#", durable=False)
    one, other = queue.bind(), queue.bind()
    one.close()
    publish(log, 1)
    assert taken(other) == [b"0"]
    other.close()
    with pytest.raises(topicdb.NotFoundError, match="no endpoint 't'"):
        log.endpoint("t")


def test_rights(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#", owner="me", others="read")
    with pytest.raises(topicdb.AccessError, match="others may read"):
        queue.bind(client="you", replay="beginning")
    queue.browse(client="you").close()
    queue.bind(client="me").close()
    hidden = log.queue("r", "#", owner="me", others="none")
    with pytest.raises(topicdb.AccessError, match="may not read"):
        hidden.browse(client="you")


def test_bad_endpoints_and_windows(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#")
    for window in (0, -1):
        with pytest.raises(ValueError, match="window"):
            queue.bind(window=window)
    with pytest.raises(ValueError, match="rows"):
        queue.bind().receive_batch(0)
    with pytest.raises(topicdb.NotFoundError, match="no endpoint 'x'"):
        log.endpoint("x")
    with pytest.raises(topicdb.NotFoundError):
        log.drop_endpoint("x")
    with pytest.raises(ValueError, match="needs a topic filter"):
        log.queue("x")
    with pytest.raises(topicdb.TopicError):
        log.queue("x", "a/#/b")
    for option in ("spool", "spool_bytes"):
        with pytest.raises(ValueError, match=option):
            log.queue("x", "#", **{option: 0})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="subscriptions"):
        log.queue("q", "a")
    with pytest.raises(ValueError, match="was made as"):
        log.queue("q", "#", exclusive=False)
    with pytest.raises(ValueError, match="others"):
        log.queue("x", "#", others="everything")  # type: ignore[arg-type]
    assert [endpoint.name for endpoint in log.endpoints()] == ["q"]


def test_a_dropped_endpoint_disconnects_its_clients(log: replay.ReplayLog) -> None:
    flow = log.queue("q", "#").bind()
    log.drop_endpoint("q")
    with pytest.raises(replay.EndpointDroppedError):
        flow.receive(timeout=PATIENCE_S)
    flow.close()
    assert log.endpoints() == []


def test_what_an_endpoint_holds_is_there_after_restarts(db: topicdb.Database) -> None:
    with replay.open(db) as log:
        queue = log.queue("q", "#")
        publish(log, 2_500)  # in several batches
        with queue.bind(window=2_500) as flow:
            found = [flow.receive(timeout=PATIENCE_S) for _ in range(2_500)]
            kept = {0, 700, 999, 2_000}  # one batch between has none of them
            flow.ack(*[one for n, one in enumerate(found) if one is not None and n not in kept])
        queue.unsubscribe("#")
        publish(log, 1, first=9_000)
    for _ in range(2):
        with replay.open(db) as log:
            wait_until(lambda: log.endpoint("q").info()["messages"] == 4)
    with replay.open(db) as log, log.endpoint("q").bind() as flow:
        messages = [flow.receive(timeout=PATIENCE_S) for _ in range(4)]
        assert [one and (one.value, one.redelivered) for one in messages] == [
            (b"0", True),
            (b"700", True),
            (b"999", True),
            (b"2000", True),
        ]
        assert flow.receive(timeout=0.2) is None


# Replays on temporary endpoints


def test_a_temporary_endpoint_may_have_a_replay_where_the_log_allows_it(
    db: topicdb.Database,
) -> None:
    with replay.open(db, temporary_replays=True) as log:
        publish(log, 3)
        queue = log.queue("t", "#", durable=False)
        with pytest.raises(replay.TemporaryEndpointError, match="only its client"):
            queue.replay()
        with queue.bind(replay=BASE + 1_000) as flow:
            publish(log, 1, first=3)
            assert taken(flow) == numbers(1, 4)
            reaches(queue, replay.State.COMPLETE)
            assert log.info()["replays"] == 0
        with pytest.raises(topicdb.NotFoundError):
            log.endpoint("t")
    with replay.open(db) as log:
        assert log.temporary_replays
        log.temporary_replays = False
        queue = log.queue("t", "#", durable=False)
        with pytest.raises(replay.TemporaryEndpointError, match="allows no replays"):
            queue.bind(replay="beginning")
        with pytest.raises(replay.TemporaryEndpointError, match="allows no replays"):
            queue.replay()
    with replay.open(db) as log:
        assert not log.temporary_replays and log.endpoints() == []


@pytest.mark.parametrize("end", ["cancel", "leave", "fail"])
def test_a_replay_on_a_temporary_endpoint_ends_with_its_client(
    db: topicdb.Database, end: str
) -> None:
    with replay.open(db, temporary_replays=True, replays_max=1) as log:
        publish(log, 3)
        queue, other = log.queue("t", "#", durable=False, spool=1), log.queue("q", "#")
        flow = queue.bind(replay="beginning")
        message = flow.receive(timeout=PATIENCE_S)
        assert message is not None
        with pytest.raises(replay.OutOfResourcesError):
            other.replay()
        reason: type[topicdb.ReplayError] = replay.ReplayCancelledError
        if end == "cancel":
            queue.cancel_replay()
        elif end == "fail":
            flow.reject(message)
            reason = replay.RejectedMessageError
        if end != "leave":
            with pytest.raises(reason):
                flow.receive(timeout=PATIENCE_S)
        flow.close()
        assert [endpoint.name for endpoint in log.endpoints()] == ["q"]
        other.replay()  # it has the slot now


# Direct messages


def test_direct_messages_are_logged_where_a_rule_says_so(db: topicdb.Database) -> None:
    rules = [replay.Promotion("a/#"), replay.Promotion("b/#", messages_per_s=2)]
    with replay.open(db, promote=rules) as log:
        receipt = log.publish([(topic, None, b"x") for topic in ("a/1", "b/1", "c")], qos=0)
        assert receipt.count == 2
        receipt = log.publish([("b/1", None, b"x")] * 10, qos=0)
        assert receipt.count <= 2
        direct = log.direct
        assert direct["no rule"] == 1
        assert direct["over budget"] == 10 - receipt.count
        assert direct["logged"] == db.stats()["messages"] - own_messages(db)
        with pytest.raises(ValueError, match="qos"):
            log.publish([], qos=3)  # type: ignore[arg-type]
        log.set_promotion(["c"])
        assert log.publish([("c", None, b"x"), ("a/1", None, b"x")], qos=0).count == 1
    with replay.open(db) as log:
        assert log.publish([("c", None, b"x")], qos=0).count == 1


def own_messages(db: topicdb.Database) -> int:
    return sum(slab.messages for slab in db.slabs() if slab.retention_class.startswith("$"))


def test_rejected_messages_are_not_logged(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#")
    with pytest.raises(topicdb.TopicError):
        log.publish([("a/1", None, b"x"), ("a/#", None, b"x")])
    queue.replay()
    with queue.bind() as flow:
        assert taken(flow) == []


# Starting


def replayed(queue: replay.Endpoint, **options: object) -> list[bytes]:
    queue.replay(**options)  # type: ignore[arg-type]
    with queue.bind() as flow:
        return taken(flow)


def test_a_replay_brings_everything_again_from_where_one_says(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#")
    publish(log, 10)
    with queue.bind() as flow:
        ids = [flow.receive(timeout=PATIENCE_S) for _ in range(10)]
        flow.ack(*[id for id in ids if id is not None])
    assert replayed(queue) == numbers(0, 10)
    assert replayed(queue, start=BASE + 4_000) == numbers(4, 10)
    assert replayed(queue, start=BASE + 3_001) == numbers(4, 10)
    date = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=BASE + 8_000)
    assert replayed(queue, start=date) == numbers(8, 10)
    assert replayed(queue, start=date.isoformat()) == numbers(8, 10)
    assert ids[6] is not None
    assert replayed(queue, start=ids[6].id) == numbers(7, 10)
    assert replayed(queue, start=BASE - 1, on_early="clamp") == numbers(0, 10)
    assert replayed(queue, end=BASE + 5_000) == numbers(0, 5)
    reaches(queue, replay.State.COMPLETE)


def test_a_replay_from_a_time_leaves_out_older_messages_that_came_later(
    log: replay.ReplayLog,
) -> None:
    queue = log.queue("q", "#")
    publish(log, 10)
    log.publish([("a/1", BASE + 1_000, b"late"), ("a/1", BASE + 6_000, b"late, too")])
    assert replayed(queue, start=BASE + 6_000) == [*numbers(6, 10), b"late, too"]


def test_starts_that_cannot_be_change_nothing(log: replay.ReplayLog, tmp_path: Path) -> None:
    queue = log.queue("q", "#")
    publish(log, 3)
    flow = queue.bind()
    with pytest.raises(replay.StartTimeUnavailableError, match="future"):
        queue.replay(datetime.now(timezone.utc) + timedelta(hours=1))
    with pytest.raises(replay.StartTimeUnavailableError, match="on_early='clamp'"):
        queue.replay(BASE - 1)
    with pytest.raises(replay.StartMessageUnavailableError, match="no message"):
        queue.replay(replay.MessageId(log.origin, 1_000, 0))
    with pytest.raises(replay.IdsNotComparableError, match="another database"):
        queue.replay(replay.MessageId(log.origin ^ 1, 1, 0))
    for malformed in ("yesterday", "2026-01-31T14:02:00", datetime(2026, 1, 31), -1):
        with pytest.raises(ValueError, match="start"):
            queue.replay(malformed)
    with pytest.raises(TypeError):
        queue.replay(1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="on_early"):
        queue.replay(on_early="perhaps")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rate"):
        queue.replay(rate="fast")
    with pytest.raises(ValueError, match="stall_timeout"):
        queue.replay(stall_timeout="long")
    with pytest.raises(ValueError, match="end"):
        queue.replay(end="2026-01-31")
    with pytest.raises(topicdb.ReplayError, match="no replay runs"):
        queue.cancel_replay()
    assert queue.state is replay.State.NONE
    assert taken(flow) == numbers(0, 3)


def test_a_client_may_start_one_at_bind(log: replay.ReplayLog) -> None:
    queue, shared = log.queue("q", "#"), log.queue("s", "#", exclusive=False)
    temporary = log.queue("t", "#", durable=False)
    publish(log, 3)
    with pytest.raises(replay.NonExclusiveError):
        shared.bind(replay="beginning")
    with pytest.raises(replay.TemporaryEndpointError):
        temporary.bind(replay="beginning")
    with pytest.raises(replay.BrowserError):
        queue.browse(replay="beginning")
    with queue.bind(client="first") as first:
        assert taken(first) == numbers(0, 3)
        with pytest.raises(replay.InactiveFlowError, match="'first' is the active one"):
            queue.bind(replay="beginning")
        assert first.active
    with queue.bind(client="second", replay="beginning") as second:
        assert taken(second) == numbers(0, 3)
    assert queue.info()["last_start"][1:] == ["second", "beginning"]


def test_egress_off_refuses_and_fails_replays(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#")
    publish(log, 3)
    flow = queue.bind(replay="beginning")
    assert flow.receive(timeout=PATIENCE_S) is not None
    log.egress = False
    with pytest.raises(replay.ReplayDisabledError):
        flow.receive(timeout=PATIENCE_S)
    with pytest.raises(replay.ReplayDisabledError):
        queue.replay()
    with pytest.raises(replay.ReplayDisabledError):
        queue.bind(replay="beginning")
    log.egress = True
    assert replayed(queue) == numbers(0, 3)


def test_what_came_while_ingress_was_off_is_delivered_but_not_replayed(
    log: replay.ReplayLog,
) -> None:
    queue = log.queue("q", "#")
    publish(log, 2)
    log.ingress = False
    publish(log, 2, first=2)
    log.ingress = True
    publish(log, 2, first=4)
    with queue.bind() as flow:
        assert taken(flow) == numbers(0, 6)
    assert replayed(queue) == [*numbers(0, 2), *numbers(4, 6)]


def test_only_so_many_replays_run_at_once(db: topicdb.Database) -> None:
    with replay.open(db, replays_max=1) as log:
        one, other = log.queue("one", "#"), log.queue("other", "#")
        publish(log, 2)
        flow = other.bind()
        one.replay()
        with pytest.raises(replay.OutOfResourcesError, match="replays_max"):
            other.replay()
        assert taken(flow) == numbers(0, 2)  # the flow was not disconnected
        one.cancel_replay()
        assert replayed(other) == numbers(0, 2)


# States


def test_states_and_events_of_a_replay(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#", spool=2)
    publish(log, 3)
    events: list[replay.Event] = []
    log.on_event(events.append)
    queue.replay()
    reaches(queue, replay.State.ACTIVE)
    with queue.bind() as flow:
        first = flow.receive(timeout=PATIENCE_S)
        assert first is not None
        flow.ack(first)
        reaches(queue, replay.State.PENDING_COMPLETE)
        publish(log, 1, first=3)
        rest = [flow.receive(timeout=PATIENCE_S) for _ in range(2)]
        assert all(one is not None and not one.redelivered for one in rest)
        flow.ack(*[one for one in rest if one is not None])
        reaches(queue, replay.State.COMPLETE)
        assert taken(flow) == [b"3"]
    wait_until(lambda: len(events) == 4)
    assert [(one.before.value, one.state.value) for one in events] == [
        ("n/a", "initializing"),
        ("initializing", "active"),
        ("active", "pending complete"),
        ("pending complete", "complete"),
    ]
    assert log.events() == events
    assert queue.info()["last_complete"] is not None


def test_a_failure_waits_until_the_clients_know(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#")
    publish(log, 3)
    queue.replay()
    one, other = queue.bind(), queue.bind()
    message = one.receive(timeout=PATIENCE_S)
    assert message is not None
    publish(log, 1, first=3)
    one.reject(message)
    assert queue.state is replay.State.FAILED
    with pytest.raises(replay.RejectedMessageError):
        one.receive(timeout=0)
    assert queue.state is replay.State.FAILED
    other.close()
    reaches(queue, replay.State.NONE)
    failure = queue.info()["last_failure"]
    assert failure[1] == "replayed message rejected" and str(message.id) in failure[2]
    with queue.bind() as flow:
        assert taken(flow) == [b"3"]  # this message came meanwhile, was not replayed, and stays


def test_starting_again_and_cancelling(log: replay.ReplayLog) -> None:
    queue, other = log.queue("q", "#"), log.queue("other", "#")
    publish(log, 3)
    bystander = other.bind()
    queue.replay()
    one = queue.bind()
    assert one.receive(timeout=PATIENCE_S) is not None
    queue.replay(BASE + 2_000)
    with pytest.raises(replay.ReplayStartedError):
        one.receive(timeout=PATIENCE_S)
    with queue.bind() as flow:
        assert flow.receive(timeout=PATIENCE_S) is not None
        publish(log, 1, first=3)
        queue.cancel_replay()
        with pytest.raises(replay.ReplayCancelledError):
            flow.ack()
    assert queue.state is replay.State.NONE
    with queue.bind() as flow:
        assert taken(flow) == [b"3"]
    assert taken(bystander) == numbers(0, 4)
    assert other.state is replay.State.NONE


def test_changes_fail_a_replay(log: replay.ReplayLog) -> None:
    queue, endpoint = log.queue("q", "#"), log.topic_endpoint("t", "a/#")
    publish(log, 3)
    flow = queue.bind(replay="beginning")
    queue.subscribe("b")
    with pytest.raises(replay.EndpointModifiedError, match="subscription 'b' was added"):
        flow.receive(timeout=PATIENCE_S)
    flow = endpoint.bind(replay="beginning")
    endpoint.change("a/#", "topic = 'a/1'")
    with pytest.raises(replay.EndpointModifiedError):
        flow.receive(timeout=PATIENCE_S)
    flow = queue.bind(replay="beginning")
    log.set_filters("a/#")
    with pytest.raises(replay.LogModifiedError):
        flow.receive(timeout=PATIENCE_S)


def test_a_selector_that_strands_messages_is_warned_about_and_ends_the_replay(
    log: replay.ReplayLog,
) -> None:
    queue = log.queue("q", "#")
    publish(log, 3, "a/2")
    with pytest.warns(RuntimeWarning, match="may leave replayed messages"):
        flow = queue.bind(selector="topic = 'a/1'", replay="beginning", stall_timeout="100ms")
    with pytest.raises(replay.StalledError, match=r"no farther for 0\.1 s"):
        flow.receive(timeout=PATIENCE_S)
    assert queue.info()["last_failure"][1] == "stalled"


def test_pause_seek_and_rate(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#", spool=2)
    publish(log, 10)
    queue.replay(rate=1_000_000)
    reaches(queue, replay.State.ACTIVE)
    queue.pause_replay()
    with queue.bind() as flow:
        begun = taken(flow, is_paused=True)
        assert begun == numbers(0, len(begun)) and len(begun) < 10
        publish(log, 1, first=10)
        assert flow.receive(timeout=0.1) is None  # live messages keep their order
        assert queue.progress().eta_s is None
        queue.seek_replay(BASE + 7_000)
        assert flow.receive(timeout=0.1) is None
        queue.set_replay_rate(None)
        queue.resume_replay()
        assert taken(flow) == numbers(7, 11)
    reaches(queue, replay.State.COMPLETE)
    for change in (queue.pause_replay, queue.resume_replay, lambda: queue.set_replay_rate(1)):
        with pytest.raises(topicdb.ReplayError, match="no replay runs"):
            change()


def test_what_was_given_before_a_seek_may_still_be_acknowledged(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#")
    publish(log, 3)
    queue.replay()
    with queue.bind() as flow:
        message = flow.receive(timeout=PATIENCE_S)
        assert message is not None
        queue.seek_replay(BASE + 1_000)
        flow.ack(message)
        assert taken(flow) == numbers(1, 3)


def test_batches_that_were_given_before_a_seek_may_still_be_acknowledged(
    log: replay.ReplayLog,
) -> None:
    queue = log.queue("q", "#")
    publish(log, 5)
    queue.replay()
    with queue.bind(window=5) as flow:
        batches = given(flow, 5)
        queue.seek_replay(BASE + 1_000)
        flow.ack(*batches)
        flow.release(*batches)
        wait_until(lambda: queue.info()["messages"] == 4)
        assert queue.info()["counts"]["acknowledged"] == 0
        assert taken(flow) == numbers(1, 5)  # the window has room for them
        reaches(queue, replay.State.COMPLETE)
        flow.ack(*batches)
        assert queue.info()["messages"] == 0


def test_a_replay_from_elsewhere_ends_a_failure_to_read(
    log: replay.ReplayLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = log.queue("q", "#")
    reader = queue._parts.contents._reader
    assert reader is not None

    def damaged(rows: int) -> None:
        raise topicdb.CorruptionError("a page is damaged")

    monkeypatch.setattr(reader, "take", damaged)
    publish(log, 3)
    with queue.bind() as flow, pytest.raises(topicdb.CorruptionError, match="damaged"):
        flow.receive(timeout=PATIENCE_S)
    queue.replay()
    with queue.bind() as flow:
        assert taken(flow) == numbers(0, 3)


def test_progress(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#", spool=4)
    publish(log, 10)
    queue.replay()
    wait_until(lambda: queue.progress().done == 4)
    progress = queue.progress()
    assert (progress.state, progress.total) == (replay.State.ACTIVE, 10)
    assert progress.eta_s is not None and progress.per_s > 0
    with queue.bind() as flow:
        assert taken(flow) == numbers(0, 10)
    wait_until(lambda: queue.progress().state is replay.State.COMPLETE)


# Trimming


def test_trimming_by_date(log: replay.ReplayLog) -> None:
    queue, other = log.queue("q", "#"), log.queue("other", "#", spool=1)
    publish(log, 10)
    assert log.trim(BASE + 6_000) == 0  # the queues hold the messages that are trimmed
    with queue.bind() as flow:
        assert taken(flow) == numbers(0, 10)  # so the queue still delivers them
    assert replayed(queue) == numbers(6, 10)
    with pytest.raises(replay.StartTimeUnavailableError):
        queue.replay(BASE + 5_000)
    with other.bind() as flow:
        first = flow.receive(timeout=PATIENCE_S)
        assert first is not None and first.value == b"0"
        with pytest.raises(replay.StartMessageUnavailableError, match="trimmed"):
            queue.replay(first.id)
        flow.ack(first)
        assert taken(flow) == numbers(1, 10)
    log.trim("now")  # no endpoint needs these messages any more

    def is_gone() -> bool:
        log.maintain()
        return log._database.scan("#").count() == 0

    wait_until(is_gone)


def test_what_an_endpoint_holds_is_not_dropped(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#", spool=1)
    publish(log, 5)
    log.trim("now")
    log.maintain()
    assert log._database.scan("#").count() == 5
    with queue.bind() as flow:
        assert taken(flow) == numbers(0, 5)

    def is_gone() -> bool:
        log.maintain()
        return log._database.scan("#").count() == 0

    wait_until(is_gone)


def test_a_replay_that_needs_what_is_trimmed_fails(log: replay.ReplayLog) -> None:
    queue, calm = log.queue("q", "#", spool=2), log.queue("calm", "b")
    publish(log, 10)
    queue.replay()
    calm.replay()
    reaches(queue, replay.State.ACTIVE)
    flow = queue.bind()
    wait_until(lambda: queue.info()["messages"] == 2)
    log.trim(BASE + 2_000)  # the queue holds these messages already
    assert queue.state is replay.State.ACTIVE
    log.trim(BASE + 3_000)
    with pytest.raises(replay.MessageUnavailableError, match="trimmed"):
        flow.receive(timeout=PATIENCE_S)
    assert queue.info()["last_failure"][1] == "message unavailable"
    reaches(calm, replay.State.COMPLETE)  # its replay needed none of them


def test_what_was_not_logged_is_not_replayed_after_a_trim_either(log: replay.ReplayLog) -> None:
    queue = log.queue("q", "#", spool=1)
    publish(log, 1)
    log.ingress = False
    publish(log, 5, first=1)
    log.ingress = True
    publish(log, 2, first=6)
    queue.replay()
    with queue.bind() as flow:
        first = flow.receive(timeout=PATIENCE_S)
        assert first is not None
        queue.pause_replay()
        flow.ack(first)
        log.trim(BASE + 6_000)
        queue.resume_replay()
        assert taken(flow) == numbers(6, 8)
    reaches(queue, replay.State.COMPLETE)


def test_the_quota_trims_in_batches_and_gives_space_back(db: topicdb.Database) -> None:
    with replay.open(db, quota_bytes=100_000) as log:
        assert log.info()["reclaims"] == ["#"]
        for first in range(0, 1_000, 10):
            log.publish([("a/1", BASE + first + n, b"x" * 1_000) for n in range(10)])
            log.maintain()
        info = log.info()
        assert 0.7 * 100_000 <= info["bytes"] <= 0.9 * 100_000
        stored = sum(slab.bytes for slab in db.slabs() if slab.retention_class == "#")
        assert stored < 200_000
        queue = log.queue("q", "#")
        with queue.bind(replay="beginning") as flow:
            count = len(taken(flow))
        assert 70 <= count <= 90


def test_trimming_drops_only_what_is_the_logs(tmp_path: Path) -> None:
    with (
        topicdb.open(tmp_path / "x.db", retention={"a/#": None, "b/#": None}) as db,
        replay.open(db, include=["a/#", "c"], exclude="a/x") as log,
    ):
        assert log.info()["reclaims"] == []
        log.set_filters(["a/#", "c"])
        assert log.info()["reclaims"] == ["a/#"]
        publish(log, 3, "a/1")
        publish(log, 3, "b/1")
        publish(log, 3, "c")
        assert log.trim("now") == 1
        assert [m.topic for m in db.scan("#")] == ["b/1"] * 3 + ["c"] * 3


# From replayed to live messages


def test_no_gap_and_no_duplicate_at_the_switch_to_live(db: topicdb.Database) -> None:
    with replay.open(db) as log:
        queue = log.queue("q", "a/#")
        publish(log, 20_000)
        total = 20_000
        stop = threading.Event()

        def write() -> None:
            nonlocal total
            while not stop.is_set():
                publish(log, 50, first=total)
                total += 50

        thread = threading.Thread(target=write)
        found: list[bytes] = []
        with queue.bind(replay="beginning") as flow:
            thread.start()
            try:
                deadline = time.monotonic() + PATIENCE_S
                while queue.state is not replay.State.COMPLETE:
                    assert time.monotonic() < deadline
                    batch = flow.receive_batch(timeout=PATIENCE_S)
                    assert batch is not None and not any(batch.redelivered)
                    found += batch.batch.values
                    flow.ack(batch)
            finally:
                stop.set()
                thread.join()
            while len(found) < total:
                batch = flow.receive_batch(timeout=PATIENCE_S)
                assert batch is not None
                found += batch.batch.values
                flow.ack(batch)
        assert found == numbers(0, total)


# Crashes

_PROGRAM = """
import sys
import topicdb
from topicdb import replay
from topicdb.follow.positions import lag_of

path = sys.argv[1]
with topicdb.open(path) as db:
    log = replay.open(db)
    queue = log.queue("q", "#", spool=50)
    if sys.argv[2] == "start":
        log.publish([("a", 1_700_000_000_000_000 + n, b"%d" % n) for n in range(2_000)])
        queue.replay()
    flow = queue.bind()
    while True:
        message = flow.receive(timeout=250)
        if message is None:
            break
        print(message.value.decode(), int(message.redelivered), queue.state.value, flush=True)
        flow.ack(message)
        if int(message.value) % 100 == 0:
            log.flush()
            print("flushed", message.value.decode(), flush=True)
"""


@pytest.mark.parametrize("reach", [30, 333, 1_204])
def test_a_killed_process_loses_nothing_of_a_replay(tmp_path: Path, reach: int) -> None:
    path = str(tmp_path / "crash.db")
    seen: set[int] = set()
    flushed = -1
    with Child(_PROGRAM, path, "start") as child:
        is_killed = False
        while words := child.read_line().split():  # reads also what was printed before the kill
            if words[0] == "flushed":
                flushed = int(words[1])
            else:
                seen.add(int(words[0]))
            if len(seen) >= reach and not is_killed:
                child.kill()
                is_killed = True
    reach = len(seen)
    first: int | None = None
    with Child(_PROGRAM, path, "go on") as child:
        while len(seen) < 2_000:
            words = child.read_line().split()
            if words[0] != "flushed":
                first = int(words[0]) if first is None else first
                seen.add(int(words[0]))
        child.kill()
    assert seen == set(range(2_000))
    assert first is not None and flushed < first <= max(reach, flushed + 1)
