"""Tests of one position in all streams, which can be stored, and read on in another process."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any

import pytest
from support import Layout, run_child

import topicdb
from topicdb import Database, Message, ScanIterator

FILTERS: list[str | list[str] | None] = ["#", None, "b/+", ["a/#", "b/1", "$own/#"], "none/#"]


def rows_of(count: int, first: int = 0) -> list[tuple[str, int, bytes]]:
    """Returns messages whose times go to and fro, in three classes and many topics."""
    return [
        (f"{'ab'[i % 2]}/{i % 7}" if i % 11 else "$own/x", i * 37 % 101, b"%d" % i)
        for i in range(first, first + count)
    ]


def open_filled(path: Path, layout: Layout, *, shards: int = 1) -> Database:
    """Opens a new database of two classes with three generations of each."""
    db = topicdb.open(
        path, layout=layout, shards=shards, retention={"a/#": None}, maintenance_interval=None
    )
    for generation in range(3):
        for commit in range(4):
            db.append(rows_of(20, 80 * generation + 20 * commit))
        if generation < 2:
            db.rotate()
    return db


def saved(iterator: ScanIterator) -> ScanIterator:
    """Returns what another process would make of the stored form."""
    return ScanIterator.from_bytes(bytes(iterator))


def read_on(db: Database, at: ScanIterator, rows: int = 7) -> list[Message]:
    """Reads a scan to its end, and stores each of its iterators."""
    found: list[Message] = []
    while not at.at_end:
        page = db.next(saved(at), rows)
        assert len(page.batch) <= rows
        assert page.end_of_scan == page.iterator.at_end
        found += page.batch.to_list()
        at = page.iterator
    return found


def drop(db: Database, retention_class: str, generation: int) -> None:
    for slab in db.slabs():
        if (slab.retention_class, slab.generation) == (retention_class, generation):
            db.drop_slab(slab)


@pytest.mark.parametrize("filter", FILTERS)
@pytest.mark.parametrize("shards", [1, 3])
def test_it_gives_what_a_scan_gives_in_its_order(
    db_path: Path, layout: Layout, shards: int, filter: str | list[str] | None
) -> None:
    with open_filled(db_path, layout, shards=shards) as db:
        for start, end in ((None, None), (20, 60), (95, None), (None, 3)):
            expected = db.scan(filter, start=start, end=end).to_list()
            for rows in (1, 7, 1_000):
                at = db.scan_iterator(filter, start=start, end=end)
                assert read_on(db, at, rows) == expected


def test_it_goes_on_after_a_restart_without_what_came_later(db_path: Path, layout: Layout) -> None:
    with open_filled(db_path, layout) as db:
        expected = db.scan().to_list()
        at = db.scan_iterator()
    # In the layout skipstream a message replaces one of its topic and time, which is then not read.
    taken = {message.timestamp for message in expected if message.topic == "a/0"}
    times = [time for time in range(101) if time not in taken]
    found = []
    for step in range(10):  # each in a process of its own, as it were
        with topicdb.open(db_path, maintenance_interval=None) as db:
            page = db.next(at, 13)
            found += page.batch.to_list()
            at = saved(page.iterator)
            db.append([("a/0", times[step], b"later"), (f"new/{step}", 5, b"later")])
            if step % 3 == 0:
                db.rotate()
    with topicdb.open(db_path) as db:
        assert found + read_on(db, at) == expected


def test_it_goes_on_in_another_process(db_path: Path, layout: Layout) -> None:
    with open_filled(db_path, layout) as db:
        expected = db.scan().to_list()
        page = db.next(db.scan_iterator(), 100)
        first, data = page.batch.to_list(), bytes(page.iterator)
    code = """
        import sys, topicdb
        with topicdb.open(sys.argv[1], mode="r") as db:
            at = topicdb.ScanIterator.from_bytes(bytes.fromhex(sys.argv[2]))
            while not at.at_end:
                page = db.next(at, 9)
                for message in page.batch:
                    print(message.topic, message.timestamp, message.value.decode())
                at = page.iterator
    """
    lines = [f"{m.topic} {m.timestamp} {m.value.decode()}" for m in expected[len(first) :]]
    assert run_child(code, db_path, data.hex()).splitlines() == lines


def test_the_log_goes_on_behind_it(db_path: Path) -> None:
    with open_filled(db_path, "columnar", shards=3) as db:
        at = db.scan_iterator("b/#")
        later = [(f"b/{i}", 1, b"later %d" % i) for i in range(20)]
        db.append(later)
        assert b"later 0" not in [m.value for m in read_on(db, at)]
        with db.tail("b/#", after=at.serials, timeout=0) as tail:
            assert sorted(tail) == sorted(later)
        with db.subscribe("b/#", start=at.serials) as subscription:
            messages = iter(subscription)
            assert sorted(next(messages) for _ in later) == sorted(later)


def test_it_is_a_value(db_path: Path, layout: Layout) -> None:
    with open_filled(db_path, layout, shards=2) as db:
        at = db.scan_iterator(["a/+", "b/1"])
        moved = db.next(at, 1).iterator
        everything = db.scan_iterator(None)
        serials = {one["shard"]: one["serial"] for one in db.stats()["shards"]}
    assert at == saved(at) == pickle.loads(pickle.dumps(at))
    assert len({at, saved(at), moved}) == 2
    assert at != moved and at != "a/+"
    assert at.filters == moved.filters == ["a/+", "b/1"] and everything.filters is None
    assert at.serials == moved.serials == serials
    assert repr(at) == "<topicdb.ScanIterator ['a/+', 'b/1'] shard=0>"
    with pytest.raises(TypeError):
        ScanIterator()  # type: ignore[call-arg,unused-ignore]


PARTS: dict[str, Any] = {
    "database": bytes(range(16)),
    "filters": ["a/+", "b/#"],
    "start": 5,
    "end": 50,
    "shards": [(0, 7, []), (2, 1 << 40, [(0, 2, 4, 6), (3, 1, 1, 0)])],
    "in_shard": 1,
    "counted": 9,
    "place": (1, 0, 20, 1 << 39, 3),
}
"""What an engine in Python makes a position of."""


def test_it_is_made_of_its_parts() -> None:
    at = ScanIterator(**PARTS)
    assert saved(at) == at == pickle.loads(pickle.dumps(at))
    assert {name: getattr(at, name) for name in PARTS} == PARTS
    assert at.serials == {0: 7, 2: 1 << 40} and not at.at_end
    whole = ScanIterator(**{**PARTS, "filters": None, "end": None, "place": None})
    assert (whole.filters, whole.end, whole.place) == (None, None, None)
    end = ScanIterator(**{**PARTS, "in_shard": 2})
    assert end.at_end and end.place is None
    assert end.shards == [(0, 7, []), (2, 1 << 40, [])], "what was read is left out"


@pytest.mark.parametrize(
    ("part", "value", "says"),
    [
        ("database", b"abc", "expected 16 bytes, got 3"),
        ("filters", [], "filters: expected at least one"),
        ("start", -1, "times from 0"),
        ("end", -1, "times from 0"),
        ("shards", [], "needs a shard"),
        ("shards", [(2, 7, []), (0, 7, [])], "by number"),
        ("shards", [(0, 7, []), (2, 7, [(3, 1, 1, 0), (0, 2, 4, 6)])], "by number"),
        ("shards", [(0, 7, []), (2, 7, [(0, 0, 4, 6), (3, 1, 1, 0)])], "generations from 1"),
        ("in_shard", 3, "up to the number of shards"),
        ("place", (2, 0, 20, 1, 3), "a place in one of the classes"),
        ("place", (1, 0, -1, 1, 3), "times from 0"),
    ],
)
def test_parts_that_cannot_be_are_refused(part: str, value: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ScanIterator(**{**PARTS, part: value})
    with pytest.raises(topicdb.TopicError):
        ScanIterator(**{**PARTS, "filters": ["a/#/b"]})


def test_damaged_bytes_are_refused(db_path: Path, layout: Layout) -> None:
    with open_filled(db_path, layout, shards=2) as db:
        page = db.next(db.scan_iterator("a/#"), 3)
        iterator = db.iterator(db.streams("a/#")[0], "a/#")
    data = bytes(page.iterator)
    damaged = [data[:length] for length in range(len(data))] + [data + b"\0", data + data]
    for place in range(len(data)):
        for bit in range(8):
            damaged.append(data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :])
    for wrong in [*damaged, bytes(iterator)]:
        with pytest.raises(topicdb.CorruptionError):
            ScanIterator.from_bytes(wrong)
    with pytest.raises(topicdb.CorruptionError):
        topicdb.Iterator.from_bytes(data)


def test_what_is_asked_for_must_make_sense(db_path: Path, tmp_path: Path, layout: Layout) -> None:
    with open_filled(db_path, layout) as db:
        with pytest.raises(ValueError, match="filter"):
            db.scan_iterator([])
        with pytest.raises(topicdb.TopicError):
            db.scan_iterator("a/#/b")
        with pytest.raises(ValueError, match="start"):
            db.scan_iterator(start=-1)
        assert db.next(db.scan_iterator(start=5, end=4)).end_of_scan
        at = db.scan_iterator()
        with pytest.raises(ValueError, match="rows"):
            db.next(at, 0)
        with pytest.raises(ValueError, match="on_loss"):
            db.next(at, on_loss="ignore")  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="Iterator or ScanIterator"):
            db.next("at")  # type: ignore[call-overload]
    with (
        topicdb.open(tmp_path / "other.db", layout=layout) as other,
        pytest.raises(topicdb.NotFoundError, match="another database"),
    ):
        other.next(at)


def test_a_handle_that_was_opened_before_is_to_be_refreshed(db_path: Path, layout: Layout) -> None:
    with open_filled(db_path, layout) as db, topicdb.open(db_path, mode="r") as reader:
        expected = [*db.scan("a/#").to_list(), Message("a/late", 200, b"late")]
        db.append([("a/late", 200, b"late")])
        at = db.scan_iterator("a/#")
        with pytest.raises(ValueError, match=r"refresh\(\)"):
            reader.next(at)
        reader.refresh()
        assert read_on(reader, at) == expected


def test_what_was_deleted_meanwhile_is_left_out(db_path: Path, layout: Layout) -> None:
    with open_filled(db_path, layout) as db:
        page = db.next(db.scan_iterator(), 30)
        first = page.batch.to_list()
        db.delete("b/1")
        db.delete("#", start=40, end=50)
        deleted = set(db.scan().to_list())
        rest = read_on(db, page.iterator)
        assert set(rest) == deleted - set(first)
        assert len(rest) == len(set(rest))


def test_messages_are_given_with_their_properties(db_path: Path, layout: Layout) -> None:
    with open_filled(db_path, layout) as db:
        page = db.next(db.scan_iterator("a/#"), 5, properties=True)
        assert page.batch.to_list() == db.scan("a/#", properties=True).to_list()[:5]


class TestLosses:
    """What retention drops before the scan comes there is told."""

    def test_they_are_reported_and_the_scan_goes_on(
        self, db_path: Path, layout: Layout, caplog: pytest.LogCaptureFixture
    ) -> None:
        with open_filled(db_path, layout) as db:
            everything = db.scan(None).to_list()
            page = db.next(db.scan_iterator(None), 5)
            given = page.batch.to_list()
            in_class = [slab for slab in db.slabs() if slab.retention_class == "#"]
            drop(db, "#", 2)
            with caplog.at_level(logging.WARNING, "topicdb"):
                given += read_on(db, page.iterator)
        lost = set(everything) - set(given)
        assert len(given) == len(set(given)) and set(given) < set(everything)
        assert len(lost) == in_class[1].messages > 0
        (record,) = caplog.records
        assert "a scan has lost up to" in record.message
        assert "generation 2 of class '#' in shard 0" in record.message

    def test_they_are_raised_and_say_where_to_go_on(self, db_path: Path, layout: Layout) -> None:
        with open_filled(db_path, layout) as db:
            at = db.scan_iterator("b/#")
            drop(db, "#", 1)
            drop(db, "#", 2)
            left = db.scan("b/#").to_list()
            losses = []
            for _ in range(2):
                with pytest.raises(topicdb.LossError) as raised:
                    db.next(at, 50, on_loss="raise")
                losses.append((raised.value.loss.generation, raised.value.loss.messages))
                assert raised.value.iterator is not None
                at = saved(raised.value.iterator)
            found = read_on(db, at)
        assert [generation for generation, _ in losses] == [1, 2]
        assert all(messages >= 40 - 4 for _, messages in losses)
        assert found == left

    def test_they_are_given_to_a_function(self, db_path: Path, layout: Layout) -> None:
        told: list[topicdb.Loss] = []
        with open_filled(db_path, layout) as db:
            at = db.scan_iterator("a/#")
            drop(db, "a/#", 1)
            page = db.next(at, on_loss=told.append)
            assert (len(page.batch), page.end_of_scan) == (0, False)
            assert [(loss.shard, loss.retention_class) for loss in told] == [(0, "a/#")]
            again = db.next(at, on_loss=told.append)
            assert again.iterator == page.iterator and told[0] == told[1]
            assert len(read_on(db, page.iterator)) == db.scan("a/#").count()
            assert len(told) == 2

    def test_there_is_none_of_what_nobody_wanted(self, db_path: Path) -> None:
        told: list[topicdb.Loss] = []
        with open_filled(db_path, "columnar") as db:
            ats = [
                db.scan_iterator("a/#"),  # of another class
                db.scan_iterator("other/none"),  # of other topics
                db.scan_iterator("b/#", start=1_000),  # of other times
            ]
            drop(db, "#", 1)
            for at in ats:
                while not at.at_end:
                    at = db.next(at, on_loss=told.append).iterator
        assert told == []

    def test_a_scan_that_was_read_has_lost_nothing(self, db_path: Path, layout: Layout) -> None:
        told: list[topicdb.Loss] = []
        with open_filled(db_path, layout) as db:
            at = db.scan_iterator()
            found: list[Message] = []
            expected = db.scan().to_list()
            while not at.at_end:
                page = db.next(at, 50, on_loss=told.append)
                found += page.batch.to_list()
                at = page.iterator
                # What was read to the end of its generation, and what begins from now on.
                if len(found) == len(expected):
                    drop(db, "#", 1)
                    drop(db, "a/#", 1)
        assert (found, told) == (expected, [])


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_what_keep_last_keeps_is_given_once(db_path: Path, layout: Layout, rows: int) -> None:
    keep = {"#": topicdb.Retention(keep_last=2, rotate="1h")}
    with topicdb.open(db_path, layout=layout, retention=keep, maintenance_interval=None) as db:
        for generation in range(4):
            db.append([(f"s/{i}", 10 * generation + i, b"%d" % generation) for i in range(5)])
            db.rotate()
        scans = [db.scan_iterator()]
        given: list[list[Message]] = [[]]
        while not scans[-1].at_end:  # one scan at each place
            page = db.next(scans[-1], rows)
            given.append(given[-1] + page.batch.to_list())
            scans.append(page.iterator)
        everything = given[-1]
        assert db.maintain().kept == 10
        kept = set(db.scan().to_list())
        ended = 0
        for at, before in zip(scans, given, strict=True):
            try:
                rest = read_on(db, at)
            except topicdb.NotFoundError:  # it is within a generation that was merged
                ended += 1
                continue
            assert set(rest) == kept - set(before), "each of those that are left, and none twice"
            assert len(rest) == len(set(rest))
        assert len(everything) == 20
        assert ended < len(scans) - 1


def test_without_times_it_gives_one_message_of_a_key(db_path: Path) -> None:
    with topicdb.open(db_path, layout="skipstream", timestamp_bytes=0) as db:
        db.append([(f"k/{i}", 0, b"%d" % i) for i in range(20)])
        expected = db.scan().to_list()
        page = db.next(db.scan_iterator(), 5)
        replaced = [expected[0].topic, expected[-1].topic]
        db.append([(topic, 0, b"new") for topic in (*replaced, "k/20")])
        assert page.batch.to_list() + read_on(db, page.iterator, 4) == expected[:-1]


def test_it_is_read_by_shards_that_are_open(db_path: Path, layout: Layout) -> None:
    with open_filled(db_path, layout, shards=3) as db:
        at = db.scan_iterator()
        expected = db.scan().to_list()
    with topicdb.open(db_path, only_shards=[0], maintenance_interval=None) as db:
        own = db.scan().to_list()
        assert read_on(db, db.scan_iterator()) == own
        found: list[Message] = []
        with pytest.raises(topicdb.NotFoundError, match="shard 1 is not open here"):
            while True:
                page = db.next(at, 7)
                found += page.batch.to_list()
                at = page.iterator
        assert found == own
    with topicdb.open(db_path) as db:
        assert found + read_on(db, at) == expected
