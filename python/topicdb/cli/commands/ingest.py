"""``topicdb ingest``: stores JSON lines or CSV."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from topicdb.cli.ingest.ingest import Counts, Source, Target
from topicdb.cli.ingest.ingest import ingest as run_ingest
from topicdb.cli.ingest.mapping import WHOLE_ROW, Mapping, TimeUnit, TopicTemplate
from topicdb.cli.ingest.records import Format, format_of
from topicdb.cli.options import (
    DurabilityChoice,
    JsonOption,
    OnError,
    ShardBy,
    ShardByOption,
    ShardsOption,
    StructureOption,
    TzOption,
    creating,
)
from topicdb.cli.output import print_json
from topicdb.cli.places import Place, at_place


@at_place
def ingest(
    place: Place,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Give a file, or - for standard input.")
    ],
    format: Annotated[
        Format | None,
        typer.Option(
            help="Read FILE in this format. By default its extension decides, and "
            "standard input is JSON lines."
        ),
    ] = None,
    topic: Annotated[
        str,
        typer.Option(
            help="Take the topic from this column, or from a template: 'site/{plant}/pump/{id}'."
        ),
    ] = "topic",
    timestamp: Annotated[
        str | None,
        typer.Option(
            help="Take the time from this column, as ISO 8601 with a zone, or a number. "
            "By default it is timestamp. Where it is missing or empty, the message "
            "gets the time of its commit."
        ),
    ] = None,
    timestamp_unit: Annotated[
        TimeUnit | None,
        typer.Option(
            help="Take numbers for times in this unit. By default they are microseconds, and a "
            "number that can hardly mean those is an error."
        ),
    ] = None,
    tz: TzOption = None,
    value: Annotated[
        str,
        typer.Option(
            help="Take the value from this column, or with * the rest of the record as JSON."
        ),
    ] = WHOLE_ROW,
    all_text: Annotated[
        bool,
        typer.Option(
            "--all-text",
            help="Keep each CSV cell as text. By default, a cell such as 21.5 becomes a number.",
        ),
    ] = False,
    key: Annotated[
        str | None,
        typer.Option(
            help="Take from this column the key of the message, which decides its shard "
            "(--shard-by key). Where it is missing or empty, the topic decides."
        ),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(
            help="Look in this column, which says base64 where the value is base64 text, "
            "as in scan --json."
        ),
    ] = None,
    batch_rows: Annotated[
        int, typer.Option(min=1, help="Store this many messages in a batch, all or none of them.")
    ] = 10_000,
    durability: Annotated[
        DurabilityChoice,
        typer.Option(
            help="Choose what a stored batch survives: none (a close), os (kill -9) or "
            "disk (a power cut)."
        ),
    ] = DurabilityChoice.OS,
    on_error: Annotated[
        OnError,
        typer.Option(
            help="Choose what happens at a line that makes no message: stop, or skip it "
            "and count it."
        ),
    ] = OnError.STOP,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw", help="Take values as scan --raw gives them, with their properties in them."
        ),
    ] = False,
    repeat: Annotated[
        bool,
        typer.Option(
            "--repeat", help="Store the messages of a file although they are there already."
        ),
    ] = False,
    shards: ShardsOption = None,
    shard_by: ShardByOption = None,
    structure: StructureOption = None,
    as_json: JsonOption = False,
) -> None:
    """Store messages from JSON lines or CSV, and make the database if there is none.

    Messages of FILE that the database has already are left out.

    \b
    Example:
      topicdb ingest fleet.db pumps.csv --topic 'site/{plant}/pump/{id}' --timestamp at
    """
    chosen_format = format or format_of(file)
    if chosen_format is None:
        raise typer.BadParameter(
            f"{file}: the extension tells no format; give --format json or csv"
            " (Parquet files: topicdb import)"
        )
    if encoding is not None and value == WHOLE_ROW:
        raise typer.BadParameter("--encoding goes with --value COLUMN")
    try:
        template = TopicTemplate(topic)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--topic") from None
    if key is not None and shard_by is ShardBy.TOPIC:
        raise typer.BadParameter("--key goes with --shard-by key")
    numbers = chosen_format is Format.CSV and not all_text
    mapping = Mapping(
        template, timestamp, timestamp_unit, value, encoding, tz, key, cells_as_numbers=numbers
    )
    if key is not None and not place.is_url:
        shard_by = ShardBy.KEY
    schema = creating(shards, shard_by, structure)
    counts = run_ingest(
        Source(file, chosen_format, mapping),
        Target(place, durability.value, schema, raw, repeat, has_keys=key is not None),
        batch_rows,
        skip_bad=on_error is OnError.SKIP,
    )
    if as_json:
        print_json(asdict(counts))
    else:
        print(_ingest_summary(counts, place.where, file))


def _ingest_summary(counts: Counts, path: str, file: str) -> str:
    if counts.repeated and not counts.stored:
        text = f"{path} has the {counts.repeated:,} messages of {file} already: nothing was stored"
    else:
        text = f"stored {counts.stored:,} messages in {path}"
    if counts.assigned:
        text += f", {counts.assigned:,} of them with the time of their commit"
    if counts.repeated and counts.stored:
        text += f"; {counts.repeated:,} others of {file} were there already"
    if counts.repeated:
        text += " (--repeat stores them again)"
    if counts.skipped:
        text += f"; skipped {counts.skipped:,} bad lines"
    return text
