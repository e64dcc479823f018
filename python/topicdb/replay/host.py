"""What endpoints need of their log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from topicdb.engine import Engine, SubscriptionCursor
from topicdb.follow.positions import Place
from topicdb.replay.records import Records
from topicdb.replay.rules import Era
from topicdb.replay.states import Event
from topicdb.replay.throttle import ReadThrottle


class Host(Protocol):
    """A replay log, as its endpoints see it.

    Lock rule: an endpoint calls these with its own lock held; none of them takes the log's, behind
    which those of endpoints are taken.
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
    def throttle(self) -> ReadThrottle: ...

    def eras(self) -> Sequence[Era]: ...
    def now(self) -> Place:
        """Behind everything that is committed."""
        ...

    def emit(self, event: Event) -> None: ...
    def take_slot(self, endpoint: str) -> None:
        """OutOfResourcesError: too many replays run. May be repeated."""
        ...

    def give_slot(self, endpoint: str) -> None: ...
    def wake(self, endpoint: str) -> None:
        """Has ``Endpoint.step`` called soon, by another thread."""
        ...

    def watch(self, endpoint: str, reading: SubscriptionCursor) -> None:
        """Wakes the endpoint whenever there is something to read."""
        ...

    def drop_temporary(self, endpoint: str) -> None:
        """To be called without the endpoint's lock: its last client has left."""
        ...
