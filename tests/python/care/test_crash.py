"""After kill -9 of a writing process all acknowledged commits are there, and no commit in part.

``TOPICDB_CRASH_ROUNDS`` sets how often the writer is killed (default 50).
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import LAYOUTS, Child, Layout

import topicdb
from model.model import shard_of

SHARDS = 2
ROUNDS = int(os.environ.get("TOPICDB_CRASH_ROUNDS", "50"))
ROUNDS_PER_DATABASE = 5
ACKNOWLEDGED_MAX = 30

# Every batch has topics that are new, so that the database learns structures all the time.
WRITER = """
    import sys, topicdb
    path, first, rows, rotate = sys.argv[1], *map(int, sys.argv[2:5])
    print("opening")
    layouts = sys.argv[5].split(",")
    db = topicdb.open(path, shards=2, thresholds=[4, 2], retention={"alarm/#": None},
                      layout=layouts[0])
    batch = first
    while True:
        # The number of the batch is in every topic, time and value.
        messages = [(f"{'alarm' if i % 5 == 0 else 'm'}/{batch}/{i}", batch, b"%d" % batch)
                    for i in range(rows)]
        messages.append((f"clock/{batch % 2}", None, b"%d" % batch))
        db.append(messages, durability="os")
        print(batch)
        batch += 1
        if rotate and batch % 7 == 0:
            db.rotate(layout=layouts[batch // 7 % len(layouts)])
"""


def topics_of(batch: int, rows: int) -> list[str]:
    return [f"{'alarm' if i % 5 == 0 else 'm'}/{batch}/{i}" for i in range(rows)]


class Rounds:
    """Kills one writer after another, and checks what is left."""

    def __init__(
        self, directory: Path, *layouts: Layout, rows: int, rotate: bool, seed: int
    ) -> None:
        self.directory = directory
        self.layouts = ",".join(layouts)
        self.rows = rows
        self.rotate = rotate
        self.random = random.Random(seed)
        self.start_database(0)

    def start_database(self, number: int) -> None:
        self.path = self.directory / f"{number}.db"
        self.next_batch = 0
        self.acknowledged: set[int] = set()

    def run(self, rounds: int) -> None:
        for number in range(rounds):
            if number % ROUNDS_PER_DATABASE == 0:
                self.start_database(number)
            self.write_and_kill()
            self.check()

    def write_and_kill(self) -> None:
        wanted = self.random.randint(1, ACKNOWLEDGED_MAX)
        arguments = self.path, self.next_batch, self.rows, int(self.rotate), self.layouts
        with Child(WRITER, *arguments) as child:
            child.expect("opening")
            for batch in range(self.next_batch, self.next_batch + wanted):
                child.expect(str(batch))
                self.acknowledged.add(batch)
            child.kill()
            _, rest, _ = child.finish()
            # The last line may be torn. The writer acknowledged the batches of whole lines.
            self.acknowledged |= {
                int(line) for line in rest.splitlines(keepends=True) if line[-1] == "\n"
            }

    def check(self) -> None:
        with topicdb.open(self.path) as db:
            stored = Counter(int(m.value) for m in db.scan("#"))
            assert self.acknowledged <= set(stored), "what was acknowledged is there"
            found = {m.topic: m.timestamp for m in db.scan("#")}
            for batch in stored:
                self.check_batch(batch, found)
            self.check_filters(db, set(stored))
            self.check_clock(db)
            self.next_batch = max(stored) + 1

    def check_batch(self, batch: int, found: dict[str, int]) -> None:
        """Checks that each shard has a batch wholly or not at all, and wholly if acknowledged."""
        by_shard: dict[int, list[bool]] = {shard: [] for shard in range(SHARDS)}
        for topic in topics_of(batch, self.rows):
            by_shard[shard_of(topic, SHARDS)].append(found.get(topic) == batch)
        for shard, present in by_shard.items():
            assert all(present) or not any(present), f"batch {batch} is in part in shard {shard}"
            assert all(present) or batch not in self.acknowledged, f"batch {batch} in shard {shard}"

    def check_filters(self, db: topicdb.Database, stored: set[int]) -> None:
        """Checks that filters find the acknowledged batches, whatever structures were learned."""
        for batch in self.random.sample(sorted(self.acknowledged), min(3, len(self.acknowledged))):
            assert db.scan(f"+/{batch}/+").count() == self.rows
            assert db.scan(topics_of(batch, self.rows)[-1]).count() == 1
        per_last_level = Counter(m.timestamp for m in db.scan("m/+/1"))
        assert set(per_last_level.values()) == {1}
        assert self.acknowledged <= set(per_last_level) <= stored

    def check_clock(self, db: topicdb.Database) -> None:
        """Checks that new assigned times and serials are greater than all earlier ones."""
        before = self.assigned(db)
        serials = {s["shard"]: s["serial"] for s in db.stats()["shards"]}
        number = b"%d" % min(self.acknowledged)
        receipt = db.append([(f"clock/{i}", None, number) for i in range(2)])
        assert all(serial > serials[shard] for shard, serial in receipt.serials.items())
        for shard, timestamps in self.assigned(db).items():
            assert len(set(timestamps)) == len(timestamps)
            new = set(timestamps) - set(before.get(shard, []))
            assert min(new, default=0) > max(before.get(shard, [-1]))

    def assigned(self, db: topicdb.Database) -> dict[int, list[int]]:
        """Returns the timestamps that the database assigned, by shard."""
        found: dict[int, list[int]] = {shard: [] for shard in range(SHARDS)}
        for message in db.scan("clock/+"):
            found[shard_of(message.topic, SHARDS)].append(message.timestamp)
        return {shard: timestamps for shard, timestamps in found.items() if timestamps}


@pytest.mark.parametrize("rotate", [False, True], ids=["appending", "rotating"])
def test_a_killed_writer_loses_nothing_it_acknowledged(
    tmp_path: Path, layout: Layout, rotate: bool
) -> None:
    Rounds(tmp_path, layout, rows=12, rotate=rotate, seed=20 + rotate).run((ROUNDS + rotate) // 2)


def test_a_killed_writer_that_changes_the_layout(tmp_path: Path) -> None:
    Rounds(tmp_path, *LAYOUTS, rows=12, rotate=True, seed=30).run(ROUNDS // 2)


@pytest.mark.crash
@pytest.mark.parametrize("rotate", [False, True], ids=["appending", "rotating"])
def test_a_killed_writer_of_large_batches(tmp_path: Path, layout: Layout, rotate: bool) -> None:
    Rounds(tmp_path, layout, rows=3_000, rotate=rotate, seed=40 + rotate).run(ROUNDS * 2)


def test_killed_while_it_creates_the_database(tmp_path: Path, layout: Layout) -> None:
    chance = random.Random(60)
    for number in range(10):
        path = tmp_path / f"{number}.db"
        with Child(WRITER, path, 0, 5, 0, layout) as child:
            child.expect("opening")
            for _ in range(chance.randint(0, 300_000)):
                pass
            child.kill()
        options: dict[str, Any] = {"shards": 2, "thresholds": [4, 2], "layout": layout}
        with topicdb.open(path, retention={"alarm/#": None}, **options) as db:
            count = db.scan("#").count()
            db.append([("a", 1, b"")])
            assert db.scan("#").count() == count + 1


DELETER = """
    import sys, threading, topicdb
    db = topicdb.open(sys.argv[1], layout=sys.argv[2])
    db.append([("a/1", 1, b"x"), ("a/2", 1, b"x"), ("b", 1, b"x")])
    assert db.delete("a/#", durability="none").count == 2
    assert db.delete("a/#", durability=sys.argv[3]).count == 0
    print("deleted")
    threading.Event().wait()
"""


@pytest.mark.parametrize("durability", ["os", "disk"])
def test_a_delete_holds_for_what_one_without_durability_has_removed_before(
    db_path: Path, layout: Layout, durability: str
) -> None:
    with Child(DELETER, db_path, layout, durability) as child:
        child.expect("deleted")
        child.kill()
    with topicdb.open(db_path) as db:
        assert [message.topic for message in db.scan("#")] == ["b"]


# The log has the delete, and not the append of what it has removed.
UNLOGGED = """
    import sys, threading, topicdb
    db = topicdb.open(sys.argv[1], layout=sys.argv[2], maintenance_interval=None,
                      retention={"#": topicdb.Retention(keep_last=1)})
    db.append([("a", 1, b"kept")])
    db.append([("a", 2, b"lost")], durability="none")
    assert db.delete("a", start=2).count == 1
    print("deleted")
    threading.Event().wait()
"""


@pytest.fixture
def after_a_delete_of_what_was_not_logged(db_path: Path, layout: Layout) -> Path:
    with Child(UNLOGGED, db_path, layout) as child:
        child.expect("deleted")
        child.kill()
    return db_path


@pytest.mark.parametrize("seals", [False, True], ids=["appended", "sealed"])
def test_a_delete_removes_nothing_that_comes_after_a_crash(
    after_a_delete_of_what_was_not_logged: Path, seals: bool
) -> None:
    path = after_a_delete_of_what_was_not_logged
    with topicdb.open(path, maintenance_interval=None) as db:
        if seals:
            db.flush()
        db.append([("a", 3, b"new")], durability="disk")
    with topicdb.open(path, maintenance_interval=None) as db:
        assert [message.value for message in db.scan("a")] == [b"kept", b"new"]
        assert db.verify().problems == []


def test_a_delete_of_what_a_crash_has_taken_is_no_damage(
    after_a_delete_of_what_was_not_logged: Path,
) -> None:
    path = after_a_delete_of_what_was_not_logged
    assert topicdb.verify(path).problems == []
    with topicdb.open(path, maintenance_interval=None) as db:
        db.append([("a", 3, b"new")])
        db.rotate()
        assert db.maintain().kept == 1
        assert [message.value for message in db.scan("a")] == [b"new"]
    assert topicdb.verify(path).problems == []
