"""Who receives or browses an endpoint's messages."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from topicdb.replay.endpoint.contents import Contents
from topicdb.replay.errors import ReplayError
from topicdb.replay.records import EndpointRecord

if TYPE_CHECKING:
    from topicdb.replay.endpoint.flow import Browser, Flow


class Clients:
    """The clients of one endpoint: who receives, in the order of ``bind``, and who browses.

    Clients that have nothing to do wait here. The endpoint's ``Parts`` own this object and lock it,
    with the lock that they give it for waiting.
    """

    def __init__(self, record: EndpointRecord, contents: Contents, lock: threading.RLock) -> None:
        self._record = record
        self._contents = contents
        self._changed = threading.Condition(lock)
        self._flows: list[Flow] = []
        self._browsers: list[Browser] = []
        self._last_number = 0

    @property
    def active(self) -> Flow | None:
        """Of an exclusive endpoint, the client that is given messages."""
        return self._flows[0] if self._flows else None

    @property
    def is_empty(self) -> bool:
        """Whether nobody receives."""
        return not self._flows

    @property
    def names(self) -> list[str]:
        """Of those that receive, then of those that browse."""
        return [one.client for one in self._flows] + [one.client for one in self._browsers]

    @property
    def accounts(self) -> list[tuple[str, int, int]]:
        """Name, window and messages without an acknowledgement of each that receives."""
        return [flow.account for flow in self._flows]

    def is_active(self, flow: Flow) -> bool:
        """Whether this client is given messages."""
        return self.active is flow if self._record.exclusive else flow in self._flows

    def smallest_window(self, rows: int) -> int:
        """The smallest window of those that receive, at most ``rows``."""
        return min([rows, *(flow.window for flow in self._flows)])

    def new_number(self) -> int:
        """The number of the next client."""
        self._last_number += 1
        return self._last_number

    def add(self, flow: Flow) -> None:
        self._flows.append(flow)

    def add_browser(self, browser: Browser) -> None:
        self._browsers.append(browser)

    def remove(self, flow: Flow) -> bool:
        """What the client has waits again. Returns false if it had left before."""
        is_here = flow in self._flows
        if is_here:
            self._flows.remove(flow)
            self._contents.spool.give_back(flow.number)
        self.wake_all()
        return is_here

    def remove_browser(self, browser: Browser) -> None:
        """May be repeated."""
        if browser in self._browsers:
            self._browsers.remove(browser)

    def disconnect_all(self, error: ReplayError, but: Flow | None = None) -> list[Flow]:
        """Tells all clients but one this reason, and what they have waits again. Returns those that
        received."""
        gone = [flow for flow in self._flows if flow is not but]
        for flow in gone:
            flow.disconnect(error)
            self.remove(flow)
        for browser in self._browsers:
            browser.disconnect(error)
        self._browsers.clear()
        return gone

    def clear(self) -> None:
        """Forgets those that receive; what they have stays theirs."""
        self._flows.clear()

    def wait(self, seconds: float) -> None:
        """Until ``wake_all``, at most this long; without the lock meanwhile."""
        self._changed.wait(seconds)

    def wake_all(self) -> None:
        """Something has changed that a client may wait for."""
        self._changed.notify_all()
