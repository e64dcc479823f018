"""Tests of ``topicdb queue``."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest
from cli_runs import error_of, output_of, run_here

import topicdb
from topicdb.queue import files as queue_files


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "q"
    with topicdb.Queue.open(path, segment_bytes=4096) as queue:
        for i in range(30):
            queue.append([b"%d" % i, b"\xff" * 200])
        queue.ack(queue.pop(10).ref)
        queue.pop(5)
    return path


def test_info(path: Path) -> None:
    lines = output_of("queue", "info", path).splitlines()
    assert any(line.split()[:2] == ["format", "topicdb"] for line in lines)
    assert lines[-1].split() == ["default", "11", "16", "5"]
    info = queue_files.inspect(path)
    assert info.closed and info.damage == [] and len(info.segments) > 1
    assert [segment.number for segment in info.segments] == list(range(1, len(info.segments) + 1))
    assert info.items == 60


def test_verify(path: Path) -> None:
    assert "60 items" in output_of("queue", "verify", path)
    segment = path / "0000000000000001.segment"
    data = bytearray(segment.read_bytes())
    data[200] ^= 1
    segment.write_bytes(data)
    before = sorted((p.name, p.read_bytes()) for p in path.iterdir())
    result = run_here("queue", "verify", path)
    assert result.returncode == 1
    assert f"damaged: {segment}" in result.stdout and "lost: items 1 to 2" in result.stdout
    assert "damage in 1 places" in result.stderr
    assert sorted((p.name, p.read_bytes()) for p in path.iterdir()) == before


def test_export(path: Path) -> None:
    records = [json.loads(line) for line in output_of("queue", "export", path).splitlines()]
    assert [record["sequence"] for record in records] == list(range(11, 61))
    assert records[0] == {"sequence": 11, "item": "5"}
    assert records[1]["encoding"] == "base64"
    assert len(output_of("queue", "export", path, "--all").splitlines()) == 60
    assert "no cursor 'x'" in error_of("queue", "export", path, "--cursor", "x")


def test_export_with_a_codec(tmp_path: Path) -> None:
    path = tmp_path / "q"
    items = [{"pump": 1, "name": "ä"}, [1, 2.5, None], "text"]
    with topicdb.Queue.open(path, codec="json") as queue:
        queue.append(items)
    lines = output_of("queue", "export", path, "--codec", "json").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"sequence": number, "item": item} for number, item in enumerate(items, 1)
    ]
    first = json.loads(output_of("queue", "export", path).splitlines()[0])
    assert first == {"sequence": 1, "item": '{"pump":1,"name":"ä"}'}
    with topicdb.Queue.open(path) as queue:
        queue.append([b"no JSON"])
    result = run_here("queue", "export", path, "--codec", "json")
    assert result.returncode == 1 and len(result.stdout.splitlines()) == 3
    assert "item 4 is not of this codec" in result.stderr and "leave --codec out" in result.stderr


def test_beside_a_writer(path: Path) -> None:
    with topicdb.Queue.open(path) as queue:
        queue.append([b"new"])
        assert "61 items" in output_of("queue", "verify", path)
        assert not queue_files.inspect(path).closed


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_repair(path: Path, damage: str) -> None:
    if damage == "missing":
        (path / "QUEUE").unlink()
    else:
        (path / "QUEUE").write_bytes(bytes(1024))
    with pytest.raises(topicdb.CorruptionError):
        topicdb.Queue.open(path)
    assert "repair the queue" in run_here("queue", "verify", path).stdout
    assert "0 items lost" in output_of("queue", "repair", path)
    with topicdb.Queue.open(path) as queue:
        assert len(queue) == 50
        assert queue.append([b"new"]).sequences[0] > 60
    assert "nothing to repair" in output_of("queue", "repair", path)


def test_a_queue_of_replayq(tmp_path: Path) -> None:
    record = b"\x01" + (841265288).to_bytes(4, "big") + zlib.crc32(b"a").to_bytes(4, "big")
    (tmp_path / "0000000001.replaylog").write_bytes((record + b"\x00\x00\x00\x01a") * 3)
    (tmp_path / "COMMIT").write_text("#{id => 1,segno => 1}.\n")
    assert "replayq" in output_of("queue", "info", tmp_path)
    lines = output_of("queue", "export", tmp_path).splitlines()
    assert [json.loads(line)["item"] for line in lines] == ["a", "a"]
    assert "3 items" in output_of("queue", "verify", tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0000000001.replaylog", "COMMIT"]
    (tmp_path / "0000000001.replaylog").unlink()  # as when the queue was drained
    assert "replayq" in output_of("queue", "info", tmp_path)
    assert "0 items" in output_of("queue", "verify", tmp_path)


def test_no_queue(tmp_path: Path) -> None:
    assert "is no queue" in error_of("queue", "info", tmp_path)
    assert "none does not exist" in error_of("queue", "info", tmp_path / "none")
