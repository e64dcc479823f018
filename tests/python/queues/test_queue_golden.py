"""Queues that released versions wrote can be opened and hold what they held.

In "queue-weighed" each item has its length as its weight.

tests/data/make_golden_queue.py wrote these queues; queue.json lists unacknowledged items.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

import topicdb
from topicdb.queue import files as queue_files

DATA = Path(__file__).resolve().parents[2] / "data" / "v1"
EXPECTED = json.loads((DATA / "queue.json").read_text())


@pytest.mark.parametrize("name", EXPECTED)
def test_a_golden_queue(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(DATA / f"{name}.zip") as archive:
        archive.extractall(tmp_path)
    assert queue_files.inspect(tmp_path, deep=True).damage == []
    with topicdb.Queue.open(tmp_path) as queue:
        assert queue.stats().cursors.keys() == EXPECTED[name].keys()
        sums = [sum(size for size, _ in items) for items in EXPECTED[name].values()]
        assert queue.bytes == max(sums) if name == "queue-weighed" else queue.bytes > max(sums)
        for cursor, items in EXPECTED[name].items():
            consumer = queue if cursor == "default" else queue.cursor(cursor)
            assert len(consumer) == len(items)
            assert [[len(item), item[:20].hex()] for item in consumer] == items
        first = queue.append([b"new"]).sequences[0]
        assert list(queue) == [b"new"]
        assert first > 182
