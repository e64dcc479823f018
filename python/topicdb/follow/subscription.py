"""Subscriptions: messages that are delivered as they are committed."""

from __future__ import annotations

import asyncio
import atexit
import itertools
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from collections.abc import Iterator as _Iterator
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from topicdb import _core
from topicdb._core import Batch, ClosedError
from topicdb.arguments.forms import Form
from topicdb.arguments.times import TIMESTAMP_MAX, TimeLike, time_us, timeout_us
from topicdb.closing import Closing
from topicdb.engine import Engine, SubscriptionCursor
from topicdb.follow.losses import Loss, Reporter
from topicdb.follow.positions import Place, lag_of
from topicdb.frames.text import cut
from topicdb.types import Message

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

WINDOW = 1_000
WINDOW_BYTES = 8 << 20
_ALL = (1 << 63) - 1


Start: TypeAlias = "Literal['earliest', 'latest'] | TimeLike | Mapping[int, Place | int]"
"""Where to begin; see ``Database.subscribe``."""


def start_of(start: Start) -> tuple[dict[int, tuple[int, int]] | None, int]:
    """Returns places by shard, and the first timestamp that is wanted.

    Places of None stand for the end of what is stored.

    Raises:
        ValueError, TypeError: for a ``start`` that is no time, place or word.
    """
    if start == "latest":
        return None, 0
    if start == "earliest":
        return {}, 0
    if not isinstance(start, Mapping):
        return {}, time_us(start, what="start")
    places: dict[int, tuple[int, int]] = {}
    for shard, place in start.items():
        places[shard] = (place[0], place[1]) if isinstance(place, tuple) else (place + 1, 0)
    return places, 0


def places_of(core: Engine, filters: list[str] | None, start: Start) -> dict[int, Place]:
    """Returns places by shard from which a reader continues, for ``start``.

    For a time they are those of the first message with that timestamp or a later one. Shards that
    are left out begin with their oldest message.
    """
    places, start_us = start_of(start)
    if places is None or start_us > 0:
        places = core.places_at(filters, TIMESTAMP_MAX if places is None else start_us)
    return {shard: Place(*place) for shard, place in places.items()}


def check_log(
    core: Engine,
    filters: list[str] | None,
    places: Mapping[int, tuple[int, int]] | None,
    start_us: int = 0,
    given: Sequence[_core.Iterator] = (),
) -> None:
    """Raises SchemaError, which names a generation, if a reader of the log cannot begin there.

    Whoever makes a new reader asks this first. The arguments are those of ``Engine.subscribe``.
    """
    known = None if places is None else {shard: (at[0], at[1]) for shard, at in places.items()}
    core.check_log(filters, known, start_us, given)


def check_window(window: int, window_bytes: int) -> None:
    """Raises ValueError for a window of 0 or less: nothing would ever come."""
    for name, value in (("window", window), ("window_bytes", window_bytes)):
        if value < 1:
            raise ValueError(f"{name}: at least 1 is needed, got {value}")


class Delivery(NamedTuple):
    """One delivery of a subscription: messages of one shard; made by ``Subscription.next``.

    Attributes:
        batch: the messages. ``Batch.serials`` has the commit of each.
        seqno: the number of the last message, counted over the subscription from 1;
            ``Subscription.ack`` takes it.
        shard: the shard of the messages.
        next: the place behind them. Every message of the shard before it was delivered; another
            subscription can start there.
        is_live: whether the messages came from a commit, not from history.
        rows: for each message its index in its commit; an array of uint32 as long as the batch.
    """

    batch: Batch
    seqno: int
    shard: int
    next: Place
    is_live: bool
    rows: npt.NDArray[np.uint32]


class Given(NamedTuple):
    """The part of a delivery that is kept until it is acknowledged."""

    seqno: int
    shard: int
    next: Place


class _Begun(NamedTuple):
    """A delivery, and its messages that have not been iterated over."""

    delivery: Delivery
    messages: _Iterator[Message]


