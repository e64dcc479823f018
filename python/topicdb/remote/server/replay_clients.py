"""The clients of endpoints that the clients of a server have open."""

from __future__ import annotations

from topicdb.remote.server.access import Access
from topicdb.replay.endpoint.endpoint import Endpoint
from topicdb.replay.endpoint.flow import Browser, Flow


class _Reading:
    """Checks whether a token may read what an endpoint has, also after the endpoint was changed.

    One that has subscribed to more since may be given what the token may not read. Thread-safe.
    """

    def __init__(self, endpoint: Endpoint, checked: tuple[Access, list[str]]) -> None:
        """``checked``: a token, and filters of the endpoint that it may read."""
        self._endpoint = endpoint
        self._checked = checked

    def check(self, access: Access) -> None:
        """Raises AccessError if this token may not read all that the endpoint may have now."""
        now = access, self._endpoint.filters
        if now != self._checked:
            access.check_read(now[1])
            self._checked = now


class ReplayClient(_Reading):
    """A client of an endpoint that receives; calls of one client of the server use it."""

    def __init__(
        self, flow: Flow, origin: int, endpoint: Endpoint, checked: tuple[Access, list[str]]
    ) -> None:
        super().__init__(endpoint, checked)
        self.flow = flow
        self.origin = origin  # of the ids of its messages

    def close(self) -> None:
        self.flow.close()


class ReplayBrowser(_Reading):
    """A client of an endpoint that browses; calls of one client of the server use it."""

    def __init__(
        self, browser: Browser, endpoint: Endpoint, checked: tuple[Access, list[str]]
    ) -> None:
        super().__init__(endpoint, checked)
        self.browser = browser

    def close(self) -> None:
        self.browser.close()
