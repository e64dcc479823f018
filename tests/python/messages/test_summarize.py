"""Tests of ``summarize`` and of what ``count`` makes of it.

The stateful test compares summaries with scans; these tests cover the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from support import Layout

import topicdb
from topicdb import Database, MessageGroup, TopicError

HOUR_US = 3_600_000_000


@pytest.fixture
def pages(tmp_path: Path) -> Any:
    """A database with 20,000 messages in sealed blocks of many pages, at the times 0 to 19,999."""
    with topicdb.open(tmp_path / "db", structures=["m/+/cpu"], seal_bytes=64 << 10) as db:
        for start in range(0, 20_000, 1_000):
            db.append([(f"m/h{i % 50:02}/cpu", start + i, b"v" * 20) for i in range(1_000)])
        db.flush()
        yield db


def pages_read(db: Database) -> int:
    found: int = db.stats()["shards"][0]["reads"]["pages_read"]
    return found


def groups_of(db: Database, filter: Any = "#", **options: Any) -> list[tuple[Any, ...]]:
    found = db.summarize(filter, **options)
    return [(group.topic, group.span_start, group.messages) for group in found]


def test_without_groups_everything_is_one(db: Database) -> None:
    assert db.summarize() == []
    db.append([("a", 5, b""), ("b/c", 7, b""), ("$own/x", 9, b"")])
    assert db.summarize() == [MessageGroup("", None, 2, 5, 7)]
    assert db.summarize(None) == [MessageGroup("", None, 3, 5, 9)]
    assert db.summarize(["a", "+/c"], start=6) == [MessageGroup("", None, 1, 7, 7)]
    assert db.summarize("a", end=5) == []


def test_groups_by_levels_and_time(db: Database) -> None:
    rows = [(f"site/{i % 2}/{name}", i * HOUR_US // 2, b"") for i in range(8) for name in "ab"]
    db.append(rows)
    assert groups_of(db, topic_levels=1) == [("site", None, 16)]
    assert groups_of(db, topic_levels=2) == [("site/0", None, 8), ("site/1", None, 8)]
    assert len(groups_of(db, topic_levels=None)) == 4
    hours = [("", hour * HOUR_US, 4) for hour in range(4)]
    assert groups_of(db, span="1h") == groups_of(db, span=timedelta(hours=1)) == hours
    half = datetime(2026, 1, 31, 0, 30, tzinfo=timezone.utc)
    assert [one[1:] for one in groups_of(db, "site/0/a", span="2h", origin=half)] == [
        (-HOUR_US * 3 // 2, 1),
        (HOUR_US // 2, 2),
        (HOUR_US * 5 // 2, 1),
    ]


@pytest.mark.parametrize("layout", ["columnar", "skipstream"])
def test_deleted_and_replaced_messages_do_not_count(tmp_path: Path, layout: Layout) -> None:
    with topicdb.open(tmp_path / "db", layout=layout) as db:
        db.append([(f"a/{i % 3}", i, b"") for i in range(30)])
        db.flush()
        db.delete("a/1", start=10, end=20)
        assert groups_of(db, topic_levels=None) == [
            ("a/0", None, 10),
            ("a/1", None, 6),
            ("a/2", None, 10),
        ]
        assert db.scan().count() == 26
        db.append([("a/0", 0, b"again")])
        assert db.scan().count() == (26 if layout == "skipstream" else 27)


@pytest.mark.parametrize(
    "read",
    [
        lambda db: db.summarize(),
        lambda db: db.summarize("m/+/cpu", end=30_000),
        lambda db: db.summarize(span="1d"),
        lambda db: db.scan("m/#").count(),
    ],
)
def test_blocks_of_one_group_are_not_read(pages: Database, read: Callable[[Database], Any]) -> None:
    before = pages_read(pages)
    read(pages)
    assert pages_read(pages) == before


def test_a_part_of_the_time_reads_the_pages_at_its_ends(pages: Database) -> None:
    explained = pages.explain(start=4_500, end=15_500)
    before = pages_read(pages)
    assert groups_of(pages, start=4_500, end=15_500) == [("", None, 11_000)]
    assert 0 < pages_read(pages) - before < explained["pages_read"]


def test_what_is_deleted_is_read(pages: Database) -> None:
    pages.delete("m/h07/cpu", start=4_000, end=5_000)
    before = pages_read(pages)
    assert groups_of(pages) == [("", None, 20_000 - 20)]
    assert pages_read(pages) > before


def test_what_cannot_be_is_refused(db: Database) -> None:
    db.append([("a", 1, b"")])
    with pytest.raises(TopicError):
        db.summarize("a/#/b")
    bad: list[tuple[str, Any]] = [
        ("topic_levels", -1),
        ("span", "an hour"),
        ("span", "0s"),
        ("origin", datetime(2026, 1, 31)),
    ]
    for name, value in bad:
        with pytest.raises(ValueError, match=name):
            db.summarize(**{name: value})
    with pytest.raises(TypeError):
        db.summarize(topic_levels="all")  # type: ignore[arg-type]


def test_a_closed_database_counts_nothing(pages: Database) -> None:
    pages.close()
    with pytest.raises(topicdb.ClosedError):
        pages.summarize()
    with pytest.raises(topicdb.ClosedError):
        pages.scan().count()


def test_groups_become_a_frame(db: Database) -> None:
    pandas = pytest.importorskip("pandas")
    db.append([("a/1", 1, b""), ("a/2", 2, b"")])
    frame = pandas.DataFrame(db.summarize(topic_levels=None))
    assert frame["topic"].tolist() == ["a/1", "a/2"]
    assert frame["messages"].sum() == 2
