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
        str, typer.Argument(metavar="FILE", help="Input file, or - for standard input.")
    ],
    format: Annotated[
        Format | None,
        typer.Option(help="Format of FILE. By default by its extension; stdin is json (lines)."),
    ] = None,
    topic: Annotated[
        str, typer.Option(help="Column with the topic, or a template: 'site/{plant}/pump/{id}'.")
    ] = "topic",
    timestamp: Annotated[
        str | None,
        typer.Option(
            help="Column with the time: ISO 8601 with a zone, or a number; by default timestamp. "
            "Where it is missing or empty, the time of the commit."
        ),
    ] = None,
    time_unit: Annotated[
        TimeUnit | None,
        typer.Option(help="Unit of numbers; by default us, where they can be meant to be."),
    ] = None,
    tz: TzOption = None,
    value: Annotated[
        str, typer.Option(help="Column with the value; * for the rest of the record as JSON.")
    ] = WHOLE_ROW,
    all_text: Annotated[
        bool,
        typer.Option(
            "--all-text",
            help="Keep each CSV cell as text. Without it, a cell such as 21.5 becomes a number.",
        ),
    ] = False,
    key: Annotated[
        str | None,
        typer.Option(
            help="Column with the key of the message, which decides its shard (--shard-by key). "
            "Where it is missing or empty, the topic decides."
        ),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(
            help="Column that says base64 where the value is base64 text, as in scan --json."
        ),
    ] = None,
    batch_rows: Annotated[
        int, typer.Option(min=1, help="Messages in a batch: stored all or none.")
    ] = 10_000,
    durability: Annotated[
        DurabilityChoice,
        typer.Option(help="A batch survives: none (a close), os (kill -9), disk (a power cut)."),
    ] = DurabilityChoice.OS,
    on_error: Annotated[
        OnError, typer.Option(help="At a line that makes no message: stop, or skip and count it.")
    ] = OnError.STOP,
    raw: Annotated[
        bool,
        typer.Option("--raw", help="Values are as scan --raw gives them, with their properties."),
    ] = False,
    repeat: Annotated[
        bool, typer.Option("--repeat", help="Store a file's messages although they are there.")
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
        template, timestamp, time_unit, value, encoding, tz, key, cells_as_numbers=numbers
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
