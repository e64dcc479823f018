"""Tests of slices, which hold each matching message once, and of measuring the commit log."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import LAYOUTS, Layout

import topicdb

FILTERS: list[str | list[str] | None] = [
    "#",
    None,
    "a/#",
    "+/1",
    "$SYS/#",
    ["a/#", "+/1", "#"],
    ["+/2", "a/+", "$SYS/1"],
    "none/x",
]


def fill(db: topicdb.Database, seed: int = 1) -> None:
    """Fills three generations: late messages, giant commits, fresh and sealed blocks, deletes."""
    random_ = random.Random(seed)
    number = 0
    for generation in range(3):
        for commit in range(12):
            count = 900 if commit == 5 else random_.randrange(1, 60)
            rows = []
            for _ in range(count):
                first = random_.choice(["a", "b", "$SYS", "level"])
                time = random_.choice([number, random_.randrange(3_000), 7])
                rows.append((f"{first}/{random_.randrange(4)}", time, b"%06d" % number))
                number += 1
            db.append(rows)
            if commit == 8:
                db.flush()
        db.delete("b/3", start=100, end=900)
        if generation < 2:
            db.rotate()


@pytest.fixture(scope="module", params=["columnar", "skipstream"])
def database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> topicdb.Database:
    path = tmp_path_factory.mktemp("slices") / "db"
    db = topicdb.open(
        path, shards=2, layout=request.param, retention={"a/#": None}, seal_bytes=9_000
    )
    fill(db)
    return db


def wanted(
    db: topicdb.Database, filter: str | list[str] | None, start: int | None, end: int | None
) -> list[tuple[str, int, bytes]]:
    filters = [filter] if isinstance(filter, str) else filter
    rows = [*db.scan("#", start=start, end=end), *db.scan("$SYS/#", start=start, end=end)]
    return sorted(
        row
        for row in rows
        if filters is None or any(topicdb.topic_matches(f, row.topic) for f in filters)
    )


@pytest.mark.parametrize("filter", FILTERS, ids=str)
@pytest.mark.parametrize("bytes_max", [1, 500, 5_000, 1 << 30])
@pytest.mark.parametrize(("start", "end"), [(None, None), (7, 8), (500, 1_500), (3_000, None)])
def test_slices_hold_every_message_once(
    database: topicdb.Database,
    filter: str | list[str] | None,
    bytes_max: int,
    start: int | None,
    end: int | None,
) -> None:
    slices = database.slices(filter, start=start, end=end, bytes_max=bytes_max)
    found = [
        message
        for one in pickle.loads(pickle.dumps(slices))
        for message in database.scan_slices([one], filter)
    ]
    assert sorted(found) == wanted(database, filter, start, end)
    assert sorted(database.scan_slices(slices, filter)) == sorted(found)


def test_slices_are_even_in_commits_and_in_one_commit(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db") as db:
        for commit in range(20):
            db.append(
                [("one/topic", i, bytes(100)) for i in range(commit * 500, commit * 500 + 500)]
            )
        many = db.slices(bytes_max=110_000)
        assert [s.messages for s in many] == [1_000] * 10
        assert [len(list(db.scan_slices([s]))) for s in many] == [1_000] * 10
        db.rotate()
        db.append([("one/topic", i, bytes(100)) for i in range(10_000)])
        one = [s for s in db.slices(bytes_max=110_000) if s.generation == 2]
        assert len(one) == 10
        sizes = [len(list(db.scan_slices([s]))) for s in one]
        assert sum(sizes) == 10_000
        assert max(sizes) <= 1_100


def test_slices_of_few_topics_are_few(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db", seal_bytes=200_000) as db:
        for commit in range(20):
            db.append([(f"t/{i}", commit, bytes(100)) for i in range(1_000)])
        db.flush()
        assert len(db.slices("#", bytes_max=100_000)) >= 15
        few = db.slices("t/500", bytes_max=100_000)
        assert len(few) <= 2
        assert len(list(db.scan_slices(few, "t/500"))) == 20
        assert db.slices("u/500") == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_later_commits_are_in_no_slice(tmp_path: Path, layout: Layout) -> None:
    with topicdb.open(tmp_path / "db", shards=2, layout=layout) as db:
        first = db.append([(f"t/{i}", 5, b"") for i in range(100)])
        slices = db.slices()
        second = db.append([(f"t/{i}", 6, b"new") for i in range(100)])
        db.flush()
        assert {m.value for m in db.scan_slices(slices)} == {b""}
        later = db.slices(after=first.serials, until=second.serials)
        assert {m.value for m in db.scan_slices(later)} == {b"new"}
        assert db.slices(after=second.serials) == []


def test_slices_of_maps_stay_out(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db") as db:
        db.map("m")["k"] = b"v"
        db.append([("$SYS/x", 1, b"")])
        assert [m.topic for m in db.scan_slices(db.slices(None), None)] == ["$SYS/x"]
        assert [m.topic for m in db.tail(None, timeout=0)] == ["$SYS/x"]


def serials_by_value(source: topicdb.Scan | topicdb.Tail) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    for batch in source.batches(50, serials=True):
        assert batch.serials is not None
        found.update(zip(batch.values, batch.serials.tolist(), strict=True))
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("way", ["slices", "stream after stream", "by time", "tail"])
def test_serials_are_of_the_commits_that_brought_them(
    tmp_path: Path, layout: Layout, way: str
) -> None:
    """Some values are long, and handed out without a copy."""
    with topicdb.open(tmp_path / "db", shards=2, layout=layout, seal_bytes=20_000) as db:
        wanted: dict[bytes, int] = {}
        for number in range(60):
            topics = [f"t/{number % 3}/{i}" for i in range(9)]
            values = [b"%d.%d" % (number, i) + bytes(3_000 * (number % 7 == 0)) for i in range(9)]
            receipt = db.append(
                [(topic, number // 4, value) for topic, value in zip(topics, values, strict=True)]
            )
            for topic, value in zip(topics, values, strict=True):
                wanted[value] = receipt.serials[topicdb.shard_of(topic, 2)]
        if layout == "skipstream":  # replaced messages are gone
            kept = {m.value for m in db.scan("#")}
            wanted = {value: serial for value, serial in wanted.items() if value in kept}
        if way == "tail" and layout == "skipstream":
            pytest.skip("it has no commit log")
        ways: dict[str, Callable[[], topicdb.Scan | topicdb.Tail]] = {
            "slices": lambda: db.scan_slices(db.slices(bytes_max=30_000)),
            "stream after stream": lambda: db.scan("#"),
            "by time": lambda: db.scan("#", order="time"),
            "tail": lambda: db.tail("#", timeout=0),
        }
        source = ways[way]()
        assert serials_by_value(source) == wanted
        assert next(db.scan("#").batches()).serials is None
        with db.transaction(key="t/0/0") as tx:
            tx.write("t/0/0", 10**6, b"own")
            seen = serials_by_value(tx.scan("t/0/0"))
        assert seen.pop(b"own") == 0
        assert seen.items() <= wanted.items()


def test_a_slab_that_is_gone_is_named(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db", retention={"a/#": None}) as db:
        db.append([("a/1", 5, b"")])
        slices = db.slices()
        db.rotate()
        db.drop_slab(db.slabs()[0])
        with pytest.raises(topicdb.NotFoundError, match="class 'a/#', generation 1 of shard 0"):
            list(db.scan_slices(slices))


def test_a_handle_that_is_behind_says_so(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db") as db:
        db.append([("a/1", 5, b"")])
        with topicdb.open(tmp_path / "db", mode="r") as reader:
            db.append([("a/2", 5, b"")])
            with pytest.raises(ValueError, match="refresh"):
                list(reader.scan_slices(db.slices()))
            reader.refresh()
            assert len(list(reader.scan_slices(db.slices()))) == 2


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    with topicdb.open(tmp_path / "db") as db:
        with pytest.raises(ValueError, match="bytes_max"):
            db.slices(bytes_max=0)
        with pytest.raises(topicdb.TopicError):
            db.slices(["a", "b/#/c"])
        with pytest.raises(ValueError, match="until: there is no shard 3"):
            db.slices(until={3: 1})
        with pytest.raises(ValueError, match="until: there is no shard 3"):
            db.tail(until={3: 1})


@pytest.mark.parametrize("filter", FILTERS, ids=str)
def test_a_tail_ends_at_a_serial(
    database: topicdb.Database, filter: str | list[str] | None
) -> None:
    if database.schema["layout"] != "columnar":
        return
    last = {shard["shard"]: shard["serial"] for shard in database.stats()["shards"]}
    middle = {shard: serial // 2 for shard, serial in last.items()}
    first = list(database.tail(filter, until=middle))  # ``until`` ends it without a timeout
    second_tail = database.tail(filter, after=middle, until=last)
    second = list(second_tail)
    assert second_tail.serials == last
    assert sorted(first + second) == wanted(database, filter, None, None)
    numbers: dict[int, list[bytes]] = {0: [], 1: []}
    for message in first + second:
        numbers[topicdb.shard_of(message.topic, 2)].append(message.value)
    assert all(values == sorted(values) for values in numbers.values())


def commits_of(counts: Sequence[int], path: Path, seal_bytes: int) -> topicdb.Database:
    db = topicdb.open(path, seal_bytes=seal_bytes, retention={"a/#": None, "b/#": None})
    for number, count in enumerate(counts):
        db.append([(f"{'abc'[i % 3]}/{i}", number, bytes(10)) for i in range(count)])
    return db


@pytest.mark.parametrize("filter", [None, "#", "a/#", ["a/#", "b/1"]], ids=str)
@given(
    counts=st.lists(st.integers(1, 40), min_size=1, max_size=12),
    rows=st.integers(1, 120),
    after=st.integers(0, 13),
    seal_bytes=st.sampled_from([1, 600, 16 << 20]),
)
@settings(max_examples=12, deadline=None)
def test_measuring_the_log(
    tmp_path_factory: pytest.TempPathFactory,
    filter: str | list[str] | None,
    counts: list[int],
    rows: int,
    after: int,
    seal_bytes: int,
) -> None:
    path = tmp_path_factory.mktemp("log") / "db"
    with commits_of(counts, path, seal_bytes) as db:
        db.flush()
        filters = [filter] if isinstance(filter, str) else filter
        span = db._core.measure_log(0, filters, after, None, None, rows, 1 << 40)
        until, messages = span.until, span.messages
        sizes = [0] + [
            len(list(db.tail(filter, after={0: a}, until={0: b})))
            for a, b in pairwise(range(len(counts) + 1))
        ]
        assert messages == sum(sizes[after + 1 : until + 1])
        if until < len(counts):  # the next commit does not fit
            assert messages > 0
            assert messages + sizes[until + 1] > rows
        assert messages <= rows or messages == max(sizes[after + 1 : until + 1])


@given(
    counts=st.lists(st.integers(1, 40), min_size=2, max_size=30),
    bytes_max=st.integers(1, 2_000),
    seal_bytes=st.sampled_from([1, 600, 16 << 20]),
)
@settings(max_examples=25, deadline=None)
def test_measuring_the_log_by_whole_blocks(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], bytes_max: int, seal_bytes: int
) -> None:
    """Parts add up to the log; each is within the limit or one commit; only the last is small."""
    path = tmp_path_factory.mktemp("log") / "db"
    with commits_of(counts, path, seal_bytes) as db:
        db.flush()
        after, parts = 0, []
        while after < len(counts):
            span = db._core.measure_log(
                0, None, after, None, None, 1 << 40, bytes_max, whole_blocks=True
            )
            assert span.messages == sum(counts[after : span.until])
            assert span.bytes <= bytes_max or span.until == after + 1
            parts.append(span.bytes)
            after = span.until
        assert after == len(counts)
        commits = [sum(10 + len(f"a/{i}") for i in range(count)) for count in counts]
        assert sum(parts) == sum(commits)
        assert all(2 * (part + max(commits)) >= bytes_max for part in parts[:-1])
