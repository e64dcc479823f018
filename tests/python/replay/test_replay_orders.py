"""Tests of orders: what other processes of the machine ask of a log that is open here."""

from __future__ import annotations

import json
import logging
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE_S, Child, fork_and_run, wait_until

import topicdb
from topicdb import replay
from topicdb.replay.distant.attaching import attach
from topicdb.replay.distant.log import DistantLog
from topicdb.replay.errors import error_classes
from topicdb.replay.orders import listener
from topicdb.replay.orders.faults import packed, unpacked
from topicdb.replay.orders.sockets import LINE_BYTES_MAX, receive_line, short_address, socket_path

BASE = 1_700_000_000_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def log(path: Path) -> Iterator[replay.ReplayLog]:
    with topicdb.open(path) as db, replay.open(db) as opened:
        yield opened


@pytest.fixture
def distant(log: replay.ReplayLog, path: Path) -> Iterator[DistantLog]:
    found = attach(path, log.name)
    assert found is not None
    with found:
        yield found


def publish(log: replay.ReplayLog, count: int) -> None:
    log.publish([("a/1", BASE + n * 1_000, b"%d" % n) for n in range(count)])


def test_a_log_is_governed_by_orders(log: replay.ReplayLog, distant: DistantLog) -> None:
    told: list[replay.Event] = []
    assert (distant.name, distant.origin) == (log.name, log.origin)
    queue = distant.queue("q", ["a/#", "b"], spool=2, dead_letter="$dead")
    publish(log, 10)
    assert queue.lag() <= 10 and queue.subscriptions == ["a/#", "b"] and queue.is_exclusive
    distant.on_event(told.append)
    queue.replay("beginning", rate="1000/s")
    wait_until(lambda: queue.state is replay.State.ACTIVE)
    queue.pause_replay()
    queue.set_replay_rate(None)
    queue.seek_replay(BASE + 5_000)
    queue.resume_replay()
    wait_until(lambda: queue.progress().done == 2)
    assert queue.progress().total == 5 and log.endpoint("q").state.runs
    queue.cancel_replay()
    wait_until(lambda: told and told == log.events() == distant.events())
    with pytest.raises(topicdb.ReplayError, match="no replay runs"):
        queue.pause_replay()
    queue.subscribe("c")
    queue.unsubscribe("b")
    queue.set_dead_letter(None, expired="remove")
    assert log.endpoint("q").subscriptions == ["a/#", "c"]
    assert log.endpoint("q").info()["expired"] == "remove"
    distant.topic_endpoint("t", "a/1").change("a/2")
    assert [one.name for one in distant.endpoints()] == ["q", "t"]
    assert distant.info() == log.info()
    distant.set_filters("a/#", "a/x")
    distant.set_promotion(["b", replay.Promotion("a/#", 5, 100)])
    distant.ingress = distant.egress = False
    distant.temporary_replays = True
    distant.quota_bytes = 1_000_000
    assert (log.include, log.exclude, log.ingress, log.egress) == (("a/#",), ("a/x",), False, False)
    assert log._record.promote == [replay.Promotion("b"), replay.Promotion("a/#", 5, 100)]
    assert log.temporary_replays and log.quota_bytes == 1_000_000
    assert (distant.include, distant.exclude) == (log.include, log.exclude)
    assert (distant.ingress, distant.egress) == (False, False)
    assert distant.temporary_replays and distant.quota_bytes == 1_000_000
    assert distant.trim(BASE) == 0 and distant.direct == log.direct
    distant.maintain()
    distant.flush()
    distant.drop_endpoint("t")
    with pytest.raises(topicdb.NotFoundError, match="no endpoint 't'"):
        distant.endpoint("t")
    assert [one.name for one in log.endpoints()] == ["q"]


def test_messages_do_not_travel_as_orders(log: replay.ReplayLog, distant: DistantLog) -> None:
    endpoint = distant.queue("q", "#")
    for call in (endpoint.bind, endpoint.browse, lambda: distant.publish([("a", None, b"")])):
        with pytest.raises(TypeError, match=r"topicdb\.connect"):
            call()
    assert not endpoint.closed
    distant.close()
    assert endpoint.closed and distant.closed
    with pytest.raises(topicdb.ClosedError):
        distant.endpoints()
    assert not log.closed


