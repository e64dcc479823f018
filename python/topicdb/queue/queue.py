"""The buffer queue: what producers append is popped, and once acknowledged it is gone."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

from topicdb import _core
from topicdb._core import QueueBudget
from topicdb.closing import Closing
from topicdb.creating import checked_path, directories_for
from topicdb.times import timeout_us
from topicdb.types import BytesLike, Durability

Mode: TypeAlias = Literal["memory", "disk", "offload", "volatile"]
Overflow: TypeAlias = Literal["drop_oldest", "reject", "block"]
Rule: TypeAlias = Literal["at_most", "at_least"]
Seconds: TypeAlias = "float | timedelta"

DEFAULT_CURSOR = "default"


@dataclass(frozen=True, slots=True)
class QueueReceipt:
    """What an append reached.

    ``sequences`` are the numbers of its items, in order; ``durability`` the level that was
    reached: ``"none"``, ``"os"`` or ``"disk"``.
    """

    sequences: range
    durability: str

    @property
    def count(self) -> int:
        return len(self.sequences)


class Ref:
    """Stands for the items of one ``pop``, to be given to ``ack`` or ``nack``. Immutable."""

    __slots__ = ("_cursor", "_ranges")

    def __init__(self, cursor: _core.QueueCursor, ranges: tuple[tuple[int, int], ...]) -> None:
        self._cursor = cursor
        self._ranges = ranges

    @property
    def sequences(self) -> list[int]:
        """The numbers of the items, in their order."""
        return [number for first, count in self._ranges for number in range(first, first + count)]

    def __repr__(self) -> str:
        parts = ", ".join(f"{first}..{first + count - 1}" for first, count in self._ranges)
        return f"<topicdb.Ref {self._cursor.name}: {parts}>"


class Popped(NamedTuple):
    """What ``pop`` gives: items, and what acknowledges them; without items, no ``ref``."""

    items: list[bytes]
    ref: Ref | None


class Drop(NamedTuple):
    """Items that a cursor will not deliver.

    ``reason``: ``"overflow"`` (no room), ``"memory"`` (the system is short of it), ``"purge"``, or
    ``"damage"`` (they cannot be read). ``bytes`` are as stored, with headers; 0 if not known.
    """

    reason: str
    cursor: str
    sequences: range
    bytes: int


class Damage(NamedTuple):
    """Something that was found damaged on disk, and the items that were lost by it."""

    path: str
    what: str
    sequences: range


@dataclass(frozen=True, slots=True)
class CursorStats:
    """How far a cursor is. ``bytes`` are as stored, of what is waiting and in flight."""

    name: str
    waiting: int
    in_flight: int
    bytes: int
    next_sequence: int
    low_water: int
    dropped_items: dict[str, int]
    dropped_bytes: dict[str, int]


@dataclass(frozen=True, slots=True)
class QueueStats:
    """``bytes`` is what counts against ``max_total_bytes``: of the slowest cursor."""

    next_sequence: int
    segments: int
    disk_bytes: int
    bytes: int
    on_disk: bool
    cursors: dict[str, CursorStats]
    damage: list[Damage]


class Consumer:
    """What a queue and its other cursors can do alike. Thread-safe.

    Errors: ClosedError; NotFoundError once the cursor is removed; ForkedError; StorageError if the
    disk cannot be read.
    """

    def __init__(self, core: _core.QueueCursor) -> None:
        self._core = core

    def pop(
        self,
        count: int = 1000,
        bytes: int = 2_000_000,
        rule: Rule = "at_most",
        stop_before: Callable[[_bytes], bool] | None = None,
        *,
        timeout: Seconds | None = 0,
    ) -> Popped:
        """Takes the oldest items: those first that came back, then new ones in their order.

        At most ``count`` of them, and by ``rule`` at most ``bytes`` (but one in any case) or at
        least so many. ``stop_before(item)`` is asked about each in turn: when it says true, that
        item and those behind it stay. If there is none, waits up to ``timeout`` seconds (None: for
        ever). They are in flight until ``ack`` or ``nack``, and come again when the queue is
        opened anew.
        """
        if rule not in ("at_most", "at_least"):
            raise ValueError(f"rule: expected 'at_most' or 'at_least', got {rule!r}")
        if count < 1 or bytes < 1:
            raise ValueError(f"count and bytes must be at least 1, got {count} and {bytes}")
        items, ranges = self._core.pop(
            count, bytes, rule == "at_least", stop_before, timeout_us(timeout)
        )
        return Popped(items, Ref(self._core, ranges) if ranges else None)

    async def pop_await(
        self,
        count: int = 1000,
        bytes: int = 2_000_000,
        rule: Rule = "at_most",
        stop_before: Callable[[_bytes], bool] | None = None,
        *,
        timeout: Seconds | None = 0,
    ) -> Popped:
        """As ``pop``, for asyncio. A task that is cancelled gives back what it would have got."""
        loop = asyncio.get_running_loop()
        call = partial(self.pop, count, bytes, rule, stop_before, timeout=timeout)
        future = loop.run_in_executor(None, call)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            future.add_done_callback(self._give_back)
            raise

    def _give_back(self, future: asyncio.Future[Popped]) -> None:
        if not future.cancelled() and future.exception() is None:
            self.nack(future.result().ref)

    def ack(self, ref: Ref | None) -> None:
        """These items are done. In any order; may be repeated; None is no item."""
        if ref is not None:
            self._core.ack(self._ranges_of(ref))

    def nack(self, ref: Ref | None) -> None:
        """These items are to be popped again, before newer ones."""
        if ref is not None:
            self._core.nack(self._ranges_of(ref))

    def _ranges_of(self, ref: Ref) -> tuple[tuple[int, int], ...]:
        if ref._cursor.id != self._core.id:
            raise ValueError(f"{ref!r} was popped from another cursor, or before a reopening")
        return ref._ranges

    def peek(self) -> _bytes | None:
        """What ``pop`` would give first; None if there is nothing."""
        return self._core.peek()

    def __len__(self) -> int:
        """Items that wait: stored, not in flight, not acknowledged."""
        waiting: int = self._core.stats()["waiting"]
        return waiting

    def __bool__(self) -> bool:
        return True  # an empty queue is a queue

    def __iter__(self) -> Iterator[_bytes]:
        """Items until none waits. Each is acknowledged when the next is asked for, so the one at
        which a loop breaks off, or fails, comes again.
        """
        while (popped := self.pop(1)).ref is not None:
            try:
                yield popped.items[0]
            except BaseException:
                self.nack(popped.ref)
                raise
            self.ack(popped.ref)


class Cursor(Consumer):
    """A consumer of a queue, or a group of them: each item is handed out once, and again if it is
    not acknowledged. Made by ``Queue.cursor``.
    """

    @property
    def name(self) -> str:
        return self._core.name

    def stats(self) -> CursorStats:
        return CursorStats(**self._core.stats())

    def __repr__(self) -> str:
        return f"<topicdb.Cursor {self.name!r}>"


class Queue(Consumer, Closing):
    """A buffer queue of byte strings. Thread-safe; use it in ``with``.

    Its own ``pop``, ``ack``, … are those of the cursor ``"default"``.
    """

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        mode: Mode = "disk",
        format: Literal["topicdb", "replayq"] | None = None,
        segment_bytes: int = 10 << 20,
        max_total_bytes: int = 2_000_000_000,
        item_bytes_max: int = 268_435_455,
        overflow: Overflow = "drop_oldest",
        block_timeout: Seconds | None = None,
        durability: Durability = "os",
        flush_interval: Seconds = 0.1,
        sync_interval: Seconds | None = None,
        budget: QueueBudget | None = None,
        drop_if_highmem: bool | Callable[[], bool] = False,
        on_drop: Callable[[Drop], object] | None = None,
        directory_mode: int | None = None,
    ) -> Queue:
        """Opens the queue in directory ``path``, or makes it.

        - ``mode``: ``"disk"``; ``"memory"`` (no path); ``"offload"`` (in memory until there are
          more than ``segment_bytes``, and on disk when it is closed); ``"volatile"`` (as offload,
          but what is there is deleted when it is opened, and when it is closed).
        - ``format``: ``"replayq"`` keeps the files of EMQX's replayq, which can open them; a
          directory of replayq's is recognized. It has one cursor and keeps acknowledgements in
          order only. For mode ``"disk"``.
        - ``max_total_bytes``: limit of what one cursor has not acknowledged, with headers.
          ``budget``: one that several queues share.
        - ``overflow``: what an append does that would exceed them: ``"drop_oldest"`` (never what
          is in flight), ``"reject"`` (QuotaError), ``"block"`` (waits up to ``block_timeout``
          seconds, then QuotaError).
        - ``durability`` of appends: ``"none"`` (written within ``flush_interval`` seconds),
          ``"os"`` (survives kill -9), ``"disk"`` (fsynced). ``sync_interval``: fsyncs as often.
        - ``drop_if_highmem``: while the system is short of memory (or the function says so), an
          append drops as many bytes of the oldest items as it adds.
        - ``on_drop``: called with each ``Drop``, by the thread that it happens in.
        - ``directory_mode``: permissions of the directory when this makes it, as ``topicdb.open``.

        Raises ValueError for an option, LockedError if it is open elsewhere, CorruptionError for a
        directory that is no queue; StorageError. Damage to single files does not prevent opening:
        ``stats().damage`` tells it.
        """
        tell = None if on_drop is None else _teller(on_drop)
        where = "" if path is None else checked_path(path)
        open_core = partial(
            _core.Queue,
            where,
            mode=mode,
            format=format,
            segment_bytes=_size("segment_bytes", segment_bytes),
            max_total_bytes=_size("max_total_bytes", max_total_bytes),
            item_bytes_max=_size("item_bytes_max", item_bytes_max),
            overflow=overflow,
            block_timeout_us=timeout_us(block_timeout, what="block_timeout"),
            durability=durability,
            flush_interval_us=timeout_us(flush_interval, what="flush_interval") or 0,
            sync_interval_us=timeout_us(sync_interval, what="sync_interval"),
            budget=budget,
            memory_is_high=drop_if_highmem,
            on_drop=tell,
        )
        if path is None:
            return cls(open_core(), max_total_bytes)
        with directories_for(where, directory_mode):
            return cls(open_core(), max_total_bytes)

    def __init__(self, core: _core.Queue, max_total_bytes: int) -> None:
        super().__init__(core.cursor(DEFAULT_CURSOR, False))
        self._queue = core
        self._max_total_bytes = max_total_bytes

    @property
    def path(self) -> str | None:
        return self._queue.path or None

    @property
    def closed(self) -> bool:
        return self._queue.closed

    def append(
        self, items: Iterable[BytesLike], *, durability: Durability | None = None
    ) -> QueueReceipt:
        """Adds items: all of them or none.

        Raises TypeError and ValueError naming the item, QuotaError if there is no room,
        StorageError; then nothing was added.
        """
        return self._queue.append(items, durability)

    async def append_await(
        self, items: Iterable[BytesLike], *, durability: Durability | None = None
    ) -> QueueReceipt:
        """As ``append``, for asyncio. A task that is cancelled does not take its items back."""
        call = partial(self.append, tuple(items), durability=durability)
        return await asyncio.get_running_loop().run_in_executor(None, call)

    def cursor(self, name: str, *, start: Literal["oldest", "newest"] = "oldest") -> Cursor:
        """The cursor of that name; a new one starts with the oldest item stored, or behind the
        newest. Each cursor gets every item, and an item is kept until all have acknowledged it.
        """
        if start not in ("oldest", "newest"):
            raise ValueError(f"start: expected 'oldest' or 'newest', got {start!r}")
        return Cursor(self._queue.cursor(name, start == "newest"))

    def remove_cursor(self, name: str) -> None:
        """What only this cursor still needed is gone. NotFoundError if there is none."""
        self._queue.remove_cursor(name)

    @property
    def bytes(self) -> int:
        """Stored bytes that the slowest cursor has not acknowledged, with headers."""
        stored: int = self._queue.stats()["bytes"]
        return stored

    @property
    def overflow(self) -> int:
        """``bytes`` beyond ``max_total_bytes``; negative while there is room."""
        return self.bytes - self._max_total_bytes

    def flush(self) -> None:
        """Everything appended and acknowledged is safe from loss of power afterwards."""
        self._queue.flush()

    def purge(self) -> None:
        """Drops everything, for all cursors, also what is in flight. Numbers go on."""
        self._queue.purge()

    def stats(self) -> QueueStats:
        stats = self._queue.stats()
        stats["cursors"] = {cursor["name"]: CursorStats(**cursor) for cursor in stats["cursors"]}
        return QueueStats(**stats)

    def close(self) -> None:
        """Saves what is to be kept, and waits for calls in flight. May be repeated."""
        self._queue.close()

    def __repr__(self) -> str:
        state = " (closed)" if self.closed else ""
        return f"<topicdb.Queue {self.path or 'in memory'}{state}>"


_bytes: TypeAlias = bytes  # Queue has a property of that name


def _size(option: str, value: int) -> int:
    if value < 1:
        raise ValueError(f"{option} must be at least 1, got {value}")
    return value


def _teller(on_drop: Callable[[Drop], Any]) -> Callable[[str, str, int, int, int], None]:
    def tell(reason: str, cursor: str, first: int, count: int, stored: int) -> None:
        on_drop(Drop(reason, cursor, range(first, first + count), stored))

    return tell
