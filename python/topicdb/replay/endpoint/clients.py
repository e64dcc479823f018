"""The clients of an endpoint, which receive or browse its messages."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from topicdb.replay.endpoint.contents import Contents
from topicdb.replay.errors import ReplayError
from topicdb.replay.records import EndpointRecord

if TYPE_CHECKING:
    from topicdb.replay.endpoint.flow import Browser, Flow


class Clients:
    """The clients of one endpoint: flows, which receive, in the order of ``bind``, and browsers.

    Flows that have nothing to do wait here. The endpoint's ``Parts`` own this object, and give it
    their lock for waiting; the lock is held for every call.
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
        """The client that is given messages if the endpoint is exclusive, or None if none is."""
        return self._flows[0] if self._flows else None

    @property
    def is_empty(self) -> bool:
        """Whether no client receives; browsers do not count."""
        return not self._flows

    @property
    def names(self) -> list[str]:
        """The names of the flows, then those of the browsers."""
        return [one.client for one in self._flows] + [one.client for one in self._browsers]

    @property
    def accounts(self) -> list[tuple[str, int, int]]:
        """The name, the window, and the number of unacknowledged messages of each flow."""
        return [flow.account for flow in self._flows]

    def is_active(self, flow: Flow) -> bool:
        """Returns whether this client is given messages."""
        return self.active is flow if self._record.exclusive else flow in self._flows

    def smallest_window(self, rows: int) -> int:
        """Returns the smallest window of the flows, at most ``rows``."""
        return min([rows, *(flow.window for flow in self._flows)])

    def new_number(self) -> int:
        """Returns a number for a new client, from 1 on."""
        self._last_number += 1
        return self._last_number

    def add(self, flow: Flow) -> None:
        self._flows.append(flow)

    def add_browser(self, browser: Browser) -> None:
        self._browsers.append(browser)

    def remove(self, flow: Flow) -> bool:
        """Removes a flow, whose messages then wait again. Returns whether it was here."""
        is_here = flow in self._flows
        if is_here:
            self._flows.remove(flow)
            self._contents.give_back(flow.number)
            if not self._flows:
                self._contents.drop_direct()
        self.wake_all()
        return is_here

    def remove_browser(self, browser: Browser) -> None:
        """Removes a browser if it is here."""
        if browser in self._browsers:
            self._browsers.remove(browser)

    def disconnect_all(self, error: ReplayError, but: Flow | None = None) -> list[Flow]:
        """Disconnects all clients but one for this reason, and returns the flows among them.

        Messages that they have wait again.
        """
        gone = [flow for flow in self._flows if flow is not but]
        for flow in gone:
            flow.disconnect(error)
            self.remove(flow)
        for browser in self._browsers:
            browser.disconnect(error)
        self._browsers.clear()
        return gone

    def recount(self) -> None:
        """Lets the flows have room in their windows for the messages that were removed."""
        for flow in self._flows:
            flow.recount()
        self.wake_all()

    def clear(self) -> None:
        """Forgets the flows at the end of the process; their messages stay given to them."""
        self._flows.clear()

    def wait(self, seconds: float) -> None:
        """Waits for ``wake_all``, at most this long, and releases the lock meanwhile."""
        self._changed.wait(seconds)

    def wake_all(self) -> None:
        """Wakes all clients that wait, as something has changed."""
        self._changed.notify_all()
