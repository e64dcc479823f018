"""What an endpoint holds, reads and stores."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from topicdb import _core
from topicdb.engine import SubscriptionCursor
from topicdb.follow.positions import Place
from topicdb.replay.endpoint.interest import Wanting
from topicdb.replay.endpoint.reading import CHUNK_ROWS, Reader
from topicdb.replay.endpoint.replaying import Replaying
from topicdb.replay.endpoint.spool import Held, Spool
from topicdb.replay.errors import EndpointDroppedError, ReplayError
from topicdb.replay.records import EndpointRecord
from topicdb.replay.selector.properties import selector_of
from topicdb.replay.states import State

if TYPE_CHECKING:
    from topicdb.replay.endpoint.flow import Browser, Flow
    from topicdb.replay.host import Host

_NOTHING = "$topicdb/nothing"  # for a queue without subscriptions: no filters would be all topics
STALL_TICK_S = 1.0  # so often it is looked whether a replay stands still
TICK_S = 0.05  # so often it is looked whether a replay has come to the end of the log


class Holding:
    """The messages of an endpoint, and where they come from."""

    # Lock rule: _lock guards everything here, in `flow.py`, `replaying.py`, `spool.py` and
    # `reading.py`; with it held, nothing of the log is called that takes the log's lock.

    def __init__(self, host: Host, record: EndpointRecord, store_interval_s: float) -> None:
        self.host = host
        self.record = record
        record.clients = []  # those that there were had another process
        self.spool = Spool()
        self.accepts = selector_of(record.selector)
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._flows: list[Flow] = []
        self._browsers: list[Browser] = []
        self._clients = 0
        self._reader: Reader | None = None
        self._error: Exception | None = None
        self._closed = False
        self._store_interval_s = store_interval_s
        self._stored_tick = self._tick()
        self._is_dirty = False
        self._yield_s = 0.0  # for so long a replay gives way to what is committed
        self._replaying = Replaying(self)
        if self._replaying.state is State.INITIALIZING:
            self._replaying.take_slot()
        else:
            self.open_reader()
            if self._replaying.state.runs:
                self._replaying.take_slot()

    # What follows is called with the lock held.

    @property
    def filters(self) -> list[str]:
        """Of all that may come, also of subscriptions that were removed lately."""
        return sorted({one.filter for one in self.record.subscriptions}) or [_NOTHING]

    @property
    def next(self) -> Place:
        """Everything before has come, or is not wanted."""
        return self.record.next if self._reader is None else self._reader.next

    @property
    def is_full(self) -> bool:
        """Nothing more comes until something is acknowledged."""
        spool, record = self.spool, self.record
        return spool.messages >= record.spool or spool.nbytes >= record.spool_bytes

    @property
    def wants_more(self) -> bool:
        """Whether it is time to read on, or to look whether a replay is complete."""
        if self._replaying.state is State.PENDING_COMPLETE:
            return True
        return 2 * self.spool.messages < self.record.spool and self._replaying.state.runs

    def has_read_all(self) -> bool:
        """The end of the log was reached."""
        if self._reader is None or self._reader.next < self._replaying.live_from:
            return False  # live, but what was committed a moment ago is on its way
        return self._reader.is_at_end()

    def open_reader(self) -> Reader:
        """Reads on where it is: from what it holds on, unless that is here."""
        record = self.record
        if self._reader is not None:
            record.next, record.held = self._reader.next, self.spool.runs()
            self._reader.close()
        begin = record.next
        if record.held and self.spool.messages == 0:
            begin = record.held[0][0]  # after a restart
        # A subscription that was removed is needed as long as something of it is here. It goes here
        # and nowhere else: what this reader gives, it gives for the filters that it was made with.
        oldest = min(self.spool.low() or begin, begin)
        record.subscriptions[:] = [
            one for one in record.subscriptions if one.until is None or one.until > oldest
        ]
        wanting = Wanting(record, self.host.eras, self.accepts)
        self._reader = Reader(self.host.core, self.filters, begin, wanting, self._watch)
        record.held = []
        return self._reader

    def _watch(self, reading: SubscriptionCursor) -> None:
        self.host.watch(self.record.name, reading)

    def close_reader(self) -> None:
        if self._reader is not None:
            self.record.next = self._reader.next
            self._reader.close()
            self._reader = None

    def end_pacing(self) -> None:
        """What comes from now on is live."""
        if self._reader is not None:
            self._reader.pacer = None
            self._reader.is_paused = False

    def clear_for(self, begin: Place) -> int:
        """Removes all messages; it will read from there on. How many it had, here."""
        removed = self.spool.messages
        self.spool.clear()
        self.close_reader()
        self.record.next, self.record.held = begin, []
        self.record.given = Place(0, 0)
        return removed

    def disconnect_all(self, error: ReplayError, but: Flow | None = None) -> list[Flow]:
        """All clients but one are told this reason; what they had waits again. Which clients."""
        gone = [flow for flow in self._flows if flow is not but]
        for flow in gone:
            flow.disconnect(error)
        for browser in self._browsers:
            browser.disconnect(error)
        self._browsers.clear()
        return gone

    def forget(self, flow: Flow) -> None:
        """A client has gone."""
        if flow in self._flows:
            self._flows.remove(flow)
            self.spool.give_back(flow.number)
            self._replaying.note_progress()  # another client may want what waits
            self.touch()
        self._changed.notify_all()

    def advance(self) -> None:
        """Takes what there is room for; goes on with a replay."""
        if self._closed:
            return
        if self._replaying.state is State.INITIALIZING:
            self._replaying.step()
        self._yield_s = 0.0
        self._fill()
        # Who gives way has not come to the end of anything; to ask how far it is takes a while.
        if self._replaying.state.runs and self._yield_s == 0:
            self._replaying.step()

    def _fill(self) -> None:
        record = self.record
        # No larger than what a client takes: a batch is given as it came, if it is given whole.
        rows = min([CHUNK_ROWS, *(flow.window for flow in self._flows)])
        is_replayed = self._replaying.state is State.ACTIVE
        while self._reader is not None and not self.is_full:
            room = min(rows, record.spool - self.spool.messages)
            self._yield_s = self.host.yielding.wait_s() if is_replayed else 0.0
            if self._yield_s > 0:
                return
            try:
                held = self._reader.take(room)
            except _core.ClosedError:  # the database was closed
                raise
            except _core.Error as error:  # damage, above all
                self._read_failed(error)
                return
            if held is None:
                return
            self._count(held)
            if is_replayed:
                self.host.yielding.took(len(held.owners))
            self.spool.add(held)
            if held.left > 0:
                self._changed.notify_all()
            self.touch()

    def _read_failed(self, error: _core.Error) -> None:
        run = self._replaying.run
        if run is not None and self._replaying.state.runs and self.next < run.live_from:
            self._replaying.fail(self._replaying.unavailable(f"cannot be read: {error}"))
        else:
            self._error = error
            self._changed.notify_all()

    def _count(self, held: Held) -> None:
        """Of a replay, and which of them were given before a restart."""
        if (run := self._replaying.run) is not None:
            run.done += held.count_before(run.live_from)
        held.mark_given_before(self.record.given)

    def touch(self) -> None:
        """What is to be stored has changed."""
        if not self._is_dirty:
            self._is_dirty = True
            self.host.wake(self.record.name)

    def store(self, *, later: bool = False) -> None:
        """Stores how it stands; ``later``: with what the log's thread stores next."""
        record = self.record
        if not record.durable or self._closed:
            return
        if self._reader is not None:
            record.next = self._reader.next
            record.held = self.spool.runs()
        record.clients = [flow.account for flow in self._flows]
        self.host.records.save_endpoint(record, later=later)
        self._stored_tick = self._tick()
        self._is_dirty = False

    def _tick(self) -> int:
        """The same for all endpoints, so that they are stored together."""
        return int(time.monotonic() / self._store_interval_s)

    def holds_from(self) -> Place:
        """What is before is not needed here. What a replay has still to read does not count."""
        with self._lock:
            begin = max(self.next, self._replaying.live_from)
            low = self.spool.low()
            return begin if low is None else min(low, begin)

    # For the log.

    def step(self) -> float:
        """Goes on, and stores what is to be stored. In how many seconds to call it again."""
        with self._lock:
            if self._closed:
                return 3600.0
            self.advance()
            self._changed.notify_all()
            wait = 3600.0 if self._reader is None else self._reader.wait_s or 3600.0
            if self._yield_s > 0:
                wait = min(wait, self._yield_s)
            if self._replaying.state.runs:
                wait = min(wait, STALL_TICK_S if self.is_full or self._yield_s > 0 else TICK_S)
            if self._is_dirty:
                due_s = (self._stored_tick + 1) * self._store_interval_s - time.monotonic()
                if due_s <= 0:
                    self.store(later=True)
                else:
                    wait = min(wait, due_s)
            return wait

    def flush(self) -> None:
        """Stores what was acknowledged."""
        with self._lock:
            if self._is_dirty:
                self.store()

    def trimmed(self, first: Place) -> None:
        """Before ``first`` the log is to be trimmed: a replay that needs what goes fails."""
        with self._lock:
            if not self._closed and (error := self._replaying.misses(first)) is not None:
                self._replaying.fail(error)

    def lost_before(self, oldest: Place) -> None:
        """What was before was dropped by retention, whether it was needed here or not."""
        with self._lock:
            run = self._replaying.run
            if self._closed or self.next >= oldest:
                return
            if run is not None and self.next < run.live_from:
                self._replaying.fail(self._replaying.unavailable("were dropped by retention"))
            else:
                self.count("lost")
                self._replaying.tell("messages that had not come yet were dropped by retention")

    def fail_replay(self, error: ReplayError) -> None:
        """If one runs."""
        with self._lock:
            if not self._closed and self._replaying.state.runs:
                self._replaying.fail(error)

    def count(self, what: str, number: int = 1) -> None:
        counts = self.record.counts
        counts[what] = counts.get(what, 0) + number

    def drop(self) -> None:
        """Disconnects all, and forgets it."""
        with self._lock:
            name = self.record.name
            self.disconnect_all(EndpointDroppedError(f"endpoint {name!r} was dropped"))
            if self._replaying.state.runs:
                self.host.give_slot(name)
            self._closed = True
            self.close_reader()
            self.host.records.drop_endpoint(name)

    def end(self) -> None:
        """For the log's end: stores it; clients get ClosedError. May be repeated."""
        with self._lock:
            if self._closed:
                return
            try:
                if not self.host.core.closed:
                    self._flows.clear()
                    self.store()
            finally:
                self._closed = True
                if self._reader is not None:
                    self._reader.close()
                self._changed.notify_all()

    def _check_open(self) -> None:
        if self._closed:
            raise _core.ClosedError(f"endpoint {self.record.name!r}, or its log, is closed")
