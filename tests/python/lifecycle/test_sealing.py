"""Sealing in the background changes no result, beside readers, deletes, drops and after kills."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support import Child, wait_until

import topicdb
from topicdb import Database, Message

# This is so small that the sealer works all the time.
SEAL_BYTES = 20_000


def messages(batch: int, rows: int = 200) -> list[tuple[str, int, bytes]]:
    """Returns messages of one commit, with the batch in every value and times back and forth."""
    return [
        (f"{'ab'[i % 2]}/{i % 7}", (batch * 37 + i) % 1_000, b"%d.%d" % (batch, i))
        for i in range(rows)
    ]


def expected(batches: int, rows: int = 200) -> list[bytes]:
    """Returns the values in the order of a scan by time."""
    stored = [
        (m[1], batch, i, m[2])
        for batch in range(batches)
        for i, m in enumerate(messages(batch, rows))
    ]
    return [value for *_, value in sorted(stored)]


def in_order_of_commit(batches: int) -> list[bytes]:
    return [m[2] for batch in range(batches) for m in messages(batch)]


def in_order_of_time(db: Database) -> list[bytes]:
    return [message.value for message in db.scan(order="time")]


def wait_until_sealed(db: Database) -> None:
    wait_until(lambda: all(s["fresh_bytes"] <= SEAL_BYTES for s in db.stats()["shards"]))


@pytest.mark.parametrize("seal_bytes", [2**63, 2**64 - 1])
def test_a_bound_beyond_all_is_none(tmp_path: Path, seal_bytes: int) -> None:
    with topicdb.open(tmp_path / "db", seal_bytes=seal_bytes) as db:
        for batch in range(3):  # none of them waits for room
            db.append(messages(batch))
        assert db.scan().count() == 600


def test_what_is_open_is_not_changed_by_it(tmp_path: Path) -> None:
    """A scan, saved iterators and a tail that began before the sealing go on after it."""
    with topicdb.open(tmp_path / "db", seal_bytes=SEAL_BYTES) as db:
        for batch in range(20):
            db.append(messages(batch))
        scan = db.scan(order="time").batches(rows=100)
        seen = [message.value for message in next(scan)]
        pages = [db.next(db.iterator(s, "#"), rows=10) for s in db.streams()]
        tail = db.tail(timeout=0).batches(rows=100)
        tailed = [message.value for message in next(tail)]

        for batch in range(20, 40):
            db.append(messages(batch))
        db.flush()
        wait_until_sealed(db)

        seen += [message.value for batch in scan for message in batch]
        assert seen == expected(20), "a scan is of one moment"
        tailed += [message.value for batch in tail for message in batch]
        assert tailed == in_order_of_commit(40)
        for stream, first in zip(db.streams(), pages, strict=True):
            everything = [m.value for m in db.scan(streams=[stream])]
            rest, page = [], first
            while not page.end_of_stream:
                saved = topicdb.Iterator.from_bytes(bytes(page.iterator))
                page = db.next(saved, rows=300)
                if not len(page.batch):
                    break
                rest += [m.value for m in page.batch]
            last = [m.value for m in first.batch][-1]
            assert rest == everything[everything.index(last) + 1 :]
        assert in_order_of_time(db) == expected(40)


def test_many_threads(tmp_path: Path) -> None:
    """Writers, readers, deletes, rotations and drops run beside the sealer."""
    writers, batches = 3, 400
    errors: list[BaseException] = []
    with topicdb.open(tmp_path / "db", seal_bytes=SEAL_BYTES, retention={"c/#": "1h"}) as db:
        done = threading.Event()

        def guarded(action: Callable[..., None], *arguments: object) -> None:
            try:
                action(*arguments)
            except BaseException as error:
                errors.append(error)
                done.set()

        def write(writer: int) -> None:
            for batch in range(batches):
                rows = [(f"w/{writer}/{i % 50}", batch, b"%d" % batch) for i in range(100)]
                db.append([*rows, (f"gone/{writer}", batch, b"x" * 99), ("c/1", batch, b"y" * 99)])

        def read() -> None:
            while not done.is_set():
                counts = [db.scan(f"w/{writer}/#").count() for writer in range(writers)]
                assert all(count % 100 == 0 for count in counts), counts

        def change() -> None:
            chance = random.Random(5)
            while not done.is_set():
                db.delete("gone/#")
                db.rotate(chance.choice(["c/#", "#"]))
                for slab in db.slabs():
                    if slab.retention_class == "c/#" and slab.read_only:
                        db.drop_slab(slab)

        threads = [threading.Thread(target=guarded, args=(write, n)) for n in range(writers)]
        others = [threading.Thread(target=guarded, args=(action,)) for action in (read, change)]
        for thread in (*threads, *others):
            thread.start()
        for thread in threads:
            thread.join()
        done.set()
        for thread in others:
            thread.join()
        assert not errors, errors
        db.delete("gone/#")
        db.flush()
        assert [shard["sealing_error"] for shard in db.stats()["shards"]] == [""]
        for writer in range(writers):
            for i in range(50):
                stored = [m.timestamp for m in db.scan(f"w/{writer}/{i}")]
                # Each generation has its own order of time, so the test sorts before it compares.
                assert sorted(stored) == sorted([*range(batches)] * 2)
        assert db.scan("gone/#").count() == 0


WRITER = """
    import sys, topicdb
    db = topicdb.open(sys.argv[1], seal_bytes=20_000, retention={"b/#": None, "a/1": "9d"},
                      durability=sys.argv[3])
    batch = int(sys.argv[2])
    while True:
        db.append([(f"{'ab'[i % 2]}/{i % 7}", (batch * 37 + i) % 1_000, b"%d.%d" % (batch, i))
                   for i in range(200)])
        print(batch)
        batch += 1
        if batch % 40 == 0:
            db.flush()
