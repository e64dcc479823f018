"""What the endpoints of a replay log use of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from topicdb import _core
from topicdb.arguments.times import TIMESTAMP_MAX
from topicdb.engine import Engine, SubscriptionCursor
from topicdb.follow.losses import Loss
from topicdb.follow.positions import Place
from topicdb.replay.log.pump import Pump
from topicdb.replay.log.running import Running
from topicdb.replay.records import SHARD, LogRecord, Records
from topicdb.replay.rules import Era
from topicdb.replay.states import Event
from topicdb.replay.throttle import ReadThrottle
from topicdb.types import Message


class EndpointHost:
    """A replay log as its endpoints see it; ``Host`` says what each method does.

    The log owns this object, which lives as long as the log. Thread-safe. Only ``drop_temporary``
    takes the lock of the log, since it calls ``drop``, which drops the endpoint of a name.
    """

    def __init__(
        self,
        name: str,
        core: Engine,
        stored: tuple[LogRecord, Records],
        running: Running,
        pump: Pump,
        drop: Callable[[str], object],
    ) -> None:
        self.name = name
        self.core = core
        self._record, self.records = stored
        self.throttle = ReadThrottle(self._commits_of_others)
        self._running = running
        self._pump = pump
        self._drop = drop

    @property
    def origin(self) -> int:
        return self._record.origin

    @property
    def first(self) -> Place:
        return self._record.first

    @property
    def egress(self) -> bool:
        return self._record.egress

    @property
    def temporary_replays(self) -> bool:
        return self._record.temporary_replays

    def _commits_of_others(self) -> int:
        return self.now().serial - self.records.writes

    def append(self, messages: Sequence[Message]) -> None:
        self.core.append_rows(messages, self.records.durability)

    def eras(self) -> Sequence[Era]:
        return self._record.eras

    def now(self) -> Place:
        return Place(*self.core.places_at(None, TIMESTAMP_MAX)[SHARD])

    def has_dropped(self, loss: Loss) -> bool:
        return (loss.retention_class, loss.generation) in self._record.dropped

    def emit(self, event: Event) -> None:
        self._running.note(event)
        self._pump.tell(event)

    def take_slot(self, endpoint: str) -> None:
        self._running.take_slot(endpoint)

    def give_slot(self, endpoint: str) -> None:
        self._running.give_slot(endpoint)

    def wake(self, endpoint: str) -> None:
        self._pump.wake(endpoint)

    def watch(self, endpoint: str, reading: SubscriptionCursor) -> None:
        self._pump.watch(endpoint, reading)

    def drop_temporary(self, endpoint: str) -> None:
        with suppress(_core.NotFoundError):
            self._drop(endpoint)
