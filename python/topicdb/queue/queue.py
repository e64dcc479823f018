"""The buffer queue: producers append items, consumers pop them and acknowledge them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal, TypeAlias

from topicdb import _core
from topicdb._core import QueueBudget
from topicdb.arguments.times import timeout_us
from topicdb.closing import Closing
from topicdb.creating import directories_for, settled_path
from topicdb.queue.awaiting import Awaiting
from topicdb.queue.codecs import Codec, CodecLike, codec_of
from topicdb.queue.consumer import DEFAULT_CURSOR, Consumer, Cursor, Seconds
from topicdb.queue.items import ONE_ITEM, Packing, Sizer
from topicdb.queue.records import CursorStats, Drop, QueueReceipt, QueueStats
from topicdb.types import Durability

Mode: TypeAlias = Literal["memory", "disk", "offload", "volatile"]
Overflow: TypeAlias = Literal["drop_oldest", "reject", "block"]


class Queue(Consumer, Closing):
    """A buffer queue of byte strings, or of what a codec makes of them; made by ``Queue.open``.

    Its own ``pop``, ``ack`` and so on are those of the cursor ``"default"``. Close the queue, best
    by ``with``. A forked child must not use it. Thread-safe.

    Example:
        >>> with topicdb.Queue.open("out.q") as queue:
        ...     receipt = queue.append([b"first", b"second"])
        ...     items, ref = queue.pop()
        ...     queue.ack(ref)
        ...     items
        [b'first', b'second']
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
        codec: CodecLike | None = None,
        sizer: Sizer | None = None,
        drop_if_highmem: bool | Callable[[], bool] = False,
        on_drop: Callable[[Drop], object] | None = None,
        directory_mode: int | None = None,
    ) -> Queue:
        """Opens the queue in directory ``path``, or makes it.

        Arguments:
            path: the directory; None with ``mode="memory"``.
            mode: ``"disk"``; ``"memory"`` (no path); ``"offload"`` (in memory until there are more
                than ``segment_bytes``, and on disk when it is closed); ``"volatile"`` (as offload,
                but what is there is deleted when it is opened, and when it is closed).
            format: ``"replayq"`` keeps the files of EMQX's replayq, which can open them. It has one
                cursor and keeps acknowledgements in order only. For mode ``"disk"``. None: the
                format of the directory, or TopicDB's own for a new one.
            segment_bytes: a segment file is closed at this many bytes, at least 256 (default 10
                MiB).
            max_total_bytes: the most bytes that one cursor may have and not acknowledge.
            item_bytes_max: a longer item is refused; the default is MQTT's longest payload.
            overflow: what an append does that would exceed a limit. ``"drop_oldest"`` takes it, and
                drops the oldest items, at last its own; but never its newest item, nor items in
                flight. ``"reject"`` raises QuotaError. ``"block"`` waits up to ``block_timeout``,
                and then raises QuotaError.
            block_timeout: how many seconds ``"block"`` waits; None: for ever.
            durability: of appends that name none: ``"none"`` (written within ``flush_interval``),
                ``"os"`` (survives kill -9), ``"disk"`` (fsynced).
            flush_interval: after how many seconds items of ``"none"`` and acknowledgements are
                handed to the operating system.
            sync_interval: after how many seconds items are fsynced; None: only for ``"disk"``.
            budget: a limit that several queues share.
            codec: turns items into bytes and back: ``"json"``, a pair of functions (encode,
                decode), or an object with these methods. It is not stored: if you open the queue
                without one, you get bytes. None: items are bytes.
            sizer: is called with each item that is appended, and returns what it counts for the
                limits of the queue (``max_total_bytes``, ``budget``, ``bytes`` of a ``pop``, and
                what an ``"offload"`` queue keeps in memory), from 0 to 2**40. The number is stored
                with the item. None: its stored bytes, with headers. Not for format ``"replayq"``.
            drop_if_highmem: while the system is short of memory (less than a fifth is available, or
                the function says so), an append drops as many bytes of the oldest items as it adds,
                but never its newest item.
            on_drop: is called with each ``Drop``, by the thread in which it happens.
            directory_mode: permissions of the directory when this call makes it, as in
                ``topicdb.open``.

        Returns:
            The queue. Damage to single files does not prevent opening: ``stats().damage`` lists it.

        Raises:
            ValueError: a bad option.
            LockedError: the queue is open elsewhere.
            CorruptionError: the directory is no queue.
            SchemaError: a newer TopicDB wrote it.
            StorageError: the file system failed.

        Example:
            >>> with topicdb.Queue.open("jobs.q", codec="json", overflow="reject") as queue:
            ...     queue.append([{"id": 7}]).count
            1
        """
        found = codec_of(codec)
        packing = Packing(found, sizer)
        tell = None if on_drop is None else _teller(on_drop)
        where = "" if path is None else settled_path(path)
        open_core = partial(
            _core.Queue,
            where,
            mode=mode,
            format=format,
            segment_bytes=_size("segment_bytes", segment_bytes),
            max_total_bytes=_size("max_total_bytes", max_total_bytes),
            item_bytes_max=_size("item_bytes_max", item_bytes_max),
            weighed=packing.weighs,
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
            return cls(open_core(), max_total_bytes, packing, found)
        with directories_for(where, directory_mode):
            return cls(open_core(), max_total_bytes, packing, found)

    def __init__(
        self, core: _core.Queue, max_total_bytes: int, packing: Packing, codec: Codec | None
    ) -> None:
        super().__init__(core.cursor(DEFAULT_CURSOR, False), Awaiting(), codec)
        self._queue = core
        self._max_total_bytes = max_total_bytes
        self._packing = packing

    @property
    def path(self) -> str | None:
        """The directory of the queue; None in memory."""
        return self._queue.path or None

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._queue.closed

    def append(self, items: Iterable[Any], *, durability: Durability | None = None) -> QueueReceipt:
        """Adds items: all of them or none.

        With ``overflow="drop_oldest"`` it may drop older items. If you append more than the queue
        may hold, it also drops some of these, but not the newest; ``on_drop`` gets their numbers.

        Arguments:
            items: bytes-like, or what the ``codec`` encodes.
            durability: ``"none"``, ``"os"`` or ``"disk"``; None: that of ``open``.

        Returns:
            The numbers of the items, and the durability that was reached.

        Raises:
            TypeError, ValueError, CodecError: an item is malformed; the text names it.
            QuotaError: there is no room.
            StorageError: the file system failed. What the ``sizer`` raises comes through, too.
                After each of these errors nothing was added.
        """
        packed, weights = self._packing.pack(items)
        try:
            return self._queue.append(packed, durability, weights)
        finally:
            self._awaiting.wake()

    async def append_await(
        self, items: Iterable[Any], *, durability: Durability | None = None
    ) -> QueueReceipt:
        """Appends like ``append``, for asyncio.

        A task that is cancelled does not take its items back. At most 32 calls wait at a time, for
        room or for the disk; further ones begin when one of these has ended.

        Arguments:
            items: as in ``append``.
            durability: as in ``append``.

        Returns:
            The numbers of the items, and the durability that was reached.
        """
        held = items if isinstance(items, ONE_ITEM) else tuple(items)
        call = partial(self.append, held, durability=durability)
        return await self._awaiting.append(call)

    def cursor(self, name: str, *, start: Literal["oldest", "newest"] = "oldest") -> Cursor:
        """Returns the cursor of this name, and makes it if there is none.

        Each cursor gets every item, and an item is kept until all cursors have acknowledged it.

        Arguments:
            name: 1 to 64 letters, digits, ``_``, ``-`` and ``.``; not ``.`` at the beginning.
            start: where a new cursor begins: with the ``"oldest"`` stored item, or behind the
                ``"newest"``.

        Returns:
            The cursor.

        Example:
            >>> with topicdb.Queue.open("out.q") as queue:
            ...     audit = queue.cursor("audit")
            ...     receipt = queue.append([b"first"])
            ...     queue.pop().items, audit.pop().items
            ([b'first'], [b'first'])
        """
        if start not in ("oldest", "newest"):
            raise ValueError(f"start: expected 'oldest' or 'newest', got {start!r}")
        core = self._queue.cursor(name, start == "newest")
        return Cursor(core, self._awaiting, self._codec)

    def remove_cursor(self, name: str) -> None:
        """Removes a cursor, and the items that only it still needed.

        Arguments:
            name: of the cursor.

        Raises:
            NotFoundError: there is no such cursor.
            ValueError: it is the cursor ``"default"``.
        """
        try:
            self._queue.remove_cursor(name)
        finally:
            self._awaiting.wake()  # calls that wait for its items raise NotFoundError

    @property
    def bytes(self) -> int:
        """What the items count that the slowest cursor has not acknowledged.

        Each counts its stored bytes, with headers, or what the ``sizer`` said when it was appended.
        """
        stored: int = self._queue.stats()["bytes"]
        return stored

    @property
    def overflow(self) -> int:
        """By how many bytes ``bytes`` exceeds ``max_total_bytes``; negative while there is room."""
        return self.bytes - self._max_total_bytes

    def flush(self) -> None:
        """Makes everything that was appended and acknowledged safe from loss of power."""
        self._queue.flush()

    def purge(self) -> None:
        """Drops all items for all cursors, including those in flight.

        Their numbers are not used again.
        """
        self._queue.purge()

    def stats(self) -> QueueStats:
        """Returns how the queue and its cursors stand."""
        stats = self._queue.stats()
        stats["cursors"] = {cursor["name"]: CursorStats(**cursor) for cursor in stats["cursors"]}
        return QueueStats(**stats)

    def close(self) -> None:
        """Waits for calls in flight, and saves what its mode keeps. May be repeated.

        Calls that wait for items or room raise ClosedError.
        """
        try:
            self._queue.close()
        finally:
            self._awaiting.close()

    def __repr__(self) -> str:
        state = " (closed)" if self.closed else ""
        return f"<topicdb.Queue {self.path or 'in memory'}{state}>"


def _size(option: str, value: int) -> int:
    if value < 1:
        raise ValueError(f"{option} must be at least 1, got {value}")
    return value


def _teller(on_drop: Callable[[Drop], Any]) -> Callable[[str, str, int, int, int], None]:
    def tell(reason: str, cursor: str, first: int, count: int, stored: int) -> None:
        on_drop(Drop(reason, cursor, range(first, first + count), stored))

    return tell
