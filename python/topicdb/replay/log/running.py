"""The replays that run in a log, and what was told of them."""

from __future__ import annotations

import threading
from collections import deque

from topicdb.replay.errors import OutOfResourcesError
from topicdb.replay.states import Event

EVENTS_KEPT = 1_000


class Running:
    """The endpoints of one log that are replayed to, at most ``replays_max``, and the last events.

    The log owns it and lives as long. Thread-safe: its lock is taken behind those of endpoints, and
    with it held nothing else is called.
    """

    def __init__(self, log_name: str, replays_max: int) -> None:
        self._log_name = log_name
        self._replays_max = replays_max
        self._lock = threading.Lock()
        self._endpoints: set[str] = set()
        self._events: deque[Event] = deque(maxlen=EVENTS_KEPT)

    def __len__(self) -> int:
        return len(self._endpoints)

    def take_slot(self, endpoint: str) -> None:
        """May be repeated. OutOfResourcesError: too many replays run."""
        with self._lock:
            if endpoint not in self._endpoints and len(self._endpoints) >= self._replays_max:
                raise OutOfResourcesError(
                    f"{len(self._endpoints)} replays run in log {self._log_name!r}: replays_max"
                )
            self._endpoints.add(endpoint)

    def give_slot(self, endpoint: str) -> None:
        """May be repeated."""
        with self._lock:
            self._endpoints.discard(endpoint)

    def note(self, event: Event) -> None:
        """Keeps the event."""
        with self._lock:
            self._events.append(event)

    def events(self) -> list[Event]:
        """The last ones, the oldest first."""
        with self._lock:
            return list(self._events)
