"""``topicdb top``: a live table of what comes in."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Annotated, Any

import typer
from rich.filesize import decimal
from rich.live import Live
from rich.table import Table

import topicdb
from topicdb.arguments.times import duration_us, now_us
from topicdb.cli.options import FiltersArgument, JsonOption
from topicdb.cli.output import json_fields, print_json, printable, value_text
from topicdb.cli.places import Place, at_place
from topicdb.cli.report import console, table
from topicdb.cli.stopping import stopped_by_signals

_EVERY = "2s"
_ROWS = 20
_VALUE_CHARACTERS_MAX = 60
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


class By(str, Enum):
    """What a row of the table is."""

    TOPIC = "topic"
    FILTER = "filter"


class Sort(str, Enum):
    """What the rows are sorted by."""

    MESSAGES = "messages"
    BYTES = "bytes"
    AGE = "age"
    NAME = "name"


@dataclass
class Row:
    """A topic or a filter: what came in the last interval, and its newest message.

    ``messages`` are those of the interval, and ``size`` the bytes of their topics and values.
    ``value`` and ``timestamp`` are of the newest message.
    """

    name: str
    messages: int = 0
    size: int = 0
    timestamp: int = -1
    value: bytes = b""

    def newest(self, message: topicdb.Message) -> None:
        """Takes the value of a message that is not older than those before."""
        if message.timestamp >= self.timestamp:
            self.timestamp, self.value = message.timestamp, message.value


@at_place
def top(
    place: Place,
    filter: FiltersArgument = None,
    by: Annotated[
        By, typer.Option(help="Show a row for each topic, or for each FILTER.")
    ] = By.TOPIC,
    sort: Annotated[
        Sort, typer.Option(help="Sort by messages or bytes a second, by age, or by name.")
    ] = Sort.MESSAGES,
    limit: Annotated[
        int, typer.Option(min=1, metavar="N", help="Show at most this many rows.")
    ] = _ROWS,
    every: Annotated[
        str,
        typer.Option(
            metavar="AGE",
            help="Measure over this time, and show the table again each time that it has passed.",
        ),
    ] = _EVERY,
    once: Annotated[bool, typer.Option("--once", help="Print one table and end.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show which topics get messages now: how many and how much a second, and the newest value.

    The rates count messages by their timestamps, over the time of --every. The age is that of the
    newest message. The table is shown again until Ctrl-C.

    \b
    Example:
      topicdb top fleet.db 'site/#'
      topicdb top fleet.db 'site/#' 'alarm/#' --by filter --every 10s --once
    """
    every_us = duration_us(every, what="--every")
    filters = filter or ["#"]
    with place.read() as database, stopped_by_signals() as stopped:
        out = console()
        is_live = out.is_terminal and not once and not as_json
        live = Live(console=out, auto_refresh=False) if is_live else None
        with live or nullcontext():
            while True:
                began_s = time.monotonic()
                database.refresh()
                now = now_us()
                found = _sorted(_measured(database, filters, by, now - every_us), sort)
                shown = found[:limit]
                if as_json:
                    print_json({"top": [_json_of(row, every_us, now) for row in shown]})
                elif live is not None:
                    live.update(_table(shown, len(found), by, every_us, now), refresh=True)
                else:
                    out.print(_table(shown, len(found), by, every_us, now))
                left_s = every_us / 1e6 - (time.monotonic() - began_s)
                if once or stopped.wait(max(left_s, 0.0)):
                    return


def _measured(database: topicdb.Database, filters: list[str], by: By, start: int) -> Iterable[Row]:
    """Returns the rows of the messages since ``start``, with the newest message of each."""
    if by is By.FILTER:
        return [_row_of_filter(database, one, start) for one in dict.fromkeys(filters)]
    found: dict[str, Row] = {}
    for message in database.last(filters):
        found[message.topic] = row = Row(message.topic)
        row.newest(message)
    for batch in database.scan(filters, start=start, order="none").batches():
        for message in batch:
            row = found.setdefault(message.topic, Row(message.topic))
            _count(row, message)
    return found.values()


def _row_of_filter(database: topicdb.Database, filter: str, start: int) -> Row:
    row = Row(filter)
    for message in database.last(filter):
        row.newest(message)
    for batch in database.scan(filter, start=start, order="none").batches():
        for message in batch:
            _count(row, message)
    return row


def _count(row: Row, message: topicdb.Message) -> None:
    row.messages += 1
    row.size += len(message.topic.encode()) + len(message.value)
    row.newest(message)


def _sorted(rows: Iterable[Row], sort: Sort) -> list[Row]:
    keys: dict[Sort, Any] = {
        Sort.MESSAGES: lambda row: (-row.messages, -row.timestamp, row.name),
        Sort.BYTES: lambda row: (-row.size, -row.timestamp, row.name),
        Sort.AGE: lambda row: (-row.timestamp, row.name),
        Sort.NAME: lambda row: row.name,
    }
    return sorted(rows, key=keys[sort])


def _table(rows: list[Row], count: int, by: By, every_us: int, now: int) -> Table:
    found = table(by.value, "messages/s>", "bytes/s>", "age>", "newest value")
    for row in rows:
        value = value_text(row.value)
        if len(value) > _VALUE_CHARACTERS_MAX:
            value = value[:_VALUE_CHARACTERS_MAX] + "…"
        found.add_row(
            printable(row.name),
            f"{row.messages * 1e6 / every_us:,.1f}",
            decimal(round(row.size * 1e6 / every_us)),
            _age(row, now),
            value,
        )
    if count > len(rows):
        found.caption = f"{count - len(rows):,} more (--limit)"
        found.caption_justify = "left"
    return found


def _age(row: Row, now: int) -> str:
    if row.timestamp < 0:
        return "-"
    seconds = (now - row.timestamp) / 1e6
    size, unit = next((one for one in _UNITS if abs(seconds) >= one[0]), _UNITS[-1])
    return f"{seconds / size:.1f} {unit}"


def _json_of(row: Row, every_us: int, now: int) -> dict[str, Any]:
    fields = asdict(row)
    is_known = row.timestamp >= 0
    return {
        "name": fields["name"],
        "messages_per_s": row.messages * 1e6 / every_us,
        "bytes_per_s": row.size * 1e6 / every_us,
        "timestamp": row.timestamp if is_known else None,
        "age_us": now - row.timestamp if is_known else None,
        **json_fields("value", row.value),
    }
