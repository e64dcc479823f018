"""Tests of ``keep_last``, which keeps the last messages of each topic at any age.

The tests give times to the database instead of waiting.
"""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from retained import DAY, HOUR, now, opened, reasons, values
from support import Layout, wait_until

import topicdb
from topicdb import Retention
from topicdb.lifecycle.retention import Maintained

Row = tuple[str, int, bytes]

LAST_2 = {"#": Retention(keep_last=2, rotate="1h")}


@dataclass
class Clock:
    """A clock that each call of ``later`` moves forward."""

    time: int = field(default_factory=now)

    def later(self, by: int = 2 * HOUR) -> int:
        self.time += by
        return self.time


def rows(db: topicdb.Database, filter: str = "#") -> list[Row]:
    return sorted((m.topic, m.timestamp, m.value) for m in db.scan(filter))


class TestKeepLast:
    def test_only_the_last_of_each_topic_are_kept(self, db_path: Path, layout: Layout) -> None:
        clock = Clock()
        with opened(db_path, LAST_2, layout=layout) as db:
            db.append([("a/x", time, b"%d" % time) for time in range(5)] + [("a/y", 1, b"y")])
            done = db.maintain(clock.later())
            assert (done.rotated, reasons(done.dropped), done.kept) == (1, [("#", "keep_last")], 3)
            assert rows(db) == [("a/x", 3, b"3"), ("a/x", 4, b"4"), ("a/y", 1, b"y")]
            db.append([("a/x", 7, b"7")])
            assert db.scan("a/x").count() == 3  # the current generation is not merged yet
            assert db.maintain(clock.later()).kept == 3
            assert rows(db) == [("a/x", 4, b"4"), ("a/x", 7, b"7"), ("a/y", 1, b"y")]
            assert [slab.keep_last for slab in db.slabs()] == [2, 0]
            assert db.maintain(clock.later()) == Maintained(0, [], 0)
            # These statistics count only what the background thread kept.
            assert db.stats()["maintenance"]["kept_messages"] == 0
        with opened(db_path) as db:
            assert db.retention == {"#": Retention(None, None, db.retention["#"].rotate, 2)}
            assert values(db) == [b"4", b"7", b"y"]
            assert db.verify(deep=True).ok

    def test_younger_ones_than_the_age_are_kept_too(self, db_path: Path, layout: Layout) -> None:
        """Messages of the last 8 hours are kept, and at least the last message of each topic."""
        retention = {"s/#": Retention("8h", keep_last=1), "#": Retention("8h")}
        with opened(db_path, retention, layout=layout) as db:
            start = now()
            for hour in range(24):
                db.append([("s/often", hour, b"%d" % hour), ("other", hour, b"%d" % hour)])
                if hour == 0:
                    db.append([("s/once", 0, b"once")])
                db.maintain(start + hour * HOUR + HOUR // 2)
                stored = {int(value) for value in values(db, "s/often")}
                assert stored >= {h for h in range(hour + 1) if hour - h <= 7}
                assert len(stored & {h for h in range(hour + 1) if hour - h >= 9}) <= 1
                assert values(db, "s/once") == [b"once"]
            db.rotate()
            assert reasons(db.maintain(start + 100 * DAY).dropped).count(("s/#", "age")) > 1
            assert rows(db) == [("s/often", 23, b"23"), ("s/once", 0, b"once")]

    def test_last_goes_by_time_and_then_by_commit(self, db_path: Path) -> None:
        with opened(db_path, {"#": Retention(keep_last=1, rotate="1h")}, layout="columnar") as db:
            db.append([("late", 9, b"new"), ("late", 1, b"old")])
            db.append([("same", 5, b"first"), ("same", 5, b"second")])
            db.maintain(Clock().later())
            assert values(db) == [b"new", b"second"]

    def test_a_message_that_replaces_another_counts_once(self, db_path: Path) -> None:
        clock = Clock()
        with opened(db_path, LAST_2, layout="skipstream") as db:
            db.append([("a", 1, b"1"), ("a", 2, b"old")])
            db.maintain(clock.later())
            db.append([("a", 2, b"new")])
            db.maintain(clock.later())
            assert rows(db) == [("a", 1, b"1"), ("a", 2, b"new")]

    def test_last_values_outlive_history(self, db_path: Path, layout: Layout) -> None:
        clock = Clock()
        with opened(db_path, {"#": Retention("1h", keep_last=1)}, layout=layout) as db:
            for time in range(10):
                db.append([(f"m/{k}", time * 100 + k, b"%d" % time) for k in range(50)])
                db.maintain(clock.later())
            before = [tuple(message) for message in db.last("#")]
            structures = set(db.structures())
            db.rotate()
            db.maintain(clock.later())
            assert db.scan("#").count() == 50
            assert [tuple(message) for message in db.last("#")] == before
            assert set(db.structures()) == structures  # the structures are the same as before

    def test_deletes_before_and_after(self, db_path: Path, layout: Layout) -> None:
        clock = Clock()
        with opened(db_path, LAST_2, layout=layout) as db:
            db.append([("a", time, b"%d" % time) for time in range(6)])
            db.delete("a", start=4)
            db.maintain(clock.later())
            assert values(db) == [b"2", b"3"]
            db.delete("a", start=3)
            assert values(db) == [b"2"]
            db.append([("b", 1, b"b")])
            db.maintain(clock.later())
            assert values(db) == [b"2", b"b"]
            db.delete("#")
            done = db.maintain(clock.later())
            assert values(db) == []
            db.append([("b", 1, b"again")])
            done = db.maintain(clock.later())
            assert done.kept == 1

    def test_nothing_is_made_of_nothing(self, db_path: Path, layout: Layout) -> None:
        with opened(db_path, LAST_2, layout=layout) as db:
            db.append([("a", 1, b"")])
            db.delete("a")
            done = db.maintain(Clock().later())
            assert (len(done.dropped), done.kept, len(db.slabs())) == (1, 0, 1)

    def test_a_tail_gives_each_message_once(self, db_path: Path) -> None:
        clock = Clock()
        with opened(db_path, {"#": Retention(keep_last=1, rotate="1h")}) as db:
            db.append([("a", 1, b"a1"), ("b", 1, b"b1")])
            db.append([("a", 2, b"a2")])
            with db.tail(timeout=0) as tail:
                assert [m.value for m in tail] == [b"a1", b"b1", b"a2"]
                serials = tail.serials
            db.append([("a", 3, b"a3"), ("c", 1, b"c1")])
            db.append([("a", 4, b"a4")])
            db.maintain(clock.later())
            db.append([("d", 1, b"d1")])
            with db.tail(after=serials, timeout=0) as tail:
                assert [m.value for m in tail] == [b"c1", b"a4", b"d1"]

    def test_the_quota_takes_it_at_last(self, db_path: Path) -> None:
        clock = Clock()
        classes = {"s/#": Retention(keep_last=1, rotate="1h"), "#": None}
        with opened(db_path, classes, layout="columnar") as db:
            payload = random.Random(1).randbytes(400_000)
            db.append([("s/a", 1, payload), ("x", 1, payload)])
            db.rotate()
            assert db.maintain(clock.later()).kept == 1
            db.flush()
        with opened(db_path, quota_bytes=700_000) as db:
            assert reasons(db.maintain(clock.later()).dropped) == [("#", "quota")]
            assert [m.topic for m in db.scan("#")] == ["s/a"]
        with opened(db_path, quota_bytes=300_000) as db:
            assert reasons(db.maintain(clock.later()).dropped) == [("s/#", "quota")]
            assert values(db) == []

    def test_expire_keeps_them(self, db_path: Path, layout: Layout) -> None:
        with opened(db_path, {"#": Retention("8h", keep_last=1)}, layout=layout) as db:
            db.append([("a", 1, b"1"), ("a", 2, b"2")])
            db.rotate()
            assert len(db.expire(now() + 9 * HOUR)) == 1
            assert values(db) == [b"2"]

    def test_more_than_memory_takes_at_once(self, db_path: Path, layout: Layout) -> None:
        """The kept messages fill several batches and blocks in two shards."""
        with opened(db_path, LAST_2, layout=layout, shards=2, seal_bytes=100_000) as db:
            for time in range(20):
                db.append([(f"m/{k}/t", time, b"%d" % (time * k)) for k in range(3_000)])
            db.maintain(Clock().later())
            assert rows(db) == sorted(
                (f"m/{k}/t", time, b"%d" % (time * k)) for k in range(3_000) for time in (18, 19)
            )
            assert db.verify(deep=True).ok


class TestChanges:
    def test_a_class_gets_it(self, db_path: Path, layout: Layout) -> None:
        clock = Clock()
        with opened(db_path, layout=layout) as db:
            db.append([("a", 1, b"1")])
            db.rotate()
            db.append([("a", 2, b"2")])
            db.set_retention({"#": Retention(keep_last=1)})
            # A new generation began, so that the older ones can be merged.
            assert len(db.slabs()) == 3
            db.maintain(clock.later())
            assert values(db) == [b"2"]

    def test_a_class_loses_it(self, db_path: Path) -> None:
        clock = Clock()
        with opened(db_path, LAST_2) as db:
            db.append([("a", time, b"%d" % time) for time in range(5)])
            db.maintain(clock.later())
            db.set_retention({"#": "30d"})
            assert values(db) == [b"3", b"4"]
            assert len(db.maintain(clock.later(31 * DAY)).dropped) == 1
            assert values(db) == []

    def test_fewer_from_the_next_generation_on(self, db_path: Path) -> None:
        clock = Clock()
        with opened(db_path, LAST_2) as db:
            db.append([("a", time, b"%d" % time) for time in range(5)])
            db.maintain(clock.later())
            db.set_retention({"#": Retention(keep_last=1, rotate="1h")})
            db.append([("b", 1, b"b")])
            db.maintain(clock.later())
            assert values(db) == [b"4", b"b"]

    @pytest.mark.parametrize("keep_last", [0, -1, 1_000_001])
    def test_numbers_that_cannot_be(self, db_path: Path, keep_last: int) -> None:
        with pytest.raises(topicdb.SchemaError, match=r"keep_last must be from 1 to 1,000,000"):
            opened(db_path, {"a/#": Retention(keep_last=keep_last)})
        assert not db_path.exists()


@dataclass
class Generation:
    layout: Layout
    rows: list[Row] = field(default_factory=list)
    written: bool = False
    kept: bool = False
    """Whether a merge has made it."""

    @property
    def overwrites(self) -> bool:
        return self.layout == "skipstream"


@dataclass
class Model:
    """A model of what is stored: generations, of which the last one is current."""

    keep_last: int
    generations: list[Generation]

    def append(self, new: list[Row]) -> None:
        current = self.generations[-1]
        if current.overwrites:
            places = {row[:2] for row in new}
            for generation in self.generations:
                if generation.overwrites:
                    rows = generation.rows
                    rows[:] = [row for row in rows if row[:2] not in places]
            new = list({row[:2]: row for row in new}.values())
        current.rows += new
        current.written = True

    def delete(self, topic: str, start: int, end: int) -> None:
        for generation in self.generations:
            rows = generation.rows
            rows[:] = [row for row in rows if row[0] != topic or not start <= row[1] < end]

    def rotate(self, layout: Layout) -> None:
        self.generations.append(Generation(layout))

    def maintain(self) -> None:
        """Ends the current generation if it has messages, and merges those that have ended."""
        if self.generations[-1].written:
            self.rotate(self.generations[-1].layout)
        *ended, current = self.generations
        if all(generation.kept for generation in ended):
            return
        by_topic: dict[str, list[Row]] = defaultdict(list)
        for generation in ended:
            for row in generation.rows:  # in the order of commits
                by_topic[row[0]].append(row)
        kept = [
            row
            for topic_rows in by_topic.values()
            for row in sorted(topic_rows, key=lambda row: row[1])[-self.keep_last :]
        ]
        overwrites = all(generation.overwrites for generation in ended)
        merged = Generation("skipstream" if overwrites else "columnar", kept, kept=True)
        self.generations = [merged, current] if kept else [current]

    def rows(self) -> list[Row]:
        return sorted(row for generation in self.generations for row in generation.rows)


def random_rows(rng: random.Random, count: Iterator[int]) -> list[Row]:
    return [
        (f"t/{rng.randrange(12)}/v", rng.randrange(30), b"%d" % next(count))
        for _ in range(rng.randrange(1, 40))
    ]


@pytest.mark.parametrize("seed", range(6))
def test_as_the_model(db_path: Path, layouts: tuple[Layout, ...], seed: int) -> None:
    rng = random.Random(seed)
    clock = Clock()
    count = iter(range(1_000_000))
    layout = rng.choice(layouts)
    model = Model(rng.choice([1, 2, 5]), [Generation(layout)])
    retention = {"#": Retention(keep_last=model.keep_last, rotate="1h")}
    options: dict[str, Any] = {"layout": layout, "seal_bytes": rng.choice([500, 8 << 20])}
    db = opened(db_path, retention, **options)
    for _ in range(60):
        match rng.randrange(7):
            case 0 | 1 | 2:
                new = random_rows(rng, count)
                db.append(new)
                model.append(new)
            case 3:
                topic, start = f"t/{rng.randrange(12)}/v", rng.randrange(30)
                db.delete(topic, start=start, end=start + 10)
                model.delete(topic, start, start + 10)
            case 4:
                db.maintain(clock.later())
                model.maintain()
            case 5:
                db.close()
                db = opened(db_path, **options)
            case 6:
                layout = rng.choice(layouts)
                db.rotate(layout=layout)
                model.rotate(layout)
        assert rows(db) == model.rows()
    assert db.verify(deep=True).ok
    db.close()


def test_appending_reading_and_deleting_meanwhile(db_path: Path, layout: Layout) -> None:
    """A reader finds the last message of each topic at any time."""
    clock = Clock()
    with opened(db_path, {"#": Retention(keep_last=1, rotate="1s")}, layout=layout) as db:
        db.append([(f"s/{k}", 0, b"") for k in range(100)] + [("gone", 0, b"")])
        done = threading.Event()
        merged = 0

        def maintain() -> None:
            nonlocal merged
            while not done.is_set():
                merged += len(db.maintain(clock.later()).dropped)

        thread = threading.Thread(target=maintain)
        thread.start()
        try:
            for time in range(1, 60):
                db.append([(f"s/{k}", time, b"") for k in range(100)] + [("gone", time, b"")])
                db.delete("gone")
                assert db.scan("gone").count() == 0
                assert [m.timestamp for m in db.last("#")] == [time] * 100
            wait_until(lambda: merged > 0)
        finally:
            done.set()
            thread.join()
        db.maintain(clock.later())
        db.maintain(clock.later())
        assert rows(db) == sorted((f"s/{k}", 59, b"") for k in range(100))
