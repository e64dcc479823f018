"""Messages handed to who wants them, as they are committed."""

from __future__ import annotations

import asyncio
import atexit
import itertools
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from collections.abc import Iterator as _Iterator
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from topicdb import _core
from topicdb._core import Batch, ClosedError
from topicdb.closing import Closing
from topicdb.engine import Engine, SubscriptionCursor
from topicdb.follow.losses import Loss, Reporter
from topicdb.follow.positions import Place, lag_of
from topicdb.forms import Form
from topicdb.times import TIMESTAMP_MAX, TimeLike, time_us, timeout_us
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
    """Places by shard (None: now), and the first timestamp that is wanted."""
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
    """Places by shard to go on from; of a time: of the first message with it or a later one.

    Shards that are left out begin with their oldest message.
    """
    places, start_us = start_of(start)
    if places is None or start_us > 0:
        places = core.places_at(filters, TIMESTAMP_MAX if places is None else start_us)
    return {shard: Place(*place) for shard, place in places.items()}


def check_window(window: int, window_bytes: int) -> None:
    """ValueError: nothing would ever come."""
    for name, value in (("window", window), ("window_bytes", window_bytes)):
        if value < 1:
            raise ValueError(f"{name}: at least 1 is needed, got {value}")


class Delivery(NamedTuple):
    """What a subscription gives at a time: messages of one shard.

    ``seqno`` is the number of its last message, counted over the subscription from 1;
    ``Subscription.ack`` wants it. Every message of the shard before ``next`` was delivered: another
    subscription can start there. ``is_live``: it came from a commit, not from history.
    ``Batch.serials`` and ``rows`` have of each message its commit and the place in that.
    """

    batch: Batch
    seqno: int
    shard: int
    next: Place
    is_live: bool
    rows: npt.NDArray[np.uint32]


class Given(NamedTuple):
    """What is kept of a delivery until it is acknowledged."""

    seqno: int
    shard: int
    next: Place


class _Begun(NamedTuple):
    """A delivery, and what of it was not iterated over."""

    delivery: Delivery
    messages: _Iterator[Message]


class Subscription(Closing):
    """Messages of a filter: what is stored, and then what is committed; see ``subscribe``.

    Iterate it, with ``for`` or ``async for``, for messages, or ``batches()``; what was given is
    acknowledged when the next is asked for. With ``next`` and ``ack`` (or ``deliveries``) that is
    up to you. Iteration ends when nothing comes for ``timeout``, and when the subscription is
    closed; ClosedError when the database is.

    May be used by many threads; each message goes to one of them.
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
        """The next messages, at most ``rows``.

        None if there are none for ``timeout`` seconds (None: waits for ever), or it is closed.

        CorruptionError: what it is to read next is damaged; nothing comes behind it. LossError:
        messages were dropped before they came (``on_loss="raise"``); the next call goes on.
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
        """Everything up to the message ``seqno`` is done with: there is room in the window for as
        much.

        ValueError if it was not delivered, or is acknowledged already.
        """
        self._core.acknowledge(seqno)
        self._acknowledged = max(self._acknowledged, seqno)

    def _done_with(self, delivery: Delivery) -> None:
        if delivery.seqno > self._acknowledged:  # or who iterates has done it
            self.ack(delivery.seqno)

    def deliveries(self) -> _Iterator[Delivery]:
        """Each delivery in turn; they wait for ``ack`` when the window is full."""
        while (delivery := self._next(self._timeout_us)) is not None:
            yield delivery

    def batches(self) -> Batches:
        """To be iterated, with ``for`` or ``async for``: each batch in turn."""
        return Batches(self)

    def __iter__(self) -> _Iterator[Message]:
        """Each message in turn. What a loop leaves when it ends early, the next one gives."""
        while True:
            while (message := self._next_message()) is not None:
                yield message
            if (delivery := self._next(self._timeout_us)) is None:
                return
            self._begun.append(_Begun(delivery, iter(delivery.batch)))

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Each message in turn. What a loop leaves when it ends early, the next one gives."""
        while True:
            while (message := self._next_message()) is not None:
                yield message
            if (delivery := await self._next_await(self._timeout_us)) is None:
                return
            self._begun.append(_Begun(delivery, iter(delivery.batch)))

    def _next_message(self) -> Message | None:
        """Of the deliveries that were begun; those that are at their end are done with."""
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
        """As ``next``, for asyncio; of one event loop."""
        return await self._next_await(timeout_us(timeout))

    async def _next_await(self, timeout_us: int | None) -> Delivery | None:
        is_ready = self._ready_event()
        seconds = None if timeout_us is None else timeout_us / 1e6
        while True:
            is_ready.clear()  # what comes from now on sets it again
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
        """Waits until the callback is not called any more; whether that is so."""
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def pause(self) -> None:
        """Nothing is given until ``resume``. May be repeated."""
        self._core.pause()

    def resume(self) -> None:
        """Ends a pause: goes on where it was."""
        self._core.resume()

    def info(self) -> dict[str, Any]:
        """How it stands.

        ``state``: "catching up", "live", "full" (it waits for ``ack``), "paused", "failed" or
        "closed"; ``delivered`` and ``acknowledged``: sequence numbers; ``waiting``: messages that
        are at hand for ``next``, and their ``waiting_bytes``; ``places``: of each shard, the place
        up to which everything was given; ``lost``: messages that were dropped with their generation
        before they could be given, so many at most.
        """
        info = self._core.info()
        info["places"] = {shard: Place(*place) for shard, place in info["places"].items()}
        return info

    def lag(self) -> int:
        """Messages that are stored and were not given yet.

        Counted by the entries of blocks where these tell, else by reading. About: a commit that was
        given in part counts as a whole. What was deleted does not count.
        """
        return lag_of(self._owner, self._filters, self._start_us, self.info()["places"])

    @property
    def closed(self) -> bool:
        """``close`` was called, or its callback has ended."""
        return self._core.closed

    def close(self) -> None:
        """Ends it, and calls that wait; waits for a callback that runs. May be repeated."""
        self._core.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()


class Batches:
    """The batches of a subscription, each acknowledged when the next one is asked for."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription

    def __iter__(self) -> Generator[Batch, None, None]:
        """Each in turn; waits for them."""
        subscription = self._subscription
        while (delivery := subscription._next(subscription._timeout_us)) is not None:
            yield delivery.batch
            subscription._done_with(delivery)

    async def __aiter__(self) -> AsyncIterator[Batch]:
        """Each in turn; the event loop goes on while it waits."""
        subscription = self._subscription
        while (delivery := await subscription._next_await(subscription._timeout_us)) is not None:
            yield delivery.batch
            subscription._done_with(delivery)


class _Notifier:
    """Wakes event loops when subscriptions have something to give: one thread for all of them."""

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
    _notifier = _Notifier()  # the thread has stayed behind
    _with_threads.clear()


os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _end_threads() -> None:
    # A thread that the core wakes up while Python takes itself apart would abort the process.
    for subscription in list(_with_threads):
        subscription.close()
    _notifier.close()