def test_bad_orders_change_nothing(log: replay.ReplayLog, distant: DistantLog) -> None:
    untyped: Any = (queue := distant.queue("q", "#"))
    before = log.info()
    bad: list[tuple[Any, type[Exception]]] = [
        (lambda: queue.replay("yesterday"), ValueError),
        (lambda: untyped.replay(BASE, on_early="perhaps"), ValueError),
        (lambda: untyped.replay(speed=3), TypeError),
        (lambda: queue.replay(replay.MessageId(1, 2, 3)), replay.IdsNotComparableError),
        (lambda: queue.set_replay_rate("fast"), ValueError),
        (lambda: queue.subscribe("a/#/b"), topicdb.TopicError),
        (lambda: queue.unsubscribe("a"), ValueError),
        (lambda: queue.change("a"), ValueError),
        (lambda: queue.set_dead_letter("a"), ValueError),
        (lambda: distant.queue("q", "b"), ValueError),
        (lambda: distant.queue("x", "#", sppol=1), TypeError),
        (lambda: distant.set_filters([]), ValueError),
        (lambda: distant.trim("yesterday"), ValueError),
        (lambda: distant._order("set", "name", "x"), ValueError),
        (lambda: distant._order("set", "quota_bytes", "5"), TypeError),
        (lambda: distant._order("make", "x", "map", [], None, {}), ValueError),
        (lambda: distant._order("start", "q", {"before": 5}, {}), ValueError),
        (lambda: distant._order("start", "q"), ValueError),
        (lambda: distant._order("start", "q", "beginning", {}, 5), ValueError),
        (lambda: distant._order("close"), ValueError),
        (lambda: distant._order("endpoint", ["q"]), TypeError),
    ]
    for number, (call, error) in enumerate(bad):
        with pytest.raises(error):
            call()
            pytest.fail(f"order {number}")
    assert log.info() == before


def test_ids_are_starts(log: replay.ReplayLog, distant: DistantLog) -> None:
    queue = log.queue("q", "#")
    publish(log, 3)
    with queue.bind() as flow:
        first = flow.receive(timeout=PATIENCE_S)
        assert first is not None
    distant.endpoint("q").replay(first.id, end=BASE + 5_000, stall_timeout=None)
    wait_until(lambda: queue.info()["messages"] == 2)
    assert queue.info()["last_start"][2] == f"after {first.id}"


# The socket


def raw(path: Path, data: bytes) -> Any:
    """Returns the answer to bytes that are sent to the socket of the log "default"."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE_S)
        with short_address(socket_path(str(path), "default")) as address:
            connection.connect(address)
        with suppress(BrokenPipeError):  # it may have answered before it has read all
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        return receive_line(connection)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{\n", "Expecting"),
        (b"5\n", "expected an order"),
        (b'{"order": "info"}\n', "expected an order"),
        (b'{"order": "info", "args": {}}\n', "expected an order"),
        (b'{"order": 5, "args": []}\n', "no order 5"),
        (b'{"order": "info", "args": []}', "cut off"),
        (b'"\xff"\n', "codec"),
        (b" " * (LINE_BYTES_MAX + 1), "at most"),
    ],
)
def test_what_is_no_order_is_answered_and_harms_nothing(
    log: replay.ReplayLog, path: Path, data: bytes, words: str
) -> None:
    answer = raw(path, data)
    assert answer["error"]["kind"] in ("ValueError", "UnicodeDecodeError")
    assert words in answer["error"]["text"]
    assert raw(path, b"") is None
    assert raw(path, b'{"order": "origin", "args": []}\n') == {"result": log.origin}


def test_who_does_not_go_on_does_not_hold_up_others(
    log: replay.ReplayLog, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attached() -> bool:
        with suppress(topicdb.UnavailableError):
            return attach(path, "default") is not None
        return False

    monkeypatch.setattr(listener, "_PATIENCE_S", 0.1)
    with socket.socket(socket.AF_UNIX) as silent:
        with short_address(socket_path(str(path), "default")) as address:
            silent.connect(address)
        silent.sendall(b'{"order"')
        wait_until(attached)  # a slow machine may need more than one attempt


def test_an_order_is_done_although_whoever_gave_it_has_gone(
    log: replay.ReplayLog, path: Path
) -> None:
    order: dict[str, Any] = {"order": "make", "args": ["made", "queue", ["#"], None, {}]}
    with socket.socket(socket.AF_UNIX) as gone:
        with short_address(socket_path(str(path), "default")) as address:
            gone.connect(address)
        gone.sendall(json.dumps(order).encode() + b"\n")
    wait_until(lambda: [endpoint.name for endpoint in log.endpoints()] == ["made"])
    assert attach(path, "default") is not None


def test_only_its_user_reaches_a_log(log: replay.ReplayLog, path: Path) -> None:
    found = socket_path(str(path), "default")
    assert stat.S_IMODE(found.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(found.stat().st_mode) == 0o600


def test_each_log_has_a_socket_while_it_is_open(path: Path) -> None:
    name = "night/shift " + "x" * 300
    with topicdb.open(path) as db:
        assert attach(path, "default") is None and attach(path / "nothing", "default") is None
        with replay.open(db), replay.open(db, name):
            assert len(list((path / "control").iterdir())) == 2
            found = attach(path, name)
            assert found is not None and found.name == name
        assert list((path / "control").iterdir()) == []
        with pytest.raises(topicdb.UnavailableError, match="any more"):
            found.info()
        log = replay.open(db)

    def is_gone() -> bool:
        try:
            return attach(path, "default") is None
        except topicdb.UnavailableError:  # its socket is being closed
            return False

    wait_until(is_gone)
    with pytest.raises(topicdb.ClosedError):
        log.info()


def test_a_path_may_be_longer_than_an_address(tmp_path: Path) -> None:
    path = tmp_path / ("long " * 30) / "log.db"
    with topicdb.open(path) as db, replay.open(db) as log:
        found = attach(path, "default")
        assert found is not None and found.origin == log.origin


def test_a_log_works_without_a_socket(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(listener, "_listening_at", fail)
    with caplog.at_level(logging.WARNING), topicdb.open(path) as db, replay.open(db) as log:
        log.queue("q", "#")
        publish(log, 1)
        with log.endpoint("q").bind() as flow:
            assert flow.receive(timeout=PATIENCE_S) is not None
    assert "cannot give orders to replay log 'default'" in caplog.text


def test_a_forked_child_leaves_the_socket_alone(log: replay.ReplayLog, path: Path) -> None:
    def close() -> str:
        log._listener.close()
        return "done"

    assert fork_and_run(close) == "done"
    assert attach(path, "default") is not None


def test_copies_and_checks_of_a_database_leave_it_out(
    log: replay.ReplayLog, path: Path, tmp_path: Path
) -> None:
    database = log._database
    database.snapshot(tmp_path / "copy")
    assert not (tmp_path / "copy" / "control").exists()
    assert database.verify().ok
    with topicdb.open(path, mode="r") as reader:
        assert reader.verify().ok


# Errors on their way


@pytest.mark.parametrize("kind", [*error_classes().values(), topicdb.QuotaError, ValueError])
def test_errors_arrive_as_they_were(kind: type[Exception]) -> None:
    found = unpacked(json.loads(json.dumps(packed(kind("what happened")))))
    assert type(found) is kind and found.args == ("what happened",)


def test_errors_of_which_nothing_is_known_arrive_as_errors() -> None:
    class OddError(topicdb.ReplayError):
        """One that only the other side has."""

    assert type(unpacked(packed(OddError("odd")))) is topicdb.ReplayError
    found = unpacked(packed(ZeroDivisionError("by zero")))
    assert type(found) is topicdb.Error and "ZeroDivisionError: by zero" in str(found)
    assert type(unpacked({"kind": "NewError", "text": "x"})) is topicdb.Error


# Crashes

_PROGRAM = """
import sys
import topicdb
from topicdb import replay
from topicdb.replay.log import log as module

