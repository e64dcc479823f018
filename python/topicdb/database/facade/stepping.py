"""The methods of a Database that read stream by stream and step by step."""

from __future__ import annotations

from datetime import timedelta
from typing import overload

from topicdb._core import Iterator, ScanIterator, Stream
from topicdb.arguments.filters import Filters, any_of, one_filter
from topicdb.arguments.forms import form_of
from topicdb.arguments.times import (
    TimeLike,
    time_range_us,
    timeout_us,
)
from topicdb.arguments.wrong_types import wrong_type
from topicdb.cursor.scan import BATCH_BYTES_MAX, check_batch_limits
from topicdb.cursor.stream_watch import StreamWatch
from topicdb.database.view import reading, view_of
from topicdb.engine import Engine
from topicdb.follow.losses import LossError, OnLoss, Reporter
from topicdb.frames.shown import Listing, Structures
from topicdb.types import AtLeastLike, Page, ScanPage


class Stepping:
    """Methods of Database that use its engine (``_core``)."""

    _core: Engine

    def streams(
        self,
        filter: Filters = "#",
        *,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        generation_min: int | None = None,
        partial: bool = False,
        at_least: AtLeastLike | None = None,
    ) -> list[Stream]:
        """Returns the streams that may hold messages that match.

        They are in the order in which you should read them: by shard, then an older generation
        before a newer one, then by structure.

        Arguments:
            filter: as in ``scan``.
            start: as in ``scan``.
            end: as in ``scan``.
            generation_min: leaves out streams of earlier generations; None: leaves out none. A
                class counts its generations from 1, in each shard. So a reader that has read the
                streams of a generation to their end looks only at what came later, however many
                generations there are.
            partial: as in ``scan``.
            at_least: as in ``scan``.

        Returns:
            The streams.

        Raises:
            ValueError: ``generation_min`` is negative.

        Example:
            >>> [stream.structure for stream in db.streams("metrics/#")]
            ['metrics/h1/cpu']
        """
        wanted = any_of(filter)
        view = view_of(self._core, partial=partial, at_least=at_least)
        engine = reading(self._core, wanted, view)
        return Listing(engine.streams(wanted, *time_range_us(start, end), generation_min))

    def iterator(
        self,
        stream: Stream,
        filter: str = "#",
        *,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        at_least: AtLeastLike | None = None,
    ) -> Iterator:
        """Returns an iterator at the first message of ``stream`` from ``start`` on.

        To continue after a restart, store its ``bytes()`` and use ``Iterator.from_bytes``.

        Arguments:
            stream: one of ``streams``.
            filter: one topic filter.
            start: as in ``scan``.
            end: as in ``scan``.
            at_least: as in ``scan``.

        Returns:
            The iterator, for ``next``.

        Example:
            >>> iterator = db.iterator(db.streams("metrics/#")[0], "metrics/#")
            >>> page = db.next(iterator, 100)
            >>> len(page.batch), topicdb.Iterator.from_bytes(bytes(page.iterator)) == page.iterator
            (1, True)
        """
        one_filter(filter)
        view = view_of(self._core, partial=False, at_least=at_least)
        return view.of(self._core).iterator(stream, filter, *time_range_us(start, end))

    def scan_iterator(
        self,
        filter: Filters = "#",
        *,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        partial: bool = False,
        at_least: AtLeastLike | None = None,
    ) -> ScanIterator:
        """Returns an iterator at the start of a scan that ``next`` reads step by step.

        The scan gives what ``scan`` would give at this moment, in the same order, each message
        once, however long it takes. It leaves out later commits. It also leaves out what was
        deleted, or replaced (layout ``skipstream``), before it comes there. All of its state is in
        the iterator: store its ``bytes()``, and another process can go on with
        ``ScanIterator.from_bytes``.

        Arguments:
            filter: as in ``scan``.
            start: as in ``scan``.
            end: as in ``scan``.
            partial: as in ``scan``, for the shards that are missing now. The scan does not come
                back to them.
            at_least: as in ``scan``.

        Returns:
            The iterator. Its ``serials`` have the last commit of each shard that is part of the
            scan: ``tail(after=…)`` goes on behind it.

        Example:
            >>> at = db.scan_iterator("site/#", start="-24h")
            >>> while not at.at_end:
            ...     page = db.next(at, 10_000)
            ...     print(len(page.batch))
            ...     at = page.iterator
            2
        """
        wanted = any_of(filter)
        view = view_of(self._core, partial=partial, at_least=at_least)
        engine = reading(self._core, wanted, view)
        return engine.scan_iterator(wanted, *time_range_us(start, end))

    @overload
    def next(
        self,
        iterator: Iterator,
        rows: int = ...,
        *,
        properties: bool = ...,
        raw: bool = ...,
        at_least: AtLeastLike | None = ...,
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
        at_least: AtLeastLike | None = ...,
    ) -> ScanPage: ...

    def next(
        self,
        iterator: Iterator | ScanIterator,
        rows: int = 1_000,
        *,
        properties: bool = False,
        raw: bool = False,
        on_loss: OnLoss = "report",
        at_least: AtLeastLike | None = None,
    ) -> Page | ScanPage:
        """Returns at most ``rows`` messages from ``iterator`` on, and the iterator behind them.

        Arguments:
            iterator: of ``iterator`` or ``scan_iterator``, or of an earlier page.
            rows: the most messages, at least 1.
            properties: as in ``scan``.
            raw: as in ``scan``.
            on_loss: as in ``consumer``. A scan has a loss where a generation was dropped with
                messages that it had still to give. The page then has no messages, and its iterator
                continues behind them; LossError has that iterator, too.
            at_least: as in ``scan``. ``iterator.serials`` of a scan that began at another site lets
                it wait until this one has all of the scan.

        Returns:
            A ``Page`` for an iterator of a stream, a ``ScanPage`` for one of a scan.

        Raises:
            NotFoundError: the iterator is of another database, the generation of its stream was
                dropped, or ``keep_last`` has merged the generation that a scan was reading with
                others.
            MissingShardError: a shard is missing that it has yet to read.
            ValueError: this handle was opened before the commits of the scan: see ``refresh``. Or
                this site has not come to them: see ``at_least``.

        Example:
            >>> page = db.next(db.scan_iterator("#"), 2)
            >>> len(page.batch), page.end_of_scan
            (2, False)
        """
        form = form_of(properties=properties, raw=raw)
        check_batch_limits(rows, BATCH_BYTES_MAX)
        report = Reporter("a scan", on_loss)
        if not isinstance(iterator, Iterator | ScanIterator):
            raise wrong_type("iterator", "Iterator or ScanIterator", iterator)
        engine = view_of(self._core, partial=False, at_least=at_least).of(self._core)
        if isinstance(iterator, Iterator):
            page = engine.next(iterator, rows, BATCH_BYTES_MAX)
            return Page(page.iterator, page.batch.read_as(form), page.end_of_stream)
        step = engine.next_of_scan(iterator, rows, BATCH_BYTES_MAX)
        if step.loss is not None:
            try:
                report(step.loss)
            except LossError as error:
                error.iterator = step.iterator
                raise
        return ScanPage(step.iterator, step.batch.read_as(form), step.end_of_scan)

    def watch_streams(
        self,
        filter: str = "#",
        *,
        existing: bool = False,
        timeout: float | timedelta | None = None,
        partial: bool = False,
        at_least: AtLeastLike | None = None,
    ) -> StreamWatch:
        """Returns new streams that may hold topics of ``filter``, as they come to be.

        Arguments:
            filter: one topic filter.
            existing: first gives the streams that are there.
            timeout: iteration ends when no stream comes for this many seconds; 0: at the end of
                those that are there; None: it waits for ever.
            partial: as in ``scan``. Streams of a shard that comes back are new ones.
            at_least: as in ``scan``.

        Returns:
            The watch. Iterate it for streams.

        Example:
            >>> with db.watch_streams("metrics/#", existing=True, timeout=0) as watch:
            ...     [stream.structure for stream in watch]
            ['metrics/h1/cpu']
        """
        one_filter(filter)
        view = view_of(self._core, partial=partial, at_least=at_least)
        engine = reading(self._core, filter, view)
        return StreamWatch(engine.watch_streams(filter, existing), timeout_us(timeout))

    def structures(
        self,
        filter: Filters = "#",
        *,
        partial: bool = False,
        at_least: AtLeastLike | None = None,
    ) -> dict[str, list[Stream]]:
        """Returns the learned topic structures that ``filter`` may find, each with its streams.

        Arguments:
            filter: as in ``scan``.
            partial: as in ``scan``.
            at_least: as in ``scan``.

        Returns:
            The streams by structure.

        Example:
            >>> sorted(db.structures("site/#"))
            ['site/north/pump/1', 'site/north/pump/2']
        """
        found: dict[str, list[Stream]] = {}
        for stream in self.streams(filter, partial=partial, at_least=at_least):
            found.setdefault(stream.structure, []).append(stream)
        return Structures(sorted(found.items()))
