"""The clients of an endpoint: flows, which receive its messages, and browsers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from topicdb import _core
from topicdb.arguments.times import timeout_us
from topicdb.closing import Closing
from topicdb.follow.positions import Place
from topicdb.replay.endpoint.direct import DirectGiven
from topicdb.replay.endpoint.received import (
    LentMessages,
    ListedMessages,
    Received,
    ReplayBatch,
    ReplayMessage,
)
from topicdb.replay.endpoint.spool import Held, Lent, without_repeats
from topicdb.replay.errors import BrowserError, RejectedMessageError, ReplayError
from topicdb.replay.ids import MessageId
from topicdb.replay.selector.properties import MessageSelector
from topicdb.types import Message

if TYPE_CHECKING:
    from topicdb.replay.endpoint.parts import Parts

_ALL = (1 << 63) - 1
_LONG_S = 3600.0
_DIRECT_S = 0.005
_BROWSE_S = 5.0  # a browser waits at most this long for messages that were just committed


class Flow(Closing):
    """A client that receives messages of an endpoint; made by ``Endpoint.bind``.

    The clients of an endpoint share its messages. At an exclusive endpoint only the client that was
    bound first is active; the others wait until it leaves. When a client leaves, its messages that
    are not acknowledged go to others, marked as redelivered.

    A replay that is started later, fails or is cancelled disconnects the client. From then on its
    methods, except ``close``, raise the reason, a ReplayError. If the endpoint is closed, they
    raise ClosedError. Thread-safe: each message goes to one of the threads.

    Example:
        >>> log = topicdb.replay.open(db)
        >>> endpoint = log.queue("pumps", "site/+/pump/#")
        >>> receipt = db.append([("site/north/pump/1", None, b"off")])
        >>> with endpoint.bind() as flow:
        ...     message = flow.receive(timeout=30)
        ...     print(message.topic, message.value)
        ...     flow.ack(message)
        site/north/pump/1 b'off'
        >>> log.close()
    """

    def __init__(
        self,
        parts: Parts,
        client: str,
        number: int,
        window: int,
        selector: MessageSelector | None,
    ) -> None:
        self._parts = parts
        self._client = client
        self.number = number
        self.window = window
        self._selector = selector
        self._unacknowledged = 0
        self._reason: ReplayError | None = None
        self._closed = False

    @property
    def client(self) -> str:
        """The name of the client."""
        return self._client

    @property
    def selector(self) -> str | None:
        """The condition for the messages that this client wants, or None if it wants all."""
        return None if self._selector is None else self._selector.selector.text

    @property
    def active(self) -> bool:
        """Whether the client is given messages now."""
        with self._parts.lock:
            return self._parts.clients.is_active(self)

    @property
    def account(self) -> tuple[str, int, int]:
        """The name, the window, and the number of unacknowledged messages.

        REQUIRES: the caller holds the endpoint's lock.
        """
        return self._client, self.window, self._unacknowledged

    def receive(self, timeout: float | timedelta | None = None) -> ReplayMessage | None:
        """Waits for the next message, and returns it.

        It waits, too, while the client is not active or its window is full.

        Arguments:
            timeout: how long to wait at most, in seconds or as a timedelta. None: for ever.

        Returns:
            The message, or None if none came in time, or the flow was closed meanwhile.

        Raises:
            ReplayError: the client was disconnected; the subclass says why.
            CorruptionError: the next messages of the log are damaged.
            ClosedError: the flow or the endpoint is closed.
        """
        taken = self._receive(1, timeout)
        return None if taken is None else taken.first()

    def receive_batch(
        self, rows: int = 1_000, timeout: float | timedelta | None = None
    ) -> ReplayBatch | None:
        """Waits as ``receive`` does, and returns the messages that are there.

        Arguments:
            rows: the most messages.
            timeout: as in ``receive``.

        Returns:
            At least one message, or None as ``receive`` does.

        Raises:
            ValueError: ``rows`` is less than 1. What ``receive`` raises comes through, too.
        """
        if rows < 1:
            raise ValueError(f"rows must be at least 1, got {rows}")
        taken = self._receive(rows, timeout)
        return None if taken is None else taken.batch()

    def _receive(
        self, rows: int, timeout: float | timedelta | None
    ) -> LentMessages | DirectGiven | None:
        wait_us = timeout_us(timeout)
        end = None if wait_us is None else time.monotonic() + wait_us / 1e6
        parts = self._parts
        with parts.lock:
            self._check()
            while not self._closed:
                if (taken := self._take(rows)) is not None:
                    return taken
                left = _LONG_S if end is None else end - time.monotonic()
                if left <= 0:
                    return None
                parts.clients.wait(min(left, self._wait_s()))
                if not self._closed:
                    self._check()
        return None

    def _take(self, rows: int) -> LentMessages | DirectGiven | None:
        parts = self._parts
        contents = parts.contents
        room = min(rows, self.window - self._unacknowledged)
        direct = contents.direct.first(self._selector)
        if not parts.clients.is_active(self) or (room <= 0 and direct is None):
            return None
        lent = self._lend(room, direct)
        if lent is None:
            parts.advance()
            self._check()
            lent = self._lend(room, direct)
        if lent is None:
            if contents.error is not None:
                raise contents.error
            given = self._take_direct(rows, direct)
            if given is None and room > 0 and contents.any_to_give():
                parts.replaying.note_refusal()
            return given
        self._unacknowledged += len(lent.indexes)
        parts.replaying.note_progress()
        parts.saving.touch()
        return LentMessages(lent, parts.host.origin)

    def _lend(self, room: int, before: Place | None) -> Lent | None:
        if room <= 0:
            return None
        return self._parts.contents.lend(self.number, room, self._accepts(), before)

    def _take_direct(self, rows: int, direct: Place | None) -> DirectGiven | None:
        """Returns direct messages, the first of which has this place, if it is their turn."""
        parts = self._parts
        if direct is None or direct > (until := parts.contents.given_until(self._accepts())):
            return None
        given = parts.contents.direct.take(rows, until, self._selector)
        parts.contents.count("direct", len(given))
        parts.saving.touch()
        return given

    def _wait_s(self) -> float:
        """Returns after how many seconds to look again at the latest, without a reason to."""
        contents = self._parts.contents
        if contents.is_full or self._parts.replaying.state.runs:
            return _LONG_S
        # Nothing tells that the reader has come to the place of a direct message.
        return _LONG_S if contents.direct.first(self._selector) is None else _DIRECT_S

    def _accepts(self) -> Callable[[Held, int], bool] | None:
        selector = self._selector
        if selector is None:
            return None
        return lambda held, index: selector(held.message(index))

    def __iter__(self) -> Iterator[ReplayMessage]:
        """Yields each message until the flow is closed, and waits for messages without a limit.

        It acknowledges a message when the next one is asked for; the loop must not do so itself.
        """
        while (message := self.receive()) is not None:
            yield message
            self.ack(message)

    def ack(self, *received: Received) -> None:
        """Acknowledges messages: the client is done with them, and there is room for others.

        Messages that ``Endpoint.seek_replay`` or ``Endpoint.change`` has removed, and direct
        messages, are passed over and not counted.

        Arguments:
            *received: messages, their ids, or batches.

        Raises:
            ValueError: a message was not given to this client, or the client is done with it
                already; then nothing is changed.
            ReplayError, ClosedError: as ``receive``.
        """
        with self._parts.lock:
            self._check()
            self._settle(self._lents(received), "acknowledged")

    def reject(self, *received: Received) -> None:
        """Removes messages from the endpoint that this client cannot use, and counts them.

        No other client gets them; they stay in the log. If the endpoint has a topic for dead
        letters, they are stored once more under that, at once, and a crash may have them stored
        twice. If it has none, and one of them is a replayed message of a replay that runs, the
        replay fails with RejectedMessageError.

        Arguments:
            *received: as in ``ack``.

        Raises:
            ValueError, ReplayError, ClosedError: as ``ack``.
            QuotaError: a dead letter cannot be stored. This and what else storing one raises comes
                before anything is changed.
        """
        parts = self._parts
        with parts.lock:
            self._check()
            lents = self._lents(received)
            live_from = parts.record.live_from
            first = min((lent.held.place(lent.indexes[0]) for lent in lents), default=live_from)
            is_kept = parts.dead_letters.send(lents, "rejected", self._client)
            self._settle(lents, "rejected")
            if first < live_from and not is_kept:
                id = MessageId(parts.host.origin, *first)
                parts.replaying.fail(
                    RejectedMessageError(f"client {self._client!r} rejected replayed message {id}")
                )

    def release(self, *received: Received) -> None:
        """Gives messages back: they wait for a client again, marked as redelivered.

        Arguments:
            *received: as in ``ack``.

        Raises:
            ValueError, ReplayError, ClosedError: as ``ack``.
        """
        parts = self._parts
        with parts.lock:
            self._check()
            for lent in self._lents(received):
                parts.contents.release(lent)
                self._unacknowledged -= len(lent.indexes)
            parts.saving.touch()  # the thread of the log removes what has expired meanwhile
            parts.clients.wake_all()

    def _settle(self, lents: list[Lent], what: str) -> None:
        self._parts.contents.settle(lents, what)
        self._unacknowledged -= sum(len(lent.indexes) for lent in lents)
        self._parts.progressed()

    def _lents(self, received: tuple[Received, ...]) -> list[Lent]:
        """Returns the messages, each once, without those that were removed."""
        found: list[Lent] = []
        for one in received:
            if isinstance(one, ReplayBatch):
                found += self._of_batch(one)
            else:
                lent = self._of_id(one.id if isinstance(one, ReplayMessage) else one)
                found += [] if lent is None else [lent]
        return found if len(received) == 1 else without_repeats(found)

    def _of_batch(self, batch: ReplayBatch) -> list[Lent]:
        given = batch.given
        if isinstance(given, LentMessages):
            held, indexes, _ = given.lent
            if held.belong_to(indexes, self.number):
                return [given.lent]
        return [lent for id in batch.ids if (lent := self._of_id(id)) is not None]

    def _of_id(self, id: MessageId) -> Lent | None:
        parts = self._parts
        if id.origin == parts.host.origin and not id.is_stored:
            return None
        found = parts.contents.spool.find(id.place) if id.origin == parts.host.origin else None
        if found is None or found[0].owners[found[1]] != self.number:
            if parts.contents.was_removed(id.place):
                return None
            raise ValueError(f"message {id} was not given to this client, or it is done with")
        held, index = found
        return Lent(held, [index], held.stored)

    def recount(self) -> None:
        """Counts the messages that the client has, after some of them were removed.

        Only the endpoint calls it. REQUIRES: the caller holds the endpoint's lock.
        """
        self._unacknowledged = self._parts.contents.spool.count_of(self.number)

    def disconnect(self, reason: ReplayError) -> None:
        """Disconnects the client: its next call raises ``reason``.

        Only the endpoint calls it. REQUIRES: the caller holds the endpoint's lock.

        Arguments:
            reason: the error.
        """
        self._reason = reason
        self._unacknowledged = 0

    def _check(self) -> None:
        if self._reason is not None:
            self._parts.replaying.acknowledged_by(self)
            raise self._reason
        if self._closed:
            raise _core.ClosedError(f"client {self._client!r} is closed")
        self._parts.check_open()

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called, the client was disconnected, or the endpoint is closed."""
        return self._closed or self._reason is not None or self._parts.closed

    def close(self) -> None:
        """Leaves the endpoint; a temporary endpoint is dropped when its last client leaves.

        Closing it again does nothing.
        """
        parts = self._parts
        with parts.lock:
            if self._closed:
                return
            self._closed = True
            parts.replaying.acknowledged_by(self)
            if parts.clients.remove(self):
                parts.replaying.note_progress()  # another client may accept the messages that wait
                parts.saving.touch()
            is_last = not parts.record.durable and parts.clients.is_empty
        if is_last and not parts.closed:
            parts.host.drop_temporary(parts.record.name)

    def __repr__(self) -> str:
        return f"<topicdb.replay.Flow {self._client!r} of {self._parts.record.name!r}>"