carry_out = module.carry_out

def told(log, order, args):
    if order == sys.argv[2]:
        print("got", order, flush=True)
        sys.stdin.readline()  # for ever
    return carry_out(log, order, args)

module.carry_out = told
with topicdb.open(sys.argv[1]) as db, replay.open(db) as log:
    log.queue("q", "#", spool=10)
    log.publish([("a", 1_700_000_000_000_000 + n, b"%d" % n) for n in range(100)])
    print("ready", flush=True)
    sys.stdin.readline()
"""


def test_an_order_that_was_answered_outlasts_the_process_that_has_the_log(path: Path) -> None:
    with Child(_PROGRAM, path, "none") as child:
        child.expect("ready")
        found = attach(path, "default")
        assert found is not None
        queue = found.endpoint("q")
        queue.replay(BASE + 7, rate="1/s")
        queue.pause_replay()
        child.kill()
        with pytest.raises(topicdb.UnavailableError, match="any more"):
            queue.resume_replay()
        assert socket_path(str(path), "default").exists()  # nobody was there to remove it
        assert attach(path, "default") is None
    with topicdb.open(path) as db, replay.open(db) as log:
        assert attach(path, "default") is not None
        queue = log.endpoint("q")
        assert queue.state.runs and queue.info()["last_start"][2] == str(BASE + 7)
        queue.set_replay_rate(None)
        assert queue.progress().eta_s is None  # it still pauses
        queue.resume_replay()
        with queue.bind() as flow:
            message = flow.receive(timeout=PATIENCE_S)
            assert message is not None and message.value == b"7"


def test_of_an_order_without_an_answer_nothing_is_known(path: Path) -> None:
    with Child(_PROGRAM, path, "start") as child:
        child.expect("ready")
        order = Child(
            """
            import sys
            from topicdb.replay.distant.attaching import attach
            try:
                attach(sys.argv[1], "default").endpoint("q").replay()
            except Exception as error:
                print(type(error).__name__, error, flush=True)
            """,
            path,
        )
        with order:
            child.expect("got start")
            child.kill()
            told = order.read_line()
        assert told.startswith("UnavailableError") and "whether 'start' was done" in told
