"""Consumers of a queue: what the queue and its cursors have in common, and cursors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Literal, NamedTuple, TypeAlias

from topicdb import _core
from topicdb.arguments.times import timeout_us
from topicdb.queue.awaiting import Awaiting
from topicdb.queue.codecs import Codec, CodecError, Decoding, decoded, undecodable
from topicdb.queue.records import CursorStats

Rule: TypeAlias = Literal["at_most", "at_least"]
Seconds: TypeAlias = "float | timedelta"

DEFAULT_CURSOR = "default"


class Ref:
    """Stands for the items of one ``pop``; made by ``Consumer.pop``. Immutable."""

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
    """The result of ``pop``: items, and the reference that acknowledges them.

    Attributes:
        items: bytes, or what the codec of the queue makes of them.
        ref: for ``ack`` or ``nack``; None if there are no items.
    """

    items: list[Any]
    ref: Ref | None


class Consumer:
    """The methods that a queue and its other cursors share. Thread-safe.

    Its methods raise ClosedError after the queue is closed, NotFoundError after the cursor is
    removed, ForkedError in a forked child, and StorageError if the disk cannot be read.
    """

    def __init__(
        self, core: _core.QueueCursor, awaiting: Awaiting, codec: Codec | None = None
    ) -> None:
        self._core = core
        self._awaiting = awaiting
        self._codec = codec

    def pop(
        self,
        count: int = 1000,
        bytes: int = 2_000_000,
        rule: Rule = "at_most",
        stop_before: Callable[[Any], bool] | None = None,
        *,
        timeout: Seconds | None = 0,
        raw: bool = False,
    ) -> Popped:
        """Takes the oldest items: first those that came back, then new ones in their order.

        Arguments:
            count: the most items.
            bytes: how many bytes of items. Headers do not count; an item that was appended with a
                ``sizer`` counts what that said.
            rule: ``"at_most"`` ends before the item that would exceed ``bytes``, but takes at least
                one item. ``"at_least"`` takes items until they have ``bytes``.
            stop_before: is called with each item in turn. When it returns true, that item and those
                behind it stay in the queue.
            timeout: how many seconds to wait if there is no item; 0: not at all; None: for ever.
            raw: gives items as bytes, as they are stored, although the queue has a codec.

        Returns:
            The items and a reference to them. They are in flight until ``ack`` or ``nack``, and
            come again when the queue is opened anew.

        Raises:
            ValueError: a bad argument.
            CodecError: the codec cannot decode the first item, which is in flight then as
                ``error.ref``; the next call goes on behind it.
        """
        if rule not in ("at_most", "at_least"):
            raise ValueError(f"rule: expected 'at_most' or 'at_least', got {rule!r}")
        if count < 1 or bytes < 1:
            raise ValueError(f"count and bytes must be at least 1, got {count} and {bytes}")
        decoding: Decoding | None = None
        if self._codec is not None and not raw:
            stop_before = decoding = Decoding(self._codec, stop_before)
        try:
            items, ranges = self._core.pop(
                count, bytes, rule == "at_least", stop_before, timeout_us(timeout)
            )
        finally:
            if stop_before is not None:
                self._awaiting.wake()  # items may have come back
        ref = Ref(self._core, ranges) if ranges else None
        if decoding is None:
            return Popped(items, ref)
        if decoding.failed is not None and ref is not None:
            raise undecodable(
                f"item {ref.sequences[0]}", items[0], decoding.failed, ref
            ) from decoding.failed
        return Popped(decoding.items, ref)

    async def pop_await(
        self,
        count: int = 1000,
        bytes: int = 2_000_000,
        rule: Rule = "at_most",
        stop_before: Callable[[Any], bool] | None = None,
        *,
        timeout: Seconds | None = 0,
        raw: bool = False,
    ) -> Popped:
        """Pops like ``pop``, for asyncio. A task that is cancelled gives its items back.

        It takes no thread while it waits. Calls of one event loop get items in their order.

        Arguments:
            count: as in ``pop``.
            bytes: as in ``pop``.
            rule: as in ``pop``.
            stop_before: as in ``pop``.
            timeout: as in ``pop``.
            raw: as in ``pop``.

        Returns:
            The items and a reference to them.
        """
        was_asked = False

        def stop(item: Any) -> bool:
            nonlocal was_asked
            was_asked = True
            return stop_before is not None and stop_before(item)

        def take() -> Popped | CodecError | None:
            try:
                popped = self.pop(count, bytes, rule, stop_before and stop, raw=raw)
            except CodecError as error:
                return error  # its item is in flight, and comes back if the task is cancelled
            return popped if popped.ref is not None or was_asked else None

        def give_back(found: Popped | CodecError | None) -> None:
            if found is not None:
                self.nack(found.ref)

        wait_us = timeout_us(timeout)
        found: Popped | CodecError | None = await self._awaiting.first(
            self._core.id, take, give_back, wait_us
        )
        if isinstance(found, CodecError):
            raise found
        return found or Popped([], None)

    def ack(self, ref: Ref | None) -> None:
        """Acknowledges the items of a ``pop``, which are done.

        You may do so in any order, and repeat it.

        Arguments:
            ref: of the ``pop``; None stands for no items.

        Raises:
            ValueError: ``ref`` is of another cursor, or of an earlier opening.
        """
        if ref is not None:
            self._core.ack(self._ranges_of(ref))

    def nack(self, ref: Ref | None) -> None:
        """Gives the items of a ``pop`` back, to be popped again before newer ones.

        Arguments:
            ref: of the ``pop``; None stands for no items.

        Raises:
            ValueError: as ``ack`` does.
        """
        if ref is not None:
            self._core.nack(self._ranges_of(ref))
            self._awaiting.wake()

    def _ranges_of(self, ref: Ref) -> tuple[tuple[int, int], ...]:
        if ref._cursor.id != self._core.id:
            raise ValueError(f"{ref!r} was popped from another cursor, or before a reopening")
        return ref._ranges

    def peek(self, *, raw: bool = False) -> Any:
        """Returns the item that ``pop`` would give first.

        Arguments:
            raw: as in ``pop``.

        Returns:
            The item; None if there is none. With a codec, an item may be None, too.

        Raises:
            CodecError: the codec cannot decode it.
        """
        data = self._core.peek()
        return None if data is None else decoded(None if raw else self._codec, data)

    def __len__(self) -> int:
        """Returns how many items wait: stored, not in flight, not acknowledged."""
        waiting: int = self._core.stats()["waiting"]
        return waiting

    def __bool__(self) -> bool:
        return True  # an empty queue is a queue

    def __iter__(self) -> Iterator[Any]:
        """Gives items until none waits.

        Each is acknowledged when the next one is asked for. So if a loop ends early or fails, its
        last item comes again.

        Raises:
            CodecError: as ``pop`` does; the next loop goes on behind that.
        """
        while (popped := self.pop(1)).ref is not None:
            try:
                yield popped.items[0]
            except BaseException:
                self.nack(popped.ref)
                raise
            self.ack(popped.ref)


class Cursor(Consumer):
    """A named reader of a queue, for one consumer or a group of them; made by ``Queue.cursor``.

    It hands out each item once, and again if the item is not acknowledged. Thread-safe.
    """

    @property
    def name(self) -> str:
        """The name of the cursor."""
        return self._core.name

    def stats(self) -> CursorStats:
        """Returns how far the cursor is."""
        return CursorStats(**self._core.stats())

    def __repr__(self) -> str:
        return f"<topicdb.Cursor {self.name!r}>"
