"""Readers see only whole batches while a writer appends."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import CHILD_TIMEOUT_S, Child, Layout

import topicdb
from model.model import shard_of

SHARDS = 2
ROWS = 40
# Topics of two structures and both shards; every batch writes each topic once.
TOPICS = [f"a/{i}" if i % 2 else f"b/{i}/x" for i in range(ROWS)]
IN_SHARD = Counter(shard_of(topic, SHARDS) for topic in TOPICS)

WRITER = """
    import sys, topicdb
    topics = eval(sys.argv[2])
    with topicdb.open(sys.argv[1], shards=2, thresholds=[2], layout=sys.argv[4]) as db:
        for batch in range(int(sys.argv[3])):
            db.append([(topic, batch, b"%d" % batch) for topic in topics])
            if batch % 25 == 24:
                db.rotate()
            print(batch)
"""


def check_whole_batches(messages: Sequence[topicdb.Message]) -> int:
    """Checks that each shard shows the first N batches as a whole; returns the least N."""
    counts: dict[int, Counter[int]] = {shard: Counter() for shard in range(SHARDS)}
    for message in messages:
        counts[shard_of(message.topic, SHARDS)][message.timestamp] += 1
    for shard, batches in counts.items():
        assert set(batches) == set(range(len(batches)))
        assert set(batches.values()) <= {IN_SHARD[shard]}
    return min(len(batches) for batches in counts.values())


def test_the_topics_spread_over_shards() -> None:
    assert min(IN_SHARD.values()) > 5 and len(IN_SHARD) == SHARDS


@pytest.mark.parametrize("order", ["stream", "time"])
def test_a_scan_beside_a_writing_thread(db_path: Path, order: str, layout: Layout) -> None:
    batches = 150
    with topicdb.open(db_path, shards=SHARDS, thresholds=[2], layout=layout) as db:

        def write() -> None:
            for batch in range(batches):
                db.append([(topic, batch, b"") for topic in TOPICS])
                if batch % 25 == 24:
                    db.rotate()

        thread = threading.Thread(target=write)
        thread.start()
        seen = 0
        while thread.is_alive():
            scan = db.scan("#", order=order)  # type: ignore[arg-type]
            messages = [message for batch in scan.batches(rows=7) for message in batch]
            now = check_whole_batches(messages)
            assert now >= seen, "what was seen once stays"
            seen = now
        thread.join(CHILD_TIMEOUT_S)
        assert check_whole_batches(db.scan("#").to_list()) == batches


def test_a_reader_beside_a_writing_process(db_path: Path, layout: Layout) -> None:
    batches = 100
    with Child(WRITER, db_path, TOPICS, batches, layout) as child:
        child.expect("0")
        seen = acknowledged = 0
        with topicdb.open(db_path, mode="r") as reader:
            while acknowledged < batches - 1:
                acknowledged = int(child.read_line())
                reader.refresh()
                now = check_whole_batches(reader.scan("#").to_list())
                assert now > acknowledged, "what was acknowledged is seen after refresh"
                assert now >= seen
                seen = now
        code, _, stderr = child.finish()
        assert code == 0, stderr
