"""In 72 hours with a fast clock, a database's disk space, files and memory level off.

``TOPICDB_LIFE_ROWS`` is the number of messages per hour (default 2,000); ``-s`` shows figures.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import life_program
from support import Layout

import topicdb

HOURS = 72
HOURS_OF_A_PROCESS = 24
WARM_UP_HOURS = 24  # longer than the age and the rotation of any class
MARGIN = 1.2
MEMORY_MARGIN_BYTES = 24 << 20

Hour = dict[str, int]


def lives(path: Path, snapshots: Path, layouts: tuple[Layout, ...]) -> Iterator[list[Hour]]:
    """Yields the reports of one process after another; each is killed in the middle of an hour."""
    start_us = time.time_ns() // 1_000
    chance = random.Random(5)
    hour = 0
    while hour < HOURS:
        # It lives no more than the hour in which it is killed, even if that takes long: the next
        # one lives that hour again, and has its messages twice.
        hours = min(HOURS - hour, HOURS_OF_A_PROCESS + 1)
        arguments = [path, snapshots, ",".join(layouts), start_us, hour, hours]
        with subprocess.Popen(
            [sys.executable, life_program.__file__, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            told: list[Hour] = []
            for line in process.stdout:
                if line == "done\n":
                    break
                told.append(json.loads(line))
                if len(told) == HOURS_OF_A_PROCESS:
                    time.sleep(chance.random() * 0.1)
                    break
            process.kill()
        assert told, "a process ended in its first hour"
        hour = told[-1]["hour"] + 1
        yield told


def test_72_hours(tmp_path: Path, layouts: tuple[Layout, ...]) -> None:
    path, snapshots = tmp_path / "life.db", tmp_path / "snapshots"
    snapshots.mkdir()
    processes = list(lives(path, snapshots, layouts))
    hours = [hour for told in processes for hour in told]
    assert [hour["hour"] for hour in hours] == list(range(HOURS))
    assert sum(hour["rotated"] for hour in hours) > HOURS
    assert sum(hour["dropped"] for hour in hours) > HOURS
    assert all(hour["reads"] > 0 for hour in hours)
    longest = max(duration for duration in (18 + 3, 2 + 1, 8 + 1))
    assert max(hour["oldest_us"] for hour in hours) <= (longest + 1) * life_program.HOUR_US

    middle = hours[WARM_UP_HOURS : (HOURS + WARM_UP_HOURS) // 2]
    late = hours[(HOURS + WARM_UP_HOURS) // 2 :]
    for what in ("messages", "disk_bytes", "files", "threads"):
        before, after = (max(hour[what] for hour in part) for part in (middle, late))
        print(f"{what}: {before:,} at most in hours {WARM_UP_HOURS} to 47, {after:,} from 48 on")
        assert after <= MARGIN * before, (what, before, after)
    for told in processes:
        half = len(told) // 2
        before, after = (
            max(hour["rss_bytes"] for hour in part) for part in (told[:half], told[half:])
        )
        print(
            f"rss_bytes: {before:,} at most in the first half of a process, {after:,} in the other"
        )
        assert after <= MARGIN * before + MEMORY_MARGIN_BYTES, ("rss_bytes", before, after)

    with topicdb.open(path, mode="r") as db:
        assert {slab.layout for slab in db.slabs()} == set(layouts)
    assert topicdb.verify(path).ok
    for snapshot in snapshots.iterdir():
        if not snapshot.name.endswith(".partial"):
            assert topicdb.verify(snapshot).ok