class Subscription(Closing):
    """Messages of a filter: those stored, then those committed; made by ``Database.subscribe``.

    Iterate it for messages, with ``for`` or ``async for``, or iterate ``batches()``. Iteration
    acknowledges what it gave when it asks for the next. With ``next`` and ``deliveries`` you call
    ``ack`` yourself. Iteration ends when nothing comes for ``timeout``, and when the subscription
    is closed. It raises ClosedError when the database is closed.

    Thread-safe: each message goes to one of the threads that read. asyncio may read it in one event
    loop. Close it, best by ``with``.

    Example:
        >>> with db.subscribe("site/#", start="earliest") as subscription:
        ...     delivery = subscription.next(timeout=30)
        ...     print(len(delivery.batch), delivery.seqno)
        ...     subscription.ack(delivery.seqno)
        2 2
    """

    def __init__(
        self,
        core: SubscriptionCursor,
        owner: Engine,
        filters: list[str] | None,
        start_us: int,
        timeout_us: int | None,
        form: Form = "stored",
        on_loss: Callable[[Loss], object] | None = None,
    ) -> None:
        self._core = core
        self._owner = owner
        self._form = form
        self._on_loss = on_loss or Reporter("a subscription")
        self._filters = filters
        self._start_us = start_us
        self._timeout_us = timeout_us
        self._acknowledged = 0
        self._begun: deque[_Begun] = deque()
        self._thread: threading.Thread | None = None
        self._ready: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def next(
        self, timeout: float | timedelta | None = None, *, rows: int | None = None
    ) -> Delivery | None:
        """Returns the next messages; ``ack`` acknowledges them.

        Arguments:
            timeout: how many seconds to wait; None: for ever.
            rows: the most messages; None: any number.

        Returns:
            The delivery. None if nothing comes in time, or when the subscription is closed.

        Raises:
            CorruptionError: what it has to read next is damaged; then nothing more comes.
            LossError: messages were dropped before they came (``on_loss="raise"``); the next call
                continues behind them.
            ClosedError: the database is closed.
        """
        if rows is not None and rows < 1:
            raise ValueError(f"rows must be at least 1, got {rows}")
        return self._next(timeout_us(timeout), rows or _ALL)

    def _next(self, timeout_us: int | None, rows: int = _ALL) -> Delivery | None:
        end = None if timeout_us is None else time.monotonic() + timeout_us / 1e6
        while (found := self._core.next(timeout_us, rows)) is not None:
            if found.loss is None:
                batch, place = found.batch.read_as(self._form), Place(found.serial, found.row)
                return Delivery(batch, found.seqno, found.shard, place, found.is_live, found.rows)
            self._on_loss(found.loss)
            if end is not None:
                timeout_us = max(0, round((end - time.monotonic()) * 1e6))
        return None

    def ack(self, seqno: int) -> None:
        """Acknowledges everything up to the message ``seqno``, which makes room in the window.

        Arguments:
            seqno: ``Delivery.seqno``, or that of an earlier message.

        Raises:
            ValueError: that message was not delivered, or is acknowledged already.
        """
        self._core.acknowledge(seqno)
        self._acknowledged = max(self._acknowledged, seqno)

    def _done_with(self, delivery: Delivery) -> None:
        if delivery.seqno > self._acknowledged:  # another call of the user may have acknowledged it
            self.ack(delivery.seqno)

    def deliveries(self) -> _Iterator[Delivery]:
        """Gives each delivery in turn. When the window is full, it waits for ``ack``."""
        while (delivery := self._next(self._timeout_us)) is not None:
            yield delivery

    def batches(self) -> Batches:
        """Returns the batches, to be iterated with ``for`` or ``async for``."""
        return Batches(self)

    def __iter__(self) -> _Iterator[Message]:
        """Gives each message in turn. If a loop ends early, the next loop gives the rest."""
        while True:
            while (message := self._next_message()) is not None:
                yield message
            if (delivery := self._next(self._timeout_us)) is None:
                return
            self._begun.append(_Begun(delivery, iter(delivery.batch)))

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Gives each message in turn. If a loop ends early, the next loop gives the rest."""
        while True:
            while (message := self._next_message()) is not None:
                yield message
            if (delivery := await self._next_await(self._timeout_us)) is None:
                return
            self._begun.append(_Begun(delivery, iter(delivery.batch)))

    def _next_message(self) -> Message | None:
        """Returns the next message of the deliveries that were begun, or None.

        It acknowledges deliveries of which no message is left.
        """
        while True:
            try:
                begun = self._begun[0]
            except IndexError:
                return None
            for message in begun.messages:
                return message
            with suppress(ValueError):  # another thread was first
                self._begun.remove(begun)
                self._done_with(begun.delivery)

    async def next_await(self, timeout: float | timedelta | None = None) -> Delivery | None:
        """Returns the next delivery, like ``next``, for asyncio.

        Arguments:
            timeout: as in ``next``.

        Returns:
            The delivery, or None as ``next``.

        Raises:
            RuntimeError: a call of another event loop came before. What ``next`` raises comes
                through, too.
        """
        return await self._next_await(timeout_us(timeout))

    async def _next_await(self, timeout_us: int | None) -> Delivery | None:
        is_ready = self._ready_event()
        seconds = None if timeout_us is None else timeout_us / 1e6
        while True:
            is_ready.clear()  # messages that come from now on set it again
            if (delivery := self._next(0)) is not None or self.closed:
                return delivery
            try:
                await asyncio.wait_for(is_ready.wait(), seconds)
            except asyncio.TimeoutError:
                return None

    def _ready_event(self) -> asyncio.Event:
        loop = asyncio.get_running_loop()
        if self._ready is None:
            self._ready = (loop, asyncio.Event())
            _notifier.watch(self._core, self._ready)
        if self._ready[0] is not loop:
            raise RuntimeError("a subscription is read in one event loop, this is another")
        return self._ready[1]

    def _call(self, callback: Callable[[Batch], object]) -> None:
        self._thread = threading.Thread(
            target=self._run, args=(callback,), name="topicdb-subscription", daemon=True
        )
        _with_threads.add(self)
        self._thread.start()

    def _run(self, callback: Callable[[Batch], object]) -> None:
        try:
            for batch in self.batches():
                callback(batch)
        except ClosedError:
            if not self._owner.closed:
                raise
        finally:
            self._core.close()

    def join(self, timeout: float | None = None) -> bool:
        """Waits until the callback is no longer called.

        Arguments:
            timeout: how many seconds to wait; None: for ever.

        Returns:
            Whether that is so; True at once if there is no callback.
        """
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def pause(self) -> None:
        """Stops giving messages until ``resume``. May be repeated."""
        self._core.pause()

    def resume(self) -> None:
        """Ends a pause: continues where it was."""
        self._core.resume()

    def info(self) -> dict[str, Any]:
        """Returns how the subscription stands.

        Returns:
            A dict. ``state`` is "catching up", "live", "full" (it waits for ``ack``), "paused",
            "failed" or "closed". ``delivered`` and ``acknowledged`` are sequence numbers.
            ``waiting`` and ``waiting_bytes`` say how many messages are at hand for ``next``.
            ``places`` has for each shard the place up to which everything was given. ``lost`` says
            how many messages were dropped with their generation before they could be given, at
            most.
        """
        info = self._core.info()
        info["places"] = {shard: Place(*place) for shard, place in info["places"].items()}
        return info

    def lag(self) -> int:
        """Returns about how many messages are stored and were not given yet.

        It counts by the entries of blocks where these suffice, else by reading. A commit that was
        given in part counts as a whole. Deleted messages do not count, and neither do those of
        shards that it does not read. What iterators have given (``given``) counts until the
        subscription is behind it.
        """
        places = self.info()["places"]
        shards = sorted(places) or None  # once it is closed, a server knows no places
        return lag_of(self._owner, self._filters, self._start_us, places, shards)

    @property
    def missing_shards(self) -> dict[int, str]:
        """The missing shards that it leaves out, by number, and why each is missing.

        Only a subscription that was made with ``partial=True`` leaves any out, those that were
        missing when it began.
        """
        return self._core.missing_shards()

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called, or the callback has ended."""
        return self._core.closed

    def __repr__(self) -> str:
        filters = "every topic" if self._filters is None else cut(", ".join(self._filters))
        return f"<topicdb.Subscription of {filters}{' (closed)' if self.closed else ''}>"

    def close(self) -> None:
        """Ends it, and calls that wait; waits for a callback that is running. May be repeated."""
        self._core.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()


