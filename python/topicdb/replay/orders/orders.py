"""The orders that there are, and what each does with a log."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from topicdb.replay.orders.plain import start_of

if TYPE_CHECKING:
    from topicdb.replay.log.log import ReplayLog

Right: TypeAlias = Literal["admin", "watch", "endpoint", "look", "any"]
EVENTS_WAIT_S_MAX = 0.5  # so long an order that asks for events waits at most


class Order(NamedTuple):
    """A call of a replay log that comes from another process.

    Attributes:
        right: what whoever sends it needs. ``"admin"``: to administer the database. ``"watch"``: to
            see the log as a whole. ``"endpoint"``: to have replays on the endpoint that is the
            first argument. ``"look"``: that, or to be a client of it. ``"any"``: any of these.
        do: does it, with the log and the arguments, and returns something that JSON has a form for.
        reads: the number of the argument with topic filters of which messages will come to the
            endpoint, or None.
        writes: the number of the argument with the topic of dead letters that the endpoint will
            store, or None.
    """

    right: Right
    do: Callable[..., Any]
    reads: int | None = None
    writes: int | None = None

    def check_arguments(self, name: str, args: Sequence[Any]) -> None:
        """Raises ValueError if these arguments are too many or too few."""
        try:
            inspect.signature(self.do).bind(None, *args)
        except TypeError as error:
            raise ValueError(f"{name}: {error}") from None


def carry_out(log: ReplayLog, name: Any, args: Sequence[Any]) -> Any:
    """Does an order, and returns its result.

    Raises ValueError if there is no such order or its arguments do not fit, and what the methods of
    the log raise.
    """
    order = ORDERS.get(name) if isinstance(name, str) else None
    if order is None:
        raise ValueError(f"there is no order {name!r}: the other process has another version")
    order.check_arguments(name, args)
    return order.do(log, *args)


_SETTINGS = ("ingress", "egress", "temporary_replays", "quota_bytes")


def _set(log: ReplayLog, option: str, value: Any) -> None:
    if option not in _SETTINGS:
        raise ValueError(f"set: expected one of {', '.join(_SETTINGS)}, got {option!r}")
    if option == "quota_bytes" and (isinstance(value, bool) or not isinstance(value, int)):
        raise TypeError(f"quota_bytes: expected a number, got {type(value).__name__}")
    setattr(log, option, value)


def _make(
    log: ReplayLog,
    name: str,
    kind: str,
    filters: Any,
    dead_letter: str | None,
    options: Mapping[str, Any],
) -> None:
    if kind not in ("queue", "topic"):
        raise ValueError(f"make: expected queue or topic, got {kind!r}")
    make: Callable[..., object] = log.queue if kind == "queue" else log.topic_endpoint
    make(name, filters, dead_letter=dead_letter, **options)


def _start(log: ReplayLog, name: str, start: Any, options: Mapping[str, Any]) -> None:
    log.endpoint(name).replay(start_of(start), **options)


def _seek(log: ReplayLog, name: str, start: Any, on_early: Any) -> None:
    log.endpoint(name).seek_replay(start_of(start), on_early=on_early)


def _events(log: ReplayLog, number: int, wait_s: float) -> tuple[int, list[Any]]:
    count, events = log.events_since(number, max(0.0, min(wait_s, EVENTS_WAIT_S_MAX)))
    return count, [list(event) for event in events]


ORDERS: dict[str, Order] = {
    "origin": Order("any", lambda log: log.origin),
    "info": Order("watch", lambda log: log.info()),
    "names": Order("watch", lambda log: [endpoint.name for endpoint in log.endpoints()]),
    "events": Order("watch", _events),
    "set": Order("admin", _set),
    "filters": Order("admin", lambda log, include, exclude: log.set_filters(include, exclude)),
    "promotion": Order("admin", lambda log, rules: log.set_promotion(rules)),
    "trim": Order("admin", lambda log, before: log.trim(before)),
    "maintain": Order("admin", lambda log: log.maintain()),
    "flush": Order("any", lambda log: log.flush()),
    "endpoint": Order("look", lambda log, name: log.endpoint(name).info()),
    "lag": Order("look", lambda log, name: log.endpoint(name).lag()),
    "progress": Order("look", lambda log, name: list(log.endpoint(name).progress())),
    "make": Order("endpoint", _make, reads=2, writes=3),
    "drop_endpoint": Order("endpoint", lambda log, name: log.drop_endpoint(name)),
    "subscribe": Order(
        "endpoint", lambda log, name, topics: log.endpoint(name).subscribe(topics), reads=1
    ),
    "unsubscribe": Order(
        "endpoint", lambda log, name, topics: log.endpoint(name).unsubscribe(topics)
    ),
    "change": Order(
        "endpoint",
        lambda log, name, topics, selector: log.endpoint(name).change(topics, selector),
        reads=1,
    ),
    "dead_letter": Order(
        "endpoint",
        lambda log, name, topic, expired: log.endpoint(name).set_dead_letter(
            topic, expired=expired
        ),
        writes=1,
    ),
    "start": Order("endpoint", _start),
    "cancel": Order("endpoint", lambda log, name: log.endpoint(name).cancel_replay()),
    "pause": Order("endpoint", lambda log, name: log.endpoint(name).pause_replay()),
    "resume": Order("endpoint", lambda log, name: log.endpoint(name).resume_replay()),
    "rate": Order("endpoint", lambda log, name, rate: log.endpoint(name).set_replay_rate(rate)),
    "seek": Order("endpoint", _seek),
}
"""The orders by their names. The endpoint that one is about is its first argument."""
