"""Topic filters, as the methods of a database take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from topicdb import _core

Filters: TypeAlias = "str | Sequence[str] | None"
"""A topic filter; several, of which a message has to match one; or None: every topic, "$…" too."""


def filter_list(filter: Filters) -> list[str] | None:
    """TopicError if one of them is none."""
    if filter is None:
        return None
    filters = [filter] if isinstance(filter, str) else list(filter)
    for text in filters:
        _core.check_filter(text)
    return filters
