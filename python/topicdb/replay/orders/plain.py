"""Arguments and results of orders, in a form that JSON has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from topicdb.arguments.times import duration_us, optional_time_us, time_us
from topicdb.follow.positions import Place
from topicdb.replay.endpoint.starting import ReplayStart
from topicdb.replay.ids import MessageId
from topicdb.replay.rules import Promotion, checked_promotions
from topicdb.replay.states import Event, Progress, State


def start_plain(start: ReplayStart) -> Any:
    """Returns the start of a replay as it travels; a relative time is by the clock of here.

    Raises ValueError or TypeError if it is no start.
    """
    if isinstance(start, MessageId):
        return {"after": str(start)}
    if isinstance(start, str) and start == "beginning":
        return start
    return time_us(start, what="start")


def start_of(plain: Any) -> ReplayStart:
    """Returns the start for which ``start_plain`` gave this.

    Raises ValueError for an id that is none.
    """
    if not isinstance(plain, Mapping):
        return plain  # type: ignore[no-any-return]
    text = plain.get("after")
    if not isinstance(text, str):
        raise ValueError("start: expected 'beginning', a time, or an id")
    return MessageId.parse(text)


def replay_plain(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of ``Endpoint.replay`` as they travel.

    Raises ValueError or TypeError if a time or a duration is none.
    """
    plain = dict(options)
    if "end" in plain:
        plain["end"] = optional_time_us(plain["end"], what="end")
    if isinstance(plain.get("stall_timeout"), timedelta):
        plain["stall_timeout"] = f"{duration_us(plain['stall_timeout'], what='stall_timeout')}us"
    return plain


def promotion_plain(promote: Sequence[Promotion | str]) -> list[Any]:
    """Returns rules as they travel. Raises what ``checked_promotions`` raises."""
    return [list(rule) for rule in checked_promotions(promote)]


def info_of(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what ``ReplayLog.info`` had returned."""
    return {**plain, "first": Place(*plain["first"])}


def event_of(plain: Sequence[Any]) -> Event:
    """Returns the event that has travelled."""
    time, endpoint, before, state, reason, text = plain
    return Event(time, endpoint, State(before), State(state), reason, text)


def progress_of(plain: Sequence[Any]) -> Progress:
    """Returns the progress that has travelled."""
    state, *rest = plain
    return Progress(State(state), *rest)
