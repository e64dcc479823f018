"""kill -9 of a process that appends, pops and acknowledges.

No acknowledged item is lost, no item that was done and flushed comes again, and no item is out of
order.

``TOPICDB_CRASH_ROUNDS`` sets how often it is killed (default 20).
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from support import Child

import topicdb

ROUNDS = int(os.environ.get("TOPICDB_CRASH_ROUNDS", "20"))

# Prints what is certain: "a N" means that items up to N are appended, "d N" that they are done.
WORKER = """
    import sys, topicdb
    path, seed, format = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    import random
    choose = random.Random(seed)
    queue = topicdb.Queue.open(path, segment_bytes=int(sys.argv[5]), flush_interval=0.005,
                               format=format if format != "-" else None)
    number = int(sys.argv[4])
    done = 0
    while True:
        items = [b"%d" % (number + i) + b"." * choose.randrange(200)
                 for i in range(choose.randrange(1, 6))]
        queue.append(items, durability=choose.choice(["os", "os", "disk"]))
        number += len(items)
        print("a", number, flush=True)
        if choose.random() < 0.7:
            popped = queue.pop(choose.randrange(1, 6))
            if popped.ref is not None and choose.random() < 0.9:
                queue.ack(popped.ref)
                done = int(popped.items[-1].split(b".")[0]) + 1
            else:
                queue.nack(popped.ref)
        if choose.random() < 0.05:
            queue.flush()
            print("d", done, flush=True)
"""


@pytest.mark.parametrize("segment_bytes", [4096, 256])
@pytest.mark.parametrize("format", ["-", "replayq"])
def test_kill_9(tmp_path: Path, format: str, segment_bytes: int) -> None:
    rounds(tmp_path, format, segment_bytes, min(ROUNDS, 20))


@pytest.mark.crash
@pytest.mark.parametrize("segment_bytes", [4096, 256])
@pytest.mark.parametrize("format", ["-", "replayq"])
def test_kill_9_many_times(tmp_path: Path, format: str, segment_bytes: int) -> None:
    rounds(tmp_path, format, segment_bytes, ROUNDS)


def rounds(directory: Path, format: str, segment_bytes: int, count: int) -> None:
    choose = random.Random(20260101)
    path = directory / "q"
    appended = done = 0
    for round in range(count):
        with Child(WORKER, path, round, format, appended, segment_bytes) as child:
            for _ in range(choose.randrange(1, 60)):
                what, number = child.read_line().split()
                appended = max(appended, int(number)) if what == "a" else appended
                done = max(done, int(number)) if what == "d" else done
            child.kill()
            for line in child.finish()[1].splitlines():
                words = line.split()
                if len(words) == 2:
                    appended = int(words[1]) if words[0] == "a" else appended
                    done = int(words[1]) if words[0] == "d" else done
        with topicdb.Queue.open(path, segment_bytes=segment_bytes) as queue:
            popped = queue.pop(1_000_000, 1 << 40)
            numbers = [int(item.split(b".")[0]) for item in popped.items]
            queue.nack(popped.ref)
            damage = queue.stats().damage
        assert all("no whole append" in found.what for found in damage), damage
        first = numbers[0] if numbers else appended
        # No item is missing, doubled or out of order. An append may be there that was not
        # acknowledged before the kill.
        assert numbers == list(range(first, first + len(numbers)))
        assert first + len(numbers) >= appended
        assert first >= done
        appended = first + len(numbers)
