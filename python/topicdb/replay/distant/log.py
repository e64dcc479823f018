"""A replay log that another process has open."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from topicdb import _core
from topicdb.arguments.filters import Filters, filter_list
from topicdb.arguments.times import TimeLike, time_us
from topicdb.replay.distant.endpoint import DistantEndpoint, Send
from topicdb.replay.distant.events import EventWatch
from topicdb.replay.endpoint.endpoint import Endpoint
from topicdb.replay.log.log import ReplayLog
from topicdb.replay.log.upkeep import checked_quota
from topicdb.replay.orders.plain import event_of, info_of, promotion_plain
from topicdb.replay.rules import Promotion, filters_of
from topicdb.replay.states import Event
from topicdb.types import Receipt


class DistantLog(ReplayLog):
    """A replay log that another process has open; its methods are orders to that process.

    Each order is done before its method returns. If the other process ends meanwhile, it is not
    known whether the order was done. ``close`` ends nothing but this object. Messages do not travel
    this way: ``publish`` raises TypeError, unless a subclass has a way for them. Thread-safe.
    """

    # Nothing of the base class is used but its documentation: all state is in the other process.

    def __init__(self, name: str, origin: int, send: Send) -> None:
        self._name = name
        self._origin = origin
        self._send = send
        self._is_closed = False
        self._watch_lock = threading.Lock()
        self._watch: EventWatch | None = None

    def _order(self, order: str, *args: Any) -> Any:
        if self._is_closed:
            raise _core.ClosedError(f"replay log {self._name!r} is closed")
        return self._send(order, *args)

    @property
    def origin(self) -> int:
        """The random number that stands for this database in message ids."""
        return self._origin

    def publish(self, *args: Any, **options: Any) -> Receipt:
        """Raises TypeError: messages do not travel this way."""
        raise TypeError(
            f"replay log {self._name!r} belongs to another process, which takes only orders here: "
            "connect to its server with topicdb.connect to publish"
        )

    @property
    def direct(self) -> dict[str, int]:
        """Counts direct messages since the log was opened, by what became of them."""
        found: dict[str, int] = self.info()["direct"]
        return found

    # Endpoints.

    def queue(self, name: str, filter: Filters = None, **options: Any) -> Endpoint:
        """Returns the queue of this name, or makes a new one, as ``ReplayLog.queue`` does."""
        return self._made(name, "queue", filter_list(filter), options)

    def topic_endpoint(self, name: str, filter: str, **options: Any) -> Endpoint:
        """Returns the topic endpoint of this name, or makes one, as ``ReplayLog`` does."""
        return self._made(name, "topic", filter, options)

    def _made(self, name: str, kind: str, filters: Any, options: dict[str, Any]) -> Endpoint:
        dead_letter = options.pop("dead_letter", None)
        self._order("make", name, kind, filters, dead_letter, options)
        return self._endpoint_of(name)

    def _endpoint_of(self, name: str) -> Endpoint:
        return DistantEndpoint(name, self._order)

    def endpoint(self, name: str) -> Endpoint:
        """Returns the endpoint of this name. Raises NotFoundError if there is none."""
        self._order("endpoint", name)
        return self._endpoint_of(name)

    def endpoints(self) -> list[Endpoint]:
        """Returns all endpoints, sorted by name."""
        return [self._endpoint_of(name) for name in self._order("names")]

    def drop_endpoint(self, name: str) -> None:
        """Removes an endpoint as ``ReplayLog.drop_endpoint`` does."""
        self._order("drop_endpoint", name)

    # Rules.

    @property
    def ingress(self) -> bool:
        """Whether messages that are appended are logged. It can be set."""
        return bool(self.info()["ingress"])

    @ingress.setter
    def ingress(self, value: bool) -> None:
        self._order("set", "ingress", bool(value))

    @property
    def egress(self) -> bool:
        """Whether there can be replays. It can be set."""
        return bool(self.info()["egress"])

    @egress.setter
    def egress(self, value: bool) -> None:
        self._order("set", "egress", bool(value))

    @property
    def temporary_replays(self) -> bool:
        """Whether a client of a temporary endpoint may start a replay. It can be set."""
        return bool(self.info()["temporary_replays"])

    @temporary_replays.setter
    def temporary_replays(self, value: bool) -> None:
        self._order("set", "temporary_replays", bool(value))

    @property
    def include(self) -> tuple[str, ...]:
        """The topic filters of what is logged now."""
        return tuple(self.info()["include"])

    @property
    def exclude(self) -> tuple[str, ...]:
        """The topic filters of what is not logged now, although ``include`` matches it."""
        return tuple(self.info()["exclude"])

    def set_filters(self, include: Filters = "#", exclude: Filters = ()) -> None:
        """Changes which topics are logged from now on, as ``ReplayLog.set_filters`` does."""
        self._order("filters", filters_of(include, "include"), filter_list(exclude) or [])

    def set_promotion(self, promote: Sequence[Promotion | str]) -> None:
        """Changes which direct messages are logged from now on."""
        self._order("promotion", promotion_plain(promote))

    # Trimming.

    @property
    def quota_bytes(self) -> int:
        """How many bytes of topics and values the log may have; 0: any number. It can be set."""
        return int(self.info()["quota_bytes"])

    @quota_bytes.setter
    def quota_bytes(self, value: int) -> None:
        self._order("set", "quota_bytes", checked_quota(value))

    def trim(self, before: TimeLike) -> int:
        """Trims the log by date as ``ReplayLog.trim`` does."""
        return int(self._order("trim", time_us(before, what="before")))

    def maintain(self) -> None:
        """Does at once what the log otherwise does every second."""
        self._order("maintain")

    # What can be seen.

    def on_event(self, listener: Callable[[Event], object]) -> None:
        """Calls ``listener`` with each ``Event`` from now on, in a thread of this object."""
        with self._watch_lock:
            if self._watch is None:
                self._watch = EventWatch(self._name, self._order)
            self._watch.add(listener)

    def events(self) -> list[Event]:
        """Returns the last events, at most 1,000, the oldest first."""
        return [event_of(one) for one in self._order("events", 0, 0)[1]]

    def events_since(self, number: int, wait_s: float) -> tuple[int, list[Event]]:
        """Returns how many events there were, and those that came after the first ``number``."""
        count, plain = self._order("events", number, wait_s)
        return count, [event_of(one) for one in plain]

    def info(self) -> dict[str, Any]:
        """Returns what ``ReplayLog.info`` does."""
        return info_of(self._order("info"))

    def flush(self) -> None:
        """Stores what clients have acknowledged; the log itself does that within a second."""
        self._order("flush")

    def close(self) -> None:
        """Closes this object; the log stays open where it is. May be repeated."""
        self._is_closed = True
        with self._watch_lock:
            watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._is_closed

    def __repr__(self) -> str:
        return f"<topicdb.ReplayLog {self._name!r}{' (closed)' if self._is_closed else ''}>"
