"""The thread of a replay log: it serves endpoints that have something to do, and tells events."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from topicdb import _core
from topicdb.engine import SubscriptionCursor
from topicdb.replay.states import Event

MAINTENANCE_S = 1.0
_ERROR_S = 0.1
_AGAIN_S = 1.0
_logger = logging.getLogger("topicdb.replay")


class Pump:
    """The thread of one replay log, which makes all calls for endpoints, upkeep and listeners.

    It calls ``step`` with the name of an endpoint that was woken, and again after the seconds that
    the call returned, if any. After the calls of one round it calls ``stepped``, then ``maintain``
    if a second has passed, then ``listeners`` with each event. An error of one of them is logged,
    and the thread goes on. ClosedError, as the database was closed, ends the thread after
    ``on_database_closed``.

    The log owns this object, which lives as long as the log. ``wake``, ``watch`` and ``tell`` are
    thread-safe.
    """

    def __init__(
        self,
        step: Callable[[str], float | None],
        stepped: Callable[[], None],
        maintain: Callable[[], None],
        on_database_closed: Callable[[], None],
    ) -> None:
        self._step = step
        self._stepped = stepped
        self._maintain = maintain
        self._on_database_closed = on_database_closed
        self._tokens = _core.ReadyTokens()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()  # guards _number_of and changes of _name_of
        self._number_of: dict[str, int] = {}
        self._name_of: dict[int, str] = {}
        self._due_s: dict[str, float] = {}
        self._events: deque[Event] = deque()
        self.listeners: list[Callable[[Event], object]] = []
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def start(self, name: str) -> None:
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wake(self, name: str) -> None:
        """Lets the thread step this endpoint soon."""
        self._tokens.give(self._number(name))

    def watch(self, name: str, reading: SubscriptionCursor) -> None:
        """Wakes this endpoint from now on whenever ``reading`` has something to read."""
        reading.on_ready(self._tokens, self._number(name))

    def tell(self, event: Event) -> None:
        """Lets the thread call the listeners with this event."""
        self._events.append(event)
        self._tokens.give(0)

    def _number(self, name: str) -> int:
        with self._lock:
            number = self._number_of.get(name)
            if number is None:
                number = self._number_of[name] = next(self._numbers)
                self._name_of[number] = name
            return number

    def _run(self) -> None:
        maintain_s = time.monotonic() + MAINTENANCE_S
        while not self._is_closed:
            now = time.monotonic()
            next_s = min([maintain_s, *self._due_s.values()])
            ready = self._tokens.take(max(0, round((next_s - now) * 1e6)))
            try:
                self._step_all({self._name_of[number] for number in ready if number > 0})
                self._attempt(self._stepped)
                if time.monotonic() >= maintain_s:  # even if storing failed: this makes room
                    self._attempt(self._maintain)
                    maintain_s = time.monotonic() + MAINTENANCE_S
            except _core.ClosedError:
                self._on_database_closed()
                self._is_closed = True
            self._tell_all()

    @staticmethod
    def _attempt(work: Callable[[], float | None]) -> float | None:
        """Returns what ``work`` returns, or if it fails, the seconds after which to try again."""
        try:
            return work()
        except _core.ClosedError:
            raise
        except Exception:
            _logger.exception("the replay log's thread goes on after an error")
            time.sleep(_ERROR_S)
            return _AGAIN_S

    def _step_all(self, names: set[str]) -> None:
        now = time.monotonic()
        names |= {name for name, due_s in self._due_s.items() if due_s <= now}
        for name in names:
            self._due_s.pop(name, None)
            wait_s = self._attempt(partial(self._step, name))
            if wait_s is not None:
                self._due_s[name] = time.monotonic() + wait_s

    def _tell_all(self) -> None:
        while self._events:
            event = self._events.popleft()
            for listener in self.listeners:
                try:
                    listener(event)
                except Exception:
                    _logger.exception("a listener to replay events failed")

    def close(self) -> None:
        """Waits for the calls that run, ends the thread, and tells the events that are left.

        In the thread itself, such as in a listener, it does not wait.
        """
        self._is_closed = True
        self._tokens.give(0)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        with suppress(Exception):
            self._tell_all()
        self._tokens.close()
