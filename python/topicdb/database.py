"""The database handle: one directory of messages."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Literal, Protocol, TypeAlias

from topicdb import _core
from topicdb._core import Iterator, Slab, Stream
from topicdb._types import Page, Receipt
from topicdb.scan import BATCH_BYTES_MAX, Scan
from topicdb.times import TimeLike, duration_us, now_us, optional_time_us, time_us

Durability: TypeAlias = Literal["none", "os", "disk"]
BytesLike: TypeAlias = "bytes | bytearray | memoryview"
Row: TypeAlias = "tuple[str, TimeLike | None, BytesLike]"
KEEP_FOREVER = 0


class ArrowStream(Protocol):
    """Anything with an Arrow C stream: pyarrow.Table, RecordBatchReader, polars.DataFrame, …"""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    """Anything with an Arrow C array: pyarrow.RecordBatch, topicdb.Batch, …"""

    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...


def open(
    path: str | os.PathLike[str],
    *,
    mode: Literal["rw", "r"] = "rw",
    shards: int | None = None,
    layout: Literal["skipstream"] | None = None,
    timestamp_bytes: Literal[0, 8] | None = None,
    structures: Sequence[str] | None = None,
    thresholds: Sequence[int] | None = None,
    retention: Mapping[str, str | timedelta | None] | None = None,
    durability: Durability = "os",
    only_shards: Sequence[int] | None = None,
    cache_bytes: int = 32 << 20,
    write_buffer_bytes: int = 32 << 20,
) -> Database:
    """Opens the database at ``path``, or creates it there (``mode="rw"``) with the given schema.

    The schema is fixed at creation; what is given later must agree with what is stored.

    Schema (``None``: as stored, or the default for a new database):
        shards: number of shards, 1 to 1,024 (default 1). One process writes a shard.
        layout: ``"skipstream"``.
        timestamp_bytes: 8, or 0 for a pure map of topics (every timestamp is then 0).
        structures: hints, such as ``["metrics/+/cpu/#"]``: levels known to vary.
        thresholds: distinct words a level may have before it is taken to vary, by depth; the last
            one repeats (default ``[100, 10]``).
        retention: topic filter to age (``"7d"``, a timedelta, or None for "keep"). The first filter
            that matches a topic decides its retention class; what none matches is kept. Nothing
            goes by itself: call ``rotate`` and ``expire`` on a schedule.
    Settings of this handle:
        durability: the default of ``append``. ``"none"`` survives close, ``"os"`` ``kill -9``,
            ``"disk"`` a power cut.
        only_shards: open these shards only; other processes may write the others.
        cache_bytes, write_buffer_bytes: memory for reads, and for writes before they go to files.

    Raises:
        NotFoundError: ``mode="r"`` and nothing is there. CorruptionError: something else is there,
        or it is damaged. SchemaError: the arguments disagree with what is stored, are malformed, or
        a newer TopicDB wrote it. LockedError: another process (its pid is named) writes it.

    The handle may be used from many threads, not in a forked child. Close it, or use ``with``.
    """
    if mode not in ("rw", "r"):
        raise ValueError(f"mode: expected 'rw' or 'r', got {mode!r}")
    core = _core.Database.open(
        os.fspath(path),
        read_only=mode == "r",
        only_shards=only_shards,
        durability=durability,
        cache_bytes=cache_bytes,
        write_buffer_bytes=write_buffer_bytes,
        shards=shards,
        layout=layout,
        timestamp_bytes=timestamp_bytes,
        structures=structures,
        thresholds=thresholds,
        retention=_retention_classes(retention),
    )
    return Database(core)


def _retention_classes(
    retention: Mapping[str, str | timedelta | None] | None,
) -> list[tuple[str, int]] | None:
    """(filter, age in µs) in the order given; 0 keeps for ever."""
    if retention is None:
        return None
    try:
        return [
            (
                filter,
                KEEP_FOREVER if age is None else duration_us(age, what=f"retention[{filter!r}]"),
            )
            for filter, age in retention.items()
        ]
    except ValueError as error:
        raise _core.SchemaError(str(error)) from None


class Database:
    """An open database. Made by ``topicdb.open``; safe to use from many threads."""

    def __init__(self, core: _core.Database) -> None:
        self._core = core

    def append(
        self,
        messages: Iterable[Row] | ArrowStream | ArrowArray,
        *,
        durability: Durability | None = None,
    ) -> Receipt:
        """Stores messages: all or none of them in each shard, in the order given.

        ``messages``: (topic, timestamp, value) tuples, or Arrow data with the columns ``topic``
        (string), ``timestamp`` (timestamp with any unit and a zone, or int64 µs; may be null) and
        ``value`` (binary or string); without a timestamp column all are None. A timestamp of None
        is assigned at commit: unique and increasing within a shard. Values are bytes-like.

        Raises TopicError, ValueError or TypeError for a bad row, naming it; then nothing is
        written. ReadOnlyError, ClosedError, ForkedError, StorageError (what happened on disk).
        """
        # Not isinstance: for a protocol that costs more than a small append.
        if hasattr(messages, "__arrow_c_stream__") or hasattr(messages, "__arrow_c_array__"):
            return Receipt(*self._core.append_arrow(messages, durability))
        return Receipt(*self._core.append_rows(messages, durability))

    def scan(
        self,
        filter: str = "#",
        *,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        order: Literal["stream", "time"] = "stream",
        streams: Sequence[Stream] | None = None,
    ) -> Scan:
        """Messages whose topic matches ``filter``, ``start`` <= timestamp < ``end``.

        ``order="stream"`` (fastest) reads one stream after the other, each by time, an older
        generation before a newer one. ``order="time"`` merges all of them by timestamp.
        ``streams`` limits it to some of ``Database.streams``.
        """
        if order not in ("stream", "time"):
            raise ValueError(f"order: expected 'stream' or 'time', got {order!r}")
        _core.check_filter(filter)
        start_us, end_us = _time_range(start, end)
        return Scan(self._core, (filter, start_us, end_us, order == "time", streams))

    def streams(
        self, filter: str = "#", *, start: TimeLike | None = None, end: TimeLike | None = None
    ) -> list[Stream]:
        """Streams that may hold matching messages, by shard, class, generation and structure."""
        return self._core.streams(filter, *_time_range(start, end))

    def iterator(
        self,
        stream: Stream,
        filter: str = "#",
        *,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
    ) -> Iterator:
        """Position at the first message of ``stream`` from ``start`` on. Store its ``bytes()``."""
        return self._core.iterator(stream, filter, *_time_range(start, end))

    def next(self, iterator: Iterator, rows: int = 1_000) -> Page:
        """Up to ``rows`` messages from ``iterator`` on, and the iterator to go on with.

        NotFoundError when its generation has been dropped.
        """
        if rows < 1:
            raise ValueError(f"rows must be at least 1, got {rows}")
        return Page(*self._core.next(iterator, rows, BATCH_BYTES_MAX))

    def rotate(self, retention_class: str | None = None) -> None:
        """Starts a new generation in every shard, of one retention class or of all.

        What was the current generation is read-only from then on.
        """
        self._core.rotate(retention_class)

    def slabs(self) -> list[Slab]:
        """Every slab (shard, retention class, generation) with its times, sizes and counts."""
        return self._core.slabs()

    def drop_slab(self, slab: Slab) -> None:
        """Deletes a read-only slab at once. ValueError: it is the current one. NotFoundError."""
        self._core.drop_slab(slab.shard, slab.retention_class, slab.generation)

    def expire(self, now: TimeLike | None = None) -> list[Slab]:
        """Drops what its retention class keeps no longer; returns the slabs that went.

        A slab goes when it was sealed (by ``rotate``) longer ago than the age of its class. So a
        message outlives that age by at most the time between two rotations and two calls.
        """
        return self._core.expire(now_us() if now is None else time_us(now, what="now"))

    def structures(self, filter: str = "#") -> dict[str, list[Stream]]:
        """Learned topic structures that ``filter`` may find, each with its streams."""
        found: dict[str, list[Stream]] = {}
        for stream in self._core.streams(filter, None, None):
            found.setdefault(stream.structure, []).append(stream)
        return dict(sorted(found.items()))

    def stats(self) -> dict[str, Any]:
        """Counts and sizes: messages, bytes, streams, and each shard's serial, clock and memory."""
        return self._core.stats()

    def refresh(self) -> None:
        """In a read-only handle: sees what was written since. Elsewhere it does nothing."""
        self._core.refresh()

    def flush(self) -> None:
        """Moves everything written so far to files and fsyncs it."""
        self._core.flush()

    def close(self) -> None:
        """Waits for calls in flight, flushes, releases the locks. May be repeated."""
        self._core.close()

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

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<topicdb.Database {self.path!r}{' closed' if self.closed else ''}>"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a Database cannot be pickled: send its path and open it there (in Spark: in the task)"
        )


def _time_range(start: TimeLike | None, end: TimeLike | None) -> tuple[int | None, int | None]:
    """Both bounds against one clock reading."""
    now = now_us()
    return optional_time_us(start, what="start", now=now), optional_time_us(
        end, what="end", now=now
    )
