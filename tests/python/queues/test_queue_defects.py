"""Tests that TopicDB's queue has no defects of replayq: damage, crashes, odd orders of calls.

D1 to D12 are defects of replayq 0.5; docs/concepts/queue.md says what they are.
"""

from __future__ import annotations

import os
import resource
import shutil
from pathlib import Path

import pytest
from support import Child, run_child, run_mounted

import topicdb
from topicdb.queue.records import Damage

HEADER_BYTES = 64  # the header of a segment
FRAME_BYTES = 32  # the header of a frame


def segments(path: Path) -> list[Path]:
    return sorted(path.glob("*.segment"))


def fill(path: Path, count: int = 30) -> list[bytes]:
    """Appends items one by one to several segments, and returns the items."""
    items = [b"item %03d" % i + b"." * 300 for i in range(count)]
    with topicdb.Queue.open(path, segment_bytes=4096) as queue:
        for item in items:
            queue.append([item])
    return items


def flip(path: Path, offset: int, bits: int = 0x04) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= bits
    path.write_bytes(data)


def frame_bytes(item: bytes) -> int:
    """Returns the bytes of an append of one item, whose length takes two bytes."""
    return FRAME_BYTES + 2 + len(item) + (-(2 + len(item)) % 8)


def lost(damage: list[Damage]) -> int:
    return sum(len(found.sequences) for found in damage)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "q"


def test_d1_offload_keeps_what_was_not_acknowledged(path: Path) -> None:
    with topicdb.Queue.open(path, mode="offload") as queue:
        queue.append([b"%d" % i for i in range(1, 7)])
        queue.ack(queue.pop(3).ref)
    with topicdb.Queue.open(path, mode="offload") as queue:
        assert list(queue) == [b"4", b"5", b"6"]


@pytest.mark.parametrize("count", [2, 3, 1000])
def test_d2_offload_keeps_what_is_in_flight(path: Path, count: int) -> None:
    with topicdb.Queue.open(path, mode="offload") as queue:
        queue.append([b"1", b"2", b"3"])
        queue.pop(count)
    with topicdb.Queue.open(path, mode="offload") as queue:
        assert list(queue) == [b"1", b"2", b"3"]


def test_d3_queues_of_one_process_do_not_meet(path: Path) -> None:
    path.mkdir()
    for _ in range(2):
        with (
            topicdb.Queue.open(path / "a", mode="offload") as a,
            topicdb.Queue.open(path / "b", mode="offload") as b,
        ):
            if len(a) == 0:
                a.append([b"A1", b"A2"])
                b.append([b"B1", b"B2"])
            assert a.pop().items == [b"A1", b"A2"]
            assert b.pop().items == [b"B1", b"B2"]


def test_d4_closing_twice(path: Path) -> None:
    queue = topicdb.Queue.open(path, mode="offload")
    queue.append([b"1", b"2"])
    queue.pop(1)
    queue.close()
    queue.close()
    with topicdb.Queue.open(path, mode="offload") as queue:
        assert list(queue) == [b"1", b"2"]


def test_d5_nothing_but_damage(path: Path) -> None:
    fill(path)
    for segment in segments(path):
        segment.write_bytes(b"garbage" * 100)
    for _ in range(2):
        with topicdb.Queue.open(path) as queue:
            assert queue.pop() == ([], None) and queue.peek() is None
            assert len(queue) == 0
            receipt = queue.append([b"goes on"])
            assert receipt.sequences[0] > 30
            assert list(queue) == [b"goes on"]


def test_d5_damage_is_told(path: Path) -> None:
    fill(path)
    for segment in segments(path):
        segment.write_bytes(b"garbage" * 100)
    with topicdb.Queue.open(path) as queue:
        stats = queue.stats()
        assert lost(stats.damage) == 30
        assert stats.cursors["default"].dropped_items["damage"] == 30
        assert {Path(found.path).name for found in stats.damage} >= {"0000000000000001.segment"}


def test_d6_damage_while_it_is_open(path: Path) -> None:
    items = fill(path)
    with topicdb.Queue.open(path) as queue:
        flip(segments(path)[1], HEADER_BYTES + FRAME_BYTES + 10)
        got = list(queue)
        damage = queue.stats().damage
        assert lost(damage) == 1
        assert got == [item for i, item in enumerate(items, 1) if i not in damage[0].sequences]


