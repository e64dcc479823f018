"""The endpoints of a replay log that another process has open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from topicdb import _core
from topicdb.replay.endpoint.endpoint import Endpoint
from topicdb.replay.endpoint.flow import Browser, Flow
from topicdb.replay.endpoint.starting import OnEarly, ReplayStart
from topicdb.replay.orders.plain import progress_of, replay_plain, start_plain
from topicdb.replay.pacing import parse_rate
from topicdb.replay.records import Expired
from topicdb.replay.states import Progress, State

Send: TypeAlias = Callable[..., Any]
"""Sends an order, by its name and its arguments, and returns its result or raises its error."""


class DistantEndpoint(Endpoint):
    """An endpoint of a log that another process has open; its methods are orders to that process.

    Messages do not travel this way: ``bind`` and ``browse`` raise TypeError, unless a subclass has
    a way for them. Whoever asks its log for it has it; it keeps nothing but its name. Thread-safe.
    """

    def __init__(self, name: str, send: Send) -> None:
        self._name = name
        self._send = send

    def _order(self, order: str, *args: Any) -> Any:
        return self._send(order, self._name, *args)

    @property
    def name(self) -> str:
        """The name of the endpoint, which is unique in its log."""
        return self._name

    @property
    def is_exclusive(self) -> bool:
        """Whether only one client at a time is given messages."""
        return bool(self.info()["exclusive"])

    @property
    def subscriptions(self) -> list[str]:
        """The topic filters of which messages come."""
        found: list[str] = self.info()["subscriptions"]
        return found

    @property
    def selector(self) -> str | None:
        """The condition for messages that come to a topic endpoint; None: all come."""
        found: str | None = self.info()["selector"]
        return found

    @property
    def state(self) -> State:
        """The state of the replay."""
        return State(self.info()["state"])

    @property
    def closed(self) -> bool:
        """Whether the endpoint was dropped, or its log was closed."""
        try:
            self.info()
        except (_core.NotFoundError, _core.ClosedError):
            return True
        return False

    def __repr__(self) -> str:
        return f"<topicdb.replay.Endpoint {self._name!r} of another process>"

    def info(self) -> dict[str, Any]:
        """Returns what ``Endpoint.info`` does."""
        found: dict[str, Any] = self._order("endpoint")
        return found

    def lag(self) -> int:
        """Returns about how many stored messages have still to come."""
        return int(self._order("lag"))

    def progress(self) -> Progress:
        """Returns how far the replay is."""
        return progress_of(self._order("progress"))

    def subscribe(self, filter: str) -> None:
        """Adds a subscription to a queue as ``Endpoint.subscribe`` does."""
        _core.check_filter(filter)
        self._order("subscribe", filter)

    def unsubscribe(self, filter: str) -> None:
        """Ends a subscription of a queue as ``Endpoint.unsubscribe`` does."""
        self._order("unsubscribe", filter)

    def change(self, filter: str, selector: str | None = None) -> None:
        """Gives a topic endpoint another subscription and selector as ``Endpoint.change`` does."""
        _core.check_filter(filter)
        self._order("change", filter, selector)

    def set_dead_letter(self, topic: str | None, *, expired: Expired = "give") -> None:
        """Changes the options about dead letters as ``Endpoint.set_dead_letter`` does."""
        self._order("dead_letter", topic, expired)

    def replay(self, start: ReplayStart = "beginning", **options: Any) -> None:
        """Starts a replay as ``Endpoint.replay`` does; relative times are by the clock of here."""
        self._order("start", start_plain(start), replay_plain(options))

    def cancel_replay(self) -> None:
        """Ends the replay as ``Endpoint.cancel_replay`` does."""
        self._order("cancel")

    def pause_replay(self) -> None:
        """Lets no more replayed messages come until ``resume_replay``."""
        self._order("pause")

    def resume_replay(self) -> None:
        """Ends a pause."""
        self._order("resume")

    def set_replay_rate(self, rate: str | float | None) -> None:
        """Changes the rate of the replay as ``Endpoint.set_replay_rate`` does."""
        parse_rate(rate)
        self._order("rate", rate)

    def seek_replay(self, start: ReplayStart, *, on_early: OnEarly = "fail") -> None:
        """Moves the replay to another start as ``Endpoint.seek_replay`` does."""
        self._order("seek", start_plain(start), on_early)

    def bind(self, *, replay: ReplayStart | None = None, **options: Any) -> Flow:
        """Raises TypeError: messages do not travel this way."""
        raise _no_messages(self._name)

    def browse(self, *, client: str = "", replay: ReplayStart | None = None) -> Browser:
        """Raises TypeError: messages do not travel this way."""
        raise _no_messages(self._name)


def _no_messages(name: str) -> TypeError:
    return TypeError(
        f"endpoint {name!r} belongs to another process, which takes only orders here: for its "
        "messages connect to its server with topicdb.connect"
    )
