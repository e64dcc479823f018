"""Reads the log for an endpoint, as far as there is room, and at the pace of a replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from topicdb._core import Batch
from topicdb.engine import Engine, SubscriptionCursor
from topicdb.follow.losses import Loss
from topicdb.follow.positions import Place
from topicdb.follow.subscription import Subscription
from topicdb.replay.endpoint.admission import Admission, Rows, States, are_before
from topicdb.replay.endpoint.spool import WAITING, Held
from topicdb.replay.pacing import Pacer
from topicdb.types import Message

CHUNK_ROWS = 1_000
# Readers share the pages of the log only if they do not read it in small pieces.
AHEAD_ROWS = 20_000
AHEAD_BYTES = 32 << 20
_SHARD = 0


def _pass_by(loss: Loss) -> None:
    """Ignores a loss, as what is read is what is stored now."""


class _Ahead(NamedTuple):
    """A delivery of which ``taken`` messages were taken.

    ``next`` is the place after the whole delivery.
    """

    batch: Batch
    rows: Rows
    states: States | None
    taken: int
    next: Place


class Reader:
    """Reads the messages of some filters from a place on, with one core subscription.

    Its owner takes messages when it has room for them. ``on_ready`` is called once, and may have
    the subscription watched. ``on_loss`` is called with each loss when the reader comes to it, and
    before it takes anything behind it; drops up to the commit ``counted`` are none. What
    ``on_loss`` raises, ``take`` raises, and the next call goes on behind the loss. The owner sets
    ``pacer``, ``paced_until`` and ``is_paused``. Not thread-safe.
    """

    def __init__(
        self,
        core: Engine,
        filters: list[str],
        begin: Place,
        admission: Admission,
        on_ready: Callable[[SubscriptionCursor], None] = lambda core: None,
        on_loss: Callable[[Loss], object] = _pass_by,
        counted: int = 0,
    ) -> None:
        places = {_SHARD: (begin.serial, begin.row)}
        self._core = core.subscribe(
            filters, places, 0, AHEAD_ROWS, AHEAD_BYTES, (0, 1), {_SHARD: counted}
        )
        on_ready(self._core)
        self._subscription = Subscription(self._core, core, filters, 0, None, "stored", self._lose)
        self._on_loss = on_loss
        self._lost = 0  # messages in the losses that it has come to
        self.lost_from = begin  # everything before this place was taken when it came to the last
        self._admission = admission
        self._ahead: _Ahead | None = None
        self._next = begin
        self.pacer: Pacer | None = None  # decides when messages before paced_until may come
        self.paced_until = Place(0, 0)
        self.is_paused = False  # whether no messages before paced_until may come
        self.wait_s = 0.0  # until the pacer lets more come, as it said the last time

    @property
    def next(self) -> Place:
        """Everything before this place was taken, or is not wanted."""
        if self._ahead is None:
            behind = self._subscription.info()
            if behind["waiting"] == 0 and behind["lost"] == self._lost:
                self._next = max(self._next, behind["places"].get(_SHARD, self._next))
        return self._next

    def take(self, rows: int) -> Held | None:
        """Returns the next messages, at most ``rows``, or None if none can come now.

        Some or all of them may be unwanted.
        """
        self.wait_s = 0.0
        while True:
            if self._ahead is None and not self._read(rows):
                return None
            ahead = self._ahead
            assert ahead is not None
            count = self._allowed(ahead, min(rows, len(ahead.batch) - ahead.taken))
            if count == 0:
                return None
            return self._portion(ahead, count)

    def wait(self, seconds: float) -> None:
        """Waits until there may be something to take, at most this long."""
        if self._ahead is None:
            self._read(CHUNK_ROWS, round(seconds * 1e6))

    def _lose(self, loss: Loss) -> None:
        self._lost += loss.messages
        self.lost_from = self._next
        self._on_loss(loss)

    def _read(self, rows: int, timeout_us: int = 0) -> bool:
        delivery = self._subscription._next(timeout_us, min(rows, CHUNK_ROWS))
        if delivery is None:
            return False
        self._subscription._done_with(delivery)
        states = self._admission.states(delivery.batch, delivery.rows)
        self._ahead = _Ahead(delivery.batch, delivery.rows, states, 0, delivery.next)
        return True

    def _allowed(self, ahead: _Ahead, count: int) -> int:
        if self.pacer is None and not self.is_paused:
            return count
        serials = ahead.batch.serials
        assert serials is not None
        span = slice(ahead.taken, ahead.taken + count)
        paced = int(np.count_nonzero(are_before(serials[span], ahead.rows[span], self.paced_until)))
        if paced == 0:
            return count
        if self.is_paused:
            return 0
        if self.pacer is None:
            return count
        return self._paced(ahead, paced)

    def _paced(self, ahead: _Ahead, count: int) -> int:
        assert self.pacer is not None
        span = slice(ahead.taken, ahead.taken + count)
        wanted = None if ahead.states is None else np.flatnonzero(ahead.states[span] == WAITING)
        times = ahead.batch.timestamps[span]
        if wanted is None:
            allowed, self.wait_s = self.pacer.allowed(times)
            return allowed
        allowed, self.wait_s = self.pacer.allowed(times[wanted])
        return count if allowed == len(wanted) else int(wanted[allowed])

    def _portion(self, ahead: _Ahead, count: int) -> Held:
        end = ahead.taken + count
        states = None if ahead.states is None else ahead.states[ahead.taken : end]
        held = Held(ahead.batch, ahead.rows, ahead.taken, end, states)
        if end == len(ahead.batch):
            self._ahead, self._next = None, ahead.next
        else:
            self._ahead = ahead._replace(taken=end)
            serials = ahead.batch.serials
            assert serials is not None
            self._next = Place(int(serials[end]), int(ahead.rows[end]))
        return held

    def is_at_end(self) -> bool:
        """Returns whether everything that is stored was taken, and only new messages can come."""
        if self._ahead is not None or self._subscription.closed:
            return False
        info = self._subscription.info()
        has_more = info["waiting"] > 0 or info["lost"] > self._lost
        return bool(info["state"] == "live" and not has_more)

    def close(self) -> None:
        self._subscription.close()


def first_wanted(
    core: Engine, filters: list[str], begin: Place, until: Place, admission: Admission
) -> Message | None:
    """Returns the first wanted message from ``begin`` on and before ``until``, or None.

    It reads the log up to that message. REQUIRES: everything before ``until`` is committed.
    """
    reader = Reader(core, filters, begin, admission)
    try:
        while True:
            held = reader.take(CHUNK_ROWS)
            if held is None:
                if reader.next >= until:
                    return None
                reader.wait(0.01)
                continue
            index = held.next_waiting(0)
            if index is not None:
                found = held.message(index)
                return found if held.place(index) < until else None
            if reader.next >= until:
                return None
    finally:
        reader.close()
