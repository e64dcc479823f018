"""Queues whose segments are as small as they may be: a file for one or two appends."""

from __future__ import annotations

import os
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from support import Child, run_child

import topicdb
from topicdb.queue import files as queue_files

SMALLEST = 256
REPLAYQ_MAGIC = 841265288


def numbered(begin: int, end: int, size: int = 100) -> list[bytes]:
    return [b"%d" % i + b"." * size for i in range(begin, end)]


def opened(path: Path, mode: Any = "disk", **options: Any) -> topicdb.Queue:
    where = None if mode == "memory" else path
    return topicdb.Queue.open(where, mode=mode, segment_bytes=SMALLEST, **options)


def record(item: bytes) -> bytes:
    """Returns an item as replayq stores it."""
    return struct.pack(">BIII", 1, REPLAYQ_MAGIC, zlib.crc32(item), len(item)) + item


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "q"


@pytest.mark.parametrize("mode", ["memory", "disk", "offload", "volatile"])
def test_items_come_in_order_and_once(path: Path, mode: str) -> None:
    with opened(path, mode) as queue:
        for i in range(200):
            queue.append(numbered(i, i + 1))
        queue.append(numbered(200, 300))  # a hundred items in one segment
        queue.append([b"x" * 5_000_000, b"large"])  # more than one frame
        if mode != "memory":
            assert 100 < queue.stats().segments < 210
        items, ref = queue.pop(150)
        assert items == numbered(0, 150)
        queue.ack(ref)
        assert list(queue) == [*numbered(150, 300), b"x" * 5_000_000, b"large"]
        assert queue.bytes == 0 and queue.stats().damage == []


def test_a_queue_is_reopened_between_appends(path: Path) -> None:
    for i in range(60):
        with opened(path) as queue:
            queue.append(numbered(i, i + 1))
            assert len(queue) == i + 1
    with opened(path) as queue:
        segments = queue.stats().segments
        assert list(queue) == numbered(0, 60)
        queue.flush()
        assert segments > 20 and queue.stats().segments <= 1


def test_each_cursor_keeps_its_segments(path: Path) -> None:
    with opened(path) as queue:
        archive = queue.cursor("archive")
        for i in range(100):
            queue.append(numbered(i, i + 1))
        assert list(queue) == numbered(0, 100)
        refs = [archive.pop(10).ref for _ in range(10)]
        for ref in refs[::2]:
            archive.ack(ref)
    with opened(path) as queue:
        left = [item for i in range(10, 100, 20) for item in numbered(i, i + 10)]
        assert list(queue.cursor("archive")) == left
        queue.flush()
        assert queue.stats().segments <= 1


def test_few_descriptors_are_enough(path: Path) -> None:
    """Nobody fsyncs, and nobody acknowledges."""
    code = """
        import resource, sys, topicdb
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(400, hard), hard))
        path, mode, durability = sys.argv[1:]
        with topicdb.Queue.open(path, mode=mode, segment_bytes=256) as queue:
            for i in range(2_000):
                queue.append([b"%d" % i + b"." * 200], durability=durability or None)
            assert queue.stats().segments > 1_900
            assert len(queue) == 2_000
            popped = queue.pop(2_000, 1 << 30)
            assert [int(item.split(b".")[0]) for item in popped.items] == list(range(2_000))
    """
    for mode, durability in (("disk", "os"), ("disk", "none"), ("volatile", ""), ("offload", "")):
        run_child(code, path / f"{mode}-{durability}", mode, durability)


@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
def test_the_last_segment_torn_at_every_byte(path: Path, tmp_path: Path, killed: bool) -> None:
    code = """
        import os, sys, topicdb
        queue = topicdb.Queue.open(sys.argv[1], segment_bytes=256)
        for i in range(9):
            queue.append([b"%d" % i + b"." * 40])
        if sys.argv[2] == "True":
            os.kill(os.getpid(), 9)
        queue.close()
    """
    with Child(code, path, killed) as child:
        child.finish()
    items = numbered(0, 9, 40)
    whole = tmp_path / "whole"
    shutil.copytree(path, whole)
    last = sorted(path.glob("*.segment"))[-1].name
    before = queue_files.inspect(path).segments[-1].sequences[0] - 1
    sizes = set()
    for size in range((whole / last).stat().st_size + 1):
        shutil.rmtree(path)
        shutil.copytree(whole, path)
        os.truncate(path / last, size)
        with opened(path) as queue:
            got = list(queue)
            assert got == items[: len(got)] and len(got) >= before, size
            sizes.add(len(got))
            (number,) = queue.append([b"new"]).sequences
            assert number > 9, size
            assert list(queue) == [b"new"]
    assert sizes == set(range(before, 10))


def test_a_missing_segment_costs_its_items(path: Path) -> None:
    with opened(path) as queue:
        for i in range(30):
            queue.append(numbered(i, i + 1))
    segments = queue_files.inspect(path).segments
    assert len(segments) > 10
    gone = segments[5].sequences
    Path(segments[5].path).unlink()
    with opened(path) as queue:
        assert list(queue) == [item for i, item in enumerate(numbered(0, 30), 1) if i not in gone]
        (damage,) = queue.stats().damage
        assert damage.sequences == gone


def test_a_directory_of_replayq_with_small_segments(path: Path) -> None:
    """replayq rolls a segment by its items, never within an append, and leaves an empty one."""
    path.mkdir()
    appends = [numbered(i, i + (40 if i % 50 == 0 else 1), 3) for i in range(300)]
    for number, items in enumerate(appends, 1):
        (path / f"{number:010d}.replaylog").write_bytes(b"".join(map(record, items)))
    (path / f"{len(appends) + 1:010d}.replaylog").write_bytes(b"")
    done = 151  # its segment has 40 items, of which 7 are acknowledged
    (path / "COMMIT").write_text(f"#{{id => 7,segno => {done}}}.\n")
    expected = appends[done - 1][7:] + [item for items in appends[done:] for item in items]
    with opened(path) as queue:
        assert len(queue) == len(expected)
        items, ref = queue.pop(100)
        assert items == expected[:100]
        queue.ack(ref)
        for i in range(20):
            queue.append([b"new %d" % i * 30])
    new = [b"new %d" % i * 30 for i in range(20)]
    names = sorted(path.glob("*.replaylog"))
    assert len(names) > 50 and int(names[0].stem) > done
    with opened(path) as queue:
        assert list(queue) == expected[100:] + new
        assert queue.stats().damage == []
    assert not list(path.glob("*.replaylog"))


def test_a_new_queue_of_replayq_with_small_segments(path: Path) -> None:
    with opened(path, format="replayq") as queue:
        for i in range(50):
            queue.append(numbered(i, i + 1))
    files = sorted(path.glob("*.replaylog"))
    assert len(files) > 15
    content = b"".join(file.read_bytes() for file in files)
    assert content == b"".join(map(record, numbered(0, 50)))
    with opened(path) as queue:
        assert list(queue) == numbered(0, 50)
