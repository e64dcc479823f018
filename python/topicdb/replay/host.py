"""The part of a replay log that its endpoints use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from topicdb.engine import Engine, SubscriptionCursor
from topicdb.follow.losses import Loss
from topicdb.follow.positions import Place
from topicdb.replay.records import Records
from topicdb.replay.rules import Era
from topicdb.replay.states import Event
from topicdb.replay.throttle import ReadThrottle
from topicdb.types import Message


class Host(Protocol):
    """A replay log as its endpoints see it; ``EndpointHost`` implements it. Thread-safe.

    Lock rule: the lock of the log is taken before those of endpoints. An endpoint may therefore
    hold its own lock when it uses a Host, except in ``drop_temporary``: nothing else here takes
    the lock of the log.
    """

    @property
    def core(self) -> Engine: ...
    @property
    def name(self) -> str: ...
    @property
    def records(self) -> Records: ...
    @property
    def origin(self) -> int: ...
    @property
    def first(self) -> Place: ...
    @property
    def egress(self) -> bool: ...

    @property
    def temporary_replays(self) -> bool: ...

    @property
    def throttle(self) -> ReadThrottle: ...

    def append(self, messages: Sequence[Message]) -> None:
        """Appends messages, with values as they are stored; all or none."""
        ...

    def eras(self) -> Sequence[Era]: ...
    def now(self) -> Place:
        """Returns the place after everything that is committed."""
        ...

    def has_dropped(self, loss: Loss) -> bool:
        """Returns whether the log itself has dropped this generation, as nobody needed it."""
        ...

    def emit(self, event: Event) -> None: ...
    def take_slot(self, endpoint: str) -> None:
        """Counts a replay on this endpoint, unless it is counted already.

        Raises OutOfResourcesError if the log runs as many replays as it may.
        """
        ...

    def give_slot(self, endpoint: str) -> None: ...
    def wake(self, endpoint: str) -> None:
        """Lets the thread of the log call ``Endpoint.step`` soon."""
        ...

    def watch(self, endpoint: str, reading: SubscriptionCursor) -> None:
        """Wakes the endpoint from now on whenever ``reading`` has something to read."""
        ...

    def drop_temporary(self, endpoint: str) -> None:
        """Drops a temporary endpoint, as its last client has left.

        REQUIRES: the caller does not hold the lock of the endpoint.
        """
        ...
