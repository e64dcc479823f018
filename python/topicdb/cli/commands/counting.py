"""The command ``count``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from topicdb.cli import report
from topicdb.cli.errors import UserError
from topicdb.cli.options import (
    AcknowledgedOption,
    EndOption,
    FilterArgument,
    JsonOption,
    PartialOption,
    StartOption,
    TzOption,
    seen_of,
)
from topicdb.cli.output import print_json, printable
from topicdb.cli.places import Place, at_place
from topicdb.cli.progress import Waiting
from topicdb.cli.times import parse_time, range_of, time_text
from topicdb.types import MessageGroup

LevelsOption = Annotated[
    str,
    typer.Option(
        "--levels",
        metavar="N|all",
        help="Count by the first N levels of the topics, or by whole topics.",
    ),
]
SpanOption = Annotated[
    str | None,
    typer.Option(
        "--span",
        metavar="DURATION",
        help="Count by spans of time of this length, such as 1h. Spans begin at midnight.",
    ),
]


@at_place
def count(
    place: Place,
    filter: FilterArgument = "#",
    levels: LevelsOption = "0",
    span: SpanOption = None,
    start: StartOption = None,
    end: EndOption = None,
    tz: TzOption = None,
    partial: PartialOption = False,
    acknowledged: AcknowledgedOption = False,
    as_json: JsonOption = False,
) -> None:
    """Count the messages that match FILTER, all together, by topic or by time.

    \b
    Example:
      topicdb count fleet.db 'site/#' --start yesterday --end today
      topicdb count fleet.db --levels 2 --span 1h
    """
    topic_levels = _levels_of(levels)
    bounds = range_of(start, end, tz)
    with place.read(partial=partial) as database, Waiting("counting"):
        groups = database.summarize(
            filter,
            **bounds,
            topic_levels=topic_levels,
            span=span,
            origin=parse_time("today", "--span", tz) if span is not None else 0,
            partial=partial,
            at_least=seen_of(acknowledged=acknowledged),
        )
    if as_json:
        print_json({"groups": [asdict(group) for group in groups]})
    else:
        _print_groups(groups, by_topic=topic_levels != 0, by_time=span is not None)


def _levels_of(text: str) -> int | None:
    if text == "all":
        return None
    if text.isascii() and text.isdigit():
        return int(text)
    raise UserError(f"--levels: expected a number of levels or 'all', got {text!r}")


def _print_groups(groups: Sequence[MessageGroup], *, by_topic: bool, by_time: bool) -> None:
    columns = [("topic", by_topic), ("from", by_time), ("messages>", True)]
    rows = report.table(*(name for name, is_shown in columns if is_shown), "first", "last")
    for group in groups:
        span_start = "" if group.span_start is None else time_text(group.span_start)
        cells = [(printable(group.topic), by_topic), (span_start, by_time)]
        rows.add_row(
            *(cell for cell, is_shown in cells if is_shown),
            f"{group.messages:,}",
            time_text(group.first_timestamp),
            time_text(group.last_timestamp),
        )
    report.console().print(rows if groups else "no message matches")
