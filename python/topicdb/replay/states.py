"""How a replay stands, and what is told of it."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class State(str, Enum):
    """Of the replay on an endpoint.

    NONE → INITIALIZING → ACTIVE → PENDING_COMPLETE → COMPLETE; FAILED until the clients that were
    disconnected know, then NONE again.
    """

    NONE = "n/a"
    INITIALIZING = "initializing"
    ACTIVE = "active"
    PENDING_COMPLETE = "pending complete"
    COMPLETE = "complete"
    FAILED = "failed"

    @property
    def runs(self) -> bool:
        """Whether there is a replay that may still fail."""
        return self in (State.INITIALIZING, State.ACTIVE, State.PENDING_COMPLETE)


class Event(NamedTuple):
    """A replay's state has changed, or there is something to know of an endpoint.

    ``reason``: why, as ``ReplayError.reason``, or ""; ``text``: for people.
    """

    time: int
    endpoint: str
    before: State
    state: State
    reason: str
    text: str


class Progress(NamedTuple):
    """Of a replay: ``position`` is the text of the place that is read next; ``total`` about how
    many messages there are, ``done`` how many of them have come to the endpoint; ``eta_s`` None: it
    cannot be told. ``per_s``: messages a second since it started."""

    state: State
    position: str
    done: int
    total: int
    per_s: float
    elapsed_s: float
    eta_s: float | None
