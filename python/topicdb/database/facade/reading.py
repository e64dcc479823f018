"""The methods of a Database that read messages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Literal

from topicdb._core import Iterator, Stream
from topicdb.arguments.columns import checked_columns
from topicdb.arguments.filters import Filters, any_of, filter_list
from topicdb.arguments.forms import Form, form_of
from topicdb.arguments.times import (
    TIMESTAMP_MAX,
    TimeLike,
    now_us,
    optional_time_us,
    time_range_us,
    timeout_us,
)
from topicdb.arguments.wrong_types import iterators_of
from topicdb.cursor.columns import read_columns, reads_columns
from topicdb.cursor.scan import SLICE_BYTES_MAX, Scan
from topicdb.cursor.tail import Tail
from topicdb.database.view import View, opened, reading, view_of
from topicdb.engine import Engine, ScanCursor
from topicdb.engines.features import lacks_of
from topicdb.frames.shown import call_text
from topicdb.types import AtLeastLike, Slice


class Reading:
    """Methods of Database that use its engine (``_core``)."""

    _core: Engine

    @property
    def missing_shards(self) -> dict[int, str]:
        """The shards that are missing in this handle, by number, and why each is missing.

        Only a handle that was opened with ``on_damage="skip"`` may have any. If the handle only
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
        columns: Sequence[str] | None = None,
        properties: bool = False,
        raw: bool = False,
        partial: bool = False,
        at_least: AtLeastLike | None = None,
    ) -> Scan:
        """Returns a scan of the messages that match ``filter``, ``start`` <= timestamp < ``end``.

        Nothing is read before the scan is iterated or converted.

        Arguments:
            filter: one topic filter; or several, of which a message has to match one (a message
                that matches more is given once); or None: every topic, also those that begin with
                "$".
            start: the first timestamp: int µs since 1970, an aware datetime, ISO 8601 text with a
                zone, or an age such as ``"-24h"``. None: no bound.
            end: the timestamp behind the last one, in the same forms; None: no bound.
            order: ``"stream"`` reads one stream after the other, each by time, an older generation
                before a newer one. Messages that overlap in time are sorted, with at most 112 MiB
                in memory and the rest in a temporary file. ``"time"`` merges all streams by
                timestamp, which takes up to twice the time. ``"none"`` gives messages as they are
                stored, each once. It sorts nothing, so it takes the same time however they overlap.
            streams: reads only these of ``Database.streams``.
            columns: what Arrow data and frames have of topic, timestamp and value, and of the
                properties. None: all. Without value and properties, the stored values are not read,
                which takes less time. Messages and ``Batch.values`` then have empty values.
            properties: gives each message as a ``PropertyMessage``, with the MQTT properties that a
                bridge has stored. Arrow data then has a column for each property. See
                docs/concepts/properties.md.
            raw: gives values as they are stored, with the properties in them, for
                ``append(raw=True)``.
            partial: leaves out shards that are missing (``missing_shards``). ``Scan.is_partial``
                and a warning in the log tell you. By default, reading the scan raises
                MissingShardError if any shard is missing, whatever ``filter`` is: a transaction may
                have written any topic to any shard. A scan of ``streams`` needs only their shards.
            at_least: what the scan must see, in a database that has replicas: a ``Receipt``, or
                {shard: serial}; ``"acknowledged"``: everything that was acknowledged at any site
                before. The read waits for that for at most ten seconds; an ``AtLeast`` says another
                limit. By default it sees what is here. See docs/concepts/clusters.md.

        Returns:
            The scan. Iterate it for messages, or convert it with ``to_arrow`` or ``to_list``.

        Raises:
            TopicError: a bad filter.
            ValueError: another bad argument.
            StaleError: the database did not come to ``at_least`` in time. Reading the scan raises
                it.
            NoQuorumError: ``at_least="acknowledged"``, and too few sites are up to tell. Reading
                the scan raises it.

        Example:
            >>> for message in db.scan("site/+/pump/#", start="-24h"):
            ...     print(message.topic, message.value)
            site/north/pump/1 b'on'
            site/north/pump/2 b'off'
        """
        if order not in ("stream", "time", "none"):
            raise ValueError(f"order: expected 'stream', 'time' or 'none', got {order!r}")
        wanted = any_of(filter)
        bounds = time_range_us(start, end)
        view = view_of(self._core, partial=partial, at_least=at_least)

        def read(order: str, columns: Sequence[str] | None) -> ScanCursor:
            args = (wanted, *bounds, order, streams)
            return opened(
                self._core,
                lambda engine: read_columns(engine, "scan", args, columns),
                view,
            )

        form = form_of(properties=properties, raw=raw)
        chosen = checked_columns(columns, form)
        in_order = functools.partial(read, order, chosen)
        no_columns: list[str] | None = [] if reads_columns(self._core, "scan") else None
        keys_only = functools.partial(read, "none", no_columns)
        asked = call_text(
            "scan",
            filter,
            bounds={"start": bounds[0], "end": bounds[1]},
            order=None if order == "stream" else order,
            streams=streams,
            columns=chosen,
            properties=properties,
            raw=raw,
            **view.options,
        )
        missing = self._missing(filter, view)
        if streams is not None:
            return Scan(in_order, form, keys_only, missing, asked, columns=chosen)
        about = functools.partial(self._about, filter_list(filter), bounds, view)
        if "summaries" in lacks_of(self._core):
            return Scan(in_order, form, keys_only, missing, asked, about, columns=chosen)
        counted = functools.partial(self._count, wanted, bounds, view)
        return Scan(in_order, form, keys_only, missing, asked, about, counted, columns=chosen)

    def _count(
        self, wanted: str | list[str] | None, bounds: tuple[int | None, int | None], view: View
    ) -> int:
        engine = reading(self._core, wanted, view)
        return sum(group.messages for group in engine.summarize(wanted, *bounds, 0, None, 0))

    def _about(
        self, wanted: list[str] | None, bounds: tuple[int | None, int | None], view: View
    ) -> int:
        """Returns about how many messages a scan gives; more than that for a narrow filter."""
        engine = reading(self._core, wanted, view)
        slices = engine.slices(wanted, *bounds, {}, {}, SLICE_BYTES_MAX)
        return sum(part.messages for part in slices)

    def _missing(self, filter: Filters, view: View) -> Callable[[], dict[int, str]]:
        """Returns what tells a scan which shards it leaves out."""
        missing = functools.partial(self._core.missing_shards, any_of(filter))
        return missing if view.partial else dict

    def last(
        self,
        filter: Filters = "#",
        *,
        start: TimeLike | None = None,
        properties: bool = False,
        raw: bool = False,
        partial: bool = False,
        at_least: AtLeastLike | None = None,
    ) -> Scan:
        """Returns the newest message of each topic that matches, in the bytewise order of topics.

        The newest message is the one with the greatest timestamp; among equal ones, the one that
        was committed last. Deleted messages do not count. History is not read:
        docs/concepts/last_values.md has the cost. The scan keeps one message for each topic in
        memory while you iterate it.

        Arguments:
            filter: as in ``scan``.
            start: older messages do not count: a topic without a message since then is left out.
            properties: as in ``scan``.
            raw: as in ``scan``.
            partial: as in ``scan``.
            at_least: as in ``scan``.

        Returns:
            A scan with one message for each topic.

        Example:
            >>> [(message.topic, message.value) for message in db.last("site/north/pump/1")]
            [('site/north/pump/1', b'on')]
        """
        form = form_of(properties=properties, raw=raw)
        view = view_of(self._core, partial=partial, at_least=at_least)
        return self._last("last", filter, start, None, form, view)

    def state_at(
        self,
        time: TimeLike,
        filter: Filters = "#",
        *,
        start: TimeLike | None = None,
        properties: bool = False,
        raw: bool = False,
        partial: bool = False,
        at_least: AtLeastLike | None = None,
    ) -> Scan:
        """Returns what ``last`` would have given at ``time``: later messages do not count.

        Messages with the timestamp ``time`` do count. Messages that were deleted since are missing.
        Messages that were stored later, but have a timestamp up to ``time``, are there.

        Arguments:
            time: a time, in the forms that ``scan`` takes.
            filter: as in ``scan``.
            start: as in ``last``.
            properties: as in ``scan``.
            raw: as in ``scan``.
            partial: as in ``scan``.
            at_least: as in ``scan``.

        Returns:
            A scan with one message for each topic.

        Example:
            >>> db.state_at("2026-01-31T14:02:00Z", "site/#").to_list()
            []
        """
        form = form_of(properties=properties, raw=raw)
        view = view_of(self._core, partial=partial, at_least=at_least)
        return self._last("state_at", filter, start, time, form, view)

    def _last(
        self,
        name: str,
        filter: Filters,
        start: TimeLike | None,
        time: TimeLike | None,
        form: Form,
        view: View,
    ) -> Scan:
        wanted = any_of(filter)
        now = now_us()
        start_us = optional_time_us(start, what="start", now=now)
        at_us = optional_time_us(time, what="time", now=now)
        end_us = None if at_us is None or at_us == TIMESTAMP_MAX else at_us + 1

        def read() -> ScanCursor:
            return opened(self._core, lambda engine: engine.last(wanted, start_us, end_us), view)

        asked = call_text(
            name,
            filter,
            bounds={"time": at_us, "start": start_us},
            form=_other(form),
            **view.options,
        )
        return Scan(read, form, missing=self._missing(filter, view), asked=asked)

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
        at_least: AtLeastLike | None = None,
    ) -> list[Slice]:
        """Returns slices of about ``bytes_max`` bytes that hold each matching message once.

        Slices are for reading with many processes: send each process some slices, which it reads
        with ``scan_slices``. All of them see this moment: later commits are in none. Large slabs
        are cut by commits and times where that divides their messages evenly.

        Arguments:
            filter: as in ``scan``.
            start: as in ``scan``.
            end: as in ``scan``.
            after: {shard: serial}: only commits behind these.
            until: {shard: serial}: only commits up to these.
            bytes_max: about how many bytes a slice has (default 128 MiB).
            partial: as in ``scan``.
            at_least: as in ``scan``.

        Returns:
            The slices, which can be pickled.

        Example:
            >>> [part.layout for part in db.slices("site/#", start="-7d")]
            ['columnar']
        """
        wanted = filter_list(filter)
        view = view_of(self._core, partial=partial, at_least=at_least)
        return reading(self._core, wanted, view).slices(
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
        columns: Sequence[str] | None = None,
        properties: bool = False,
        raw: bool = False,
        at_least: AtLeastLike | None = None,
    ) -> Scan:
        """Returns the messages of ``slices`` that match, each once, in no order.

        Messages that were deleted since, or replaced (layout ``skipstream``), are left out.

        Arguments:
            slices: some of those that ``slices`` has made, here or in another process.
            filter: as in ``scan``; the one that ``slices`` had, or a narrower one.
            columns: as in ``scan``.
            properties: as in ``scan``.
            raw: as in ``scan``.
            at_least: as in ``scan``.

        Returns:
            A scan.

        Raises:
            NotFoundError: a slab was dropped, which the text names. Reading the scan raises it.
            ValueError: this handle was opened before the slices were made: see ``refresh``. Or a
                site that made them has commits that this one has not: see ``at_least``. Reading the
                scan raises it.

        Example:
            >>> db.scan_slices(db.slices("site/#"), "site/#").count()
            2
        """
        form = form_of(properties=properties, raw=raw)
        chosen = checked_columns(columns, form)
        view = view_of(self._core, partial=False, at_least=at_least)
        asked = call_text(
            "scan_slices",
            filter,
            slices=slices,
            columns=chosen,
            form=_other(form),
            **view.options,
        )
        args = (filter_list(filter), slices)

        def read(columns: Sequence[str] | None) -> ScanCursor:
            return read_columns(view.of(self._core), "scan_slices", args, columns)

        return Scan(
            functools.partial(read, chosen),
            form,
            functools.partial(read, [] if reads_columns(self._core, "scan_slices") else None),
            asked=asked,
            about=lambda: sum(part.messages for part in slices),
            columns=chosen,
        )

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
        at_least: AtLeastLike | None = None,
    ) -> Tail:
        """Returns messages in commit order: those that are stored, and those that follow.

        Arguments:
            filter: as in ``scan``.
            after: {shard: serial}, as in ``Receipt.serials`` and ``Tail.serials``; commits up to
                these are left out.
            until: {shard: serial}; later commits are left out. Once all shards are read up to
                there, iteration ends.
            given: saved iterators; what they have given is left out, as in ``subscribe``.
            timeout: iteration ends when no message comes for this many seconds; 0: at the end of
                what is stored; None: it waits for ever.
            properties: as in ``scan``.
            raw: as in ``scan``.
            partial: leaves out the shards that are missing when the tail begins
                (``Tail.missing_shards``). By default a missing shard that may have such messages
                raises MissingShardError.
            at_least: as in ``scan``.

        Returns:
            The tail. Iterate it for messages.

        Raises:
            ValueError: ``after`` names a shard that the database does not have.
            SchemaError: the tail would read a generation of the layout ``skipstream``, which keeps
                no commit log; the text names it. That is: the tail would begin there, messages that
                match go there now, or an iterator of ``given`` has messages to give there.
                Iteration raises it if the tail comes to such a generation later.
            NotFoundError: a generation was merged, or dropped with messages that an iterator of
                ``given`` had still to give.

        Example:
            >>> receipt = db.append([("metrics/h1/cpu", None, b"43")])
            >>> db.append([("metrics/h1/cpu", None, b"44")]).count
            1
            >>> with db.tail("metrics/#", after=receipt.serials, timeout=0) as tail:
            ...     [message.value for message in tail]
            [b'44']
        """
        form = form_of(properties=properties, raw=raw)
        wanted = filter_list(filter)
        serials = dict(after or {}), dict(until or {})
        iterators = iterators_of(given)
        view = view_of(self._core, partial=partial, at_least=at_least)
        core = opened(self._core, lambda engine: engine.tail(wanted, *serials, iterators), view)
        return Tail(core, timeout_us(timeout), form)


def _other(form: Form) -> str | None:
    """Returns the form, for ``repr``, unless it is that of most reads."""
    return None if form == "payload" else form
