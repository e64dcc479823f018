"""Scenarios of databases whose clock leaps; ``shifted_clock.c`` has to be preloaded.

    SHIFTED_CLOCK=FILE python clock_program.py SCENARIO PATH

Runs one scenario, which sets the clock through ``Clock``, and prints what it saw, as JSON.
"""

from __future__ import annotations

import json
import logging
import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import topicdb
from topicdb import replay

SECOND = 1_000_000
HOUR = 3_600 * SECOND
DAY = 24 * HOUR
YEARS_10 = 3_652 * DAY
INTERVAL = "50ms"
LAYOUT: Any = os.environ.get("LAYOUT")


def now_us() -> int:
    return time.time_ns() // 1_000


class Clock:
    """Shifts the clocks of this process, through the file that ``shifted_clock.c`` maps."""

    def __init__(self) -> None:
        self._file = open(os.environ["SHIFTED_CLOCK"], "r+b", buffering=0)  # noqa: SIM115
        self._wall_us, self._boot_us = struct.unpack("=qq", self._file.read(16))

    def leap(self, by_us: int) -> None:
        """Sets the clock of the day; no time passes."""
        self._wall_us += by_us
        self._write()

    def pass_time(self, us: int) -> None:
        """Lets time pass, as if the machine were awake or asleep."""
        self._wall_us += us
        self._boot_us += us
        self._write()

    def _write(self) -> None:
        self._file.seek(0)
        self._file.write(struct.pack("=qq", self._wall_us, self._boot_us))


