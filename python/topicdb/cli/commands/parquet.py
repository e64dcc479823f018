"""``topicdb export`` and ``topicdb import``: write and store Parquet files."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.filesize import decimal

import topicdb
from topicdb import _core
from topicdb.cli.options import (
    AcknowledgedOption,
    EndOption,
    FiltersOption,
    JsonOption,
    PartialOption,
    ShardBy,
    ShardByOption,
    ShardsOption,
    StartOption,
    StructureOption,
    TzOption,
    creating,
    directory_argument,
    seen_of,
)
from topicdb.cli.output import print_json
from topicdb.cli.places import Place, at_place
from topicdb.cli.progress import Meter
from topicdb.cli.times import range_of
from topicdb.parquet.files import Exported, Imported, import_into, schema_for

PathArgument = Annotated[
    str,
    directory_argument(
        "it prepares the messages in files of the database, so that all or none of them appear; "
        "run it on the machine of the database, or send JSON lines or CSV to the server with "
        "topicdb ingest"
    ),
]


@at_place
def export(
    place: Place,
    to: Annotated[
        str,
        typer.Argument(
            metavar="TO", help="Give a new file (.parquet), or a new directory for several files."
        ),
    ],
    filter: FiltersOption = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Write every topic, also those that begin with $.")
    ] = False,
    start: StartOption = None,
    end: EndOption = None,
    tz: TzOption = None,
    rows_per_file: Annotated[
        int | None, typer.Option(min=1, help="Put at most this many messages in a file.")
    ] = None,
    properties: Annotated[
        bool | None,
        typer.Option(
            help="Write columns of MQTT properties, or leave them out. By default they are written "
            "if a message has any."
        ),
    ] = None,
    partial: PartialOption = False,
    acknowledged: AcknowledgedOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write messages to Parquet files, which import reads back.

    \b
    Example:
      topicdb export fleet.db june.parquet --start 2026-06-01 --end 2026-07-01
    """
    if filter and everything:
        raise typer.BadParameter("give --filter or --all, not both")
    filters: str | list[str] | None = filter or "#"
    if isinstance(filters, list) and len(filters) == 1:
        (filters,) = filters
    with place.read(partial=partial) as database, Meter(of_messages=True) as meter:
        done = database.export_parquet(
            to,
            None if everything else filters,
            **range_of(start, end, tz),
            rows_per_file=rows_per_file,
            properties=properties,
            progress=meter.advance,
            partial=partial,
            at_least=seen_of(acknowledged=acknowledged),
        )
    if as_json:
        print_json(_json_of(done))
    else:
        print(f"exported {done.messages:,} messages to {to}: {_size(done.files, done.bytes)}")


def import_files(
    path: PathArgument,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="Give Parquet files or directories of them, in the order in which they "
            "are stored.",
        ),
    ],
    repeat: Annotated[
        bool,
        typer.Option("--repeat", help="Store the messages although they were imported before."),
    ] = False,
    key: Annotated[
        str | None,
        typer.Option(
            help="Take from this column the key of the message, which decides its shard "
            "(--shard-by key). Where it is null, the topic decides."
        ),
    ] = None,
    shards: ShardsOption = None,
    shard_by: ShardByOption = None,
    structure: StructureOption = None,
    as_json: JsonOption = False,
) -> None:
    """Store the messages of Parquet files, all or none.

    The command makes the database if there is none. It works while another process has it open for
    writing.

    \b
    Example:
      topicdb import fleet.db june.parquet
    """
    if key is not None and shard_by is ShardBy.TOPIC:
        raise typer.BadParameter("--key goes with --shard-by key")
    shard_by = ShardBy.KEY if key is not None else shard_by
    _prepare(path, files, creating(shards, shard_by, structure), key)
    with Meter(of_messages=True) as meter:
        done = import_into(path, files, key=key, repeat=repeat, progress=meter.advance)
    if as_json:
        print_json(_json_of(done))
    else:
        print(_import_summary(done, path))


def _json_of(done: Exported | Imported) -> dict[str, Any]:
    return dict(asdict(done))


def _prepare(path: str, files: list[str], options: dict[str, Any], key: str | None) -> None:
    """Creates the database if there is none, else checks the options against it."""
    schema = schema_for(files, key=key)  # before anything is made
    try:
        _core.read_schema(path)
    except topicdb.NotFoundError:
        topicdb.open(path, **schema, **options).close()
    else:
        topicdb.open(path, mode="r", **options).close()


def _import_summary(done: Imported, path: str) -> str:
    what = f"{done.messages:,} messages of {_size(done.files, done.bytes)}"
    if done.repeated:
        return f"{path} has the {what} already: nothing was stored (--repeat stores them again)"
    late = f"; shards {done.pending} of a busy process show them later" if done.pending else ""
    return f"stored {what} in {path}{late}"


def _size(files: list[str], size: int) -> str:
    return f"{len(files):,} file{'' if len(files) == 1 else 's'}, {decimal(size)}"
