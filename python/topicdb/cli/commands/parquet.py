"""``topicdb export`` and ``topicdb import``: write and store Parquet files."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.filesize import decimal

import topicdb
from topicdb import _core
from topicdb.cli.options import (
    EndOption,
    PartialOption,
    PathArgument,
    ShardBy,
    ShardByOption,
    ShardsOption,
    StartOption,
    StructureOption,
    TzOption,
    creating,
    opened_to_read,
)
from topicdb.cli.progress import Meter
from topicdb.cli.times import range_of
from topicdb.parquet.files import Imported, import_into, schema_for


def export(
    path: PathArgument,
    to: Annotated[
        str, typer.Argument(help="A new file (.parquet), or a new directory for several.")
    ],
    filter: Annotated[
        list[str] | None,
        typer.Option(help="Topic filter; may be repeated. By default '#'."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every topic, also those that begin with $.")
    ] = False,
    start: StartOption = None,
    end: EndOption = None,
    tz: TzOption = None,
    rows_per_file: Annotated[
        int | None, typer.Option(min=1, help="Messages in a file of a directory at most.")
    ] = None,
    properties: Annotated[
        bool | None,
        typer.Option(help="With columns of MQTT properties, or without; else if there are any."),
    ] = None,
    partial: PartialOption = False,
) -> None:
    """Write messages to Parquet files, which import reads back."""
    if filter and everything:
        raise typer.BadParameter("give --filter or --all, not both")
    filters: str | list[str] | None = filter or "#"
    if isinstance(filters, list) and len(filters) == 1:
        (filters,) = filters
    with opened_to_read(path, partial=partial) as database, Meter(of_messages=True) as meter:
        done = database.export_parquet(
            to,
            None if everything else filters,
            **range_of(start, end, tz),
            rows_per_file=rows_per_file,
            properties=properties,
            progress=meter.advance,
            partial=partial,
        )
    print(f"exported {done.messages:,} messages to {to}: {_size(done.files, done.bytes)}")


def import_files(
    path: PathArgument,
    files: Annotated[
        list[str], typer.Argument(help="Parquet files, or directories of them, in this order.")
    ],
    repeat: Annotated[
        bool, typer.Option("--repeat", help="Store them although they were imported before.")
    ] = False,
    key: Annotated[
        str | None,
        typer.Option(
            help="Column with the key of the message, which decides its shard (--shard-by key). "
            "Where it is null, the topic decides."
        ),
    ] = None,
    shards: ShardsOption = None,
    shard_by: ShardByOption = None,
    structure: StructureOption = None,
) -> None:
    """Store the messages of Parquet files, all or none.

    Creates the database if there is none. Works while another process has it open for writing.
    """
    if key is not None and shard_by is ShardBy.TOPIC:
        raise typer.BadParameter("--key goes with --shard-by key")
    shard_by = ShardBy.KEY if key is not None else shard_by
    _prepare(path, files, creating(shards, shard_by, structure), key)
    with Meter(of_messages=True) as meter:
        done = import_into(path, files, key=key, repeat=repeat, progress=meter.advance)
    print(_import_summary(done, path))


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
