"""Tests that replays give way to what is committed meanwhile."""

from __future__ import annotations

import pytest

from topicdb.replay.throttle import (
    IDLE_S,
    MESSAGES_PER_S_MIN,
    READ_ROWS,
    SLOWER,
    TICK_S,
    WAIT_S_MAX,
    ReadThrottle,
)

STEP_S = 1.01 * TICK_S


class Machine:
    """A throttle with a clock, processors and commits that a test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.cpu_s = 0.0
        self.commits = 0
        self.throttle = ReadThrottle(
            lambda: self.commits, lambda: self.cpu_s, lambda: self.now_s, processors=2
        )

    def tick(self, busy: float, commits: int, messages: int) -> float:
        """Passes one period; returns how many messages per second a replay may read, 0 for any."""
        self.throttle.count(messages)
        self.now_s += STEP_S
        self.cpu_s += busy * 2 * STEP_S
        self.commits += commits
        self.throttle.wait_s()
        return self.throttle.per_s or 0.0


def test_a_replay_alone_is_never_held_up() -> None:
    machine = Machine()
    assert all(machine.tick(1.0, 0, 100_000) == 0.0 for _ in range(10))
    assert machine.throttle.wait_s() == 0.0


def test_nor_is_one_beside_ingest_while_there_are_processors() -> None:
    machine = Machine()
    assert all(machine.tick(0.7, 10, 100_000) == 0.0 for _ in range(10))


def test_with_all_processors_busy_it_becomes_slower_and_then_faster() -> None:
    machine = Machine()
    found = [machine.tick(1.0, 10, 100_000) for _ in range(3)]
    assert found[0] == pytest.approx(SLOWER * 100_000 / STEP_S)
    assert found[0] > found[1] > found[2]
    assert machine.tick(0.7, 10, 0) > found[2]
    for _ in range(int(IDLE_S / STEP_S)):  # a commit may take this long
        assert machine.tick(1.0, 0, 0) > 0.0
    assert machine.tick(1.0, 0, 0) == 0.0  # nobody commits any more
    for _ in range(100):
        found.append(machine.tick(1.0, 10, 100))
    assert found[-1] == MESSAGES_PER_S_MIN


def test_what_was_read_too_much_is_waited_for() -> None:
    machine = Machine()
    for _ in range(100):
        machine.tick(1.0, 10, 100)
    assert machine.throttle.wait_s() == 0.0
    machine.throttle.count(int(0.2 * MESSAGES_PER_S_MIN))
    wait_s = machine.throttle.wait_s()
    assert 0.1 < wait_s <= 0.2
    machine.now_s += wait_s + 0.001
    machine.cpu_s += 2 * wait_s
    machine.commits += 1
    assert machine.throttle.wait_s() == 0.0
    machine.throttle.count(int(10 * MESSAGES_PER_S_MIN))
    assert machine.throttle.wait_s() == WAIT_S_MAX


def test_those_who_wait_come_back_one_after_the_other() -> None:
    machine = Machine()
    for _ in range(100):
        machine.tick(1.0, 10, 100)
    machine.throttle.count(int(0.1 * MESSAGES_PER_S_MIN))
    waits = [machine.throttle.wait_s() for _ in range(100)]
    step_s = READ_ROWS / MESSAGES_PER_S_MIN
    assert waits[1] - waits[0] == pytest.approx(step_s)
    assert waits[2] - waits[1] == pytest.approx(step_s)
    assert waits[-1] == WAIT_S_MAX and sorted(waits) == waits
    machine.now_s += WAIT_S_MAX
    machine.commits += 1
    machine.cpu_s += 2 * WAIT_S_MAX
    assert machine.throttle.wait_s() == 0.0
