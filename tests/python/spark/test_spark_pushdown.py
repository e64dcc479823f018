"""Compares predicates with a model: what a selection reads, and what it leaves to Spark."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as ds

import topicdb
from topicdb.frames.selection import Selection
from topicdb.spark.pushdown import push

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
TOPIC, TIME, VALUE = ("topic",), ("timestamp",), ("value",)
TOPICS = ["a", "a/", "a/b", "a/b/c", "ab/c", "/", "/a", "$SYS", "$SYS/a", "$SYS/a/b", "b/b", "b"]
FILTERS = ["#", "+", "+/#", "a/#", "a/+", "+/b", "+/+/c", "$SYS/#", "$SYS/+", "a/b", "/#", "+/a/+"]
TEXTS = [*TOPICS, "", "a/b/", "$", "a/+", "#", "a+/b", "\0", "x" * 70_000, "/a/"]
ROWS = [(topic, time) for topic in TOPICS for time in (0, 1, 5, 9)]


def at(us: int) -> datetime:
    return EPOCH + timedelta(microseconds=us)


def us(value: Any) -> int:
    return int((value - EPOCH) / timedelta(microseconds=1))


def passes(predicate: Any, topic: str, time: int) -> bool:
    """Returns SQL's answer, with null as False."""
    if isinstance(predicate, ds.Not):
        return not passes(predicate.child, topic, time)
    if isinstance(predicate, ds.IsNull):
        return False
    if isinstance(predicate, ds.IsNotNull):
        return True
    is_topic = predicate.attribute == TOPIC
    left: Any = topic if is_topic else time
    if isinstance(predicate, ds.In):
        return left in [v if is_topic or v is None else us(v) for v in predicate.value]
    right: Any = predicate.value if is_topic else us(predicate.value)
    if isinstance(predicate, ds.StringStartsWith):
        return topic.startswith(right)
    if isinstance(predicate, ds.StringEndsWith):
        return topic.endswith(right)
    tests: dict[type, bool] = {
        ds.EqualTo: left == right,
        ds.EqualNullSafe: left == right,
        ds.GreaterThan: left > right,
        ds.GreaterThanOrEqual: left >= right,
        ds.LessThan: left < right,
        ds.LessThanOrEqual: left <= right,
    }
    return tests[type(predicate)]


def selected(selection: Selection, topic: str, time: int) -> bool:
    if selection.filters is not None and not any(
        topicdb.topic_matches(filter, topic) for filter in selection.filters
    ):
        return False
    return (selection.start or 0) <= time and (selection.end is None or time < selection.end)


times = st.integers(-3, 11).map(at)
texts = st.sampled_from(TEXTS)
comparisons = [
    ds.EqualTo,
    ds.EqualNullSafe,
    ds.GreaterThan,
    ds.GreaterThanOrEqual,
    ds.LessThan,
    ds.LessThanOrEqual,
]
predicates = st.one_of(
    st.builds(lambda kind, t: kind(TOPIC, t), st.sampled_from(comparisons), texts),
    st.builds(lambda kind, t: kind(TIME, t), st.sampled_from(comparisons), times),
    st.builds(lambda v: ds.In(TOPIC, v), st.lists(texts, max_size=4)),
    st.builds(lambda v: ds.In(TIME, v), st.lists(st.none() | times, max_size=3)),
    st.builds(lambda t: ds.StringStartsWith(TOPIC, t), texts),
    st.builds(lambda t: ds.StringEndsWith(TOPIC, t), texts),
    st.builds(lambda t: ds.Not(ds.EqualTo(TOPIC, t)), texts),
    st.sampled_from([ds.IsNull(TOPIC), ds.IsNotNull(TIME), ds.IsNotNull(VALUE)]),
)
bases = st.builds(
    Selection,
    st.none() | st.lists(st.sampled_from(FILTERS), min_size=1, max_size=3, unique=True),
    st.none() | st.integers(0, 8),
    st.none() | st.integers(0, 11),
)


@given(base=bases, given_=st.lists(predicates, max_size=4))
def test_a_selection_loses_nothing_and_is_exact_in_what_it_takes(
    base: Selection, given_: list[Any]
) -> None:
    selection, rest = push(base, given_)
    assert all(any(item is predicate for predicate in given_) for item in rest)
    for filter in selection.filters or []:
        topicdb._core.check_filter(filter)
    for topic, time in ROWS:
        wanted = selected(base, topic, time) and all(passes(p, topic, time) for p in given_)
        found = (
            not selection.is_empty
            and selected(selection, topic, time)
            and all(passes(p, topic, time) for p in rest)
        )
        assert found == wanted, (topic, time, selection, rest)


@pytest.mark.parametrize(
    ("filters", "predicate", "wanted", "exact"),
    [
        (None, ds.EqualTo(TOPIC, "$SYS/x"), ["$SYS/x"], True),
        (["#"], ds.EqualTo(TOPIC, "$SYS/x"), [], True),
        (["#", "$SYS/#"], ds.EqualTo(TOPIC, "$SYS/x"), ["$SYS/x"], True),
        (None, ds.StringStartsWith(TOPIC, "site/1"), ["site/#"], False),
        (None, ds.StringStartsWith(TOPIC, "site/1/"), ["site/1/#"], False),
        (None, ds.StringStartsWith(TOPIC, "site"), None, False),
        (["+/temp", "x/#"], ds.StringStartsWith(TOPIC, "site/"), ["site/temp"], False),
        (["#"], ds.StringStartsWith(TOPIC, "$SYS/"), [], False),
        (None, ds.In(TOPIC, ("b", "a", "b")), ["a", "b"], True),
        (None, ds.In(TOPIC, tuple(f"t/{i}" for i in range(1_000))), None, False),
    ],
    ids=str,
)
def test_topics_become_filters(
    filters: list[str] | None, predicate: Any, wanted: list[str] | None, exact: bool
) -> None:
    selection, rest = push(Selection(filters, None, None), [predicate])
    assert selection.filters == wanted
    assert rest == ([] if exact else [predicate])


@pytest.mark.parametrize(
    ("predicate", "start", "end", "exact"),
    [
        (ds.EqualTo(TIME, at(5)), 5, 6, True),
        (ds.LessThan(TIME, at(5)), None, 5, True),
        (ds.LessThanOrEqual(TIME, at(5)), None, 6, True),
        (ds.GreaterThan(TIME, at(5)), 6, None, True),
        (ds.GreaterThanOrEqual(TIME, at(5)), 5, None, True),
        (ds.GreaterThan(TIME, at(-5)), None, None, True),
        (ds.In(TIME, (at(5), None, at(8))), 5, 9, False),
    ],
    ids=str,
)
def test_times_become_a_range(
    predicate: Any, start: int | None, end: int | None, exact: bool
) -> None:
    selection, rest = push(Selection(None, None, None), [predicate])
    assert (selection.start, selection.end) == (start, end)
    assert rest == ([] if exact else [predicate])


def test_no_message_is_older_than_the_epoch() -> None:
    for predicate in (ds.LessThan(TIME, at(0)), ds.LessThanOrEqual(TIME, at(-1))):
        assert push(Selection(None, None, None), [predicate])[0].is_empty
