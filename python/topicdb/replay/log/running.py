"""The replays that run in a log, and the last events."""

from __future__ import annotations

import threading
from collections import deque

from topicdb.replay.errors import OutOfResourcesError
from topicdb.replay.states import Event

EVENTS_KEPT = 1_000


class Running:
    """The endpoints of one log that have a replay, at most ``replays_max``, and the last events.

    The log owns this object, which lives as long as the log. Thread-safe: its lock is taken after
    those of endpoints, and it calls nothing else while it holds it. Only ``since`` waits.
    """

    def __init__(self, log_name: str, replays_max: int) -> None:
        self._log_name = log_name
        self._replays_max = replays_max
        self._changed = threading.Condition()
        self._endpoints: set[str] = set()
        self._events: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self._noted = 0  # events since the log was opened

    def __len__(self) -> int:
        return len(self._endpoints)

    def take_slot(self, endpoint: str) -> None:
        """Counts a replay on this endpoint, unless it is counted already.

        Raises OutOfResourcesError if ``replays_max`` others run.
        """
        with self._changed:
            if endpoint not in self._endpoints and len(self._endpoints) >= self._replays_max:
                raise OutOfResourcesError(
                    f"{len(self._endpoints)} replays run in log {self._log_name!r}: replays_max"
                )
            self._endpoints.add(endpoint)

    def give_slot(self, endpoint: str) -> None:
        """Counts the replay on this endpoint no longer; does nothing if it is not counted."""
        with self._changed:
            self._endpoints.discard(endpoint)

    def note(self, event: Event) -> None:
        """Keeps an event, and forgets the oldest one if there are too many."""
        with self._changed:
            self._events.append(event)
            self._noted += 1
            self._changed.notify_all()

    def since(self, number: int, wait_s: float) -> tuple[int, list[Event]]:
        """Returns how many events there were, and the last ones that came after ``number`` of them.

        It waits for the first such event, at most ``wait_s`` seconds. If there never were
        ``number`` events, as the log was opened anew, it returns none.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._noted != number, wait_s)
            new = min(self._noted - number, len(self._events))
            return self._noted, list(self._events)[-new:] if new > 0 else []

    def events(self) -> list[Event]:
        """Returns the last events, the oldest first."""
        with self._changed:
            return list(self._events)
