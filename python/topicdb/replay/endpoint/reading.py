"""What comes to an endpoint, from the log: as much as there is room for, at a replay's pace."""

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
# Pages of the log are shared by all who read them, if they do not read them in small pieces.
AHEAD_ROWS = 20_000
AHEAD_BYTES = 32 << 20
_SHARD = 0


def _pass_by(loss: Loss) -> None:
    """The log itself looks for what was dropped (``ReplayLog.maintain``)."""


class _Ahead(NamedTuple):
    """A delivery that was not taken whole."""

    batch: Batch
    rows: Rows
    states: States | None
    taken: int
    next: Place


class Reader:
    """One core subscription. Not thread-safe."""

    def __init__(
        self,
        core: Engine,
        filters: list[str],
        begin: Place,
        admission: Admission,
        on_ready: Callable[[SubscriptionCursor], None] = lambda core: None,
    ) -> None:
        self._core = core.subscribe(
            filters, {_SHARD: (begin.serial, begin.row)}, 0, AHEAD_ROWS, AHEAD_BYTES
        )
        on_ready(self._core)
        self._subscription = Subscription(self._core, core, filters, 0, None, "stored", _pass_by)
        self._admission = admission
        self._ahead: _Ahead | None = None
        self._next = begin
        self.pacer: Pacer | None = None
        self.paced_until = Place(0, 0)  # of messages from there on the pacer is not asked
        self.is_paused = False  # as far as the pacer would be asked
        self.wait_s = 0.0  # what the pacer wanted, the last time

    @property
    def next(self) -> Place:
        """Everything before was taken, or is not wanted."""
        if self._ahead is None:
            behind = self._subscription.info()
            if behind["waiting"] == 0:
                self._next = max(self._next, behind["places"].get(_SHARD, self._next))
        return self._next

    def take(self, rows: int) -> Held | None:
        """The next messages, at most so many; they may all be unwanted. None: nothing now."""
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
        """Until there may be something to take, at most so long."""
        if self._ahead is None:
            self._read(CHUNK_ROWS, round(seconds * 1e6))

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
        """Everything that was stored was taken: what comes now is new."""
        if self._ahead is not None or self._subscription.closed:
            return False
        info = self._subscription.info()
        return bool(info["state"] == "live" and info["waiting"] == 0)

    def close(self) -> None:
        self._subscription.close()


def first_wanted(
    core: Engine, filters: list[str], begin: Place, until: Place, admission: Admission
) -> Message | None:
    """The first message from ``begin`` on and before ``until`` that is wanted, or None.

    Reads what is stored as far as need be. REQUIRES: what is before ``until`` is committed.
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
                found = held.batch[held.begin + index]
                return found if held.place(index) < until else None
            if reader.next >= until:
                return None
    finally:
        reader.close()
