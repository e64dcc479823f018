"""The parts of an endpoint, and what they do together."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from topicdb import _core
from topicdb.follow.losses import LossError
from topicdb.replay.endpoint.clients import Clients
from topicdb.replay.endpoint.contents import Contents
from topicdb.replay.endpoint.dead_letters import DeadLetters
from topicdb.replay.endpoint.direct import DirectMessage
from topicdb.replay.endpoint.interest import Interest
from topicdb.replay.endpoint.reading import CHUNK_ROWS
from topicdb.replay.endpoint.replaying import Replaying
from topicdb.replay.endpoint.saving import LONG_S, Saving
from topicdb.replay.errors import EndpointDroppedError
from topicdb.replay.host import Host
from topicdb.replay.records import EndpointRecord
from topicdb.replay.states import State

STALL_TICK_S = 1.0  # seconds between checks whether a replay that cannot read has stalled
TICK_S = 0.05  # seconds between checks whether a replay has come to the end of the log


class Parts:
    """The parts of one endpoint, the one lock over them, and the steps that take several of them.

    The endpoint owns it; the endpoint's clients (``Flow``, ``Browser``) use it as long as they
    live, also after the endpoint was closed.

    Lock rule: ``lock`` guards this object, the record, all parts and what the clients keep for the
    endpoint. Whoever calls anything here or of a part holds it; the parts have no lock of their
    own. With it held, nothing of the log is called that takes the log's lock (see ``Host``).
    """

    def __init__(self, host: Host, record: EndpointRecord, store_interval_s: float) -> None:
        record.clients = []  # those in the record belonged to another process
        self.lock = threading.RLock()
        self.host = host
        self.record = record
        self.closed = False
        self.interest = Interest(record)
        self.contents = Contents(host, record, self.interest)
        self.clients = Clients(record, self.contents, self.lock)
        self.dead_letters = DeadLetters(host, record)
        self.saving = Saving(host, record, self.contents, self.clients, store_interval_s)
        self.replaying = Replaying(
            host, record, self.interest, self.contents, self.clients, self.saving
        )
        self.replaying.resume()

    def check_open(self) -> None:
        """Raises ClosedError if the endpoint was closed or dropped."""
        if self.closed:
            raise _core.ClosedError(f"endpoint {self.record.name!r}, or its log, is closed")

    def reread(self) -> None:
        """Reads on for the subscriptions that there are now, after they have changed."""
        self.contents.open()
        self.saving.store()

    def advance(self) -> None:
        """Reads messages as far as there is room, and goes on with the replay."""
        if self.closed:
            return
        if self.replaying.state is State.INITIALIZING:
            self.replaying.step()
        self._fill()
        # A replay that the throttle holds back has more to read, and asking how far it is takes a
        # while.
        if self.replaying.state.runs and self.contents.throttled_s == 0:
            self.replaying.step()

    def _fill(self) -> None:
        # Reads no more at once than a client takes: a batch that is given whole is not copied.
        rows = self.clients.smallest_window(CHUNK_ROWS)
        while (room := self.contents.room(rows, is_replayed=self._is_replayed())) > 0:
            try:
                held = self.contents.read(room)
            except _core.ClosedError:  # the database was closed
                raise
            except LossError as error:
                self.replaying.lost(error.loss)
                continue
            except _core.Error as error:  # above all CorruptionError
                self._read_failed(error)
                return
            if held is None:
                return
            self.contents.add(held, is_replayed=self._is_replayed())
            if held.left > 0:
                self.clients.wake_all()
            self.saving.touch()

    def _is_replayed(self) -> bool:
        return self.replaying.state is State.ACTIVE

    def _read_failed(self, error: _core.Error) -> None:
        if not self.replaying.read_failed(error):
            self.contents.error = error
            self.clients.wake_all()

    def step(self) -> float:
        """Reads on, goes on with the replay, and stores the endpoint if it is time to.

        Returns after how many seconds to call it again.
        """
        if self.closed:
            return LONG_S
        self.advance()
        self.clients.wake_all()
        contents = self.contents
        self._remove_expired()
        wait = LONG_S if contents.wait_s is None else contents.wait_s
        if (expiry_s := contents.expiry.wait_s()) is not None:
            wait = min(wait, expiry_s)
        if contents.throttled_s > 0:
            wait = min(wait, contents.throttled_s)
        if self.replaying.state.runs:
            stands = contents.is_full or contents.throttled_s > 0
            wait = min(wait, STALL_TICK_S if stands else TICK_S)
        return min(wait, self.saving.store_if_due())

    def _remove_expired(self) -> None:
        """Removes messages that have expired before a client had them."""
        lents = self.contents.expiry.over(self.contents.spool)
        if lents:
            self.dead_letters.send(lents, "expired", "")
            self.contents.settle(lents, "expired")
            self.saving.touch()
            self.advance()

    def give_direct(self, messages: Sequence[DirectMessage]) -> None:
        """Keeps direct messages that are wanted for the clients, if there are any."""
        if self.closed or self.clients.is_empty:
            return
        wanted = [one for one in messages if self.interest.wants(one.stored)]
        if wanted:
            if (lost := self.contents.direct.add(wanted)) > 0:
                self.contents.count("direct_lost", lost)
            self.clients.wake_all()

    def progressed(self) -> None:
        """Notes that a client is done with messages, after which a replay may go on."""
        self.replaying.note_progress()
        self.saving.touch()
        if self.replaying.wants_more:
            self.advance()
        self.clients.wake_all()

    def drop(self) -> None:
        """Disconnects all clients, closes the endpoint, and removes its record."""
        name = self.record.name
        self.clients.disconnect_all(EndpointDroppedError(f"endpoint {name!r} was dropped"))
        self.replaying.drop()
        self._close()
        self.contents.close()
        self.host.records.drop_endpoint(name)

    def end(self) -> None:
        """Stores and closes the endpoint; clients then get ClosedError.

        Calling it again does nothing.
        """
        if self.closed:
            return
        try:
            if not self.host.core.closed:
                self.clients.clear()
                self.saving.store()
        finally:
            self._close()
            self.contents.abandon()
            self.clients.wake_all()

    def _close(self) -> None:
        self.closed = True
        self.saving.end()
