"""A read with several topic filters gives each message once, in the order of the read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from served import serving

import topicdb
from topicdb import Database, Message

levels = st.lists(st.sampled_from(["a", "b", "c", "$x"]), min_size=1, max_size=3)
topics = levels.map("/".join)
filters = st.lists(st.sampled_from(["a", "b", "c", "$x", "+"]), max_size=3).flatmap(
    lambda words: st.sampled_from(["/".join([*words, "#"]), *(["/".join(words)] if words else [])])
)
rows = st.lists(st.tuples(topics, st.integers(0, 5), st.binary(max_size=2)), max_size=30)


def matching(found: list[Message], wanted: list[str] | None) -> list[Message]:
    return [
        message
        for message in found
        if wanted is None or any(topicdb.topic_matches(one, message.topic) for one in wanted)
    ]


@settings(max_examples=60)
@given(
    commits=st.lists(rows, max_size=4),
    wanted=st.lists(filters, max_size=4) | st.none(),
    sealed=st.booleans(),
    start=st.none() | st.integers(0, 4),
)
@pytest.mark.parametrize("layout", ["columnar", "skipstream"])
def test_as_all_that_matches_of_a_read_of_everything(
    tmp_path_factory: pytest.TempPathFactory,
    layout: Any,
    commits: list[list[Any]],
    wanted: list[str] | None,
    sealed: bool,
    start: int | None,
) -> None:
    path = tmp_path_factory.mktemp("filters") / "db"
    with topicdb.open(
        path, layout=layout, shards=2, thresholds=[2, 1], seal_bytes=1 if sealed else 1 << 20
    ) as db:
        for number, commit in enumerate(commits):
            db.append(commit)
            if number == 1:
                db.rotate()
        if sealed:
            db.flush()
        for order in ("stream", "time"):
            options: Any = {"order": order, "start": start}
            everything = db.scan(None, **options).to_list()
            found = db.scan(wanted, **options).to_list()
            if order == "time":
                assert sorted(found) == sorted(matching(everything, wanted))
                times = [message.timestamp for message in found]
                assert times == sorted(times)
            else:
                assert found == matching(everything, wanted)
        assert db.last(wanted, start=start).to_list() == matching(
            db.last(None, start=start).to_list(), wanted
        )
        assert db.state_at(3, wanted).to_list() == matching(db.state_at(3, None).to_list(), wanted)
        streams = db.streams(wanted)
        if wanted is not None:
            single = {stream for one in wanted for stream in db.streams(one)}
            assert set(streams) == single and len(streams) == len(single)
        every = db.streams(None)
        assert streams == [stream for stream in every if stream in set(streams)]
        assert db.explain(wanted)["rows_matched"] == db.scan(wanted).count()
        assert db.scan(wanted, streams=streams).to_list() == db.scan(wanted).to_list()


def test_filters_that_overlap(db: Database) -> None:
    db.append([("a/1", 1, b"1"), ("a/2", 2, b"2"), ("b/1", 3, b"3"), ("$c", 4, b"4")])
    read: dict[str, tuple[Any, int]] = {
        "one in a list": (["a/#"], 2),
        "overlapping": (["a/#", "a/1", "+/1", "#"], 3),
        "a tuple": (("a/1", "$c"), 2),
        "a set": ({"a/1", "b/1"}, 2),
        "every topic": (None, 4),
        "none": ([], 0),
        "with every topic": (["#", "$c"], 4),
    }
    for name, (filter, count) in read.items():
        assert db.scan(filter).count() == count, name
        assert db.scan(filter, order="time").count() == count, name
        assert db.last(filter).count() == count, name
        assert len(db.streams(filter)) == sum(len(s) for s in db.structures(filter).values()), name
    assert db.scan(["a/#", "b/#"]).to_arrow().num_rows == 3


def test_a_list_with_what_is_no_filter(db: Database) -> None:
    reads: list[Any] = [db.scan, db.last, db.streams, db.structures, db.explain, db.slices]
    for read in reads:
        with pytest.raises(topicdb.TopicError, match="a#"):
            read(["b", "a#"])
        with pytest.raises(
            TypeError, match=r"filter: expected a list of topic filters \(str\), got"
        ):
            read(["b", 5])
        with pytest.raises(TypeError, match=r"filter: expected a topic filter \(str\), a list"):
            read(5)


def test_where_a_list_cannot_be(db: Database) -> None:
    wanted: Any = ["a/#", "b/#"]
    db.append([("a/1", 1, b"")])
    stream = db.streams()[0]
    with db.transaction() as tx:
        for call in (
            lambda: db.delete(wanted),
            lambda: db.trim("1d", wanted),
            lambda: db.watch_streams(wanted),
            lambda: db.iterator(stream, wanted),
            lambda: tx.scan(wanted),
            lambda: tx.delete(wanted),
        ):
            with pytest.raises(TypeError, match=r"filter: expected one topic filter .*got list"):
                call()


def test_over_the_network(db_path: Path) -> None:
    pytest.importorskip("pyarrow")
    with topicdb.open(db_path, shards=2) as here, serving(here) as server:
        here.append([("a/1", 1, b"1"), ("a/2", 2, b"2"), ("b/1", 3, b"3"), ("$c", 4, b"4")])
        with topicdb.connect(server.url) as db:
            for filter in (["a/#", "a/1"], ["a/1", "b/#"], None, ["#", "$c"], []):
                assert db.scan(filter).to_list() == here.scan(filter).to_list()
                assert db.last(filter).to_list() == here.last(filter).to_list()
                assert db.streams(filter) == here.streams(filter)
