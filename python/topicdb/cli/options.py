"""Arguments and options that several commands have."""

from enum import Enum
from typing import Annotated

import typer

PathArgument = Annotated[str, typer.Argument(help="Directory of the database.")]
FilterArgument = Annotated[str, typer.Argument(help="Topic filter, such as 'metrics/+/cpu'.")]
TIME = "ISO 8601 with a zone, microseconds since 1970, or relative: -24h."
StartOption = Annotated[str | None, typer.Option(help=f"First timestamp. {TIME}")]
EndOption = Annotated[str | None, typer.Option(help=f"Timestamp to stop before. {TIME}")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object.")]
PropertiesOption = Annotated[
    bool,
    typer.Option("--properties", help="With the MQTT properties that a bridge has stored."),
]
RawOption = Annotated[
    bool,
    typer.Option("--raw", help="Values as they are stored, with their properties in them."),
]
ShardsOption = Annotated[int | None, typer.Option(help="Shards of a new database (else 1).")]
StructureOption = Annotated[
    list[str] | None,
    typer.Option(help="Structure hint of a new database: 'metrics/+/cpu/#'. May be repeated."),
]


def time_of(text: str | None) -> str | int | None:
    """An option's time: digits are microseconds, anything else is for ``topicdb.times``."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else text


class DurabilityChoice(str, Enum):
    """As ``durability`` of ``topicdb.open``."""

    NONE = "none"
    OS = "os"
    DISK = "disk"


class OnError(str, Enum):
    """What ``ingest`` does at a line that makes no message."""

    STOP = "stop"
    SKIP = "skip"
