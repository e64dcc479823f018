"""Tests of reading stream by stream, with positions that can be stored."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from support import Layout

import topicdb
from topicdb import Database, Iterator, Stream


def open_one_stream(path: Path, layout: Layout) -> Database:
    """Opens a database in which every topic of two levels is in one stream."""
    return topicdb.open(path, structures=["+/+"], layout=layout)


def values(page: topicdb.Page) -> list[int]:
    return [int(message.value) for message in page.batch]


def numbered(count: int, first: int = 0) -> list[tuple[str, int, bytes]]:
    return [(f"t/{i % 5}", i, b"%d" % i) for i in range(first, first + count)]


def test_pages_continue_where_the_last_ended(db_path: Path, layout: Layout) -> None:
    with open_one_stream(db_path, layout) as db:
        db.append(numbered(10))
        [stream] = db.streams("t/+")
        iterator = db.iterator(stream, "t/+")
        pages = []
        for _ in range(4):
            page = db.next(iterator, 4)
            pages.append(values(page))
            iterator = page.iterator
    assert pages == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], []]


def test_the_same_iterator_gives_the_same_messages_after_restart(
    db_path: Path, layout: Layout
) -> None:
    with open_one_stream(db_path, layout) as db:
        db.append(numbered(10))
        [stream] = db.streams("t/+")
        page = db.next(db.iterator(stream, "t/+"), 3)
        saved = bytes(page.iterator)
        expected = values(db.next(page.iterator, 5))
    for _ in range(2):
        with topicdb.open(db_path) as db:
            assert values(db.next(Iterator.from_bytes(saved), 5)) == expected == [3, 4, 5, 6, 7]


def test_it_starts_and_ends_in_time(db_path: Path, layout: Layout) -> None:
    with open_one_stream(db_path, layout) as db:
        db.append(numbered(10))
        [stream] = db.streams("t/+")
        iterator = db.iterator(stream, "t/2", start=2, end=7)
        assert values(db.next(iterator)) == [2]
        assert values(db.next(db.iterator(stream, "t/+", start=2, end=7))) == [2, 3, 4, 5, 6]


def test_start_counts_every_message_of_that_time(db_path: Path, layout: Layout) -> None:
    with open_one_stream(db_path, layout) as db:
        db.append([("t/a", 5, b"1"), ("t/b", 5, b"2"), ("t/c", 5, b"3")])
        [stream] = db.streams("t/+")
        page = db.next(db.iterator(stream, "t/+", start=5), 2)
        assert values(page) == [1, 2]
        assert values(db.next(page.iterator)) == [3]


def test_the_current_generation_has_no_end(db_path: Path, layout: Layout) -> None:
    with open_one_stream(db_path, layout) as db:
        db.append(numbered(3))
        [stream] = db.streams("t/+")
        page = db.next(db.iterator(stream, "t/+"))
        assert not page.end_of_stream
        page = db.next(page.iterator)
        assert (values(page), page.end_of_stream) == ([], False)
        db.append(numbered(2, first=3))
        page = db.next(page.iterator)
        assert (values(page), page.end_of_stream) == ([3, 4], False)


def test_a_sealed_generation_ends(db_path: Path, layout: Layout) -> None:
    with open_one_stream(db_path, layout) as db:
        db.append(numbered(5))
        [stream] = db.streams("t/+")
        page = db.next(db.iterator(stream, "t/+"), 2)
        db.rotate()
        assert not page.end_of_stream
        seen = values(page)
        while not page.end_of_stream:
            page = db.next(page.iterator, 2)
            seen += values(page)
        assert seen == [0, 1, 2, 3, 4]
        again = db.next(page.iterator)
        assert (values(again), again.end_of_stream) == ([], True)


def test_a_sealed_generation_ends_at_the_time_bound(db_path: Path, layout: Layout) -> None:
    with open_one_stream(db_path, layout) as db:
        db.append(numbered(5))
        [stream] = db.streams("t/+")
        bounded = db.iterator(stream, "t/+", end=2)
        page = db.next(bounded)
        assert not page.end_of_stream
        assert not db.next(page.iterator).end_of_stream
        db.rotate()
        assert db.next(page.iterator).end_of_stream


def test_new_messages_after_rotation_are_in_another_stream(db_path: Path, layout: Layout) -> None:
    with open_one_stream(db_path, layout) as db:
        db.append(numbered(2))
        db.rotate()
        db.append(numbered(2, first=2))
        old, new = db.streams("t/+")
        assert (old.generation, new.generation) == (1, 2)
        assert values(db.next(db.iterator(old, "t/+"))) == [0, 1]
        assert values(db.next(db.iterator(new, "t/+"))) == [2, 3]


def test_streams_of_earlier_generations_can_be_left_out(db_path: Path, layout: Layout) -> None:
    retention = {"t/#": "30d"}  # t/# and # count their own generations
    with topicdb.open(db_path, structures=["+/+"], retention=retention, layout=layout) as db:
        for first in (0, 5, 10):
            db.append([*numbered(5, first), ("u/1", first, b"")])
            db.rotate("t/#")

        def found(first: int | None) -> list[tuple[str, int]]:
            streams = db.streams("+/+", generation_min=first)
            return [(stream.retention_class, stream.generation) for stream in streams]

        assert sorted(found(None)) == [("#", 1), ("t/#", 1), ("t/#", 2), ("t/#", 3)]
        assert found(0) == found(1) == found(None)
        assert found(2) == [("t/#", 2), ("t/#", 3)] and found(3) == [("t/#", 3)]
        assert found(4) == found(5) == []
        later = db.streams(["t/1", "t/2"], start=6, generation_min=2)
        assert [stream.generation for stream in later] == [2, 3]
        assert db.streams("t/+", end=5, generation_min=2) == []
        for wrong in (-1, 2**32):
            with pytest.raises(ValueError, match="generation_min"):
                db.streams(generation_min=wrong)


def test_a_reader_of_one_generation_after_the_other_needs_none_twice(
    db_path: Path, layout: Layout
) -> None:
    with topicdb.open(db_path, structures=["+/+"], shards=3, layout=layout) as db:
        seen: list[int] = []
        for generation in range(1, 5):
            db.append(numbered(10, 10 * generation - 10))
            db.rotate()
            for stream in db.streams("t/+", generation_min=generation):
                seen += values(db.next(db.iterator(stream, "t/+"), 100))
        assert sorted(seen) == list(range(40))


def test_late_messages_are_found_by_iterators_that_are_not_past_them(
    db_path: Path, layout: Layout
) -> None:
    with open_one_stream(db_path, layout) as db:
        db.append([("t/a", 10, b"1"), ("t/a", 30, b"3")])
        [stream] = db.streams("t/+")
        page = db.next(db.iterator(stream, "t/+"), 1)
        db.append([("t/b", 20, b"2"), ("t/b", 5, b"0")])
        assert values(db.next(page.iterator)) == [2, 3]


def test_a_dropped_slab_is_not_found(db_path: Path, layout: Layout) -> None:
    with open_one_stream(db_path, layout) as db:
        db.append(numbered(5))
        [stream] = db.streams("t/+")
        iterator = db.iterator(stream, "t/+")
        db.rotate()
        db.drop_slab(db.slabs()[0])
        with pytest.raises(topicdb.NotFoundError, match="generation"):
            db.next(iterator)
        with pytest.raises(topicdb.NotFoundError, match="generation"):
            db.iterator(stream, "t/+")
        with pytest.raises(topicdb.NotFoundError):
            db.scan("t/+", streams=[stream]).to_list()


def test_another_databases_iterator_and_stream_are_refused(tmp_path: Path, layout: Layout) -> None:
    with (
        open_one_stream(tmp_path / "one.db", layout) as one,
        open_one_stream(tmp_path / "two.db", layout) as two,
    ):
        one.append(numbered(1))
        two.append(numbered(1))
        [stream] = one.streams("t/+")
        for use in (
            lambda: two.next(one.iterator(stream, "t/+")),
            lambda: two.iterator(stream, "t/+"),
            lambda: two.scan("t/+", streams=[stream]).to_list(),
        ):
            with pytest.raises(topicdb.NotFoundError, match="another database"):
                use()


def test_a_filter_must_fit_the_stream(db_path: Path, layout: Layout) -> None:
    with topicdb.open(db_path, structures=["t/+"], layout=layout) as db:
        db.append(numbered(1))
        [stream] = db.streams("t/+")
        with pytest.raises(ValueError, match=r"t/\+"):
            db.iterator(stream, "u/1")


def test_properties_say_where_it_is(db_path: Path, layout: Layout) -> None:
    with topicdb.open(
        db_path, shards=2, structures=["+/+"], retention={"t/#": "1h"}, layout=layout
    ) as db:
        db.append(numbered(5))
        for stream in db.streams("t/+"):
            assert (stream.retention_class, stream.generation) == ("t/#", 1)
            assert stream.structure == "+/+"
            iterator = db.iterator(stream, "t/3", start=2)
            assert (iterator.shard, iterator.generation) == (stream.shard, 1)
            assert (iterator.filter, iterator.timestamp) == ("t/3", 2)


def test_iterators_and_streams_are_values(db_path: Path, layout: Layout) -> None:
    with open_one_stream(db_path, layout) as db:
        db.append(numbered(5))
        [stream] = db.streams("t/+")
        iterator = db.iterator(stream, "t/+")
        moved = db.next(iterator, 1).iterator
    assert stream == Stream.from_bytes(bytes(stream)) == pickle.loads(pickle.dumps(stream))
    assert iterator == Iterator.from_bytes(bytes(iterator)) == pickle.loads(pickle.dumps(iterator))
    assert len({iterator, Iterator.from_bytes(bytes(iterator)), moved}) == 2
    assert len({stream, Stream.from_bytes(bytes(stream))}) == 1
    assert iterator != moved and iterator != stream and stream != "t/+"


@pytest.mark.parametrize("kind", ["iterator", "stream"])
def test_damaged_bytes_are_refused(db_path: Path, layout: Layout, kind: str) -> None:
    with open_one_stream(db_path, layout) as db:
        db.append(numbered(5))
        [stream] = db.streams("t/+")
        data = bytes(
            stream if kind == "stream" else db.next(db.iterator(stream, "t/+"), 2).iterator
        )
    restore = Stream.from_bytes if kind == "stream" else Iterator.from_bytes
    damaged = [data[:length] for length in range(len(data))] + [data + b"\0", data + data]
    for place in range(len(data)):
        for bit in range(8):
            damaged.append(data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :])
    for wrong in damaged:
        with pytest.raises((ValueError, topicdb.CorruptionError)):
            restore(wrong)


def test_places_of_an_engine_in_python_have_all_of_their_parts() -> None:
    kinds: tuple[Any, ...] = (Iterator, Stream, topicdb.Slab, topicdb.Batch)
    for kind in kinds:
        with pytest.raises(TypeError):
            kind()
    where: dict[str, Any] = {"shard": 3, "class_id": 2, "retention_class": "a/#", "generation": 5}
    stream = Stream(database=bytes(range(16)), structure="a/+", id=7, **where)
    assert Stream.from_bytes(bytes(stream)) == stream
    assert (stream.database, stream.shard, stream.class_id) == (bytes(range(16)), 3, 2)
    assert (stream.retention_class, stream.generation, stream.structure) == ("a/#", 5, "a/+")
    iterator = Iterator(stream, "a/b", 10, 20)
    assert (iterator.timestamp, iterator.end, iterator.place) == (10, 20, None)
    assert (iterator.database, iterator.class_id, iterator.stream_id) == (bytes(range(16)), 2, 7)
    assert (iterator.seen, iterator.exhausted, iterator.structure) == (0, False, "")
    behind = iterator.after(15, 1 << 40, 6)
    assert Iterator.from_bytes(bytes(behind)) == behind != iterator
    assert (behind.timestamp, behind.place, behind.end) == (15, (1 << 40, 6), 20)
    seen = Iterator(stream, "a/b", 10, 20, 5).with_seen(1 << 41, True)
    assert Iterator.from_bytes(bytes(seen)) == seen == pickle.loads(pickle.dumps(seen))
    assert (seen.seen, seen.exhausted, seen.structure) == (1 << 41, True, "a/+")
    assert seen.after(15, 5, 6).seen == 1 << 41
    slab = topicdb.Slab(layout="columnar", read_only=True, created_at=1, sealed_at=2, **where)
    assert pickle.loads(pickle.dumps(slab)) == slab
    assert (slab.layout, slab.sealed_at, slab.messages, slab.first_timestamp) == (
        "columnar",
        2,
        0,
        None,
    )


def test_places_that_cannot_be_are_refused() -> None:
    where: dict[str, Any] = {"shard": 0, "class_id": 0, "retention_class": "#", "generation": 1}
    with pytest.raises(ValueError, match="expected 16 bytes, got 3"):
        Stream(database=b"abc", structure="a", id=1, **where)
    with pytest.raises(ValueError, match="id: expected at least 1"):
        Stream(database=bytes(16), structure="a", id=0, **where)
    with pytest.raises(TypeError, match="shard: expected int, got str"):
        Stream(database=bytes(16), structure="a", id=1, **{**where, "shard": "0"})
    with pytest.raises(topicdb.SchemaError, match="layout: expected 'columnar' or"):
        topicdb.Slab(layout="rows", read_only=False, created_at=1, **where)
    with pytest.raises(ValueError, match="generation: expected at least 1"):
        Stream(database=bytes(16), structure="a", id=1, **{**where, "generation": 0})
    stream = Stream(database=bytes(16), structure="a", id=1, **where)
    with pytest.raises(topicdb.TopicError):
        Iterator(stream, "a/#/b", None, None)
    iterator = Iterator(stream, "a", None, None)
    for start, end in ((-1, None), (0, -1)):
        with pytest.raises(ValueError, match="times from 0 on"):
            Iterator(stream, "a", start, end)
    with pytest.raises(ValueError, match="times from 0 on"):
        iterator.after(-1, 1, 0)
    for one, serial in ((iterator, 5), (Iterator(stream, "a", None, None, 5), 0)):
        with pytest.raises(ValueError, match="seen: expected at least 1"):
            one.with_seen(serial, False)


@pytest.mark.parametrize("rows", [0, -1])
def test_a_page_has_at_least_one_row(db: Database, rows: int) -> None:
    db.append([("a", 1, b"")])
    [stream] = db.streams("a")
    with pytest.raises(ValueError, match="rows"):
        db.next(db.iterator(stream, "a"), rows)


def test_pages_of_one_row_read_everything_once(db_path: Path, layout: Layout) -> None:
    with open_one_stream(db_path, layout) as db:
        db.append(
            [("t/x", 1, b"%d" % i) for i in range(3)]
            + [(f"t/{i}", 1, b"%d" % i) for i in range(20)]
        )
        [stream] = db.streams("t/+")
        iterator, seen = db.iterator(stream, "t/+"), []
        while len((page := db.next(iterator, 1)).batch):
            seen += list(page.batch)
            iterator = page.iterator
        assert seen == db.scan("t/+").to_list()
        assert len(seen) == (23 if layout == "columnar" else 21)