"""


@pytest.mark.parametrize("durability", ["os", "none"])
def test_killed_while_it_seals(tmp_path: Path, durability: str) -> None:
    """A kill leaves whole commits in order without gaps, and with "os" all acknowledged ones."""
    chance = random.Random(11)
    begun = 0
    for _ in range(8):
        with Child(WRITER, tmp_path / "db", begun, durability) as child:
            for batch in range(begun, begun + chance.randint(5, 60)):
                child.expect(str(batch))
            child.kill()
        with topicdb.open(tmp_path / "db", mode="r") as reader:
            kept = [message.value for message in reader.tail(timeout=0)]
            assert sorted(in_order_of_time(reader)) == sorted(kept)
        batches = len(kept) // 200
        assert kept == in_order_of_commit(batches), "not whole commits in their order"
        assert durability == "none" or batches > batch
        begun = batches
    with topicdb.open(tmp_path / "db") as db:
        assert db.stats()["messages"] == 200 * begun
        db.flush()
        assert [m.value for m in db.tail(timeout=0)] == in_order_of_commit(begun)


def test_tiny_streams_share_pages(tmp_path: Path) -> None:
    """Ten thousand topics of three messages take far fewer pages than topics, and all are found."""
    with topicdb.open(tmp_path / "db", structures=["+/+"], thresholds=[1 << 20]) as db:
        rows = [(f"s{i % 10_000}/x", i, b"%d" % i) for i in range(30_000)]
        db.append(rows)
        db.flush()
        assert db.scan().count() == 30_000
        assert db.explain("#")["pages"] < 300
        assert [m.value for m in db.scan("s77/x")] == [b"77", b"10077", b"20077"]
        found = db.explain("s77/x")
        assert found["rows_matched"] == 3
        assert found["rows_examined"] < 10_000  # the rows of one page


def test_each_message_counts_once_after_sealing_again_and_again(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db", seal_bytes=1) as db:
        for batch in range(100):
            db.append([("a", batch % 10, b"%d" % batch)])
        db.flush()
        found = db.explain("#")
        assert found["rows_matched"] == 100
        assert found["blocks"] < 20, "like-sized blocks are merged"
        assert db.scan().to_list() == [
            Message("a", t, b"%d" % (10 * k + t)) for t in range(10) for k in range(10)
        ]