class Batches:
    """The batches of a subscription. Each is acknowledged when the next one is asked for."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription

    def __iter__(self) -> Generator[Batch, None, None]:
        """Gives each batch in turn; waits for them."""
        subscription = self._subscription
        while (delivery := subscription._next(subscription._timeout_us)) is not None:
            yield delivery.batch
            subscription._done_with(delivery)

    async def __aiter__(self) -> AsyncIterator[Batch]:
        """Gives each batch in turn; the event loop runs on while it waits."""
        subscription = self._subscription
        while (delivery := await subscription._next_await(subscription._timeout_us)) is not None:
            yield delivery.batch
            subscription._done_with(delivery)


class _Notifier:
    """Wakes event loops when subscriptions have something to give.

    There is one for the process, with one thread for all subscriptions; the thread starts with the
    first ``watch``. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: _core.ReadyTokens | None = None
        self._thread: threading.Thread | None = None
        self._numbers = itertools.count(1)
        self._events: dict[int, tuple[asyncio.AbstractEventLoop, asyncio.Event]] = {}

    def watch(
        self,
        subscription: SubscriptionCursor,
        event: tuple[asyncio.AbstractEventLoop, asyncio.Event],
    ) -> None:
        with self._lock:
            if self._tokens is None:
                self._tokens = _core.ReadyTokens()
                self._thread = threading.Thread(
                    target=self._run, args=(self._tokens,), name="topicdb-notifier", daemon=True
                )
                self._thread.start()
            token = next(self._numbers)
            self._events[token] = event
            tokens = self._tokens
        weakref.finalize(subscription, self._events.pop, token, None).atexit = False
        subscription.on_ready(tokens, token)

    def _run(self, tokens: _core.ReadyTokens) -> None:
        while ready := tokens.take():
            loops: dict[asyncio.AbstractEventLoop, list[asyncio.Event]] = {}
            for token in set(ready):
                if (event := self._events.get(token)) is not None:
                    loops.setdefault(event[0], []).append(event[1])
            for loop, events in loops.items():
                with suppress(RuntimeError):  # the loop is closed: nobody waits there any more
                    loop.call_soon_threadsafe(_set_all, events)

    def close(self) -> None:
        if self._tokens is not None and self._thread is not None:
            self._tokens.close()
            self._thread.join()


def _set_all(events: list[asyncio.Event]) -> None:
    for event in events:
        event.set()


_notifier = _Notifier()
_with_threads: weakref.WeakSet[Subscription] = weakref.WeakSet()


def _after_fork() -> None:
    global _notifier
    _notifier = _Notifier()  # a forked child has no such thread
    _with_threads.clear()


os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _end_threads() -> None:
    # A thread that the core wakes up while the interpreter shuts down would abort the process.
    for subscription in list(_with_threads):
        subscription.close()
    _notifier.close()
