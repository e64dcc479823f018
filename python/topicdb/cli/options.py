"""Arguments and options that several commands share."""

from __future__ import annotations

import re
from enum import Enum
from typing import Annotated, Any, Literal

import typer

from topicdb.cli import times
from topicdb.cli.output import Format
from topicdb.cli.progress import be_quiet

_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2})?")


def directory_argument(why: str) -> Any:
    """Returns the annotation of an argument PATH of a command that takes no URL.

    ``why`` is a sentence without its end that says why, and what to do instead of giving a URL.
    """

    def checked(path: str) -> str:
        if "://" in path:
            raise typer.BadParameter(
                f"{path} is the URL of a server, and this command needs a directory: {why}",
                param_hint="PATH",
            )
        return path

    return typer.Argument(
        metavar="PATH", callback=checked, help="Give the directory of the database."
    )


def _no_time(filter: str | list[str] | None) -> str | list[str] | None:
    """Refuses a filter that is the second half of a time without quotes."""
    for one in [filter] if isinstance(filter, str) else filter or ():
        if _CLOCK.fullmatch(one):
            raise typer.BadParameter(
                f"{one!r} is a time and no topic filter; put a time with a space in quotes: "
                f"'yesterday {one}'",
                param_hint="FILTER",
            )
    return filter


FilterArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILTER",
        callback=_no_time,
        help="Give a topic filter in quotes, such as 'metrics/+/cpu'.",
    ),
]
FiltersArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILTER",
        callback=_no_time,
        help="Give topic filters in quotes, such as 'metrics/+/cpu'. By default it "
        "is '#', every topic that does not begin with $.",
    ),
]
TIME = f"A time is {times.EXAMPLES}."
FiltersOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="FILTER",
        help="Take the messages that match this topic filter. You may repeat it. By "
        "default it is '#'.",
    ),
]
StartOption = Annotated[
    str | None,
    typer.Option("--start", metavar="TIME", help=f"Begin with messages of this time. {TIME}"),
]
EndOption = Annotated[
    str | None,
    typer.Option("--end", metavar="TIME", help=f"Stop before messages of this time. {TIME}"),
]

BeforeOption = Annotated[
    str,
    typer.Option(
        "--before",
        metavar="AGE|TIME",
        help=f"Remove messages that are older than this age, such as 30d, or time. {TIME}",
    ),
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
        help="Read and show times in this zone: Europe/Berlin, UTC or local. By "
        "default it is local, the zone of this machine.",
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json", callback=be_quiet, help="Print one JSON object instead of text for people."
    ),
]
JsonReportsOption = Annotated[
    bool,
    typer.Option(
        "--json",
        callback=be_quiet,
        help="Print a JSON object on a line each second, and one at the end.",
    ),
]
FormatOption = Annotated[
    Format,
    typer.Option(
        "--format",
        help="Show messages in this format. text is a line for each message, pretty "
        "is the same with JSON values indented, json is JSON lines with values "
        "that are not UTF-8 as base64, hex shows every byte of the value, and "
        "csv has time, topic, value and encoding.",
    ),
]
JsonLinesOption = Annotated[
    bool, typer.Option("--json", callback=be_quiet, help="Print JSON lines, as --format json does.")
]
PropertiesOption = Annotated[
    bool,
    typer.Option("--properties", help="Show the MQTT properties, too, that a bridge has stored."),
]
RawOption = Annotated[
    bool,
    typer.Option("--raw", help="Show values as they are stored, with their properties in them."),
]
PartialOption = Annotated[
    bool,
    typer.Option(
        "--partial", help="Leave out shards that are damaged or gone; standard error says which."
    ),
]
AcknowledgedOption = Annotated[
    bool,
    typer.Option(
        "--acknowledged",
        help="At a site of a cluster, wait until it has everything that any site has acknowledged.",
    ),
]
ShardsOption = Annotated[
    int | None, typer.Option(help="Give a new database this many shards. By default it has one.")
]


class ShardBy(str, Enum):
    """The values of ``shard_by`` of ``topicdb.open``."""

    TOPIC = "topic"
    KEY = "key"


ShardByOption = Annotated[
    ShardBy | None,
    typer.Option(
        help="Choose what decides the shard of a message in a new database. By "
        "default it is the topic."
    ),
]
StructureOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="HINT",
        help="Give a new database this structure hint, such as 'metrics/+/cpu/#'. "
        "You may repeat it.",
    ),
]


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


def seen_of(*, acknowledged: bool) -> Literal["acknowledged"] | None:
    """Returns what --acknowledged stands for in the calls of a database: ``at_least``."""
    return "acknowledged" if acknowledged else None
