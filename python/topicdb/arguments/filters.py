"""Topic filters as the methods of a database take them."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TypeAlias

from topicdb import _core
from topicdb.arguments.wrong_types import wrong_type

SHARED = "$share/"  # $share/<group>/<filter>: one client of the group gets each message

Filters: TypeAlias = "str | Sequence[str] | None"
"""A topic filter; several, of which a message has to match one; or None: every topic, "$…" too."""


def filter_list(filter: Filters) -> list[str] | None:
    """Returns the filters as a list; None stands for every topic.

    Raises TopicError if one is no topic filter, TypeError if one is no text.
    """
    if filter is None:
        return None
    if not isinstance(filter, (str, Sequence, Set)) or isinstance(filter, (bytes, bytearray)):
        raise wrong_type("filter", "a topic filter (str), a list of them, or None", filter)
    filters = [filter] if isinstance(filter, str) else list(filter)
    for text in filters:
        if not isinstance(text, str):
            raise wrong_type("filter", "a list of topic filters (str)", text)
        _core.check_filter(text)
    return filters


def unshared(filter: str) -> str:
    """Returns the filter without the prefix of a shared subscription, if it has one."""
    return filter.split("/", 2)[2] if filter.startswith(SHARED) else filter


def any_of(filter: Filters) -> str | list[str] | None:
    """Returns what ``Engine.scan`` takes: one filter, or several without repetitions."""
    filters = filter_list(filter)
    if filters is None:
        return None
    filters = list(dict.fromkeys(filters))
    return filters[0] if len(filters) == 1 else filters


def one_filter(filter: object, *, what: str = "filter") -> str:
    """Returns ``filter`` for a call that takes no list of them.

    Raises TypeError if it is no text, TopicError if it is no topic filter.
    """
    if not isinstance(filter, str):
        raise wrong_type(what, "one topic filter (str)", filter)
    _core.check_filter(filter)
    return filter


def covers(permitted: str, wanted: str) -> bool:
    """Whether ``permitted`` matches every topic that ``wanted`` (a filter or a topic) matches."""
    levels = wanted.split("/")
    if levels[0].startswith("$") and permitted[0] in "+#":
        return False
    allowed = permitted.split("/")
    for number, level in enumerate(allowed):
        if level == "#":
            return True
        if number == len(levels) or levels[number] == "#":
            return False
        if level not in ("+", levels[number]):
            return False
    return len(levels) == len(allowed)


def overlap(one: str, other: str) -> bool:
    """Whether some topic matches both filters."""
    first, second = one.split("/"), other.split("/")
    for a, b in ((first, second), (second, first)):
        if a[0] in ("+", "#") and b[0].startswith("$"):
            return False
    for number in range(max(len(first), len(second)) + 1):
        a_level = first[number] if number < len(first) else None
        b_level = second[number] if number < len(second) else None
        if a_level == "#" or b_level == "#":
            return True
        if a_level is None or b_level is None:
            return a_level == b_level
        if "+" not in (a_level, b_level) and a_level != b_level:
            return False
    return True
