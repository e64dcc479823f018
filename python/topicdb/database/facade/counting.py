"""The methods of a Database that count messages, and what it takes to read them."""

from __future__ import annotations

from datetime import timedelta

from topicdb.arguments.filters import Filters, any_of
from topicdb.arguments.times import TimeLike, duration_us, time_range_us, time_us
from topicdb.database.view import reading, view_of
from topicdb.engine import Engine
from topicdb.types import AtLeastLike, MessageGroup


class Counting:
    """Methods of Database that use its engine (``_core``)."""

    _core: Engine

    def summarize(
        self,
        filter: Filters = "#",
        *,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        topic_levels: int | None = 0,
        span: str | timedelta | None = None,
        origin: TimeLike = 0,
        partial: bool = False,
        at_least: AtLeastLike | None = None,
    ) -> list[MessageGroup]:
        """Counts the messages that match, in groups, with the first and the last time of each.

        Most of it is known without reading messages: blocks and pages of which every message counts
        for one group are not read. docs/concepts/reading.md has the cost.

        Arguments:
            filter: as in ``scan``.
            start: as in ``scan``.
            end: as in ``scan``.
            topic_levels: messages are in one group if their topics begin with the same levels, this
                many. A topic with fewer levels counts as a whole. 0: topics do not matter. None:
                each topic is a group.
            span: messages are in one group if their timestamps are in one span of this length, such
                as ``"1h"`` or a timedelta. None: time does not matter.
            origin: where a span begins; others follow it, and go before it. By default, spans of a
                day begin at midnight UTC.
            partial: as in ``scan``.
            at_least: as in ``scan``.

        Returns:
            The groups that have messages, sorted by the bytes of their topics and by time.

        Raises:
            TopicError: a bad filter.
            ValueError: another bad argument, or there are more than 1,000,000 groups.

        Example:
            >>> for group in db.summarize("site/#", topic_levels=2):
            ...     print(group.topic, group.messages)
            site/north 2
        """
        wanted = any_of(filter)
        view = view_of(self._core, partial=partial, at_least=at_least)
        engine = reading(self._core, wanted, view)
        span_us = None if span is None else duration_us(span, what="span")
        first_us = time_us(origin, what="origin")
        bounds = time_range_us(start, end)
        return engine.summarize(wanted, *bounds, topic_levels, span_us, first_us)

    def explain(
        self,
        filter: Filters = "#",
        *,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        partial: bool = False,
        at_least: AtLeastLike | None = None,
    ) -> dict[str, int]:
        """Runs a scan of these messages, and returns what it cost.

        Arguments:
            filter: as in ``scan``.
            start: as in ``scan``.
            end: as in ``scan``.
            partial: as in ``scan``.
            at_least: as in ``scan``.

        Returns:
            Counts by name. ``slabs`` and ``streams`` may hold such messages. ``blocks`` were
            considered, and ``blocks_skipped_by_…`` were skipped by their times, streams or words.
            ``pages`` are those of the other blocks, and ``pages_skipped_by_…`` were skipped by
            their times or topics. ``pages_read`` and ``bytes_read`` were read, as stored.
            ``rows_…`` were examined, or matched. ``rows_spilled`` and ``bytes_spilled`` waited in a
            temporary file, because too many messages overlapped in time.

        Example:
            >>> db.explain("site/#")["rows_matched"]
            2
        """
        wanted = any_of(filter)
        view = view_of(self._core, partial=partial, at_least=at_least)
        engine = reading(self._core, wanted, view)
        return engine.explain(wanted, *time_range_us(start, end))
