"""Endpoints are stored together, in order, and again after failures."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import PATIENCE_S, wait_until

import topicdb
from topicdb import replay
from topicdb.arguments.times import TIMESTAMP_MAX
from topicdb.replay.endpoint.endpoint import Endpoint
from topicdb.replay.log.pump import Pump
from topicdb.replay.records import EndpointRecord, Records


@pytest.fixture
def db(tmp_path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(tmp_path / "log.db") as database:
        yield database


def record(name: str, number: int) -> EndpointRecord:
    return EndpointRecord(
        name, "queue", True, [], replay.MessageId(0, 1, 0).place, counts={"x": number}
    )


def stored(records: Records) -> dict[str, int]:
    return {one.name: one.counts["x"] for one in records.endpoints()}


def test_what_waits_is_stored_in_one_commit(db: topicdb.Database) -> None:
    records = Records(db._core, "log", None)
    for number in range(50):
        records.save_endpoint(record(f"q{number}", number), later=True)
    assert records.writes == 0 and stored(records) == {}
    records.save_waiting()
    records.save_waiting()
    assert records.writes == 1 and stored(records) == {f"q{n}": n for n in range(50)}


def test_all_commits_of_the_log_itself_are_counted(db: topicdb.Database) -> None:
    def commits() -> int:
        return db._core.places_at(None, TIMESTAMP_MAX)[0][0] - begin

    begin = 0
    begin = commits()
    records = Records(db._core, "log", None)
    for work in (
        records.origin,
        records.origin,
        lambda: records.save_endpoint(record("q", 1)),
        lambda: records.drop_endpoint("q"),
        lambda: records.drop_endpoint("never stored"),
        lambda: records.save_endpoint(record("q", 2)),
        records.drop,
        records.drop,
    ):
        work()
        assert records.writes == commits()


def test_what_waits_never_comes_behind_what_is_newer(db: topicdb.Database) -> None:
    records = Records(db._core, "log", None)
    for name in ("saved", "dropped", "again"):
        records.save_endpoint(record(name, 1), later=True)
    records.save_endpoint(record("saved", 2))
    records.drop_endpoint("dropped")
    records.save_endpoint(record("again", 3), later=True)
    records.save_waiting()
    assert stored(records) == {"saved": 2, "again": 3}


def test_what_could_not_be_stored_waits_on(
    db: topicdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = Records(db._core, "log", None)
    records.save_endpoint(record("q", 1), later=True)

    def fail(self: Records, values: dict[str, bytes]) -> None:
        raise topicdb.QuotaError("there is no room")

    with monkeypatch.context() as patched:
        patched.setattr(Records, "_write", fail)
        with pytest.raises(topicdb.QuotaError):
            records.save_waiting()
    records.save_waiting()
    assert stored(records) == {"q": 1}


def test_flush_stores_what_waits(db: topicdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with replay.open(db) as log:
        queue = log.queue("q", "#")
        log.publish([("a", None, b"x")] * 3)
        with queue.bind() as flow:
            for _ in range(3):
                flow.ack(flow.receive(timeout=PATIENCE_S))  # type: ignore[arg-type]
        with queue._parts.lock:
            queue._parts.saving.store(later=True)
            log.flush()
        (found,) = log._records.endpoints()
        assert found.counts["acknowledged"] == 3


def test_endpoints_and_maintenance_go_on_beside_one_that_fails(
    db: topicdb.Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    original = Endpoint.step
    fails = threading.Event()
    fails.set()

    def step(self: Endpoint) -> float:
        if self.record.name == "bad" and fails.is_set():
            raise topicdb.QuotaError("there is no room")
        return original(self)

    monkeypatch.setattr(Endpoint, "step", step)
    maintained: list[int] = []
    maintain = replay.ReplayLog.maintain

    def counted(self: replay.ReplayLog) -> None:
        maintained.append(1)
        maintain(self)

    monkeypatch.setattr(replay.ReplayLog, "maintain", counted)
    with replay.open(db) as log:
        bad, good = log.queue("bad", "#"), log.queue("good", "#")
        log.publish([("a", None, b"x")])
        for queue in (bad, good):
            queue.replay()
        wait_until(lambda: good.state is replay.State.PENDING_COMPLETE)
        wait_until(lambda: "no room" in caplog.text)
        before = len(maintained)
        wait_until(lambda: len(maintained) >= before + 2)
        assert bad.state is replay.State.INITIALIZING
        fails.clear()
        wait_until(lambda: bad.state is replay.State.PENDING_COMPLETE)


def test_the_thread_ends_with_the_database(db: topicdb.Database) -> None:
    ended = threading.Event()
    stepped: list[str] = []

    def step(name: str) -> float:
        stepped.append(name)
        raise topicdb.ClosedError("the database is closed")

    pump = Pump(step, lambda: None, lambda: None, ended.set)
    pump.start("test")
    pump.wake("q")
    assert ended.wait(PATIENCE_S)
    pump.close()
    assert stepped == ["q"]
