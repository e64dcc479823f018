"""Stores an endpoint, and decides when."""

from __future__ import annotations

import time

from topicdb.replay.endpoint.clients import Clients
from topicdb.replay.endpoint.contents import Contents
from topicdb.replay.host import Host
from topicdb.replay.records import EndpointRecord

LONG_S = 3600.0


class StoreTimes:
    """Decides when an endpoint is to be stored.

    That is at ticks that are the same for all endpoints, so that one commit stores many of them.
    Its owner, ``Saving``, calls it with the endpoint's lock held and tells it the time.
    """

    def __init__(self, interval_s: float, now_s: float) -> None:
        self._interval_s = interval_s
        self._stored_tick = self._tick(now_s)
        self._is_dirty = False

    @property
    def is_dirty(self) -> bool:
        """Whether something is to be stored."""
        return self._is_dirty

    def touch(self) -> bool:
        """Notes that something is to be stored. Returns whether nothing was until now."""
        was_dirty, self._is_dirty = self._is_dirty, True
        return not was_dirty

    def stored(self, now_s: float) -> None:
        """Notes that everything was stored at this time."""
        self._stored_tick = self._tick(now_s)
        self._is_dirty = False

    def due_s(self, now_s: float) -> float | None:
        """Returns after how many seconds the endpoint is to be stored, or None if nothing is.

        Zero or less means now.
        """
        if not self._is_dirty:
            return None
        return (self._stored_tick + 1) * self._interval_s - now_s

    def _tick(self, now_s: float) -> int:
        return int(now_s / self._interval_s)


class Saving:
    """Brings the record of one endpoint up to date and stores it, if the endpoint is durable.

    The endpoint's ``Parts`` own this object, and their lock is held for every call.
    """

    def __init__(
        self,
        host: Host,
        record: EndpointRecord,
        contents: Contents,
        clients: Clients,
        interval_s: float,
    ) -> None:
        self._host = host
        self._record = record
        self._contents = contents
        self._clients = clients
        self._times = StoreTimes(interval_s, time.monotonic())
        self._has_ended = False

    def touch(self) -> None:
        """Notes that something is to be stored, which happens within the interval."""
        if self._times.touch():
            self._host.wake(self._record.name)

    def store(self, *, later: bool = False) -> None:
        """Stores the endpoint at once, or together with others by the log's thread (``later``)."""
        if not self._record.durable or self._has_ended:
            return
        self._contents.save()
        self._record.clients = self._clients.accounts
        self._host.records.save_endpoint(self._record, later=later)
        self._times.stored(time.monotonic())

    def flush(self) -> None:
        """Stores the endpoint at once if it has changed."""
        if self._times.is_dirty:
            self.store()

    def store_if_due(self) -> float:
        """Stores the endpoint if it has changed and it is time to.

        Returns after how many seconds to call it again.
        """
        due_s = self._times.due_s(time.monotonic())
        if due_s is None:
            return LONG_S
        if due_s > 0:
            return due_s
        self.store(later=True)
        return LONG_S

    def end(self) -> None:
        """Stores nothing from now on."""
        self._has_ended = True
