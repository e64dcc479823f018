"""The methods of a Database that read messages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Literal, overload

from topicdb._core import Iterator, ScanIterator, Stream
from topicdb.arguments.filters import Filters, any_of, filter_list, one_filter
from topicdb.arguments.forms import Form, form_of
from topicdb.arguments.times import (
    TIMESTAMP_MAX,
    TimeLike,
    now_us,
    optional_time_us,
    time_range_us,
    timeout_us,
)
from topicdb.arguments.wrong_types import iterators_of, wrong_type
from topicdb.cursor.scan import BATCH_BYTES_MAX, SLICE_BYTES_MAX, Scan, check_batch_limits
from topicdb.cursor.stream_watch import StreamWatch
from topicdb.cursor.tail import Tail
from topicdb.database.partial import opened, reading
from topicdb.engine import Engine, ScanCursor
from topicdb.follow.losses import LossError, OnLoss, Reporter
from topicdb.frames.shown import Listing, Structures, call_text
from topicdb.types import Page, ScanPage, Slice


class Reading:
    """Methods of Database that use its engine (``_core``)."""

    _core: Engine

    @property
    def missing_shards(self) -> dict[int, str]:
        """The shards that are missing in this handle, by number, and why each is missing.

        Only a handle that was opened with ``on_damage="skip"`` may have any. In one that only
        reads, ``refresh`` may bring them back. See docs/concepts/partial.md.
        """
        return self._core.missing_shards("#")

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
        partial: bool = False,
    ) -> Scan:
        """Returns a scan of the messages that match ``filter``, ``start`` <= timestamp < ``end``.

        - ``filter``: one topic filter; several, of which a message has to match one (it is given
          once if it matches more); or None: every topic, also those that begin with "$".
        - ``start``, ``end``: int µs since 1970, an aware datetime, ISO 8601 text with a zone, or an
          age such as ``"-24h"``; None: no bound.
        - ``order``: ``"stream"`` reads one stream after the other, each by time, an older
          generation before a newer one. Messages that overlap in time are sorted, with at most 112
          MiB in memory and the rest in a temporary file. ``"time"`` merges all streams by
          timestamp, which takes up to twice the time. ``"none"`` gives messages as they are stored,
          each once. It sorts nothing, so it takes the same time however they overlap;
          ``Scan.count`` always reads like that.
        - ``streams``: reads only these of ``Database.streams``.
        - ``properties``: gives each message as a ``PropertyMessage``, with the MQTT properties that
          a bridge has stored; Arrow data then has a column for each. See
          docs/concepts/properties.md.
        - ``raw``: gives values as they are stored, with the properties in them, for
          ``append(raw=True)``.
        - ``partial``: leaves out shards that are missing (``missing_shards``); ``Scan.is_partial``
          and a warning in the log tell of them. Otherwise reading the scan raises MissingShardError
          if there are any, whatever ``filter`` is: a transaction may have written any topic to any
          shard. A scan of ``streams`` needs their shards alone.

        Nothing is read before the scan is iterated. Raises TopicError for a bad filter, ValueError
        for another bad argument.

        >>> db.scan("site/#", properties=True).to_arrow()           # doctest: +SKIP
        """
        if order not in ("stream", "time", "none"):
            raise ValueError(f"order: expected 'stream', 'time' or 'none', got {order!r}")
        wanted = any_of(filter)
        bounds = time_range_us(start, end)

        def read(order: str) -> ScanCursor:
            return opened(
                self._core,
                lambda engine: engine.scan(wanted, *bounds, order, streams),
                partial=partial,
            )

        form = form_of(properties=properties, raw=raw)
        in_order = functools.partial(read, order)
        any_order = functools.partial(read, "none")
        asked = call_text(
            "scan",
            filter,
            bounds={"start": bounds[0], "end": bounds[1]},
            order=None if order == "stream" else order,
            streams=streams,
            properties=properties,
            raw=raw,
            partial=partial,
        )
        return Scan(in_order, form, any_order, self._missing(filter, partial=partial), asked)

    def _missing(self, filter: Filters, *, partial: bool) -> Callable[[], dict[int, str]]:
        """Returns what tells a scan which shards it leaves out."""
        return functools.partial(self._core.missing_shards, any_of(filter)) if partial else dict

    def last(
        self,
        filter: Filters = "#",
        *,
        start: TimeLike | None = None,
        properties: bool = False,
        raw: bool = False,
        partial: bool = False,
    ) -> Scan:
        """Returns the newest message of each topic that matches, in the bytewise order of topics.

        The newest message is the one with the greatest timestamp; among equal ones, the one that
        was committed last. Deleted messages do not count, and neither do messages before ``start``:
        a topic without a message since then is left out. History is not read: see
        docs/concepts/last_values.md for the cost. The scan keeps one message for each topic in
        memory while it is iterated. ``properties``, ``raw``, ``partial``: as in ``scan``.

        >>> db.last("alarm/#", start="-24h").to_arrow()             # doctest: +SKIP
        """
        form = form_of(properties=properties, raw=raw)
        return self._last("last", filter, start, None, form, partial=partial)

    def state_at(
        self,
        time: TimeLike,
        filter: Filters = "#",
        *,
        start: TimeLike | None = None,
        properties: bool = False,
        raw: bool = False,
        partial: bool = False,
    ) -> Scan:
        """Returns what ``last`` would have given at ``time``: later messages do not count.

        Messages with the timestamp ``time`` do count. Messages that were deleted since are missing.
        Messages that were stored later, but have a timestamp up to ``time``, are there.

        >>> db.state_at("2026-01-31T14:02:00Z", "plant/#")          # doctest: +SKIP
        """
        form = form_of(properties=properties, raw=raw)
        return self._last("state_at", filter, start, time, form, partial=partial)

    def _last(
        self,
        name: str,
        filter: Filters,
        start: TimeLike | None,
        time: TimeLike | None,
        form: Form,
        *,
        partial: bool,
    ) -> Scan:
        wanted = any_of(filter)
        now = now_us()
        start_us = optional_time_us(start, what="start", now=now)
        at_us = optional_time_us(time, what="time", now=now)
        end_us = None if at_us is None or at_us == TIMESTAMP_MAX else at_us + 1

        def read() -> ScanCursor:
            return opened(
                self._core, lambda engine: engine.last(wanted, start_us, end_us), partial=partial
            )

        asked = call_text(
            name,
            filter,
            bounds={"time": at_us, "start": start_us},
            form=_other(form),
            partial=partial,
        )
        return Scan(read, form, missing=self._missing(filter, partial=partial), asked=asked)

    def streams(
        self,
        filter: Filters = "#",
        *,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        generation_min: int | None = None,
        partial: bool = False,
    ) -> list[Stream]:
        """Returns the streams that may hold messages that match.

        They are in the order in which they should be read: by shard, then an older generation
        before a newer one, then by structure.

        ``generation_min``: leaves out streams of earlier generations; None: none. A class counts
        its generations from 1, in each shard. So a reader that has read the streams of a generation
        to their end looks only at what came later, however many generations there are. Raises
        ValueError if it is negative. ``partial``: as in ``scan``.

        >>> db.streams("site/#", generation_min=stream.generation + 1)  # doctest: +SKIP
        """
        wanted = any_of(filter)
        engine = reading(self._core, wanted, partial=partial)
        return Listing(engine.streams(wanted, *time_range_us(start, end), generation_min))

    def iterator(
        self,
        stream: Stream,
        filter: str = "#",
        *,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
    ) -> Iterator:
        """Returns an iterator at the first message of ``stream`` from ``start`` on.

        To continue after a restart, store its ``bytes()`` and use ``Iterator.from_bytes``.

        >>> iterator = db.iterator(db.streams("site/#")[0], "site/#")   # doctest: +SKIP
        >>> page = db.next(iterator, 100)                               # doctest: +SKIP
        >>> stored = bytes(page.iterator)                               # doctest: +SKIP
        """
        one_filter(filter)
        return self._core.iterator(stream, filter, *time_range_us(start, end))

    def scan_iterator(
        self,
        filter: Filters = "#",
        *,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        partial: bool = False,
    ) -> ScanIterator:
        """Returns an iterator at the start of a scan that ``next`` reads step by step.

        The scan gives what ``scan`` would give at this moment, in the same order, each message
        once, however long it takes. It leaves out later commits, and what was deleted, or replaced
        (layout ``skipstream``), before it comes there. All of its state is in the iterator: store
        its ``bytes()``, and another process can go on with ``ScanIterator.from_bytes``.

        ``filter``, ``start``, ``end``: as in ``scan``. ``ScanIterator.serials`` has the last commit
        of each shard that is part of the scan: ``tail(after=…)`` goes on behind it.
        ``partial``: leaves out the shards that are missing now, as in ``scan``; the scan does not
        come back to them.

        >>> at = db.scan_iterator("site/#", start="-24h")               # doctest: +SKIP
        >>> while not at.at_end:                                        # doctest: +SKIP
        ...     page = db.next(at, 10_000)
        ...     store(page.batch, bytes(page.iterator))
        ...     at = page.iterator
        """
        wanted = any_of(filter)
        engine = reading(self._core, wanted, partial=partial)
        return engine.scan_iterator(wanted, *time_range_us(start, end))

    @overload
    def next(
        self,
        iterator: Iterator,
        rows: int = ...,
        *,
        properties: bool = ...,
        raw: bool = ...,
    ) -> Page: ...
    @overload
    def next(
        self,
        iterator: ScanIterator,
        rows: int = ...,
        *,
        properties: bool = ...,
        raw: bool = ...,
        on_loss: OnLoss = ...,
    ) -> ScanPage: ...
    def next(
        self,
        iterator: Iterator | ScanIterator,
        rows: int = 1_000,
        *,
        properties: bool = False,
        raw: bool = False,
        on_loss: OnLoss = "report",
    ) -> Page | ScanPage:
        """Returns at most ``rows`` messages from ``iterator`` on, and the iterator behind them.

        - ``properties``, ``raw``: as in ``scan``.
        - ``on_loss``: as in ``consumer``, for a scan that comes to where a generation was dropped
          with messages that it had still to give. The page then has no messages, and its iterator
          continues behind them; LossError has that iterator, too.

        Raises NotFoundError if it is of another database, if the generation of a stream was
        dropped, or if ``keep_last`` has merged the generation that a scan was reading with others.
        Raises MissingShardError if a shard is missing that it has yet to read.
        For a scan, raises ValueError if this handle was opened before its commits: see ``refresh``.
        """
        form = form_of(properties=properties, raw=raw)
        check_batch_limits(rows, BATCH_BYTES_MAX)
        report = Reporter("a scan", on_loss)
        if not isinstance(iterator, Iterator | ScanIterator):
            raise wrong_type("iterator", "Iterator or ScanIterator", iterator)
        if isinstance(iterator, Iterator):
            page = self._core.next(iterator, rows, BATCH_BYTES_MAX)
            return Page(page.iterator, page.batch.read_as(form), page.end_of_stream)
        step = self._core.next_of_scan(iterator, rows, BATCH_BYTES_MAX)
        if step.loss is not None:
            try:
                report(step.loss)
            except LossError as error:
                error.iterator = step.iterator
                raise
        return ScanPage(step.iterator, step.batch.read_as(form), step.end_of_scan)

    def slices(
        self,
        filter: Filters = "#",
        *,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        after: Mapping[int, int] | None = None,
        until: Mapping[int, int] | None = None,
        bytes_max: int = SLICE_BYTES_MAX,
        partial: bool = False,
    ) -> list[Slice]:
        """Returns slices of about ``bytes_max`` bytes that hold each matching message once.

        For reading with many processes: send each of them some slices, which it reads with
        ``scan_slices``. All of them see this moment: later commits are in none. Large slabs are cut
        by commits and times where that divides their messages evenly.

        - ``after``, ``until``: {shard: serial}; only commits behind the first, up to the second.
        - ``bytes_max``: default 128 MiB.
        - ``partial``: as in ``scan``.

        >>> slices = db.slices("site/#", start="-7d")               # doctest: +SKIP
        >>> pool.map(count_slice, slices)                           # doctest: +SKIP
        """
        wanted = filter_list(filter)
        return reading(self._core, wanted, partial=partial).slices(
            wanted,
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
        """Returns the messages of ``slices`` that match, each once, in no order, as a ``Scan``.

        Messages that were deleted since, or replaced (layout ``skipstream``), are left out.
        ``properties``, ``raw``: as in ``scan``. Reading the scan raises NotFoundError, which names
        the slab, if one of the slabs was dropped, and ValueError if this handle was opened before
        the slices were made: see ``refresh``.
        """
        form = form_of(properties=properties, raw=raw)
        asked = call_text("scan_slices", filter, slices=slices, form=_other(form))
        read = functools.partial(self._core.scan_slices, filter_list(filter), slices)
        return Scan(read, form, asked=asked)

    def tail(
        self,
        filter: Filters = "#",
        *,
        after: Mapping[int, int] | None = None,
        until: Mapping[int, int] | None = None,
        given: Iterator | Sequence[Iterator] = (),
        timeout: float | timedelta | None = None,
        properties: bool = False,
        raw: bool = False,
        partial: bool = False,
    ) -> Tail:
        """Returns messages in commit order, those that are stored and those that follow.

        See ``Tail``.

        - ``after``: {shard: serial}, as in ``Receipt.serials`` and ``Tail.serials``; commits up to
          these are left out.
        - ``until``: later commits are left out. Once all shards are read up to there, iteration
          ends.
        - ``given``: saved iterators; what they have given is left out, as ``subscribe`` does it.
        - ``timeout``: iteration ends when no message comes for this many seconds; 0: at the end of
          what is stored; None: it waits for ever.
        - ``properties``, ``raw``: as in ``scan``.
        - ``partial``: leaves out the shards that are missing when it begins
          (``Tail.missing_shards``). Otherwise this raises MissingShardError if one is missing that
          may have such messages.

        Raises ValueError if ``after`` names a shard that the database does not have. Raises
        SchemaError, which names the generation, if the tail would begin in one of the layout
        ``skipstream``, which keeps no commit log, if messages that match go to such a one now, or
        if an iterator of ``given`` has messages to give in one. Iteration raises it when the tail
        comes to such a generation later. Raises NotFoundError if a generation was merged, or
        dropped with messages that an iterator of ``given`` had still to give.

        >>> for message in db.tail("metrics/#", after=receipt.serials):     # doctest: +SKIP
        ...     print(message)
        """
        form = form_of(properties=properties, raw=raw)
        wanted = filter_list(filter)
        serials = dict(after or {}), dict(until or {})
        iterators = iterators_of(given)
        core = opened(
            self._core, lambda engine: engine.tail(wanted, *serials, iterators), partial=partial
        )
        return Tail(core, timeout_us(timeout), form)

    def watch_streams(
        self,
        filter: str = "#",
        *,
        existing: bool = False,
        timeout: float | timedelta | None = None,
        partial: bool = False,
    ) -> StreamWatch:
        """Returns new streams that may hold topics of ``filter``. See ``StreamWatch``.

        - ``existing``: first gives the streams that are there.
        - ``timeout``: iteration ends when no stream comes for this many seconds; 0: at the end of
          those that are there; None: it waits for ever.
        - ``partial``: as in ``scan``. Streams of a shard that comes back are new ones.

        >>> for stream in db.watch_streams("metrics/#"):     # doctest: +SKIP
        ...     print(stream.structure)
        """
        one_filter(filter)
        engine = reading(self._core, filter, partial=partial)
        return StreamWatch(engine.watch_streams(filter, existing), timeout_us(timeout))

    def explain(
        self,
        filter: Filters = "#",
        *,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        partial: bool = False,
    ) -> dict[str, int]:
        """Runs a scan of these messages, and returns what it cost; ``partial``: as in ``scan``.

        ``slabs`` and ``streams``: how many may hold such messages. ``blocks``: how many were
        considered; ``blocks_skipped_by_…``: how many of them were skipped by their times, streams
        and words. The same of the ``pages`` of the other blocks, by their times and topics.
        ``pages_read`` and ``bytes_read`` (as stored). ``rows_…``: how many messages were examined
        and matched. ``rows_spilled``, ``bytes_spilled``: what waited in a temporary file because
        too many messages overlapped in time.
        """
        wanted = any_of(filter)
        engine = reading(self._core, wanted, partial=partial)
        return engine.explain(wanted, *time_range_us(start, end))

    def structures(
        self, filter: Filters = "#", *, partial: bool = False
    ) -> dict[str, list[Stream]]:
        """Returns the learned topic structures that ``filter`` may find, each with its streams.

        ``partial``: as in ``scan``.
        """
        found: dict[str, list[Stream]] = {}
        for stream in self.streams(filter, partial=partial):
            found.setdefault(stream.structure, []).append(stream)
        return Structures(sorted(found.items()))


def _other(form: Form) -> str | None:
    """Returns the form, for ``repr``, unless it is that of most reads."""
    return None if form == "payload" else form
