"""The start of a replay: the place where it begins, its options, and how much it will replay."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from topicdb.arguments.times import TimeLike, duration_us, now_us, time_us
from topicdb.engine import Engine
from topicdb.follow.positions import Place
from topicdb.replay.endpoint.admission import Admission
from topicdb.replay.endpoint.reading import first_wanted
from topicdb.replay.errors import (
    IdsNotComparableError,
    StartMessageUnavailableError,
    StartTimeUnavailableError,
)
from topicdb.replay.ids import MessageId
from topicdb.replay.pacing import parse_rate
from topicdb.replay.records import EndpointRecord, RunRecord
from topicdb.replay.rules import era_of

if TYPE_CHECKING:
    from topicdb.replay.host import Host

ReplayStart: TypeAlias = "Literal['beginning'] | MessageId | TimeLike"
"""``"beginning"``; a time: messages with that timestamp or a later one; an id: what follows it."""
OnEarly: TypeAlias = Literal["fail", "clamp"]
STALL_TIMEOUT = "60s"
_ALL = (1 << 63) - 1


class Begin(NamedTuple):
    """Where a replay begins.

    Attributes:
        place: the place from which on it reads.
        start_us: messages with older timestamps are left out; 0 if it does not start from a time.
        text: the start that was asked for, for people.
    """

    place: Place
    start_us: int
    text: str


def begin_of(host: Host, start: ReplayStart, on_early: OnEarly) -> Begin:
    """Returns where a replay from ``start`` begins.

    Raises ValueError or TypeError if an argument is wrong, and ReplayError if the log has no such
    start; the subclass says why.
    """
    if on_early not in ("fail", "clamp"):
        raise ValueError(f"on_early: expected 'fail' or 'clamp', got {on_early!r}")
    if isinstance(start, MessageId):
        return _after(host, start)
    if isinstance(start, str) and start == "beginning":
        return Begin(host.first, 0, start)
    return _since(host, start, on_early)


def run_of(
    host: Host,
    client: str,
    begin: Begin,
    end: TimeLike | None,
    rate: str | float | None,
    stall_timeout: str | timedelta | None,
) -> RunRecord:
    """Returns the record of a replay of everything that was logged before now.

    Raises ValueError or TypeError if an option is wrong.
    """
    parse_rate(rate)
    return RunRecord(
        client,
        begin.text,
        begin.place,
        host.now(),
        begin.start_us,
        None if end is None else time_us(end, what="end"),
        rate,
        stall_timeout_us=None
        if stall_timeout is None
        else duration_us(stall_timeout, what="stall_timeout"),
    )


def messages_of(core: Engine, filters: list[str], run: RunRecord) -> int:
    """Returns about how many messages a replay has: those that are stored in its range.

    It regards neither selectors, nor what was not logged, nor the end of the replay.
    """
    if run.live_from.serial <= run.begin.serial:
        return 0
    after, until = run.begin.serial - 1, run.live_from.serial - 1
    span = core.measure_log(0, filters, after, until, run.start_us or None, _ALL, _ALL)
    return span.messages


def _since(host: Host, start: TimeLike, on_early: OnEarly) -> Begin:
    now = now_us()
    start_us = time_us(start, what="start", now=now)
    if start_us > now:
        raise StartTimeUnavailableError(f"start: {start!r} is in the future")
    oldest = oldest_us(host)
    if oldest is not None and start_us < oldest:
        if on_early == "fail":
            raise StartTimeUnavailableError(
                f"start: {start!r} is earlier than the oldest message of replay log {host.name!r} "
                f"({oldest} µs); give on_early='clamp' to begin with that"
            )
        return Begin(host.first, 0, str(start))
    found = host.core.places_at(_included(host), start_us).get(0, host.first)
    return Begin(max(host.first, Place(*found)), start_us, str(start))


def oldest_us(host: Host) -> int | None:
    """Returns the timestamp of the first logged message, in the order of commits, or None."""
    until = host.now()
    everything = EndpointRecord("", "queue", True, [], Place(0, 0))
    everything.run = RunRecord("", "", host.first, until)
    filters = _included(host)
    admission = Admission(everything, host.eras, None)
    found = first_wanted(host.core, filters, host.first, until, admission)
    return None if found is None else found.timestamp


def _included(host: Host) -> list[str]:
    """Returns the filters of what is logged, now and before."""
    return sorted({filter for era in host.eras() for filter in era.include})


def _after(host: Host, start: MessageId) -> Begin:
    if start.origin != host.origin:
        raise IdsNotComparableError(
            f"start: {start} is the id of a message in another database than {host.core.path}"
        )
    if not start.is_stored:
        raise StartMessageUnavailableError(
            f"start: {start} is the id of a direct message, which is not in the log"
        )
    place = start.place
    if place < host.first:
        raise StartMessageUnavailableError(f"start: message {start} was trimmed from the log")
    topic = _topic_at(host, place)
    if topic is None:
        raise StartMessageUnavailableError(f"start: there is no message {start} in the log")
    if not era_of(host.eras(), place).logs(topic):
        raise StartMessageUnavailableError(f"start: message {start} was not logged")
    return Begin(Place(place.serial, place.row + 1), 0, f"after {start}")


def _topic_at(host: Host, place: Place) -> str | None:
    finder = host.core.subscribe(_included(host), {0: (place.serial, place.row)}, 0, 1, 1)
    try:
        batch, _ = finder.find(0, [place])
        return batch[0].topic if len(batch) > 0 else None
    finally:
        finder.close()
