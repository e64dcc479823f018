"""A queue whose sizer says what items count: for its limits, for pops, and after a reopening."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import Child

import topicdb
from topicdb.queue import files as queue_files
from topicdb.queue.records import Drop

MODES = ("memory", "disk", "offload", "volatile")


def opened(path: Path, mode: Any = "disk", **options: Any) -> topicdb.Queue:
    return topicdb.Queue.open(None if mode == "memory" else path, mode=mode, **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "q"


@pytest.mark.parametrize("mode", MODES)
def test_items_count_what_it_says(path: Path, mode: str) -> None:
    drops: list[Drop] = []
    with opened(path, mode, sizer=int, max_total_bytes=100, on_drop=drops.append) as queue:
        queue.append([b"10", b"0", b"30"])
        queue.append([b"20"])
        assert queue.bytes == 60 and queue.overflow == -40
        queue.append([b"50"])
        assert [(drop.sequences, drop.bytes) for drop in drops] == [(range(1, 2), 10)]
        assert queue.bytes == 100
        stats = queue.stats().cursors["default"]
        assert (stats.bytes, stats.dropped_bytes["overflow"]) == (100, 10)
        items, ref = queue.pop(bytes=30)
        assert items == [b"0", b"30"]
        queue.nack(ref)
        assert queue.pop(bytes=31, rule="at_least").items == [b"0", b"30", b"20"]
        with pytest.raises(topicdb.QuotaError, match="51 bytes"):
            queue.append([b"51"])


def test_each_item_is_asked_for_once(path: Path) -> None:
    seen = []

    def sizer(item: bytes) -> int:
        seen.append(item)
        return 1

    with opened(path, sizer=sizer) as queue:
        queue.append(item for item in (b"a", b"b"))
        queue.nack(queue.pop().ref)
        assert list(queue) == [b"a", b"b"]
    with opened(path, sizer=sizer) as queue:
        queue.append([])
    assert seen == [b"a", b"b"]


@pytest.mark.parametrize("mode", ["disk", "offload"])
def test_what_it_said_lasts(path: Path, mode: str) -> None:
    with opened(path, mode, sizer=lambda item: 1_000) as queue:
        queue.append([b"a", b"b", b"c"])
        queue.ack(queue.pop(1).ref)
        queue.pop(1)
        assert queue.bytes == 2_000
    with opened(path, mode) as queue:
        assert queue.bytes == 2_000
        queue.append([b"plain"])
        assert 2_000 < queue.bytes < 2_100
        assert queue.pop(bytes=1_500).items == [b"b"]
        assert queue.pop(bytes=1_000 + 5).items == [b"c", b"plain"]
    with opened(path, mode, sizer=lambda item: 1) as queue:
        queue.append([b"d"])
        assert 2_001 < queue.bytes < 2_101
        assert list(queue) == [b"b", b"c", b"plain", b"d"]
        assert queue.bytes == 0


def test_a_process_that_is_killed_loses_no_weight(path: Path) -> None:
    code = """
        import os, sys, topicdb
        queue = topicdb.Queue.open(sys.argv[1], segment_bytes=256, sizer=lambda item: 7)
        for i in range(100):
            queue.append([b"%d" % i, b"x" * 40])
        queue.ack(queue.pop(20).ref)
        queue.flush()
        os.kill(os.getpid(), 9)
    """
    with Child(code, path) as child:
        child.finish()
    with opened(path) as queue:
        assert len(queue) == 180 and queue.bytes == 7 * 180
        assert queue.stats().damage == []


def test_damage_costs_items_and_not_the_count_of_others(path: Path) -> None:
    with opened(path, sizer=len) as queue:
        for i in range(5):
            queue.append([b"%d" % i * 10])
    (segment,) = path.glob("*.segment")
    data = bytearray(segment.read_bytes())
    data[64 + 48 + 40] ^= 1  # in the body of the second frame
    segment.write_bytes(data)
    with opened(path) as queue:
        assert queue.pop(1).items == [b"0" * 10]
        assert list(queue) == [b"%d" % i * 10 for i in range(2, 5)]
        assert queue.bytes == 10  # the first is in flight
        (damage,) = queue.stats().damage
        assert damage.sequences == range(2, 3)


def test_its_files_can_be_looked_at(path: Path) -> None:
    with opened(path, sizer=lambda item: 5, segment_bytes=256) as queue:
        for i in range(20):
            queue.append([b"%d" % i * 30])
        queue.pop(3)
    info = queue_files.inspect(path, deep=True)
    assert info.damage == [] and info.items == 20 and len(info.segments) > 5
    items = [b"%d" % i * 30 for i in range(20)]
    assert [item for _, item in queue_files.stored_items(path)] == items
    (path / "QUEUE").unlink()
    queue_files.repair(path)
    with opened(path) as queue:
        assert queue.bytes == 100 and list(queue) == items


def test_queues_share_a_budget_by_what_items_count(path: Path) -> None:
    budget = topicdb.QueueBudget(10)
    path.mkdir()
    one = opened(path / "1", sizer=lambda item: 1, budget=budget)
    two = opened(path / "2", sizer=lambda item: 1, budget=budget)
    with one, two:
        one.append([b"x" * 100] * 6)
        two.append([b"y" * 100] * 6)
        assert (len(one), len(two), budget.bytes) == (6, 4, 10)


@pytest.mark.parametrize(
    ("size", "error", "words"),
    [
        (-1, ValueError, "item 1: the sizer returned -1, expected 0 to"),
        (1 << 41, ValueError, "item 1: the sizer returned 2199023255552"),
        (1.5, TypeError, "item 1: the sizer returned 1.5, which is no int"),
        (None, TypeError, "item 1: the sizer returned None"),
    ],
)
def test_sizes_that_cannot_be(path: Path, size: Any, error: type[Exception], words: str) -> None:
    with opened(path, sizer=lambda item: size if item == b"b" else 1) as queue:
        with pytest.raises(error, match=words):
            queue.append([b"a", b"b"])
        assert len(queue) == 0 and queue.stats().next_sequence == 1


def test_what_it_raises_comes_to_the_caller(path: Path) -> None:
    with opened(path, sizer=lambda item: 1 // len(item)) as queue:
        with pytest.raises(ZeroDivisionError):
            queue.append([b"a", b""])
        singles: tuple[Any, ...] = (b"abc", "abc", {b"a": 1})
        for single in singles:
            with pytest.raises(TypeError, match=r"write \[item\]"):
                queue.append(single)
        assert len(queue) == 0


def test_what_it_is_not_for(path: Path) -> None:
    with pytest.raises(TypeError, match="sizer"):
        opened(path, sizer=5)
    with pytest.raises(ValueError, match="sizer"):
        opened(path, format="replayq", sizer=len)
    assert not path.exists()
    opened(path, format="replayq").close()
    before = sorted(path.iterdir())
    with pytest.raises(ValueError, match="sizer"):
        opened(path, sizer=len)
    assert sorted(path.iterdir()) == before