class Browser(Closing):
    """Looks at the messages of an endpoint without taking them; made by ``Endpoint.browse``.

    A replay that starts, fails or is cancelled disconnects it; iterating then raises the reason, a
    ReplayError. Thread-safe.
    """

    def __init__(self, parts: Parts, client: str) -> None:
        self._parts = parts
        self.client = client
        self._reason: ReplayError | None = None

    def __iter__(self) -> Iterator[ReplayMessage]:
        """Yields the messages that are at the endpoint now, in order.

        Waits at most 5 s for messages that are committed and have still to come, except in a
        replay.

        Raises:
            ReplayError: a replay has disconnected the browser, and ClosedError if the endpoint is
                closed.
        """
        for message in self.page(None, _ALL, _ALL):
            self._check()
            yield message

    def page(self, after: Place | None, rows: int, bytes_max: int) -> ReplayBatch:
        """Returns the first messages behind a place that are at the endpoint now, in order.

        Arguments:
            after: None: begins with the first message, and waits as iterating does.
            rows: the most messages.
            bytes_max: about how many bytes; but one message if there is one.

        Returns:
            The messages.
        """
        parts = self._parts
        found: list[Message] = []
        ids: list[MessageId] = []
        again: list[bool] = []
        size = 0
        with parts.lock:
            if after is None:
                self._wait_for_committed()
            self._check()
            for held, index in parts.contents.spool:
                if after is not None and held.place(index) <= after:
                    continue
                if len(found) >= rows or size >= bytes_max:
                    break
                message = held.message(index)
                size += len(message.topic) + len(message.value)
                found.append(message)
                ids.append(MessageId(parts.host.origin, *held.place(index)))
                again.append(held.was_given(index))
        return ReplayBatch(_core.batch_of_rows(found), ListedMessages(ids, again))

    def _wait_for_committed(self) -> None:
        """Waits until all that is committed has come, or as much as there is room for."""
        parts = self._parts
        contents = parts.contents
        now = parts.host.now()
        end = time.monotonic() + _BROWSE_S
        while True:
            self._check()
            parts.advance()
            is_here = contents.is_full or contents.next >= now or time.monotonic() > end
            if is_here or parts.record.run is not None:
                return
            parts.clients.wait(0.01)

    def ack(self, *received: Received) -> None:
        """Raises BrowserError, as a browser takes no messages.

        Arguments:
            *received: anything.

        Raises:
            BrowserError: always.
        """
        raise BrowserError(f"who browses endpoint {self._parts.record.name!r} takes nothing")

    def disconnect(self, reason: ReplayError) -> None:
        """Disconnects the browser: iterating raises ``reason``.

        Only the endpoint calls it. REQUIRES: the caller holds the endpoint's lock.

        Arguments:
            reason: the error.
        """
        self._reason = reason

    def _check(self) -> None:
        if self._reason is not None:
            raise self._reason
        self._parts.check_open()

    def close(self) -> None:
        """Leaves the endpoint. Closing it again does nothing."""
        with self._parts.lock:
            self._parts.clients.remove_browser(self)
