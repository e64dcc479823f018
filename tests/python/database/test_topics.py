"""Tests of topics, filters and matching, as section 4.7 of MQTT 5 defines them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import filters, topic
from support import Layout

import topicdb
from model.model import shard_of
from model.topics import is_filter, is_topic, matches
from topicdb import Database, TopicError

MATCHING = [
    # filter, topics that match, topics that do not match
    (
        "sport/tennis/+",
        ["sport/tennis/p1", "sport/tennis/"],
        ["sport/tennis/p1/rank", "sport/tennis"],
    ),
    ("sport/#", ["sport", "sport/", "sport/a", "sport/a/b/c"], ["sports", "a/sport"]),
    ("sport/+", ["sport/", "sport/a"], ["sport", "sport/a/"]),
    ("+", ["finance", "é"], ["/finance", "a/b", "$finance"]),
    ("+/+", ["/finance", "a/b", "/"], ["finance", "a/b/c", "$a/b"]),
    ("/+", ["/finance", "/$finance"], ["finance", "//"]),
    ("#", ["a", "/", "a/b/c", "a/$b"], ["$SYS", "$SYS/a", "$"]),
    ("+/#", ["a", "/", "a/b"], ["$SYS/a", "$"]),
    ("+/monitor/Clients", ["x/monitor/Clients"], ["$SYS/monitor/Clients"]),
    ("$SYS/#", ["$SYS", "$SYS/", "$SYS/a/b"], ["SYS/a", "$SYSTEM"]),
    ("$SYS/+/Clients", ["$SYS/monitor/Clients"], ["$SYS/a/b/Clients"]),
    ("a/+/c", ["a/b/c", "a//c", "a/$b/c"], ["a/c", "a/b/b/c"]),
    ("a/$b/#", ["a/$b", "a/$b/c"], ["a/b"]),
    ("/", ["/"], ["", "//"]),
    ("//", ["//"], ["/", "///"]),
    ("//#", ["/", "//", "//a", "///"], ["", "a//"]),
    ("/#", ["/", "//", "/a/b"], ["a"]),
    ("a", ["a"], ["A", "a/", "/a", "á"]),
]
PAIRS = [
    (filter, topic, expected)
    for filter, yes, no in MATCHING
    for topics, expected in ((yes, True), (no, False))
    for topic in topics
    if topic
]
NO_TOPICS = {
    "empty": "",
    "plus": "a/+",
    "plus_inside": "a+b",
    "hash": "#",
    "hash_inside": "a#",
    "nul": "a\0b",
    "lone_surrogate": "a\ud800",
    "too_long": "x" * 65_536,
    "too_long_in_bytes": "é" * 32_768,
}
NO_FILTERS = {
    "empty": "",
    "hash_not_last": "a/#/b",
    "two_hashes": "#/#",
    "hash_in_level": "a#",
    "plus_in_level": "a/b+",
    "two_pluses": "++",
    "plus_hash": "+#",
    "nul": "a/\0",
    "lone_surrogate": "\udfff/+",
    "too_long": "x" * 65_534 + "/#",
}
STRANGE_BUT_VALID = [
    "/",
    "//",
    "a//b",
    " ",
    "a b",
    "\x01\x1f\x7f",
    "\ufeff",
    "\uffff",
    "😀/é",
    "$",
    "$/a",
    "a/$SYS/b",
    "x" * 65_535,
    "é" * 32_767,
    "/".join(["deep"] * 200),
]


@pytest.mark.parametrize(("filter", "topic", "expected"), PAIRS)
def test_matching(filter: str, topic: str, expected: bool) -> None:
    assert topicdb.topic_matches(filter, topic) is expected
    assert matches(filter, topic) is expected, "the reference model"


@pytest.mark.parametrize("thresholds", [[100, 10], [0], [1]], ids=str)
def test_scans_match_alike_whatever_was_learned(
    db_path: Path, thresholds: list[int], layout: Layout
) -> None:
    topics = sorted({topic for _, topic, _ in PAIRS})
    with topicdb.open(db_path, thresholds=thresholds, layout=layout) as db:
        db.append([(topic, 1, b"") for topic in topics])
        for filter, _, _ in MATCHING:
            found = sorted(m.topic for m in db.scan(filter))
            assert found == [t for t in topics if matches(filter, t)], filter


@given(st.data())
def test_matching_agrees_with_the_model(data: st.DataObject) -> None:
    name = data.draw(topic)
    filter = data.draw(filters([name]))
    assert topicdb.topic_matches(filter, name) == matches(filter, name)


@given(st.text(st.characters(), max_size=6) | st.text("a/+#$\0", max_size=6))
def test_what_is_valid_agrees_with_the_model(text: str) -> None:
    checks: list[tuple[bool, Callable[[], bool]]] = [
        (is_filter(text), lambda: topicdb.topic_matches(text, "a")),
        (is_topic(text), lambda: topicdb.topic_matches("a", text)),
    ]
    for is_valid, check in checks:
        if is_valid:
            check()
        else:
            with pytest.raises(TopicError):
                check()


@given(topic, st.integers(1, 1_024))
def test_the_shard_is_crc32_of_the_topic(name: str, shards: int) -> None:
    assert topicdb.shard_of(name, shards) == shard_of(name, shards)


def test_shard_of_needs_a_shard_and_a_topic() -> None:
    assert topicdb.shard_of("metrics/h1/cpu", 4) == shard_of("metrics/h1/cpu", 4)
    with pytest.raises(ValueError, match="shards"):
        topicdb.shard_of("a", 0)
    with pytest.raises((ValueError, TypeError, OverflowError)):
        topicdb.shard_of("a", -1)
    with pytest.raises(TopicError):
        topicdb.shard_of("a/#", 4)


@pytest.mark.parametrize("name", NO_TOPICS.values(), ids=NO_TOPICS)
def test_invalid_topics_are_refused(db: Database, name: str) -> None:
    with pytest.raises(TopicError):
        db.append([("fine", 1, b""), (name, 1, b"")])
    assert db.scan("#").to_list() == []
    with pytest.raises(TopicError):
        topicdb.topic_matches("#", name)


@pytest.mark.parametrize("filter", NO_FILTERS.values(), ids=NO_FILTERS)
def test_invalid_filters_are_refused(db: Database, filter: str) -> None:
    db.append([("a", 1, b"")])
    [stream] = db.streams("a")
    for use in (
        lambda: db.scan(filter),
        lambda: db.streams(filter),
        lambda: db.structures(filter),
        lambda: db.iterator(stream, filter),
        lambda: topicdb.topic_matches(filter, "a"),
    ):
        with pytest.raises(TopicError):
            use()


def test_errors_quote_the_topic_and_shorten_it(db: Database) -> None:
    with pytest.raises(TopicError, match=r"a/\+/b"):
        db.append([("a/+/b", 1, b"")])
    with pytest.raises(TopicError) as caught:
        db.append([("x" * 100_000, 1, b"")])
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("thresholds", [[100, 10], [0]], ids=str)
def test_strange_topics_are_stored_and_found(
    db_path: Path, thresholds: list[int], layout: Layout
) -> None:
    expected = [(name, i, name.encode()) for i, name in enumerate(STRANGE_BUT_VALID)]
    with topicdb.open(db_path, thresholds=thresholds, layout=layout) as db:
        db.append(expected)
    with topicdb.open(db_path) as db:
        for name, timestamp, value in expected:
            assert db.scan(name).to_list() == [(name, timestamp, value)]
        found = {*db.scan("#"), *db.scan("$/#")}
        assert found == set(expected)


def test_a_topic_of_65536_levels(db: Database) -> None:
    name = "/" * 65_535
    db.append([(name, 1, b"deep"), ("a", 1, b"")])
    assert [m.value for m in db.scan(name)] == [b"deep"]
    assert [m.value for m in db.scan("/#")] == [b"deep"]
    assert db.scan("+").count() == 1


def test_200_levels_with_a_wildcard_at_each_place(db_path: Path, layout: Layout) -> None:
    levels = [f"l{i}" for i in range(200)]
    name = "/".join(levels)
    with topicdb.open(db_path, thresholds=[1], layout=layout) as db:
        db.append([(name, 1, b""), (f"{name}/more", 1, b"")])
        for place in range(200):
            plus = "/".join([*levels[:place], "+", *levels[place + 1 :]])
            assert db.scan(plus).count() == 1
            assert db.scan("/".join([*levels[:place], "#"])).count() == 2


def test_200_varying_levels_with_a_word_at_each_place(db_path: Path, layout: Layout) -> None:
    """Each of 200 topics has a word of its own at one level."""
    levels = ["x"] * 200
    names = ["/".join([*levels[:place], f"y{place}", *levels[place + 1 :]]) for place in range(200)]
    with topicdb.open(db_path, thresholds=[0], layout=layout) as db:
        db.append([(name, 1, b"") for name in names])
        for place in (0, 1, 62, 63, 64, 65, 66, 100, 198, 199):
            filter = "/".join([*["+"] * place, f"y{place}", *["+"] * (199 - place)])
            assert [m.topic for m in db.scan(filter)] == [names[place]]
            filter = "/".join([*["+"] * place, "x", "#"])
            assert db.scan(filter).count() == 199


def test_dollar_levels_inside_a_learned_level_are_found(db_path: Path, layout: Layout) -> None:
    with topicdb.open(db_path, thresholds=[1], layout=layout) as db:
        db.append([("devices/a", 1, b""), ("devices/$dev1", 2, b""), ("$x/$y", 3, b"")])
        assert db.scan("devices/+").count() == 2
        assert db.scan("devices/#").count() == 2
        assert db.scan("#").count() == 2
        assert db.scan("+/+").count() == 2
        assert [m.topic for m in db.scan("$x/+")] == ["$x/$y"]


def test_a_dollar_topic_in_a_varying_first_level_is_found_by_its_name_only(
    db_path: Path, layout: Layout
) -> None:
    with topicdb.open(db_path, thresholds=[0], layout=layout) as db:
        db.append([("$SYS/up", 1, b""), ("site/up", 2, b"")])
        assert [m.topic for m in db.scan("#")] == ["site/up"]
        assert [m.topic for m in db.scan("+/up")] == ["site/up"]
        assert [m.topic for m in db.scan("$SYS/#")] == ["$SYS/up"]
