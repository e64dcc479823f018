"""The database handle: one directory of messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from threading import Lock
from typing import Any, Literal, TypeVar, overload
from weakref import WeakValueDictionary

from topicdb import _core
from topicdb._core import Iterator, Stream
from topicdb.arguments import check_id, has_arrow
from topicdb.closing import Closing
from topicdb.database.clocks import tell_of_clock
from topicdb.database.snapshots import Snapshots
from topicdb.database.verifying import Verifying
from topicdb.engine import AppendQueue, Engine
from topicdb.filters import Filters, any_of, filter_list, one_filter
from topicdb.follow.following import Following
from topicdb.forms import Form, form_of
from topicdb.lifecycle.retention import Lifecycle
from topicdb.map import RAW, Codec, Map
from topicdb.parquet.files import ParquetFiles
from topicdb.scan import BATCH_BYTES_MAX, Scan, check_batch_limits
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
from topicdb.transaction import Transaction, transact
from topicdb.types import ArrowArray, ArrowStream, Durability, Page, Receipt, Row, Slice

Result = TypeVar("Result")
Value = TypeVar("Value")
SLICE_BYTES_MAX = 128 << 20


class Database(Lifecycle, Snapshots, Verifying, ParquetFiles, Following, Closing):
    """An open database. Made by ``topicdb.open``; safe to use from many threads."""

    def __init__(self, core: Engine, appends: AppendQueue, quota_bytes: int = 0) -> None:
        self._core = core
        self._appends = appends
        self._quota_bytes = quota_bytes
        self._consumers = WeakValueDictionary()
        self._sessions = WeakValueDictionary()
        self._groups = WeakValueDictionary()
        self._groups_lock = Lock()

    def append(
        self,
        messages: Iterable[Row] | ArrowStream | ArrowArray,
        *,
        durability: Durability | None = None,
        raw: bool = False,
        id: str | None = None,
    ) -> Receipt:
        """Stores messages: all or none of them in each shard, in the order given.

        ``messages``: (topic, timestamp, value) tuples, or Arrow data with the columns ``topic``
        (strings), ``timestamp`` (timestamp with any unit and a zone, or int64 µs; may be null) and
        ``value`` (binary or strings); without a timestamp column all are None. Arrow's strings and
        binary may come in any encoding: views as polars has them, dictionaries, run ends, large
        and fixed size. A timestamp of None is assigned at commit: unique and increasing within a
        shard, also if the clock was set back, of which the log is told then. Values are bytes-like.

        Readers see the values that are given. ``raw``: values are as ``scan(raw=True)`` gives them,
        or ``topicdb.replay.Envelope.encode``: those that are envelopes have properties.

        ``id``: for who may have to append the same once more, as it got no answer. Each shard
        remembers the last 65,536 appends with an id, on disk and with their messages. The same
        messages with the same id are stored only where they are not stored yet, and the receipt is
        that of the first append, with ``repeated`` if there was nothing to store. Text of up to 255
        bytes that nobody else uses, such as ``str(uuid.uuid4())``.

        Raises TopicError, ValueError or TypeError for a bad row, naming it; then nothing is
        written. ValueError: the id was used for other messages. ReadOnlyError, ClosedError,
        ForkedError, StorageError (what happened on disk).
        """
        if id is not None:
            check_id(id)
        if has_arrow(messages):
            receipt = self._core.append_arrow(messages, durability, not raw, id)
        else:
            receipt = self._core.append_rows(messages, durability, not raw, id)
        tell_of_clock(self._core)
        return receipt

    def find_append(self, id: str) -> Receipt | None:
        """The receipt of the append that had this ``id``; None if no shard remembers it.

        ``serials``: of the shards that have it, ``count``: of all of its messages. ReadOnlyError:
        only a handle that writes knows.
        """
        check_id(id)
        return self._core.find_append(id)

    def append_async(
        self,
        messages: Iterable[Row] | ArrowStream | ArrowArray,
        *,
        durability: Durability | None = None,
        raw: bool = False,
        id: str | None = None,
    ) -> Future[Receipt]:
        """As ``append``, but returns once the messages are copied and queued.

        They gather with other appends of a few milliseconds (``flush_interval``), so that many
        small ones cost little. Appends of one thread are stored in their order. Bad rows raise
        here; what happens later is in the future, which cannot be cancelled. While ``max_pending``
        appends wait, it waits too. ``close`` finishes what is queued.
        """
        if id is not None:
            check_id(id)
        tell_of_clock(self._core)
        return self._appends.start(messages, durability, escapes=not raw, id=id)

    async def append_await(
        self,
        messages: Iterable[Row] | ArrowStream | ArrowArray,
        *,
        durability: Durability | None = None,
        raw: bool = False,
        id: str | None = None,
    ) -> Receipt:
        """As ``append``, for asyncio. A task that is cancelled does not take its messages back."""
        future = self.append_async(messages, durability=durability, raw=raw, id=id)
        return await asyncio.wrap_future(future)

    def delete(
        self,
        filter: str,
        *,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        durability: Durability | None = None,
    ) -> Receipt:
        """Removes what matches in ``start`` <= timestamp < ``end``, from all generations.

        In each shard it is one commit: readers see all of it or nothing. Any number of messages is
        removed in bounded memory, and ``count`` of the receipt says how many. The disk space comes
        back as files are compacted; ``drop_slab`` is faster where it will do.
        """
        one_filter(filter)
        return self._core.delete(filter, *time_range_us(start, end), durability)

    def transaction(
        self,
        *,
        key: str | None = None,
        shard: int | None = None,
        generation: int | None = None,
        durability: Durability | None = None,
    ) -> Transaction:
        """Begins a transaction on the shard of ``key``, or on ``shard``. Use it in ``with``.

        ``generation``: reads, deletes and writes only there; otherwise it reads and deletes in all
        and writes to the current one. Raises ValueError for a shard that is not there,
        NotFoundError for such a generation, ReadOnlyError if the shard is not open for writing.

        >>> with db.transaction(key="client-7") as tx:              # doctest: +SKIP
        ...     n = int(tx.get("sessions/client-7/visits") or 0)
        ...     tx.write("sessions/client-7/visits", 0, str(n + 1).encode())
        """
        return Transaction(self._core.begin(self._shard(key, shard), generation, durability))

    def transact(
        self,
        function: Callable[[Transaction], Result],
        *,
        key: str | None = None,
        shard: int | None = None,
        generation: int | None = None,
        durability: Durability | None = None,
        retries: int = 10,
    ) -> Result:
        """Runs ``function(tx)`` in a transaction and returns its result.

        After a ConflictError it is run again, at most ``retries`` times, with a growing random
        pause; so it should change nothing but the transaction (see ``Transaction.on_commit``).
        """
        begin = partial(
            self.transaction, key=key, shard=shard, generation=generation, durability=durability
        )
        return transact(begin, function, retries=retries)

    @overload
    def map(
        self, name: str, *, takeover: bool = False, durability: Durability | None = None
    ) -> Map[bytes]: ...
    @overload
    def map(
        self,
        name: str,
        *,
        codec: tuple[Callable[[Value], bytes], Callable[[bytes], Value]],
        takeover: bool = False,
        durability: Durability | None = None,
    ) -> Map[Value]: ...
    def map(
        self,
        name: str,
        *,
        codec: tuple[Callable[[Any], bytes], Callable[[bytes], Any]] = RAW,
        takeover: bool = False,
        durability: Durability | None = None,
    ) -> Map[Any]:
        """Opens the persistent map ``name``, a dict of str to bytes; makes it if need be.

        ``codec``: (encode, decode) between values and bytes. ConflictError: the map has an owner
        that has not closed it; ``takeover=True`` takes it from there. See ``Map``.
        """
        opened: Map[Any] = Map(self._core, name, Codec(*codec), durability)
        opened._open(takeover=takeover)
        return opened

    def _shard(self, key: str | None, shard: int | None) -> int:
        shards: int = self._core.schema["shards"]
        if key is not None and shard is not None:
            raise ValueError("a transaction takes key= or shard=, not both")
        if key is not None:
            return _core.shard_of(key, shards)
        if shard is None and shards > 1:
            raise ValueError(f"key= or shard= is needed: the database has {shards} shards")
        return shard or 0

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
        return self._last(filter, start, None, form_of(properties=properties, raw=raw))

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
        return self._last(filter, start, time, form_of(properties=properties, raw=raw))

    def _last(
        self, filter: Filters, start: TimeLike | None, time: TimeLike | None, form: Form
    ) -> Scan:
        wanted = any_of(filter)
        now = now_us()
        start_us = optional_time_us(start, what="start", now=now)
        at_us = optional_time_us(time, what="time", now=now)
        end_us = None if at_us is None or at_us == TIMESTAMP_MAX else at_us + 1
        return Scan(partial(self._core.last, wanted, start_us, end_us), form)

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
        after, batch, is_over = self._core.next(iterator, rows, BATCH_BYTES_MAX)
        return Page(after, batch.read_as(form), is_over)

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
        return [
            Slice(*fields)
            for fields in self._core.slices(
                filter_list(filter),
                *time_range_us(start, end),
                dict(after or {}),
                dict(until or {}),
                bytes_max,
            )
        ]

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

    def stats(self) -> dict[str, Any]:
        """Counts and sizes: messages, bytes, streams, and each shard's serial, clock and memory.

        Of a shard, ``clock`` is the last timestamp that was assigned, and ``clock_ahead`` how far
        that is ahead of the clock (µs), which has stepped back then. ``clock_held`` is by how much
        the clock leapt ahead without being believed yet.

        ``subscriptions``: how many there are, and what was read for them: ``live_reads`` of what
        was just committed, ``catch_up_reads`` of history, ``shared_reads``, those that others had
        done; ``page_bytes``, of what is kept.
        """
        return {**self._core.stats(), "subscriptions": self._core.subscription_stats()}

    def refresh(self) -> None:
        """In a read-only handle: sees what was written since. Elsewhere it does nothing."""
        self._core.refresh()

    def flush(self) -> None:
        """Moves everything written so far to files and fsyncs it."""
        self._core.flush()

    def close(self) -> None:
        """Waits for calls in flight, flushes, releases the locks. May be repeated.

        Running scans, transactions and maps end; queued appends are finished before.
        """
        self._appends.close_engine()

    @property
    def path(self) -> str:
        """Directory of the database."""
        return self._core.path

    @property
    def schema(self) -> dict[str, Any]:
        """The schema as stored: the options of ``open`` that are part of it."""
        return self._core.schema

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._core.closed

    def __repr__(self) -> str:
        return f"<topicdb.Database {self.path!r}{' closed' if self.closed else ''}>"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a Database cannot be pickled: send its path and open it there (in Spark: in the task)"
        )
