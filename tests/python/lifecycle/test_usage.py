"""Tests of usage by structure, which counts the messages of each without reading them."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from support import Layout

import topicdb
from topicdb import jobs

RETENTION = {"alarm/#": "1h", "#": "1d"}


def rows(first: int, count: int) -> list[tuple[str, int, bytes]]:
    kinds = ["site/{}/cpu", "site/{}/mem", "alarm/{}", "lonely"]
    return [(kinds[i % 7 % 4].format(i % 50), i, b"%06d" % i) for i in range(first, first + count)]


def stored(db: topicdb.Database) -> Counter[str]:
    """Counts the messages of each class and structure, by reading stream after stream."""
    found: Counter[str] = Counter()
    for stream in db.streams("#"):
        batch = db.next(db.iterator(stream, "#"), 1_000_000).batch
        found[f"{stream.retention_class} {stream.structure}"] += len(batch)
    return found


def by_structure(db: topicdb.Database) -> dict[str, int]:
    return {
        f"{one.retention_class} {one.structure}": one.messages for one in db.usage(by="structure")
    }


def filled(path: Path, layout: Layout, *, seal_bytes: int = 20_000) -> topicdb.Database:
    db = topicdb.open(
        path, shards=2, layout=layout, retention=RETENTION, seal_bytes=seal_bytes, thresholds=[8, 4]
    )
    for first in range(0, 6_000, 1_000):
        db.append(rows(first, 1_000))
        if first == 2_000:
            db.rotate()
    return db


def test_each_message_is_counted_for_its_structure(db_path: Path) -> None:
    """Counts include fresh, sealed and staged blocks of several generations and shards."""
    with filled(db_path, "columnar") as db:
        with jobs.StagedWriter(db_path, "load") as writer:
            writer.append(rows(6_000, 1_000))
        jobs.commit(db_path, "load", [writer.staged])
        for _ in range(2):
            assert by_structure(db) == stored(db)
            assert sum(by_structure(db).values()) == 7_000
            db.flush()


def test_what_few_messages_have_is_there_too(db_path: Path) -> None:
    """The message of a small stream is counted though it lies in the middle of a page."""
    with topicdb.open(db_path) as db:
        db.append([(f"{kind}/x", i, b"v") for i in range(200) for kind in "ac"] + [("b", 1, b"v")])
        db.flush()
        assert by_structure(db) == {"# a/x": 200, "# b": 1, "# c/x": 200}


def test_bytes_are_those_of_messages_and_files(db_path: Path, layout: Layout) -> None:
    with filled(db_path, layout) as db:
        db.flush()
        found = db.usage(by="structure")
        classes = {one.retention_class: one for one in db.usage()}
        for name, whole in classes.items():
            parts = [one for one in found if one.retention_class == name]
            for what in ("messages", "bytes", "disk_bytes"):
                total = sum(getattr(one, what) for one in parts)
                assert total == pytest.approx(getattr(whole, what), rel=0.02), (name, what)


def test_skipstream_counts_what_is_small_and_estimates_the_rest(db_path: Path) -> None:
    with topicdb.open(db_path, layout="skipstream") as db:
        values = random.Random(1)
        for kind, count in (("large", 4_000), ("larger", 12_000), ("small", 30)):
            db.append([(f"{kind}/x", i, values.randbytes(100)) for i in range(count)])
        db.flush()
        found = by_structure(db)
        assert found["# small/x"] == 30
        assert found["# large/x"] == pytest.approx(4_000, rel=0.2)
        assert found["# larger/x"] == pytest.approx(12_000, rel=0.2)


def test_of_nothing(db_path: Path, layout: Layout) -> None:
    with topicdb.open(db_path, layout=layout) as db:
        assert db.usage(by="structure") == []


def test_by_what_else(db_path: Path) -> None:
    with topicdb.open(db_path) as db, pytest.raises(ValueError, match="'class', 'generation' or"):
        db.usage(by="topic")  # type: ignore[arg-type]
