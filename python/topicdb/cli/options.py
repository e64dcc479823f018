"""Arguments and options that several commands share."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

import typer

import topicdb
from topicdb.cli import times

PathArgument = Annotated[str, typer.Argument(help="Directory of the database.")]
FilterArgument = Annotated[str, typer.Argument(help="Topic filter, such as 'metrics/+/cpu'.")]
TIME = f"A time is {times.EXAMPLES}."
StartOption = Annotated[
    str | None,
    typer.Option("--start", metavar="TIME", help=f"Begin with messages of this time. {TIME}"),
]
EndOption = Annotated[
    str | None,
    typer.Option("--end", metavar="TIME", help=f"Stop before messages of this time. {TIME}"),
]


def _show_in(name: str | None) -> str | None:
    times.show_in(name)
    return name


TzOption = Annotated[
    str | None,
    typer.Option(
        "--tz",
        metavar="ZONE",
        callback=_show_in,
        help="Read and show times in this zone: Europe/Berlin, UTC or local. By default local, the "
        "zone of this machine.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
PropertiesOption = Annotated[
    bool,
    typer.Option("--properties", help="With the MQTT properties that a bridge has stored."),
]
RawOption = Annotated[
    bool,
    typer.Option("--raw", help="Values as they are stored, with their properties in them."),
]
PartialOption = Annotated[
    bool,
    typer.Option("--partial", help="Leave out shards that are damaged or gone; stderr says which."),
]
ShardsOption = Annotated[int | None, typer.Option(help="Shards of a new database (else 1).")]


class ShardBy(str, Enum):
    """The values of ``shard_by`` of ``topicdb.open``."""

    TOPIC = "topic"
    KEY = "key"


ShardByOption = Annotated[
    ShardBy | None,
    typer.Option(help="What decides the shard of a message in a new database (else topic)."),
]
StructureOption = Annotated[
    list[str] | None,
    typer.Option(help="Structure hint of a new database: 'metrics/+/cpu/#'. May be repeated."),
]


def opened_to_read(path: str, *, partial: bool) -> topicdb.Database:
    """Opens a database to read; with ``partial``, without shards that are damaged or gone."""
    return topicdb.open(path, mode="r", on_damage="skip" if partial else "raise")


def creating(
    shards: int | None, shard_by: ShardBy | None, structure: list[str] | None
) -> dict[str, Any]:
    """Returns the options of ``topicdb.open`` for a database that is perhaps new."""
    return {
        "shards": shards,
        "shard_by": None if shard_by is None else shard_by.value,
        "structures": structure or None,
    }


class DurabilityChoice(str, Enum):
    """The values of ``durability`` of ``topicdb.open``."""

    NONE = "none"
    OS = "os"
    DISK = "disk"


class OnError(str, Enum):
    """What ``ingest`` does at a line that makes no message."""

    STOP = "stop"
    SKIP = "skip"


class OnDamage(str, Enum):
    """The values of ``on_damage`` of ``topicdb.open``."""

    RAISE = "raise"
    SKIP = "skip"
