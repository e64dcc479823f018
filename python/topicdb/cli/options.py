"""Arguments and options that several commands share."""

from __future__ import annotations

from datetime import datetime, timezone, tzinfo
from enum import Enum
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

import topicdb
from topicdb.arguments.times import TimeLike, naive_of, time_of_text
from topicdb.cli.errors import UserError

PathArgument = Annotated[str, typer.Argument(help="Directory of the database.")]
FilterArgument = Annotated[str, typer.Argument(help="Topic filter, such as 'metrics/+/cpu'.")]
TIME = "ISO 8601 with a zone, microseconds since 1970, or relative: -24h."
StartOption = Annotated[str | None, typer.Option(help=f"First timestamp. {TIME}")]
EndOption = Annotated[str | None, typer.Option(help=f"Timestamp to stop before. {TIME}")]
TzOption = Annotated[
    str | None,
    typer.Option(
        "--tz", metavar="ZONE", help="Zone of times that have none: Europe/Berlin, UTC, or local."
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


def time_of(text: str, what: str, zone: str | None = None) -> TimeLike:
    """Returns the time that ``text``, the value of the option ``what``, stands for.

    ``zone`` is that of --tz; it is for times without a zone. Raises ValueError for such a time
    without ``zone``, and for a number that is hardly meant to be microseconds. Text that is no time
    is returned as it is: ``topicdb.arguments.times`` refuses it.
    """
    naive = naive_of(text)
    if naive is None:
        return time_of_text(text, what=what)
    if zone is None:
        raise ValueError(
            f"{what}: {text!r} has no time zone; end it with Z or +02:00, or say with --tz which "
            "it is in: --tz UTC, --tz Europe/Berlin, --tz local"
        )
    return in_zone(naive, zone)


def optional_time_of(text: str | None, what: str, zone: str | None = None) -> TimeLike | None:
    """Returns ``time_of`` of the text, or None for None."""
    return None if text is None else time_of(text, what, zone)


def range_of(start: str | None, end: str | None, zone: str | None) -> dict[str, Any]:
    """Returns the arguments ``start`` and ``end`` as the API takes them."""
    return {
        "start": optional_time_of(start, "--start", zone),
        "end": optional_time_of(end, "--end", zone),
    }


def in_zone(naive: datetime, zone: str) -> datetime:
    """Returns a time without a zone as one of the zone that --tz names.

    Raises ValueError for a time that Python cannot say in UTC.
    """
    found = zone_of(zone)
    try:
        return naive.astimezone() if found is None else naive.replace(tzinfo=found)
    except (OverflowError, ValueError):  # only that of this machine makes the time in UTC here
        when = naive.isoformat()
        raise ValueError(f"{when} in zone {zone} is outside of the years 1 to 9999") from None


def zone_of(name: str) -> tzinfo | None:
    """Returns the zone that --tz names; None is that of this machine.

    Raises UserError if there is no such zone.
    """
    if name == "local":
        return None
    if name.upper() in ("UTC", "Z"):
        return timezone.utc
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UserError(
            f"--tz: there is no time zone {name!r}; write UTC, local, or a name such as "
            "Europe/Berlin"
        ) from None


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
