"""Lives hours of a database with a clock that runs fast, and reports each hour.

    python life_program.py PATH SNAPSHOTS LAYOUTS START_US FIRST_HOUR HOURS

In each hour the program appends messages with timestamps of that hour, runs maintenance as if the
hour had ended, and does what operators and users do: it queries, deletes and makes snapshots. It
prints one line of JSON per hour. With several layouts ("columnar,skipstream"), each class has
another one, and changes it now and then.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import topicdb

HOUR_US = 3_600_000_000
ROWS_PER_HOUR = int(os.environ.get("TOPICDB_LIFE_ROWS", "2000"))
BATCH_ROWS = 500
RETENTION = {
    "alarm/#": topicdb.Retention("18h", rotate="3h"),
    "debug/#": topicdb.Retention("2h", rotate="30m"),
    "status/#": topicdb.Retention("3h", rotate="1h", keep_last=2),
    "#": topicdb.Retention("8h", rotate="1h"),
}
LAYOUT_HOURS = 5
SNAPSHOT_EVERY_HOURS = 4
SNAPSHOTS_MAX = 2
SLICE_HOURS = 4
PAGE_ROWS = 100  # of an iterator
PAGE_BYTES = 4096  # of file systems


def rows_of(start_us: int, hour: int) -> list[tuple[str, int, bytes]]:
    """Returns the messages of an hour, the same ones at each call."""
    rows = []
    for i in range(ROWS_PER_HOUR):
        kind = "alarm" if i % 50 == 0 else "debug" if i % 5 == 0 else "site/3"
        kind = "status" if i % 20 == 3 else kind
        topic = f"{kind}/h{i * 7 % 400}/{'cpu' if i % 2 else 'mem'}"
        rows.append((topic, start_us + hour * HOUR_US + i * (HOUR_US // ROWS_PER_HOUR), b"%d" % i))
    return rows


def disk_bytes(path: Path) -> int:
    """Returns how many bytes the files below a directory take; files may go meanwhile.

    Space that RocksDB reserves behind the end of a log is left out: while RocksDB is about to
    remove a log there are two of them, so this space would double now and then, by chance.
    """
    total = 0
    for directory, _, names in os.walk(path):
        for name in names:
            try:
                found = os.stat(os.path.join(directory, name))
            except FileNotFoundError:
                continue
            total += min(found.st_blocks * 512, -(-found.st_size // PAGE_BYTES) * PAGE_BYTES)
    return total


def rss_bytes() -> int:
    """Returns the resident memory of this process."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Life:
    """The part of a database's life that one process lives; it owns the open database."""

    def __init__(self, path: Path, snapshots: Path, layouts: list[Any], start_us: int) -> None:
        self.path = path
        self.snapshots = snapshots
        self.layouts = layouts
        self.db = topicdb.open(
            path,
            shards=2,
            layout=layouts[0],
            retention=None if path.exists() else RETENTION,
            seal_bytes=200_000,
            write_buffer_bytes=4 << 20,
            cache_bytes=4 << 20,
            maintenance_interval=None,
        )
        self.start_us = start_us

    def live(self, hour: int) -> dict[str, int]:
        """Lives an hour, and returns figures of what is there at its end."""
        rows = rows_of(self.start_us, hour)
        if len(self.layouts) > 1 and hour % LAYOUT_HOURS == 0:
            self.change_layouts(hour // LAYOUT_HOURS)
        for first in range(0, len(rows), BATCH_ROWS):
            self.db.append(rows[first : first + BATCH_ROWS])
        now_us = self.start_us + (hour + 1) * HOUR_US
        done = self.db.maintain(now=now_us)
        reads = self.read(now_us)
        self.db.delete(f"site/3/h{hour % 400}/+")
        if hour % SNAPSHOT_EVERY_HOURS == 0:
            self.snapshot(hour)
        return {
            "hour": hour,
            "rotated": done.rotated,
            "dropped": len(done.dropped),
            "reads": reads,
            "messages": sum(slab.messages for slab in self.db.slabs()),
            "oldest_us": now_us - min(self.oldest(), default=now_us),
            "disk_bytes": disk_bytes(self.path),
            "rss_bytes": rss_bytes(),
            "files": len(os.listdir("/proc/self/fd")),
            "threads": len(os.listdir("/proc/self/task")),
        }

    def change_layouts(self, turn: int) -> None:
        """Gives each class the next layout."""
        self.db.set_retention(
            {
                name: replace(limits, layout=self.layouts[(turn + at) % len(self.layouts)])
                for at, (name, limits) in enumerate(RETENTION.items())
            }
        )

    def oldest(self) -> list[int]:
        """Returns the first timestamp of each slab that has messages."""
        return [s.first_timestamp for s in self.db.slabs() if s.first_timestamp is not None]

    def read(self, now_us: int) -> int:
        """Runs queries of all kinds, and returns how many messages they give."""
        recent = now_us - HOUR_US
        found = self.db.scan("site/+/h7/#", start=recent).count()
        found += sum(1 for _ in self.db.last("alarm/#"))
        found += sum(1 for _ in self.db.last("status/#"))
        found += sum(1 for _ in self.db.state_at(recent, "site/3/h1/+"))
        for stream in self.db.streams("debug/+/cpu")[:4]:
            found += self.read_to_end(self.db.iterator(stream, "debug/+/cpu"))
        return found

    def read_to_end(self, iterator: topicdb.Iterator) -> int:
        """Returns how many messages an iterator gives.

        If it stopped before, the database would keep its reader for five seconds, and with it the
        files of generations that are dropped meanwhile: those of many hours of this clock.
        """
        found = 0
        while True:
            page = self.db.next(iterator, PAGE_ROWS)
            found += len(page.batch)
            iterator = page.iterator
            if len(page.batch) < PAGE_ROWS:
                return found

    def snapshot(self, hour: int) -> None:
        """Makes a snapshot, and removes all but the newest ``SNAPSHOTS_MAX``."""
        target = self.snapshots / f"{hour:04}"
        # The previous process may have been killed after its snapshot of this hour.
        shutil.rmtree(target, ignore_errors=True)
        self.db.snapshot(target)
        for old in sorted(self.snapshots.iterdir())[:-SNAPSHOTS_MAX]:
            shutil.rmtree(old)


def main() -> None:
    path, snapshots, layouts, start_us, first, hours = sys.argv[1:]
    life = Life(Path(path), Path(snapshots), layouts.split(","), int(start_us))
    for hour in range(int(first), int(first) + int(hours)):
        print(json.dumps(life.live(hour)), flush=True)
    print("done", flush=True)
    sys.stdin.readline()  # waits until the test kills this process


if __name__ == "__main__":
    main()
