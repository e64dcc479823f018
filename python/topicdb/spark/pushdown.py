"""Turns SQL predicates into narrower topic filters and a narrower range of time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
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

import topicdb
from topicdb import _core
from topicdb.arguments.times import time_us

TOPICS_MAX = 64
"""More topics than these in one IN are left to Spark: each is looked for in each block."""
_COLUMNS = ("topic", "timestamp", "value")


@dataclass(frozen=True)
class Selection:
    """The selection of a read. ``filters`` None: every topic; an empty list: nothing."""

    filters: list[str] | None
    start: int | None
    end: int | None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be read."""
        if self.filters == []:
            return True
        return self.end is not None and self.end <= (self.start or 0)


NOTHING = Selection([], None, None)


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
        return _among(selection, [predicate.value]), True
    if isinstance(predicate, In):
        topics = {value for value in predicate.value if isinstance(value, str)}
        if len(topics) <= TOPICS_MAX:
            return _among(selection, sorted(topics)), True
    if isinstance(predicate, StringStartsWith):
        return _below(selection, predicate.value), False
    return selection, False


def _among(selection: Selection, topics: list[str]) -> Selection:
    """Keeps only these topics, as far as the selection has them."""
    wanted = [
        topic
        for topic in topics
        if _is_topic(topic)
        and (
            selection.filters is None
            or any(topicdb.topic_matches(filter, topic) for filter in selection.filters)
        )
    ]
    return replace(selection, filters=wanted)


def _is_topic(text: str) -> bool:
    try:
        _core.check_topic(text)
    except topicdb.TopicError:
        return False
    return True


def _below(selection: Selection, prefix: str) -> Selection:
    """Keeps only topics that begin with the whole levels of ``prefix``."""
    levels = prefix.split("/")[:-1]  # the last level may be a part of one
    if not levels:
        return selection
    if not _is_topic("/".join(levels) + "/"):  # such as '+': no topic begins with that
        return replace(selection, filters=[])
    if selection.filters is None:
        return replace(selection, filters=["/".join([*levels, "#"])])
    narrowed = [_narrow(filter, levels) for filter in selection.filters]
    return replace(selection, filters=list(dict.fromkeys(f for f in narrowed if f is not None)))


def _narrow(filter: str, prefix: list[str]) -> str | None:
    """Returns a filter for the topics of ``filter`` that begin with ``prefix`` and go on.

    Returns None if there can be no such topic.
    """
    wanted = filter.split("/")
    if prefix[0].startswith("$") and wanted[0] in ("+", "#"):
        return None  # in MQTT it does not match such topics
    for depth, level in enumerate(prefix):
        if depth == len(wanted):
            return None
        if wanted[depth] == "#":
            return "/".join([*prefix, "#"])
        if wanted[depth] not in ("+", level):
            return None
    rest = wanted[len(prefix) :]
    return "/".join([*prefix, *rest]) if rest else None


def _push_time(selection: Selection, predicate: Any) -> tuple[Selection, bool]:
    if isinstance(predicate, In):
        times = [_microseconds(item) for item in predicate.value if item is not None]
        if None in times:
            return selection, False
        if not times:
            return NOTHING, True
        return _within(selection, min(times), max(times) + 1), len(set(times)) == 1
    moment = _microseconds(getattr(predicate, "value", None))
    if moment is None:
        return selection, False
    if isinstance(predicate, (EqualTo, EqualNullSafe)):
        return _within(selection, moment, moment + 1), True
    if isinstance(predicate, GreaterThan):
        return _within(selection, moment + 1, None), True
    if isinstance(predicate, GreaterThanOrEqual):
        return _within(selection, moment, None), True
    if isinstance(predicate, LessThan):
        return _within(selection, None, moment), True
    if isinstance(predicate, LessThanOrEqual):
        return _within(selection, None, moment + 1), True
    return selection, False


def _microseconds(value: object) -> Any:
    """Returns microseconds since 1970; None for what is no time, -1 for a time before 1970."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    try:
        return time_us(value)
    except ValueError:
        return -1


def _within(selection: Selection, start: int | None, end: int | None) -> Selection:
    """Narrows the range of time. The bounds may lie before 1970, where there are no messages."""
    low = max(start or 0, selection.start or 0) or None
    if end is not None and end <= 0:
        return NOTHING
    ends = [bound for bound in (end, selection.end) if bound is not None]
    return replace(selection, start=low, end=min(ends) if ends else None)
