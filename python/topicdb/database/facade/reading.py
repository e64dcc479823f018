"""The methods of a Database that read messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Literal

from topicdb._core import Iterator, Stream
from topicdb.engine import Engine
from topicdb.filters import Filters, any_of, filter_list, one_filter
from topicdb.forms import Form, form_of
from topicdb.scan import BATCH_BYTES_MAX, SLICE_BYTES_MAX, Scan, check_batch_limits
from topicdb.stream_watch import StreamWatch
from topicdb.tail import Tail
from topicdb.times import (
    TIMESTAMP_MAX,
    TimeLike,
    now_us,
    optional_time_us,
    time_range_us,
    timeout_us,
)
from topicdb.types import Page, Slice


class Reading:
    """Methods of Database, for its engine (``_core``)."""

    _core: Engine

    def scan(
        self,
        filter: Filters = "#",
        *,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        order: Literal["stream", "time", "none"] = "stream",
        streams: Sequence[Stream] | None = None,
        properties: bool = False,
        raw: bool = False,
    ) -> Scan:
        """Messages whose topic matches ``filter``, ``start`` <= timestamp < ``end``.

        ``filter``: one topic filter; several, of which a message has to match one, and is given
        once if it matches more; or None: every topic, those that begin with "$", too.

        ``order="stream"`` reads one stream after the other, each by time, an older generation
        before a newer one: what overlaps in time is sorted, with at most 112 MiB in memory and the
        rest in a temporary file. ``order="time"`` merges all streams by timestamp, for up to twice
        the time. ``order="none"`` gives messages as they are stored, each once: nothing is sorted,
        so it takes the same time however they overlap; ``Scan.count`` reads like that by itself.
        ``streams`` limits it to some of ``Database.streams``.

        ``properties``: gives each message as a ``PropertyMessage``, with the MQTT properties that a
        bridge has stored; Arrow data then has a column for each. ``raw``: values are as they are
        stored, with the properties in them, for ``append(raw=True)``. See docs/properties.md.

        >>> db.scan("site/#", properties=True).to_arrow()           # doctest: +SKIP
        """
        if order not in ("stream", "time", "none"):
            raise ValueError(f"order: expected 'stream', 'time' or 'none', got {order!r}")
        read = partial(self._core.scan, any_of(filter), *time_range_us(start, end))
        form = form_of(properties=properties, raw=raw)
        return Scan(partial(read, order, streams), form, partial(read, "none", streams))

    def last(
        self,
        filter: Filters = "#",
        *,
        start: TimeLike | None = None,
        properties: bool = False,
        raw: bool = False,
    ) -> Scan:
        """The newest message of each topic that matches, in the order of topics (bytewise).

        The newest is the one with the greatest timestamp, of equal ones that which was committed
        last. Deleted messages do not count, nor, with ``start``, what is older: a topic that has
        nothing since is left out. History is not read: see docs/last_values.md for the cost. Keeps
        one message a topic in memory while it is iterated. ``properties``, ``raw``: as of ``scan``.

        >>> db.last("alarm/#", start="-24h").to_arrow()             # doctest: +SKIP
        """
        return _last(self._core, filter, start, None, form_of(properties=properties, raw=raw))

    def state_at(
        self,
        time: TimeLike,
        filter: Filters = "#",
        *,
        start: TimeLike | None = None,
        properties: bool = False,
        raw: bool = False,
    ) -> Scan:
        """As ``last`` would have been at ``time``: later messages do not count, those at it do.

        What was deleted since is not there, and what came late, with a timestamp up to ``time``,
        is.

        >>> db.state_at("2026-01-31T14:02:00Z", "plant/#")          # doctest: +SKIP
        """
        return _last(self._core, filter, start, time, form_of(properties=properties, raw=raw))

    def streams(
        self,
        filter: Filters = "#",
        *,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
    ) -> list[Stream]:
        """Streams that may hold matching messages, by shard, class, generation and structure."""
        return self._core.streams(any_of(filter), *time_range_us(start, end))

    def iterator(
        self,
        stream: Stream,
        filter: str = "#",
        *,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
    ) -> Iterator:
        """Position at the first message of ``stream`` from ``start`` on. Store its ``bytes()``."""
        one_filter(filter)
        return self._core.iterator(stream, filter, *time_range_us(start, end))

    def next(
        self, iterator: Iterator, rows: int = 1_000, *, properties: bool = False, raw: bool = False
    ) -> Page:
        """Up to ``rows`` messages from ``iterator`` on, and the iterator to go on with.

        ``properties``, ``raw``: as of ``scan``. NotFoundError when its generation has been dropped.
        """
        form = form_of(properties=properties, raw=raw)
        check_batch_limits(rows, BATCH_BYTES_MAX)
        page = self._core.next(iterator, rows, BATCH_BYTES_MAX)
        return Page(page.iterator, page.batch.read_as(form), page.end_of_stream)

    def slices(
        self,
        filter: Filters = "#",
        *,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        after: Mapping[int, int] | None = None,
        until: Mapping[int, int] | None = None,
        bytes_max: int = SLICE_BYTES_MAX,
    ) -> list[Slice]:
        """Slices of about ``bytes_max`` bytes that together hold each matching message once.

        For reading with many processes: send each some slices, and read those with
        ``scan_slices``. All of them see this moment: what is committed later is in none. Large
        slabs are cut by commits and times where that divides evenly what is stored. ``after``,
        ``until``: {shard: serial}; only commits behind the first, up to the second.
        """
        return self._core.slices(
            filter_list(filter),
            *time_range_us(start, end),
            dict(after or {}),
            dict(until or {}),
            bytes_max,
        )

    def scan_slices(
        self,
        slices: Sequence[Slice],
        filter: Filters = "#",
        *,
        properties: bool = False,
        raw: bool = False,
    ) -> Scan:
        """Messages of ``slices`` that match, each once, in no order.

        The scan raises NotFoundError, naming the slab, if one of them has been dropped, and
        ValueError if this handle was opened before the slices were made: see ``refresh``. Messages
        that were deleted since, or replaced (layout ``skipstream``), are left out. ``properties``,
        ``raw``: as of ``scan``.
        """
        form = form_of(properties=properties, raw=raw)
        return Scan(partial(self._core.scan_slices, filter_list(filter), slices), form)

    def tail(
        self,
        filter: Filters = "#",
        *,
        after: Mapping[int, int] | None = None,
        until: Mapping[int, int] | None = None,
        timeout: float | timedelta | None = None,
        properties: bool = False,
        raw: bool = False,
    ) -> Tail:
        """Messages in commit order, those that are stored and those that follow. See ``Tail``.

        ``after``: {shard: serial} as in ``Receipt.serials`` and ``Tail.serials``; commits up to
        there are left out. ``until``: later ones are left out, and once all shards are read so
        far, iteration ends. ``timeout``: iteration ends when no message comes for so many seconds;
        0: at the end of what is stored; None: it waits for ever. ValueError: the database has the
        layout ``skipstream``, which keeps no commit log, or ``after`` names no shard of it.
        ``properties``, ``raw``: as of ``scan``.

        >>> for message in db.tail("metrics/#", after=receipt.serials):     # doctest: +SKIP
        ...     print(message)
        """
        form = form_of(properties=properties, raw=raw)
        core = self._core.tail(filter_list(filter), dict(after or {}), dict(until or {}))
        return Tail(core, timeout_us(timeout), form)

    def watch_streams(
        self,
        filter: str = "#",
        *,
        existing: bool = False,
        timeout: float | timedelta | None = None,
    ) -> StreamWatch:
        """New streams that may hold topics of ``filter``. See ``StreamWatch``.

        ``existing``: gives those that are there first. ``timeout``: iteration ends when none comes
        for so many seconds; 0: at the end of what is there; None: it waits for ever.

        >>> for stream in db.watch_streams("metrics/#"):     # doctest: +SKIP
        ...     print(stream.structure)
        """
        one_filter(filter)
        return StreamWatch(self._core.watch_streams(filter, existing), timeout_us(timeout))

    def explain(
        self, filter: Filters = "#", *, start: TimeLike | None = None, end: TimeLike | None = None
    ) -> dict[str, int]:
        """What a scan of these messages takes, found by running it.

        ``slabs`` and ``streams`` that may hold them; ``blocks`` considered, and how many of them
        were skipped by their times, streams and words; the same of the ``pages`` of the others;
        ``pages_read`` and ``bytes_read`` (as stored); messages examined and matched (``rows_…``),
        and how many waited in a temporary file because they overlapped too much (``rows_spilled``,
        ``bytes_spilled``).
        """
        return self._core.explain(any_of(filter), *time_range_us(start, end))

    def structures(self, filter: Filters = "#") -> dict[str, list[Stream]]:
        """Learned topic structures that ``filter`` may find, each with its streams."""
        found: dict[str, list[Stream]] = {}
        for stream in self.streams(filter):
            found.setdefault(stream.structure, []).append(stream)
        return dict(sorted(found.items()))


def _last(
    engine: Engine, filter: Filters, start: TimeLike | None, time: TimeLike | None, form: Form
) -> Scan:
    wanted = any_of(filter)
    now = now_us()
    start_us = optional_time_us(start, what="start", now=now)
    at_us = optional_time_us(time, what="time", now=now)
    end_us = None if at_us is None or at_us == TIMESTAMP_MAX else at_us + 1
    return Scan(partial(engine.last, wanted, start_us, end_us), form)
