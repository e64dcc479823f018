"""Tests of exactly what the database learns about topics."""

from __future__ import annotations

from pathlib import Path

import pytest

import topicdb


def learned(db: topicdb.Database, filter: str = "#", generation: int = 1) -> list[str]:
    """Returns the structures of one generation that ``filter`` may find."""
    found = db.structures(filter)
    return [s for s, streams in found.items() if any(t.generation == generation for t in streams)]


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [(0, ["+"]), (1, ["+", "t0"]), (3, ["+", "t0", "t1", "t2"])],
)
def test_a_threshold_is_the_number_of_words_before_a_level_varies(
    db_path: Path, threshold: int, expected: list[str]
) -> None:
    with topicdb.open(db_path, thresholds=[threshold]) as db:
        db.append([(f"t{i}", 1, b"") for i in range(10)])
        assert learned(db) == expected
        db.append([("t0", 2, b""), ("t9", 2, b"")])
        assert learned(db) == expected
        assert [m.timestamp for m in db.scan("t0")] == [1, 2]


def test_exactly_the_threshold_stays_without_a_wildcard(db_path: Path) -> None:
    with topicdb.open(db_path, thresholds=[3]) as db:
        db.append([("a", 1, b""), ("b", 1, b""), ("c", 1, b"")])
        assert learned(db) == ["a", "b", "c"]


def test_the_last_threshold_repeats(db_path: Path) -> None:
    with topicdb.open(db_path, thresholds=[2, 1]) as db:
        db.append([(f"{a}/{b}/{c}", 1, b"") for a in "xy" for b in "12" for c in "34"])
        assert learned(db) == [
            "x/+/+",
            "x/+/3",
            "x/1/+",
            "x/1/3",
            "y/+/+",
            "y/+/3",
            "y/1/+",
            "y/1/3",
        ]


def test_what_is_learned_is_the_same_in_one_batch_and_in_many(tmp_path: Path) -> None:
    topics = [f"s/{i % 7}/{i % 3}" for i in range(40)]
    with (
        topicdb.open(tmp_path / "one.db", thresholds=[2]) as one,
        topicdb.open(tmp_path / "many.db", thresholds=[2]) as many,
    ):
        one.append([(topic, i, b"") for i, topic in enumerate(topics)])
        for i, topic in enumerate(topics):
            many.append([(topic, i, b"")])
        assert learned(one) == learned(many)


def test_hints_are_known_from_the_start(db_path: Path) -> None:
    with topicdb.open(db_path, structures=["metrics/+/cpu/#", "$SYS/+"]) as db:
        assert db.structures() == {}, "no stream before a topic comes"
        db.append(
            [
                ("metrics/h1/cpu", 1, b""),
                ("metrics/h2/cpu/0/user", 1, b""),
                ("metrics/h3/mem/free", 1, b""),
                ("$SYS/up", 1, b""),
            ]
        )
        assert learned(db) == ["metrics/+/cpu", "metrics/+/cpu/+/+", "metrics/+/mem/free"]
        assert learned(db, "$SYS/#") == ["$SYS/+"]


def test_a_new_generation_inherits_what_varies(db_path: Path) -> None:
    with topicdb.open(db_path, thresholds=[2]) as db:
        db.append([(f"{root}/{i}/s", 1, b"") for root in ("w", "$w") for i in range(5)])
        assert learned(db) == ["w/+/s", "w/0/s", "w/1/s"]
        db.rotate()
        assert learned(db, generation=2) == []
        db.append([(f"{root}/{i}/s", 1, b"") for root in ("w", "$w") for i in range(5)])
        assert learned(db, generation=2) == ["w/+/s"]
        assert learned(db, "$w/#", generation=2) == ["$w/+/s"]
        assert db.scan("w/+/s").count() == 10


def test_streams_come_by_shard_generation_class_and_structure(db_path: Path) -> None:
    with topicdb.open(
        db_path, shards=2, thresholds=[3], retention={"b/#": "1h", "a/#": "2h"}
    ) as db:
        for _ in range(2):
            db.append([(f"{root}/{i}", 1, b"") for root in "abc" for i in range(9)])
            db.rotate()
        classes = ["b/#", "a/#", "#"]
        keys = [
            (s.shard, s.generation, classes.index(s.retention_class), s.structure)
            for s in db.streams()
        ]
        assert keys == sorted(keys)
        assert (
            len(set(keys))
            == len(keys)
            == len({(s.shard, s.retention_class, s.generation, s.id) for s in db.streams()})
        )


def test_structures_show_what_a_filter_may_find(db_path: Path) -> None:
    with topicdb.open(db_path, structures=["a/+/x"]) as db:
        db.append([("a/1/x", 1, b""), ("a/1/y", 1, b""), ("b", 1, b"")])
        assert list(db.structures("a/7/#")) == ["a/+/x", "a/+/y"]
        assert list(db.structures("+/+/x")) == ["a/+/x"]
        assert list(db.structures("b/#")) == ["b"]
        assert db.structures("c") == {}


def test_streams_outside_the_time_range_are_left_out(db: topicdb.Database) -> None:
    db.append([("a", 10, b"")])
    assert len(db.streams("a", start=10, end=11)) == 1
    assert db.streams("a", start=11) == []
    assert db.streams("a", end=10) == []


def test_structures_survive_reopening(db_path: Path) -> None:
    with topicdb.open(db_path, thresholds=[1]) as db:
        db.append([(f"w/{i}", 1, b"") for i in range(5)])
        before = db.structures()
    with topicdb.open(db_path) as db:
        assert db.structures() == before
        db.append([("w/9", 1, b"")])
        assert db.structures() == before