def test_d6_segments_cut_short_while_it_is_open(path: Path) -> None:
    items = fill(path)
    with topicdb.Queue.open(path) as queue:
        for segment in segments(path):
            os.truncate(segment, 1000)
        got = list(queue)
        assert set(got) < set(items) and len(got) + lost(queue.stats().damage) == 30


def test_d7_a_missing_segment(path: Path) -> None:
    items = fill(path)
    segments(path)[1].unlink()
    with topicdb.Queue.open(path) as queue:
        (damage,) = queue.stats().damage
        assert damage.path.endswith("0000000000000002.segment") and "missing" in damage.what
        assert list(queue) == [item for i, item in enumerate(items, 1) if i not in damage.sequences]


def test_d7_a_segment_that_goes_missing(path: Path) -> None:
    items = fill(path)
    with topicdb.Queue.open(path) as queue:
        queue.ack(queue.pop(1).ref)
        segments(path)[1].unlink()
        got = list(queue)
        assert len(got) + 1 + lost(queue.stats().damage) == len(items)
        assert got == [item for item in items if item in got]


def test_d7_foreign_files_are_left_alone(path: Path) -> None:
    items = fill(path)
    for name in ("x.segment", "0000000000000000.segment", "1.segment", ".cursor", "notes"):
        (path / name).write_text("mine")
    with topicdb.Queue.open(path) as queue:
        assert list(queue) == items and queue.stats().damage == []
    assert (path / "x.segment").read_text() == "mine"


def test_d8_peek_behind_damage(path: Path) -> None:
    items = fill(path)
    segments(path)[0].write_bytes(b"garbage")
    with topicdb.Queue.open(path) as queue:
        first = 30 - len(queue)
        assert queue.peek() == items[first]


def test_d9_acks_never_go_back(path: Path) -> None:
    items = fill(path)
    with topicdb.Queue.open(path, segment_bytes=4096) as queue:
        refs = [queue.pop(10).ref for _ in range(3)]
        queue.ack(refs[2])
        queue.ack(refs[1])
        queue.ack(refs[2])
    with pytest.raises(topicdb.ClosedError):
        queue.ack(refs[0])
    with topicdb.Queue.open(path) as queue:
        assert list(queue) == items[:10]


@pytest.mark.parametrize("place", [4, 8, 16, 20, 28, FRAME_BYTES, FRAME_BYTES + 100])
def test_d10_one_bit_costs_one_append(path: Path, place: int) -> None:
    items = fill(path, 8)
    flip(segments(path)[0], HEADER_BYTES + frame_bytes(items[0]) + place)
    with topicdb.Queue.open(path) as queue:
        assert list(queue) == [items[0], *items[2:]]
        (damage,) = queue.stats().damage
        assert damage.sequences == range(2, 3)


def test_d12_an_old_cursor_that_comes_back_hides_nothing_new(path: Path) -> None:
    fill(path, 5)
    with topicdb.Queue.open(path) as queue:
        list(queue)
        queue.flush()
        old = (path / "default.cursor").read_bytes()
    for segment in segments(path):
        segment.unlink()  # as if power had failed before they reached the disk
    (path / "QUEUE").unlink()
    (path / "default.cursor").unlink()
    with topicdb.Queue.open(path) as queue:
        pass
    (path / "default.cursor").write_bytes(old)
    with topicdb.Queue.open(path) as queue:
        assert queue.append([b"new"]).sequences[0] > 5
        assert list(queue) == [b"new"]


def test_numbers_are_never_used_again(path: Path) -> None:
    last = 0
    for _ in range(4):
        with topicdb.Queue.open(path) as queue:
            first = queue.append([b"x"]).sequences[0]
            assert first > last
            last = first
            list(queue)
    code = """
        import os, sys, topicdb
        queue = topicdb.Queue.open(sys.argv[1], mode=sys.argv[2])
        print(queue.append([b"x"], durability="none").sequences[0], flush=True)
        os.kill(os.getpid(), 9)
    """
    for mode in ("disk", "offload", "disk"):
        with Child(code, path, mode) as child:
            first = int(child.read_line())
            child.finish()
        assert first > last
        last = first


