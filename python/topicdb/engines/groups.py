"""Counts messages in groups, for engines that are written in Python."""

from __future__ import annotations

from topicdb.types import MessageGroup

GROUPS_MAX = 1_000_000
"""A summary has at most this many groups."""
SPAN_US_MAX = 1 << 60
"""The longest span of a summary: 36,000 years."""


class MessageGroups:
    """The groups of one summary: how many messages each has, and between which times.

    One call of ``summarize`` makes it. Not thread-safe.

    Arguments:
        topic_levels: how many levels of topics count; 0: none; None: all.
        span: the width of spans of time, in µs; None: time does not matter.
        origin: where a span begins.

    Raises:
        ValueError: a number is out of range.

    Example:
        >>> groups = MessageGroups(1, None, 0)
        >>> groups.add("a/b", 7)
        >>> groups.sorted()[0].topic
        'a'
    """

    def __init__(self, topic_levels: int | None, span: int | None, origin: int) -> None:
        if topic_levels is not None and topic_levels < 0:
            raise ValueError(f"topic_levels: at least 0 is needed, got {topic_levels}")
        if span is not None and not 1 <= span <= SPAN_US_MAX:
            raise ValueError(f"span: expected 1 to {SPAN_US_MAX} microseconds, got {span}")
        self._levels = topic_levels
        self._span = span
        self._origin = origin
        self._found: dict[tuple[str, int | None], list[int]] = {}

    def add(self, topic: str, timestamp: int) -> None:
        """Adds a message.

        Raises ValueError if there are too many groups.
        """
        levels = self._levels
        name = topic if levels is None else "/".join(topic.split("/", levels)[:levels])
        span = self._span
        start = None if span is None else timestamp - (timestamp - self._origin) % span
        found = self._found.get((name, start))
        if found is not None:
            found[0] += 1
            found[1] = min(found[1], timestamp)
            found[2] = max(found[2], timestamp)
            return
        if len(self._found) == GROUPS_MAX:
            raise ValueError(
                f"a summary may have {GROUPS_MAX} groups, and this one has more: summarize fewer "
                "topics or a shorter time, or group by fewer levels or by longer spans"
            )
        self._found[name, start] = [1, timestamp, timestamp]

    def sorted(self) -> list[MessageGroup]:
        """Returns the groups, sorted by the bytes of their topics and by time."""
        places = sorted(self._found, key=lambda key: (key[0].encode(), key[1] or 0))
        return [MessageGroup(*place, *self._found[place]) for place in places]
