"""Selections: which topics and times a read needs at least, as far as a predicate tells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from topicdb import _core
from topicdb.arguments.times import TIMESTAMP_MAX

TOPICS_MAX = 64
"""A read is not narrowed to more filters than these: each is looked for in each block."""

Comparison: TypeAlias = Literal["==", "<", "<=", ">", ">="]


@dataclass(frozen=True)
class Selection:
    """The topics and times of a read, which may hold more than a predicate lets through.

    ``filters``: a message has to match one of them. None stands for every topic, also those that
    begin with "$"; an empty list for no topic. ``start`` <= timestamp < ``end``, in µs since 1970.
    """

    filters: list[str] | None = None
    start: int | None = None
    end: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing can match."""
        if self.filters == []:
            return True
        return self.end is not None and self.end <= (self.start or 0)

    def both(self, other: Selection) -> Selection:
        """Returns a selection of what this one and the other have in common."""
        starts = [bound for bound in (self.start, other.start) if bound is not None]
        ends = [bound for bound in (self.end, other.end) if bound is not None]
        return Selection(
            _common(self.filters, other.filters),
            max(starts) if starts else None,
            min(ends) if ends else None,
        )

    def either(self, other: Selection) -> Selection:
        """Returns a selection that has at least what this one or the other has."""
        if self.is_empty:
            return other
        if other.is_empty:
            return self
        filters: list[str] | None = None
        if self.filters is not None and other.filters is not None:
            filters = list(dict.fromkeys([*self.filters, *other.filters]))
        return Selection(
            filters if filters is None or len(filters) <= TOPICS_MAX else None,
            None if self.start is None or other.start is None else min(self.start, other.start),
            None if self.end is None or other.end is None else max(self.end, other.end),
        )


EVERYTHING = Selection()
NOTHING = Selection([])


def of_topics(topics: Iterable[str]) -> Selection:
    """Returns a selection of these topics; of everything, if they are too many to look for."""
    wanted = [topic for topic in dict.fromkeys(topics) if _is_topic(topic)]
    return Selection(wanted) if len(wanted) <= TOPICS_MAX else EVERYTHING


def of_prefix(prefix: str) -> Selection:
    """Returns a selection that has all topics which begin with this text."""
    levels = prefix.split("/")[:-1]  # the last level may be a part of one
    if not levels:
        return EVERYTHING
    if not _is_topic("/".join(levels) + "/"):  # such as "+/": no topic begins with that
        return NOTHING
    return Selection(["/".join([*levels, "#"])])


def of_time(comparison: Comparison, moment: int) -> Selection:
    """Returns a selection of the timestamps that compare like this to ``moment``."""
    start = end = None
    if comparison in ("==", ">", ">="):
        start = max(0, moment + (comparison == ">")) or None
    if comparison in ("==", "<", "<="):
        end = moment + (comparison != "<")
    if (start or 0) > TIMESTAMP_MAX or (end is not None and end <= 0):
        return NOTHING
    return Selection(None, start, None if end is None or end > TIMESTAMP_MAX else end)


def _is_topic(text: str) -> bool:
    try:
        _core.check_topic(text)
    except (_core.TopicError, UnicodeError):
        return False
    return True


def _common(one: list[str] | None, other: list[str] | None) -> list[str] | None:
    if one is None or other is None:
        return other if one is None else one
    found = [common_filter(first, second) for first in one for second in other]
    filters = list(dict.fromkeys(filter for filter in found if filter is not None))
    return filters if len(filters) <= TOPICS_MAX else min(one, other, key=len)


def common_filter(one: str, other: str) -> str | None:
    """Returns the filter of the topics that both filters match, or None if there are none."""
    first, second = one.split("/"), other.split("/")
    for a, b in ((first, second), (second, first)):
        if a[0] in ("+", "#") and b[0].startswith("$"):
            return None  # in MQTT it does not match such topics
    common: list[str] = []
    for depth in range(max(len(first), len(second)) + 1):
        mine = first[depth] if depth < len(first) else None
        theirs = second[depth] if depth < len(second) else None
        if mine == "#":
            return "/".join([*common, *second[depth:]])
        if theirs == "#":
            return "/".join([*common, *first[depth:]])
        if mine is None or theirs is None:
            return "/".join(common) if mine is theirs else None
        if mine != theirs and "+" not in (mine, theirs):
            return None
        common.append(theirs if mine == "+" else mine)
    raise AssertionError("both filters have ended")
