"""Turns SQL predicates into narrower topic filters and a narrower range of time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from topicdb.arguments.times import time_us
from topicdb.frames.selection import (
    NOTHING,
    TOPICS_MAX,
    Comparison,
    Selection,
    of_prefix,
    of_time,
    of_topics,
)

_COLUMNS = ("topic", "timestamp", "value")
_COMPARISONS: list[tuple[tuple[type[Filter], ...], Comparison]] = [
    ((EqualTo, EqualNullSafe), "=="),
    ((GreaterThan,), ">"),
    ((GreaterThanOrEqual,), ">="),
    ((LessThan,), "<"),
    ((LessThanOrEqual,), "<="),
]


def push(selection: Selection, predicates: Iterable[Filter]) -> tuple[Selection, list[Filter]]:
    """Returns a selection that holds at least the rows that the predicates let through.

    Also returns the predicates that Spark still has to check.
    """
    rest: list[Filter] = []
    for predicate in predicates:
        selection, exact = _push_one(selection, predicate)
        if not exact:
            rest.append(predicate)
    return selection, rest


def _push_one(selection: Selection, predicate: Filter) -> tuple[Selection, bool]:
    attribute: Any = getattr(predicate, "attribute", None)
    if attribute is None or len(attribute) != 1 or attribute[0] not in _COLUMNS:
        return selection, False
    if isinstance(predicate, IsNotNull):  # no column is ever null
        return selection, True
    if isinstance(predicate, IsNull):
        return NOTHING, True
    if attribute == ("topic",):
        return _push_topic(selection, predicate)
    if attribute == ("timestamp",):
        return _push_time(selection, predicate)
    return selection, False


def _push_topic(selection: Selection, predicate: Any) -> tuple[Selection, bool]:
    if isinstance(predicate, (EqualTo, EqualNullSafe)) and isinstance(predicate.value, str):
        return selection.both(of_topics([predicate.value])), True
    if isinstance(predicate, In):
        topics = {value for value in predicate.value if isinstance(value, str)}
        if len(topics) <= TOPICS_MAX:
            return selection.both(of_topics(sorted(topics))), True
    if isinstance(predicate, StringStartsWith):
        return selection.both(of_prefix(predicate.value)), False
    return selection, False


def _push_time(selection: Selection, predicate: Any) -> tuple[Selection, bool]:
    if isinstance(predicate, In):
        times = [_microseconds(item) for item in predicate.value if item is not None]
        if None in times:
            return selection, False
        if not times:
            return NOTHING, True
        selection = selection.both(of_time(">=", min(times))).both(of_time("<=", max(times)))
        return selection, len(set(times)) == 1
    moment = _microseconds(getattr(predicate, "value", None))
    if moment is None:
        return selection, False
    for kinds, comparison in _COMPARISONS:
        if isinstance(predicate, kinds):
            return selection.both(of_time(comparison, moment)), True
    return selection, False


def _microseconds(value: object) -> Any:
    """Returns microseconds since 1970; None for what is no time, -1 for a time before 1970."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    try:
        return time_us(value)
    except ValueError:
        return -1
