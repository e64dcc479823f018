"""The commands: each takes options, makes one call, and prints the result."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import topicdb
from topicdb import _core, jobs
from topicdb.cli import output, report
from topicdb.cli.commands import bridge, care, lifecycle, parquet, queue, readers, serve
from topicdb.cli.commands.replay import commands as replay_commands
from topicdb.cli.errors import EXIT_INTERRUPTED, ErrorGroup
from topicdb.cli.ingest.ingest import Counts, Source, Target
from topicdb.cli.ingest.ingest import ingest as run_ingest
from topicdb.cli.ingest.mapping import WHOLE_ROW, Mapping, TimeUnit, TopicTemplate
from topicdb.cli.ingest.records import Format, format_of
from topicdb.cli.options import (
    TIME,
    DurabilityChoice,
    EndOption,
    FilterArgument,
    JsonOption,
    OnError,
    PartialOption,
    PathArgument,
    PropertiesOption,
    RawOption,
    ShardBy,
    ShardByOption,
    ShardsOption,
    StartOption,
    StructureOption,
    TzOption,
    creating,
    opened_to_read,
)
from topicdb.cli.times import optional_time, range_of

app = typer.Typer(
    cls=ErrorGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(queue.app, name="queue")
app.add_typer(serve.token_app, name="token")
app.add_typer(replay_commands.app, name="replay")


def run() -> int:
    """Runs the command line of this process, and returns or exits with the exit code."""
    try:
        app(prog_name="topicdb")
    except KeyboardInterrupt:  # it came before or after a command ran
        return EXIT_INTERRUPTED
    return 0


def _show_version(wanted: bool) -> None:
    if wanted:
        print(
            f"topicdb {topicdb.__version__} "
            f"(format {_core.FORMAT_VERSION}, RocksDB {_core.ROCKSDB_VERSION})"
        )
        raise typer.Exit()


@app.callback()
def topicdb_command(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback with an error.")] = False,
) -> None:
    """Stores, finds and shows MQTT messages in a TopicDB database.

    Reading commands open the database read-only: they work while another process writes it.
    Exit codes: 0 done, 1 error, 2 wrong usage, 3 another process has the lock, 130 interrupted.
    """


@app.command()
def info(path: PathArgument) -> None:
    """Show the schema, the slabs, counts, sizes, the time range, and which shards are missing."""
    with opened_to_read(path, partial=True) as database:
        report.print_info(database)


@app.command()
def ingest(
    path: PathArgument,
    file: Annotated[str, typer.Argument(help="Input file; - for stdin.")],
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
) -> None:
    """Store messages from JSON lines or CSV, and create the database if there is none.

    Messages of FILE that the database has already are left out.
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
    mapping = Mapping(template, timestamp, time_unit, value, encoding, tz, key)
    schema = creating(shards, ShardBy.KEY if key is not None else shard_by, structure)
    counts = run_ingest(
        Source(file, chosen_format, mapping),
        Target(path, durability.value, schema, raw, repeat),
        batch_rows,
        skip_bad=on_error is OnError.SKIP,
    )
    print(_ingest_summary(counts, path, file))


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


@app.command()
def scan(
    path: PathArgument,
    filter: FilterArgument = "#",
    start: StartOption = None,
    end: EndOption = None,
    tz: TzOption = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Print at most this many messages.")
    ] = None,
    order: Annotated[
        output.Order,
        typer.Option(
            help="stream: one stream after the other, each by time; time: all by timestamp; "
            "none: as messages are stored, which is fastest."
        ),
    ] = output.Order.STREAM,
    json_lines: Annotated[
        bool,
        typer.Option("--json", help="JSON lines; values that are not UTF-8 as base64."),
    ] = False,
    to: Annotated[
        Path | None, typer.Option(help="Write a Parquet file (.parquet) instead.")
    ] = None,
    properties: PropertiesOption = False,
    raw: RawOption = False,
    partial: PartialOption = False,
) -> None:
    """Show the messages whose topic matches FILTER."""
    _check_form(properties=properties, raw=raw)
    if to is not None and json_lines:
        raise typer.BadParameter("give --json or --to, not both")
    if to is not None and to.suffix != ".parquet":
        raise typer.BadParameter(f"{to}: the name must end with .parquet", param_hint="--to")
    with opened_to_read(path, partial=partial) as database:
        found = database.scan(
            filter,
            **range_of(start, end, tz),
            order=order.value,
            properties=properties,
            raw=raw,
            partial=partial,
        )
        if to is not None:
            print(f"wrote {output.write_parquet(found, to, limit):,} messages to {to}")
        else:
            line = output.json_line if json_lines else output.human_line
            output.write_lines(found, line, limit)


