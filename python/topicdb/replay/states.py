"""The states of a replay on an endpoint, and what is told about it."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class State(str, Enum):
    """The state of the replay on an endpoint; docs/concepts/replay.md explains each.

    A replay goes from INITIALIZING through ACTIVE and PENDING_COMPLETE to COMPLETE. A replay that
    was cancelled leaves NONE. One that failed is FAILED until every client that was disconnected
    knows of it, and then leaves NONE.

    Example:
        >>> from topicdb.replay import State
        >>> State.ACTIVE.runs, State.COMPLETE.runs
        (True, False)
    """

    NONE = "n/a"
    INITIALIZING = "initializing"
    ACTIVE = "active"
    PENDING_COMPLETE = "pending complete"
    COMPLETE = "complete"
    FAILED = "failed"

    @property
    def runs(self) -> bool:
        """Whether a replay is in progress, which may still fail."""
        return self in (State.INITIALIZING, State.ACTIVE, State.PENDING_COMPLETE)


class Event(NamedTuple):
    """Tells that the state of a replay has changed, or something else about an endpoint.

    ``ReplayLog.on_event`` and ``ReplayLog.events`` give it.

    Attributes:
        time: when it happened, in µs since 1970.
        endpoint: the name of the endpoint.
        before: the state of its replay before the change.
        state: the state after the change. It is ``before`` if no state has changed.
        reason: the reason in short, as in ``ReplayError.reason``, or "".
        text: what has happened, for people.

    Example:
        >>> log = topicdb.replay.open(db)
        >>> log.queue("pumps", "site/#").replay()
        >>> log.events()[0].endpoint
        'pumps'
        >>> log.close()
    """

    time: int
    endpoint: str
    before: State
    state: State
    reason: str
    text: str


class Progress(NamedTuple):
    """The progress of the replay on an endpoint; made by ``Endpoint.progress``.

    If no replay runs, all numbers are 0 and ``eta_s`` is None.

    Attributes:
        state: the state of the replay.
        position: the place that is read next, as text: serial and index with "-" between.
        done: how many messages of the replay have come to the endpoint.
        total: about how many messages the replay has.
        per_s: messages a second, over ``elapsed_s``.
        elapsed_s: seconds since the replay was started, moved, or resumed after a restart.
        eta_s: seconds that are left, or None if that cannot be told.
    """

    state: State
    position: str
    done: int
    total: int
    per_s: float
    elapsed_s: float
    eta_s: float | None