def test_every_byte_flipped(path: Path, tmp_path: Path) -> None:
    items = fill(path, 3)
    with topicdb.Queue.open(path) as queue:
        queue.ack(queue.pop(1).ref)
    whole = tmp_path / "whole"
    shutil.copytree(path, whole)
    for file in sorted(p.name for p in whole.iterdir() if p.stat().st_size > 0):
        size = (whole / file).stat().st_size
        # Each of the first 600 bytes of a segment, and one byte in 16 of other files.
        for offset in [i for i in range(size) if i % 16 == 0 or file.endswith(".segment")][:600]:
            shutil.rmtree(path)
            shutil.copytree(whole, path)
            flip(path / file, offset)
            with topicdb.Queue.open(path) as queue:
                got = list(queue)
                damage = queue.stats().damage
                acknowledged = HEADER_BYTES <= offset < HEADER_BYTES + frame_bytes(items[0])
                assert damage or (acknowledged and file.endswith(".segment")), f"{file} {offset}"
                assert [item for item in items if item in got] == got
                missing = len([item for item in items[1:] if item not in got])
                is_header = offset < HEADER_BYTES and file.endswith(".segment")
                assert missing <= (0 if is_header else 1), f"{file} {offset}"
                assert lost(damage) == missing, f"{file} {offset}"


