"""Tests of what can be seen of replay logs from another process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_runs import run_here
from support import wait_until

import topicdb
from topicdb import replay
from topicdb.replay.log.status import LogStatus, LogStatuses

VALUE = b"x" * 996  # 1,000 bytes with its topic


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def db(path: Path) -> Iterator[topicdb.Database]:
    with topicdb.open(path) as database:
        yield database


def publish(log: replay.ReplayLog, count: int, topic: str = "a/b1") -> None:
    for _ in range(count):  # a log is trimmed by commits
        log.publish([(topic, None, VALUE)])


def seen(statuses: LogStatuses) -> LogStatus:
    """Returns the status of the only log, as a handle that only reads finds it now."""
    statuses._database.refresh()
    (found,) = statuses.read()
    return found


def test_the_usage_of_the_quota_is_seen_from_outside(path: Path, db: topicdb.Database) -> None:
    with replay.open(db, quota_bytes=100_000) as log, topicdb.open(path, mode="r") as reader:
        statuses = LogStatuses(reader)
        assert (seen(statuses).bytes, seen(statuses).quota_used) == (0, 0.0)
        publish(log, 40)
        status = seen(statuses)
        assert (status.bytes, status.quota_used) == (40_000, 0.4)
        assert status.bytes == log.info()["bytes"]
        publish(log, 60)
        log.maintain()  # trims it to 80 % of its quota
        status = seen(statuses)
        assert status.bytes == log.info()["bytes"] and status.quota_used is not None
        assert 0.7 <= status.quota_used <= 0.8
        log.set_filters("b/#")  # counts from now on, and what is counted
        assert seen(statuses).bytes == 0
        publish(log, 1, "b/b1")
        assert seen(statuses).bytes == 1_000
        log.quota_bytes = 0
        assert seen(statuses).quota_used is None


class Recorder:
    """An engine that notes behind which commit it was asked to measure."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.asked: list[int] = []

    def measure_log(self, shard: int, filters: Any, after: int, *limits: Any) -> Any:
        self.asked.append(after)
        return self._engine.measure_log(shard, filters, after, *limits)


def test_a_further_report_reads_only_what_is_new(path: Path, db: topicdb.Database) -> None:
    with replay.open(db) as log:
        publish(log, 3)
    with topicdb.open(path, mode="r") as reader:
        statuses = LogStatuses(reader)
        statuses.read()
        measure = statuses._measures["default"]
        recorder: Any = Recorder(measure._core)
        measure._core = recorder
        assert seen(statuses).bytes == 3_000
        assert len(recorder.asked) == 1 and recorder.asked[0] >= 3  # behind the three commits


def test_a_log_that_was_dropped_is_forgotten(path: Path, db: topicdb.Database) -> None:
    replay.open(db, "one").close()
    replay.open(db, "two").close()
    with topicdb.open(path, mode="r") as reader:
        statuses = LogStatuses(reader)
        assert [one.name for one in statuses.read()] == ["one", "two"]
        replay.drop(db, "one")
        assert seen(statuses).name == "two" and list(statuses._measures) == ["two"]


def test_the_command_shows_the_usage(path: Path, db: topicdb.Database) -> None:
    with replay.open(db, "main", quota_bytes=100_000) as log:
        publish(log, 25)
        found = run_here("replay", "status", path, "--json")
        assert found.returncode == 0, found.stderr
        (status,) = json.loads(found.stdout)["logs"]
        assert (status["bytes"], status["quota_bytes"], status["quota_used"]) == (
            25_000,
            100_000,
            0.25,
        )
        text = run_here("replay", "status", path).stdout
        assert "25,000 of 100,000 bytes (25% of the quota)" in text
        log.quota_bytes = 0
        wait_until(lambda: "25,000 bytes, no quota" in run_here("replay", "status", path).stdout)
