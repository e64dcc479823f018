"""What predicates select: never less than they let through, and no more where that is promised."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from frames.predicates import BASES, ROWS, TEXTS, Predicate, at, predicates
from hypothesis import given
from hypothesis import strategies as st

import topicdb
from topicdb.frames import arrow_predicates, polars_predicates
from topicdb.frames.selection import (
    EVERYTHING,
    NOTHING,
    TOPICS_MAX,
    Selection,
    common_filter,
    of_prefix,
    of_time,
    of_topics,
)

MAX = 2**63 - 1
DAY = 86_400_000_000
FILTERS = ["#", "+", "+/#", "a/#", "a/+", "+/b", "+/+/c", "$SYS/#", "$SYS/+", "a/b", "/#", "a", "/"]


def has(selection: Selection, topic: str, time: int) -> bool:
    filters = selection.filters
    if filters is not None and not any(topicdb.topic_matches(one, topic) for one in filters):
        return False
    return (selection.start or 0) <= time and (selection.end is None or time < selection.end)


@given(st.sampled_from(FILTERS), st.sampled_from(FILTERS), st.sampled_from([r[0] for r in ROWS]))
def test_a_common_filter_matches_what_both_match(one: str, other: str, topic: str) -> None:
    common = common_filter(one, other)
    is_in_both = topicdb.topic_matches(one, topic) and topicdb.topic_matches(other, topic)
    assert (common is not None and topicdb.topic_matches(common, topic)) == is_in_both


@given(predicates)
def test_polars_predicates_select_what_passes(predicate: Predicate) -> None:
    selection = polars_predicates.selection_of(predicate.polars)
    assert all(has(selection, row[0], row[1]) for row in ROWS if predicate.passes(row))


MESSAGES = pa.schema([("topic", pa.string()), ("timestamp", pa.timestamp("us", "UTC"))])
TOPIC, TIME = pc.field("topic"), pc.field("timestamp")


def moment(us: int, unit: str = "us") -> pa.Scalar:
    return pa.scalar(us, pa.timestamp(unit, "UTC"))


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        (TOPIC == "a/b", Selection(["a/b"])),
        (TOPIC == "a/+", NOTHING),
        (TOPIC != "a/b", EVERYTHING),
        (TOPIC.isin(["a", "b", None]), Selection(["a", "b"])),
        ((TOPIC == "a") | (TOPIC == "b"), Selection(["a", "b"])),
        ((TOPIC == "a") | (moment(5) < TIME), EVERYTHING),
        ((TOPIC == "a") & (moment(5) < TIME), Selection(["a"], 6)),
        (moment(5) <= TIME, Selection(None, 5)),
        (moment(5) > TIME, Selection(None, None, 5)),
        (moment(5) == TIME, Selection(None, 5, 6)),
        (moment(MAX) >= TIME, EVERYTHING),
        (moment(MAX) < TIME, NOTHING),
        (moment(-7) > TIME, NOTHING),
        (moment(2_000, "ns") <= TIME, Selection(None, 2)),
        (moment(2_500, "ns") <= TIME, EVERYTHING),
        (TIME.isin(pa.array([5, 9], pa.timestamp("us", "UTC"))), Selection(None, 5, 10)),
        (pc.starts_with(TOPIC, "a/b"), Selection(["a/#"])),
        (~(TOPIC == "a"), EVERYTHING),
        (pc.match_substring(TOPIC, "a"), EVERYTHING),
        (TOPIC.is_valid(), EVERYTHING),
    ],
)
def test_arrow_predicates_select(expression: Any, wanted: Selection) -> None:
    found = arrow_predicates.selection_of(expression)
    assert found == wanted or (found.is_empty and wanted.is_empty)


@pytest.mark.parametrize(
    ("predicate", "wanted"),
    [
        (pl.col("topic") == "a/b", Selection(["a/b"])),
        (pl.lit("a/b") == pl.col("topic"), Selection(["a/b"])),
        (pl.col("topic").is_in(["a", "b", None]), Selection(["a", "b"])),
        (pl.col("topic").str.starts_with("a/b"), Selection(["a/#"])),
        (pl.col("topic").str.contains("a"), EVERYTHING),
        (pl.col("timestamp") > pl.lit(at(5)), Selection(None, 6)),
        (pl.col("timestamp").is_between(at(2), at(5), closed="left"), Selection(None, 2, 5)),
        (pl.col("timestamp") >= pl.datetime(1970, 1, 2, time_zone="UTC"), Selection(None, DAY)),
        (pl.col("timestamp") >= pl.lit(at(5).replace(tzinfo=None)), EVERYTHING),
        (pl.col("timestamp").dt.year() == 2026, EVERYTHING),
        (pl.col("value") == b"x", EVERYTHING),
        (pl.col("topic").is_in([]), NOTHING),
    ],
)
def test_polars_predicates_select(predicate: pl.Expr, wanted: Selection) -> None:
    found = polars_predicates.selection_of(predicate)
    assert found == wanted or (found.is_empty and wanted.is_empty)


@pytest.mark.parametrize("text", TEXTS)
def test_a_prefix_selects_all_topics_that_begin_with_it(text: str) -> None:
    selection = of_prefix(text)
    assert all(has(selection, topic, 0) for topic, *_ in ROWS if topic.startswith(text))


def test_too_many_topics_are_not_looked_for_one_by_one() -> None:
    assert of_topics(str(number) for number in range(TOPICS_MAX)).filters is not None
    assert of_topics(str(number) for number in range(TOPICS_MAX + 1)) == EVERYTHING
    half = of_topics(f"a/{number}" for number in range(TOPICS_MAX))
    assert half.either(of_topics(["b"])) == EVERYTHING
    base = Selection([f"+/{number}" for number in range(TOPICS_MAX + 9)])
    assert base.both(of_topics(["a/1"])).filters == ["a/1"]


@given(st.sampled_from(BASES), st.integers(0, 11), st.integers(0, 11))
def test_either_and_both_agree_with_sets(base: Any, low: int, high: int) -> None:
    filters = [base] if isinstance(base, str) else base
    one, other = Selection(filters, low, high), of_topics(["a/b", "b"]).both(of_time("<=", high))
    for topic, time, _ in ROWS:
        has_one, has_other = has(one, topic, time), has(other, topic, time)
        assert has(one.both(other), topic, time) == (has_one and has_other)
        assert has(one.either(other), topic, time) or not (has_one or has_other)
