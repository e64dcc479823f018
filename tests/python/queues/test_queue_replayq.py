"""Directories of EMQX's replayq are opened in place and written so that it can read them.

The bytes are those of replayq 0.5, as in docs/internals/format.md.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import pytest

import topicdb

MAGIC = 841265288
HEADER_BYTES = 13


def v1(item: bytes) -> bytes:
    return struct.pack(">BIII", 1, MAGIC, zlib.crc32(item), len(item)) + item


def v0(item: bytes) -> bytes:
    return struct.pack(">BII", 0, zlib.crc32(item), len(item)) + item


def segment(path: Path, number: int) -> Path:
    return path / f"{number:010d}.replaylog"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "q"
    path.mkdir()
    return path


def test_the_bytes_of_an_example() -> None:
    assert v1(b"abc") + v1(b"") == bytes.fromhex(
        "013224B088352441C200000003616263013224B0880000000000000000"
    )


def test_versions_mixed_and_a_commit(path: Path) -> None:
    segment(path, 3).write_bytes(v0(b"a") + v1(b"b") + v0(b"c") + v1(b""))
    segment(path, 4).write_bytes(v1(b"d"))
    (path / "COMMIT").write_text("#{id => 1,segno => 3}.\n")
    with topicdb.Queue.open(path) as queue:
        assert len(queue) == 4
        items, ref = queue.pop(2)
        assert items == [b"b", b"c"]
        queue.ack(ref)
    assert (path / "COMMIT").read_text() == "#{id => 3,segno => 3}.\n"
    with topicdb.Queue.open(path) as queue:
        queue.append([b"e", b"f"])
        assert queue.pop().items == [b"", b"d", b"e", b"f"]
    assert segment(path, 3).read_bytes() == v0(b"a") + v1(b"b") + v0(b"c") + v1(b"")
    assert segment(path, 5).read_bytes() == v1(b"e") + v1(b"f")


@pytest.mark.parametrize(
    "text",
    [
        "#{id => 2,segno => 1}.\n",
        "#{segno=>1 , id=>2, more => [x]}.",
        "#{'id2' => 9,id => 2,segno => 1}.",
    ],
)
def test_commits_as_they_may_be_written(path: Path, text: str) -> None:
    segment(path, 1).write_bytes(v1(b"a") + v1(b"b") + v1(b"c"))
    (path / "COMMIT").write_text(text)
    with topicdb.Queue.open(path) as queue:
        assert list(queue) == [b"c"]


@pytest.mark.parametrize("text", ["", "#{}.", "garbage", "#{id => x,segno => 1}.", "#{id => 1}."])
def test_a_commit_that_says_nothing(path: Path, text: str) -> None:
    segment(path, 1).write_bytes(v1(b"a") + v1(b"b"))
    (path / "COMMIT").write_text(text)
    with topicdb.Queue.open(path) as queue:
        (damage,) = queue.stats().damage
        assert damage.path.endswith("COMMIT")
        assert list(queue) == [b"a", b"b"]


def test_a_commit_beyond_what_there_is(path: Path) -> None:
    segment(path, 1).write_bytes(v1(b"a") + v1(b"b"))
    (path / "COMMIT").write_text("#{id => 9,segno => 7}.\n")
    with topicdb.Queue.open(path) as queue:
        assert len(queue) == 0
        queue.append([b"new"])
        assert segment(path, 8).exists()  # an old COMMIT never covers new items
        assert list(queue) == [b"new"]


def test_a_new_one(path: Path) -> None:
    with topicdb.Queue.open(path, format="replayq", segment_bytes=4096) as queue:
        for i in range(100):
            queue.append([b"%d" % i * 50])
        assert sorted(p.name for p in path.glob("*.replaylog"))[0] == "0000000001.replaylog"
        ref = queue.pop(60).ref
        later = queue.pop(20).ref
        queue.ack(later)
        queue.ack(ref)
        assert len(queue) == 20
    numbers = sorted(int(p.stem) for p in path.glob("*.replaylog"))
    assert numbers[0] > 1  # acknowledged items are gone
    with topicdb.Queue.open(path) as queue:
        assert list(queue) == [b"%d" % i * 50 for i in range(80, 100)]
    assert not list(path.glob("*.replaylog"))
    assert not (path / "QUEUE").exists()


def test_one_that_was_drained_opens_again(path: Path) -> None:
    """A program that was moved over from replayq never says which format it opens."""
    segment(path, 3).write_bytes(v1(b"a") + v1(b"b"))
    (path / "COMMIT").write_text("#{id => 1,segno => 3}.\n")
    for round_, expected in enumerate(([b"b"], [], [b"new 1"], [b"new 2"])):
        with topicdb.Queue.open(path) as queue:
            assert list(queue) == expected
            assert queue.stats().damage == []
        if round_ >= 1:
            with topicdb.Queue.open(path) as queue:
                (number,) = queue.append([b"new %d" % round_]).sequences
                assert number > (3 << 32) + 2  # COMMIT covers the numbers up to this one
    assert not (path / "QUEUE").exists()


def test_one_that_replayq_itself_has_drained(path: Path) -> None:
    (path / "COMMIT").write_text("#{id => 2,segno => 3}.\n")
    with topicdb.Queue.open(path) as queue:
        queue.append([b"a"])
    assert segment(path, 4).read_bytes() == v1(b"a")


def test_one_to_which_nothing_was_appended(path: Path) -> None:
    topicdb.Queue.open(path, format="replayq").close()
    with topicdb.Queue.open(path) as queue:
        queue.append([b"a"])
    assert segment(path, 1).read_bytes() == v1(b"a")


def test_a_foreign_directory_with_a_file_of_that_name(path: Path) -> None:
    (path / "COMMIT").write_text("git commit -m 'Change nothing'\n")
    (path / "notes").write_text("")
    with pytest.raises(topicdb.CorruptionError, match="is no queue"):
        topicdb.Queue.open(path)
    assert sorted(p.name for p in path.iterdir()) == ["COMMIT", "notes"]


def test_acks_out_of_order_are_kept_in_order_only(path: Path) -> None:
    with topicdb.Queue.open(path, format="replayq") as queue:
        queue.append([b"a", b"b", b"c"])
        queue.pop(1)
        queue.ack(queue.pop(1).ref)
        assert len(queue) == 1
    with topicdb.Queue.open(path) as queue:
        assert list(queue) == [b"a", b"b", b"c"]


def test_damage_costs_one_record(path: Path) -> None:
    items = [b"%d" % i * 20 for i in range(10, 20)]
    whole = b"".join(map(v1, items))
    record = len(v1(items[0]))
    for offset in range(len(whole)):
        damaged = bytearray(whole)
        damaged[offset] ^= 0x20
        segment(path, 1).write_bytes(damaged)
        with topicdb.Queue.open(path) as queue:
            got = list(queue)
            assert got == items[: offset // record] + items[offset // record + 1 :], offset
            assert queue.stats().damage
        for file in path.iterdir():
            file.unlink()


def test_torn_at_every_byte(path: Path) -> None:
    items = [b"%d" % i * 5 for i in range(10, 15)]
    whole = b"".join(map(v1, items))
    for size in range(len(whole)):
        segment(path, 1).write_bytes(whole[:size])
        with topicdb.Queue.open(path) as queue:
            assert list(queue) == items[: size // len(v1(items[0]))], size
            assert bool(queue.stats().damage) == (size % len(v1(items[0])) != 0)
        for file in path.iterdir():
            file.unlink()


def test_a_missing_segment_is_told(path: Path) -> None:
    segment(path, 1).write_bytes(v1(b"a"))
    segment(path, 3).write_bytes(v1(b"c"))
    with topicdb.Queue.open(path) as queue:
        (damage,) = queue.stats().damage
        assert damage.path == str(segment(path, 2)) and "missing" in damage.what
        assert list(queue) == [b"a", b"c"]


def test_foreign_names_and_no_zero_records(path: Path) -> None:
    segment(path, 1).write_bytes(v1(b"a") + bytes(9) + v1(b"b"))
    (path / "x.replaylog").write_bytes(b"mine")
    with topicdb.Queue.open(path) as queue:
        assert list(queue) == [b"a", b"b"]
    assert (path / "x.replaylog").read_bytes() == b"mine"


def test_kill_9(path: Path) -> None:
    from support import Child

    code = """
        import os, sys, topicdb
        queue = topicdb.Queue.open(sys.argv[1], format="replayq")
        queue.append([b"%d" % i for i in range(1000)])
        print("done", flush=True)
        os.kill(os.getpid(), 9)
    """
    with Child(code, path) as child:
        child.expect("done")
        child.finish()
    assert os.path.getsize(segment(path, 1)) == 1000 * HEADER_BYTES + 2890
    with topicdb.Queue.open(path) as queue:
        assert list(queue) == [b"%d" % i for i in range(1000)]


def test_what_it_is_not_for(path: Path) -> None:
    with pytest.raises(ValueError, match="mode"):
        topicdb.Queue.open(path / "x", mode="offload", format="replayq")
    segment(path, 1).write_bytes(v1(b"a"))
    with pytest.raises(ValueError, match="mode"):
        topicdb.Queue.open(path, mode="volatile")
    with pytest.raises(ValueError, match="format"):
        topicdb.Queue.open(path, format="topicdb")
    with topicdb.Queue.open(path) as queue, pytest.raises(ValueError, match="no cursors"):
        queue.cursor("x")
    with topicdb.Queue.open(path.parent / "native"):
        pass
    with pytest.raises(ValueError, match="format"):
        topicdb.Queue.open(path.parent / "native", format="replayq")