@app.command()
def last(
    path: PathArgument,
    filter: FilterArgument = "#",
    at: Annotated[
        str | None, typer.Option(help=f"As it was then, messages of that moment included. {TIME}")
    ] = None,
    start: StartOption = None,
    tz: TzOption = None,
    json_lines: Annotated[
        bool,
        typer.Option("--json", help="JSON lines; values that are not UTF-8 as base64."),
    ] = False,
    properties: PropertiesOption = False,
    raw: RawOption = False,
    partial: PartialOption = False,
) -> None:
    """Show the newest message of each topic that matches FILTER, by topic."""
    _check_form(properties=properties, raw=raw)
    options = {"properties": properties, "raw": raw, "partial": partial}
    with opened_to_read(path, partial=partial) as database:
        since = optional_time(start, "--start", tz)
        when = optional_time(at, "--at", tz)
        if when is None:
            found = database.last(filter, start=since, **options)
        else:
            found = database.state_at(when, filter, start=since, **options)
        output.write_lines(found, output.json_line if json_lines else output.human_line, None)


def _check_form(*, properties: bool, raw: bool) -> None:
    if properties and raw:
        raise typer.BadParameter("give --properties or --raw, not both")


@app.command()
def streams(
    path: PathArgument,
    filter: FilterArgument = "#",
    start: StartOption = None,
    end: EndOption = None,
    tz: TzOption = None,
    partial: PartialOption = False,
) -> None:
    """List the streams that may hold messages for FILTER."""
    with opened_to_read(path, partial=partial) as database:
        found = database.streams(filter, **range_of(start, end, tz), partial=partial)
        report.print_streams(found)


@app.command()
def spark_log(path: PathArgument) -> None:
    """List the jobs that were stored; of each streaming query of Spark, the last batch."""
    with topicdb.open(path, mode="r") as database:
        report.print_jobs(jobs.applied(database))


@app.command()
def structures(
    path: PathArgument,
    filter: FilterArgument = "#",
    sizes: Annotated[
        bool, typer.Option("--sizes", help="With messages and bytes: reads all of them.")
    ] = False,
    partial: PartialOption = False,
) -> None:
    """Show the learned topic structures that may match FILTER, as a tree."""
    with opened_to_read(path, partial=partial) as database:
        found = database.structures(filter, partial=partial)
        measured = report.structure_sizes(database, filter, found) if sizes else None
        report.console().print(report.structure_tree(found, database.path, measured))


@app.command()
def stats(
    path: PathArgument,
    as_json: JsonOption = False,
) -> None:
    """Show counts, sizes and the state of each shard, and which shards are missing."""
    with opened_to_read(path, partial=True) as database:
        figures: dict[str, Any] = database.stats()
        if as_json:
            json.dump(figures, sys.stdout, ensure_ascii=False)
            sys.stdout.write("\n")
        else:
            report.print_stats(figures)


app.command("export")(parquet.export)
app.command("import")(parquet.import_files)
app.command()(lifecycle.retention)
app.command()(lifecycle.usage)
app.command()(lifecycle.plan)
app.command()(lifecycle.trim)
app.command()(lifecycle.rotate)
app.command()(care.snapshot)
app.command()(care.restore)
app.command()(care.verify)
app.command()(care.repair)
app.command()(care.drop)
app.command()(care.ls)
app.command()(readers.readers)
app.command()(serve.serve)
app.command()(serve.quota)
app.command()(bridge.bridge)
