"""The health and the counts of a forwarder."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Literal, TypeAlias

State: TypeAlias = Literal["idle", "forwarding", "retrying", "stopped", "failed"]


@dataclass(frozen=True, slots=True)
class Health:
    """How a forwarder is; see ``Forwarder.health``.

    Attributes:
        state: ``"idle"`` (no item waits), ``"forwarding"``, ``"retrying"`` (nothing was confirmed
            since the last error), ``"stopped"`` (or not started), ``"failed"`` (ended by an error).
        since: when that began.
        error: the last error, which may be over; None if there was none.

    Example:
        >>> with topicdb.Queue.open("out.q") as queue:
        ...     topicdb.Forwarder(queue, print).health.state
        'stopped'
    """

    state: State
    since: datetime
    error: BaseException | None


@dataclass(frozen=True, slots=True)
class Metrics:
    """Counts since the forwarder was made; see ``Forwarder.metrics``.

    Attributes:
        items: items that the sink has confirmed.
        bytes: the bytes of these items.
        batches: batches that the sink has confirmed.
        dropped_items: items that the sink has refused, and that were left to ``poison``.
        failures: attempts that failed.
        retries: batches that were sent again.
        in_flight: items that were taken and are not confirmed.
        waiting: items behind them, the lag; None once the queue is closed.

    Example:
        >>> with topicdb.Queue.open("out.q") as queue:
        ...     receipt = queue.append([b"first"])
        ...     topicdb.Forwarder(queue, print).metrics().waiting
        1
    """

    items: int = 0
    bytes: int = 0
    batches: int = 0
    dropped_items: int = 0
    failures: int = 0
    retries: int = 0
    in_flight: int = 0
    waiting: int | None = None


class Status:
    """Keeps health and counts up to date. Thread-safe, and safe in a signal handler."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._counts = Metrics()
        self._health = Health("stopped", _now(), None)

    @property
    def health(self) -> Health:
        return self._health

    def metrics(self, waiting: int | None) -> Metrics:
        return replace(self._counts, waiting=waiting)

    def enter(self, state: State, error: BaseException | None = None) -> None:
        """Enters a state, or notes an error in the current one."""
        with self._lock:
            old = self._health
            since = old.since if state == old.state else _now()
            if since is not old.since or error is not None:
                self._health = Health(state, since, error or old.error)
                self._changed.notify_all()

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None) -> bool:
        """Waits until ``predicate()`` is true; it is called again after each change."""
        with self._changed:
            return self._changed.wait_for(predicate, timeout)

    def took(self, items: int) -> None:
        self._count(in_flight=items)
        if self._health.state == "idle":
            self.enter("forwarding")

    def gave_back(self, items: int) -> None:
        self._count(in_flight=-items)

    def delivered(self, items: int, bytes: int) -> None:
        self._count(items=items, bytes=bytes, batches=1, in_flight=-items)
        self.enter("forwarding")

    def dropped(self, items: int) -> None:
        self._count(dropped_items=items, in_flight=-items)

    def sends_again(self) -> None:
        self._count(retries=1)

    def failed(self, error: BaseException) -> None:
        """Counts a failed attempt; the forwarder goes on."""
        self._count(failures=1)
        self.enter("retrying", error)

    def _count(self, **more: int) -> None:
        with self._lock:
            counts = self._counts
            self._counts = replace(
                counts, **{name: getattr(counts, name) + count for name, count in more.items()}
            )
            self._changed.notify_all()


def _now() -> datetime:
    return datetime.now(timezone.utc)