@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
def test_every_bit_of_a_segments_header(path: Path, tmp_path: Path, killed: bool) -> None:
    """No item is lost, and the damage report names the segment and its header."""
    items = [b"item %d" % i for i in range(100)]
    code = """
        import os, sys, topicdb
        queue = topicdb.Queue.open(sys.argv[1])
        for i in range(100):
            queue.append([b"item %d" % i])
        if sys.argv[2] == "True":
            os.kill(os.getpid(), 9)
        queue.close()
    """
    with Child(code, path, killed) as child:
        child.finish()
    whole = tmp_path / "whole"
    shutil.copytree(path, whole)
    (name,) = [segment.name for segment in segments(whole)]
    for bit in range(8 * HEADER_BYTES):
        shutil.rmtree(path)
        shutil.copytree(whole, path)
        flip(path / name, bit // 8, 1 << bit % 8)
        with topicdb.Queue.open(path) as queue:
            (damage,) = queue.stats().damage
            assert Path(damage.path).name == name and "header" in damage.what, damage
            assert lost([damage]) == 0
            (number,) = queue.append([b"new"]).sequences
            assert number > 100
            assert list(queue) == [*items, b"new"], bit


def test_truncated_at_every_byte(path: Path, tmp_path: Path) -> None:
    items = fill(path, 4)
    whole = tmp_path / "whole"
    shutil.copytree(path, whole)
    (name,) = [segment.name for segment in segments(whole)]
    for size in range((whole / name).stat().st_size):
        shutil.rmtree(path)
        shutil.copytree(whole, path)
        os.truncate(path / name, size)
        with topicdb.Queue.open(path) as queue:
            got = list(queue)
            assert got == items[: len(got)], size
            assert lost(queue.stats().damage) == 4 - len(got), size
            assert len(got) >= (size - HEADER_BYTES) // 350, size


def test_kill_9_behind_an_acknowledged_append(path: Path) -> None:
    code = """
        import os, sys, topicdb
        queue = topicdb.Queue.open(sys.argv[1], segment_bytes=4096)
        for i in range(100):
            queue.append([b"%d" % i, b"x" * 100])
        queue.ack(queue.pop(20).ref)
        queue.flush()
        queue.ack(queue.pop(20).ref)
        print("done", flush=True)
        os.kill(os.getpid(), 9)
    """
    with Child(code, path) as child:
        child.expect("done")
        child.finish()
    with topicdb.Queue.open(path) as queue:
        got = list(queue)
        assert queue.stats().damage == []
    expected = [item for i in range(100) for item in (b"%d" % i, b"x" * 100)]
    # The first acknowledgement was saved; the second one may not have been.
    assert got in (expected[20:], expected[40:])


def test_a_disk_that_is_full_loses_nothing(path: Path) -> None:
    code = """
        import resource, signal, sys, topicdb
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        queue = topicdb.Queue.open(sys.argv[1], segment_bytes=1 << 20)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        queue.append([b"before"])
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
        taken = 0
        for i in range(1000):
            try:
                queue.append([b"%d" % i + b"." * 400])
                taken += 1
            except topicdb.StorageError as error:
                assert "nothing was appended" in str(error), error
                assert ".segment" in str(error)
        assert 50 < taken < 200
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        queue.append([b"after"])
        items = list(queue)
        assert len(items) == taken + 2 and items[0] == b"before" and items[-1] == b"after"
        assert queue.stats().damage == []
        print(taken)
    """
    assert int(run_child(code, path)) > 0
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 50_000


@pytest.mark.parametrize("mode", ["offload", "volatile"])
def test_a_spill_that_fails_half_way_doubles_nothing(path: Path, mode: str) -> None:
    """The last item in memory does not fit into the file; later it does."""
    code = """
        import resource, signal, sys, topicdb
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        queue = topicdb.Queue.open(sys.argv[1], mode=sys.argv[2], segment_bytes=4096)
        items = [b"%02d" % i + b"." * 98 for i in range(30)]
        for item in items:
            queue.append([item])
        first = queue.pop(2)
        assert not queue.stats().on_disk
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
        for _ in range(3):
            try:
                queue.append([b"large" * 100])
                raise AssertionError("the file was large enough")
            except topicdb.StorageError as error:
                assert "nothing was appended" in str(error), error
            assert not queue.stats().on_disk and len(queue) == 28
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert queue.append([b"large" * 100]).sequences == range(31, 32)
        assert queue.stats().on_disk
        queue.nack(first.ref)
        popped = queue.pop(100)
        assert popped.ref.sequences == list(range(1, 32))
        assert popped.items == [*items, b"large" * 100]
        queue.close()
    """
    run_child(code, path, mode)


@pytest.mark.parametrize("free", [1, 2, 3])
def test_a_spill_that_cannot_be_read_doubles_nothing(path: Path, free: int) -> None:
    """The process has too few descriptors to read the file for both cursors; later it has enough.

    The long flush_interval keeps the queue's thread from opening files meanwhile.
    """
    code = """
        import os, resource, sys, topicdb
        options = dict(mode="offload", segment_bytes=4096, flush_interval=3600)
        queue = topicdb.Queue.open(sys.argv[1], **options)
        other = queue.cursor("other")
        items = [b"%02d" % i for i in range(30)]
        for item in items:
            queue.append([item])
        queue.ack(queue.pop(3).ref)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        taken = []
        try:
            while True:
                taken.append(os.dup(1))
        except OSError:
            pass
        free = int(sys.argv[2])
        for _ in range(free):
            os.close(taken.pop())
        failed = 0
        for _ in range(3):
            try:
                queue.append([b"last"], durability="os")
                break
            except topicdb.StorageError:
                failed += 1
        assert failed == (3 if free < 3 else 0), failed
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if failed:
            assert not queue.stats().on_disk and len(queue) == 27 and len(other) == 30
            queue.append([b"last"], durability="os")
        assert queue.stats().on_disk
        assert list(queue) == [*items[3:], b"last"]
        popped = other.pop(100)
        assert popped.items == [*items, b"last"] and popped.ref.sequences == list(range(1, 32))
        queue.close()
    """
    run_child(code, path, free)


def test_no_space_left_on_the_device(mount: Path) -> None:
    """A file system of 2 MiB gives a real ENOSPC."""
    code = """
        import sys, topicdb
        queue = topicdb.Queue.open(sys.argv[1] + "/q", segment_bytes=1 << 16)
        taken = 0
        for i in range(1000):
            try:
                queue.append([b"%d" % i + b"." * 10_000])
                taken += 1
            except topicdb.StorageError as error:
                assert "No space left" in str(error) and "nothing was appended" in str(error), error
        assert 100 < taken < 210, taken
        items, ref = queue.pop(50, 1 << 30)
        queue.ack(ref)
        queue.flush()  # gives space back
        queue.append([b"after"])
        items += list(queue)
        assert [int(item.split(b".")[0]) for item in items[:-1]] == list(range(taken))
        assert items[-1] == b"after" and queue.stats().damage == []
        queue.close()
    """
    run_mounted(mount, "size=2m", code)
