"""``topicdb scan`` and ``topicdb last``: show stored messages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from topicdb.cli import output
from topicdb.cli.options import (
    TIME,
    AcknowledgedOption,
    EndOption,
    FilterArgument,
    FormatOption,
    JsonLinesOption,
    PartialOption,
    PropertiesOption,
    RawOption,
    StartOption,
    TzOption,
    seen_of,
)
from topicdb.cli.places import Place, at_place
from topicdb.cli.times import optional_time, range_of


@at_place
def scan(
    place: Place,
    filter: FilterArgument = "#",
    start: StartOption = None,
    end: EndOption = None,
    tz: TzOption = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Stop after this many messages.")
    ] = None,
    order: Annotated[
        output.Order,
        typer.Option(
            help="Show messages in this order. stream reads one stream after the other, "
            "each by time, time merges all by timestamp, and none takes them as "
            "they are stored, which is fastest."
        ),
    ] = output.Order.STREAM,
    format: FormatOption = output.Format.TEXT,
    as_json: JsonLinesOption = False,
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write messages to this Parquet file (.parquet) instead of showing them.",
        ),
    ] = None,
    properties: PropertiesOption = False,
    raw: RawOption = False,
    partial: PartialOption = False,
    acknowledged: AcknowledgedOption = False,
) -> None:
    """Show the messages whose topic matches FILTER.

    \b
    Example:
      topicdb scan fleet.db 'site/+/pump' --start 'yesterday 14:02' --end now
    """
    format = chosen_format(format, as_json=as_json, properties=properties, raw=raw)
    if to is not None and format is not output.Format.TEXT and not as_json:
        raise typer.BadParameter("give a format or --to, not both")
    if to is not None and to.suffix != ".parquet":
        raise typer.BadParameter(f"{to}: the name must end with .parquet", param_hint="--to")
    with place.read(partial=partial) as database:
        found = database.scan(
            filter,
            **range_of(start, end, tz),
            order=order.value,
            properties=properties,
            raw=raw,
            partial=partial,
            at_least=seen_of(acknowledged=acknowledged),
        )
        if to is not None:
            written = output.write_parquet(found, to, limit)
            if as_json:
                output.print_json({"messages": written, "to": str(to)})
            else:
                print(f"wrote {written:,} messages to {to}")
        else:
            output.write_lines(found, format, limit)


@at_place
def last(
    place: Place,
    filter: FilterArgument = "#",
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help=f"Show what it was at this time, messages of that moment included. {TIME}",
        ),
    ] = None,
    start: StartOption = None,
    tz: TzOption = None,
    format: FormatOption = output.Format.TEXT,
    as_json: JsonLinesOption = False,
    properties: PropertiesOption = False,
    raw: RawOption = False,
    partial: PartialOption = False,
    acknowledged: AcknowledgedOption = False,
) -> None:
    """Show the newest message of each topic that matches FILTER, by topic.

    \b
    Example:
      topicdb last fleet.db 'site/#' --at 'yesterday 14:02'
    """
    format = chosen_format(format, as_json=as_json, properties=properties, raw=raw)
    options: dict[str, Any] = {
        "properties": properties,
        "raw": raw,
        "partial": partial,
        "at_least": seen_of(acknowledged=acknowledged),
    }
    with place.read(partial=partial) as database:
        since = optional_time(start, "--start", tz)
        when = optional_time(at, "--at", tz)
        if when is None:
            found = database.last(filter, start=since, **options)
        else:
            found = database.state_at(when, filter, start=since, **options)
        output.write_lines(found, format, None)


def chosen_format(
    format: output.Format, *, as_json: bool, properties: bool, raw: bool
) -> output.Format:
    """Returns the format that --format and --json name together.

    Raises typer.BadParameter for options that do not go together.
    """
    if properties and raw:
        raise typer.BadParameter("give --properties or --raw, not both")
    if as_json:
        if format not in (output.Format.TEXT, output.Format.JSON):
            raise typer.BadParameter(f"give --json or --format {format.value}, not both")
        format = output.Format.JSON
    if properties and format in (output.Format.CSV, output.Format.HEX):
        raise typer.BadParameter(f"--format {format.value} has no place for --properties")
    return format
