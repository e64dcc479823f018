"""When the clock of the day leaps: which timestamps messages get, and what retention drops.

Each case is a process of its own with ``shifted_clock.c``, which shifts the clocks it sees.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import clock_program
import pytest
from clock_program import DAY, HOUR, SECOND, YEARS_10
from support import Layout

from crash.recording import build_shim

LIBRARY = Path(__file__).with_name("shifted_clock.c")
PATIENCE_US = 600 * SECOND
"""What a loaded machine may take between two readings of the clock."""


@pytest.fixture
def see(tmp_path: Path, layout: Layout) -> Any:
    def run(scenario: Any) -> Any:
        clock = tmp_path / "clock"
        clock.write_bytes(struct.pack("=qq", 0, 0))
        environment = {
            **os.environ,
            "LD_PRELOAD": str(build_shim(LIBRARY)),
            "SHIFTED_CLOCK": str(clock),
            "LAYOUT": layout,
        }
        command = [sys.executable, clock_program.__file__, scenario.__name__, tmp_path / "c.db"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def is_now(off_us: int) -> bool:
    return abs(off_us) < PATIENCE_US


def test_a_leap_of_years_for_a_moment_drops_nothing(see: Any) -> None:
    found = see(clock_program.leap_and_retention)
    assert found == {"during": ["1", "2"], "after": ["1", "2"]}


def test_nor_where_a_database_is_opened_then(see: Any) -> None:
    found = see(clock_program.leap_between_processes)
    assert found["values"] == ["1"]
    assert is_now(found["during"] + YEARS_10)
    assert is_now(found["after"])


def test_timestamps_do_not_follow_it(see: Any) -> None:
    found = see(clock_program.leap_of_one_append)
    assert is_now(found["held"] - YEARS_10) and found["held_after"] == 0
    assert all(0 < found[when] < PATIENCE_US for when in ("during", "after", "reopened"))
    assert is_now(found["ahead"]) and found["warned"] == 0


def test_one_that_stays_is_believed_and_can_be_undone(see: Any) -> None:
    found = see(clock_program.leap_that_stays)
    assert is_now(found["believed"])
    assert found["kept"]
    assert is_now(found["stays"] - YEARS_10) and is_now(found["ahead"] - YEARS_10)
    assert any("reset_clock" in text for text in found["warned"])
    assert is_now(found["reset"]) and is_now(found["ahead_after"]) and is_now(found["reopened"])
    assert found["kept_after"] and found["young"] and not found["old"]


def test_a_generation_that_is_begun_in_it_ends_and_goes(see: Any) -> None:
    found = see(clock_program.generation_of_a_leap)
    assert found == {
        "kept": ["1", "2"],
        "young": ["1", "2"],
        "old": ["2"],
        "older": [],
    }


def test_three_days_back(see: Any) -> None:
    found = see(clock_program.step_back)
    assert found["next"] == 1
    assert is_now(found["ahead"] - 3 * DAY)
    assert found["young"] and not found["old"]
    assert is_now(found["caught_up"])


def test_three_days_back_and_forth(see: Any) -> None:
    assert see(clock_program.step_back_and_return) == {"kept": ["1", "2"]}


def test_the_time_that_a_machine_sleeps_counts(see: Any) -> None:
    found = see(clock_program.suspend)
    assert is_now(found["off"]) and not found["kept"]


def test_hours_that_a_guest_was_paused(see: Any) -> None:
    found = see(clock_program.paused_guest)
    assert is_now(found["off"]) and found["kept"] and not found["old"]
    assert PATIENCE_US < HOUR


def test_a_device_that_starts_in_1970(see: Any) -> None:
    found = see(clock_program.device_without_a_clock)
    assert found["in_1970"] and is_now(found["off"])
    assert found["kept"] and not found["old"]


def test_timestamps_of_users_do_not_count(see: Any) -> None:
    found = see(clock_program.timestamps_of_users)
    assert is_now(found["off"])
    assert found["young"] == ["future", "past"] and found["old"] == []


@pytest.mark.parametrize("layout", ["columnar"])  # the other layout has no replay log
def test_a_replay_log_keeps_what_is_still_to_be_read(see: Any) -> None:
    found = see(clock_program.replay_log)
    assert found == {"read": ["0", "1", "2"], "kept": ["10", "11", "12"]}
