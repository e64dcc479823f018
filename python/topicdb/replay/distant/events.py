"""Tells listeners the events of a replay log that another process has open."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from topicdb import _core
from topicdb.replay.distant.endpoint import Send
from topicdb.replay.orders.orders import EVENTS_WAIT_S_MAX
from topicdb.replay.orders.plain import event_of
from topicdb.replay.states import Event

_logger = logging.getLogger("topicdb.replay")
_PAUSE_S = 0.5


class EventWatch:
    """Asks a distant log for its events, and tells listeners each of them.

    It begins with the events after it was made. While the log cannot be reached it goes on asking;
    events of that time are told if they are among the last 1,000. A listener that raises an error
    is logged. The log owns this object; its thread ends with ``close``, or when the log is closed.
    """

    def __init__(self, name: str, send: Send) -> None:
        self._send = send
        self._listeners: list[Callable[[Event], object]] = []
        self._is_closed = threading.Event()
        self._seen, _ = send("events", 0, 0)
        self._thread = threading.Thread(
            target=self._run, name=f"topicdb-replay-events-{name}", daemon=True
        )
        self._thread.start()

    def add(self, listener: Callable[[Event], object]) -> None:
        """Calls ``listener`` with each event from now on, in the thread of this object."""
        self._listeners = [*self._listeners, listener]

    def _run(self) -> None:
        while not self._is_closed.is_set():
            began_s = time.monotonic()
            try:
                self._seen, plain = self._send("events", self._seen, EVENTS_WAIT_S_MAX)
            except _core.ClosedError:
                return
            except _core.Error as error:
                _logger.warning("events of a replay log cannot be read: %s", error)
                self._is_closed.wait(_PAUSE_S)
                continue
            for one in plain:
                self._tell(event_of(one))
            if not plain and time.monotonic() - began_s < EVENTS_WAIT_S_MAX / 2:
                self._is_closed.wait(_PAUSE_S)  # the log was opened anew

    def _tell(self, event: Event) -> None:
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                _logger.exception("a listener to replay events failed")

    def close(self) -> None:
        """Ends the thread, and waits for a listener that is called."""
        self._is_closed.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