class Warned(logging.Handler):
    """Keeps the texts that TopicDB logs."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        logging.getLogger("topicdb").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def await_maintenance(db: topicdb.Database, runs: int = 3) -> None:
    """Waits until the background thread has run ``runs`` times from now on."""
    until = db.stats()["maintenance"]["runs"] + runs
    while db.stats()["maintenance"]["runs"] < until:
        time.sleep(0.01)


def values(db: topicdb.Database) -> list[str]:
    return sorted(message.value.decode() for message in db.scan("#"))


def assigned(db: topicdb.Database, value: bytes = b"") -> int:
    """Appends a message without a timestamp, and returns the one that it gets."""
    value = value or b"%d" % time.monotonic_ns()
    db.append([("clock/a", None, value)])
    return next(m.timestamp for m in db.scan("clock/a") if m.value == value)


def opened(path: Path, age: str | None = "7d", **options: Any) -> topicdb.Database:
    options = {"maintenance_interval": INTERVAL, "retention": {"#": age}, **options}
    return topicdb.open(path, layout=LAYOUT, **options)


def leap_and_retention(path: Path, clock: Clock) -> Any:
    """The clock is ten years ahead for a moment, while ended generations are there."""
    with opened(path) as db:
        db.append([("a", 1, b"1")])
        db.rotate()
        db.append([("a", 2, b"2")])
        clock.leap(YEARS_10)
        await_maintenance(db)
        during = values(db)
        clock.leap(-YEARS_10)
        await_maintenance(db)
        return {"during": during, "after": values(db)}


def leap_between_processes(path: Path, clock: Clock) -> Any:
    """The database is opened while the clock is wrong."""
    with opened(path) as db:
        db.append([("a", 1, b"1")])
        db.rotate()
    clock.leap(YEARS_10)
    with opened(path) as db:
        await_maintenance(db)
        during = assigned(db) - now_us()
    clock.leap(-YEARS_10)
    with opened(path) as db:
        await_maintenance(db)
        after = assigned(db) - now_us()
        return {"values": values(db)[:1], "during": during, "after": after}


def leap_of_one_append(path: Path, clock: Clock) -> Any:
    """One message gets its timestamp while the clock is wrong, and others later."""
    warned = Warned()
    found: dict[str, Any] = {}
    with opened(path) as db:
        before = assigned(db)
        clock.leap(YEARS_10)
        found["during"] = assigned(db) - before
        found["held"] = db.stats()["shards"][0]["clock_held"]
        clock.leap(-YEARS_10)
        found["after"] = assigned(db) - before
        found["held_after"] = db.stats()["shards"][0]["clock_held"]
    with opened(path) as db:
        found["reopened"] = assigned(db) - before
        found["ahead"] = db.stats()["shards"][0]["clock_ahead"]
    found["warned"] = len(warned.texts)
    return found


def leap_that_stays(path: Path, clock: Clock) -> Any:
    """The database believes a leap in the end, but it was wrong, and the user resets the clock."""
    warned = Warned()
    found: dict[str, Any] = {}
    with opened(path) as db:
        db.append([("a", 1, b"1")])
        db.rotate()
        clock.leap(YEARS_10)
        await_maintenance(db)
        clock.pass_time(HOUR)
        found["believed"] = assigned(db) - now_us()
        await_maintenance(db)
        found["kept"] = "1" in values(db)
        db.rotate()  # a generation that begins, and one that ends, in a year that is wrong
        db.append([("a", 3, b"3")])
        clock.leap(-YEARS_10)
        found["stays"] = assigned(db) - now_us()
        found["ahead"] = db.stats()["shards"][0]["clock_ahead"]
        found["warned"] = warned.texts
        db.rotate(reset_clock=True)
        found["reset"] = assigned(db) - now_us()
        found["ahead_after"] = db.stats()["shards"][0]["clock_ahead"]
        await_maintenance(db)
        found["kept_after"] = "1" in values(db) and "3" in values(db)
        clock.pass_time(6 * DAY)
        await_maintenance(db)
        found["young"] = "3" in values(db)
        clock.pass_time(3 * DAY)
        await_maintenance(db)
        found["old"] = "3" in values(db)
    with opened(path) as db:
        found["reopened"] = assigned(db) - now_us()
    return found


def generation_of_a_leap(path: Path, clock: Clock) -> Any:
    """A generation that is begun while the clock is wrong ends in time, and goes in time."""
    with opened(path) as db:
        clock.leap(YEARS_10)
        db.append([("a", 1, b"1")])
        db.rotate()
        db.append([("a", 2, b"2")])
        clock.leap(-YEARS_10)
        await_maintenance(db)
        kept = values(db)
        clock.pass_time(6 * DAY)
        await_maintenance(db)
        young = values(db)
        clock.pass_time(2 * DAY)
        await_maintenance(db)
        old = values(db)
        clock.pass_time(6 * DAY)
        await_maintenance(db)
        return {"kept": kept, "young": young, "old": old, "older": values(db)}


def step_back(path: Path, clock: Clock) -> Any:
    """The clock steps back by three days, for good."""
    with opened(path) as db:
        db.append([("a", 1, b"1")])
        db.rotate()
        first = assigned(db)
        clock.leap(-3 * DAY)
        await_maintenance(db)
        second = assigned(db)
        ahead = db.stats()["shards"][0]["clock_ahead"]
        clock.pass_time(6 * DAY)
        await_maintenance(db)
        young = "1" in values(db)
        third = assigned(db) - now_us()
        clock.pass_time(2 * DAY)
        await_maintenance(db)
        old = "1" in values(db)
    return {
        "next": second - first,
        "ahead": ahead,
        "young": young,
        "old": old,
        "caught_up": third,
    }


def step_back_and_return(path: Path, clock: Clock) -> Any:
    """The clock steps back by three days and returns after a rotation, which drops nothing."""
    with opened(path, "1d") as db:
        db.append([("a", 1, b"1")])
        clock.leap(-3 * DAY)
        await_maintenance(db)
        db.rotate()
        db.append([("a", 2, b"2")])
        db.rotate()
        clock.leap(3 * DAY)
        await_maintenance(db)
        return {"kept": values(db)}


def suspend(path: Path, clock: Clock) -> Any:
    """The machine sleeps for eight hours, which count."""
    with opened(path, "6h") as db:
        db.append([("a", 1, b"1")])
        db.rotate()
        clock.pass_time(8 * HOUR)
        ahead = assigned(db) - now_us()
        await_maintenance(db)
        return {"off": ahead, "kept": "1" in values(db)}


def paused_guest(path: Path, clock: Clock) -> Any:
    """A guest is paused for eight hours, and its clock is set afterwards.

    It does not know that the hours have passed, but messages get the current time.
    """
    with opened(path, "6h") as db:
        db.append([("a", 1, b"1")])
        db.rotate()
        clock.leap(8 * HOUR)
        off = assigned(db) - now_us()
        await_maintenance(db)
        kept = "1" in values(db)
        clock.pass_time(7 * HOUR)
        await_maintenance(db)
        return {"off": off, "kept": kept, "old": "1" in values(db)}


def device_without_a_clock(path: Path, clock: Clock) -> Any:
    """A device starts in 1970, and gets the right time an hour later."""
    clock.leap(-now_us() + HOUR)
    with opened(path) as db:
        db.append([("a", 1, b"1")])
        db.rotate()
        first = assigned(db)
        clock.pass_time(HOUR)
        clock.leap(20_000 * DAY)
        second = assigned(db) - now_us()
        await_maintenance(db)
        kept = "1" in values(db)
        clock.pass_time(8 * DAY)
        await_maintenance(db)
        return {
            "in_1970": first < DAY,
            "off": second,
            "kept": kept,
            "old": "1" in values(db),
        }


def timestamps_of_users(path: Path, clock: Clock) -> Any:
    """Messages of the far future and past change neither retention nor the clock."""
    with opened(path) as db:
        db.append([("a", 1, b"past"), ("a", 2**63 - 1, b"future")])
        db.rotate()
        off = assigned(db) - now_us()
        clock.pass_time(6 * DAY)
        await_maintenance(db)
        young = values(db)
        clock.pass_time(2 * DAY)
        await_maintenance(db)
        return {"off": off, "young": young[-2:], "old": [v for v in values(db) if v[0] > "9"]}


def replay_log(path: Path, clock: Clock) -> Any:
    """A log drops trimmed messages that were read, and no others, although its clock steps back."""
    found: list[str] = []
    with (
        topicdb.open(path, layout=LAYOUT, maintenance_interval=None) as db,
        replay.open(db) as log,
    ):
        queue = log.queue("q", "#")
        for part in range(2):
            log.publish([("a", part * 10 + n, b"%d" % (part * 10 + n)) for n in range(3)])
            log.trim(part * 10 + 9)
            if part == 0:
                with queue.bind() as flow:
                    for _ in range(3):
                        message = flow.receive(timeout=60)
                        assert message is not None
                        found.append(message.value.decode())
                        flow.ack(message)
                clock.leap(-3 * DAY)
        log.maintain()
        return {"read": found, "kept": values(db)}


SCENARIOS: list[Callable[[Path, Clock], Any]] = [
    leap_and_retention,
    leap_between_processes,
    leap_of_one_append,
    leap_that_stays,
    generation_of_a_leap,
    step_back,
    step_back_and_return,
    suspend,
    paused_guest,
    device_without_a_clock,
    timestamps_of_users,
    replay_log,
]


def main() -> None:
    name, path = sys.argv[1:]
    [scenario] = [known for known in SCENARIOS if known.__name__ == name]
    print(json.dumps(scenario(Path(path), Clock())))


if __name__ == "__main__":
    main()
