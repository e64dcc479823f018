"""Commands about the life of the data: ``retention``, ``usage``, ``plan``, ``trim``, ``rotate``.

Those that change a database open it without maintenance, so that only what was asked for goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from enum import Enum
from typing import Annotated, Any

import typer
from rich.filesize import decimal
from rich.table import Table

import topicdb
from topicdb.arguments.times import duration_us
from topicdb.cli.confirming import YesOption, confirm
from topicdb.cli.errors import UserError
from topicdb.cli.options import BeforeOption, JsonOption, TzOption
from topicdb.cli.output import print_json, printable
from topicdb.cli.places import CaOption, Place, TokenFileOption, TokenOption, at_place
from topicdb.cli.progress import Waiting
from topicdb.cli.report import age_text, console, facts_table, table, time_or_dash
from topicdb.cli.times import past_time, time_text
from topicdb.lifecycle import planning
from topicdb.lifecycle.retention import (
    Forecast,
    Maintained,
    Retention,
    Trimmed,
    Usage,
    parse_retention,
)


class LayoutChoice(str, Enum):
    """The values of ``layout`` of ``Database.rotate``."""

    COLUMNAR = "columnar"
    SKIPSTREAM = "skipstream"


class Grouping(str, Enum):
    """The values of ``by`` of ``Database.usage``."""

    CLASS = "class"
    GENERATION = "generation"
    STRUCTURE = "structure"


@at_place
def retention(
    place: Place,
    set: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILTER=LIMITS",
            help="Set a class, such as 'alarm/#=365d', 'debug/#=1h,10GiB,rotate:10m', "
            "'status/#=1d,last:5' or 'state/#=keep,layout:skipstream'. Ages and "
            "sizes have units. Repeat the option for each class, in the order in "
            "which they are tried: these classes replace all others.",
        ),
    ] = None,
    keep_all: Annotated[
        bool, typer.Option("--keep-all", help="Remove all classes, so that messages are kept.")
    ] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the retention classes, or replace them with --set.

    If the new classes let messages go as soon as the database is next open for writing, the command
    says how many, and asks.

    \b
    Example:
      topicdb retention fleet.db --set 'alarm/#=365d' --set '#=7d'
    """
    if set and keep_all:
        raise typer.BadParameter("give --set or --keep-all, not both")
    if set or keep_all:
        classes = _classes(set or [])
        with place.write() as database:
            confirm_dropped(database.set_retention(classes, dry_run=True), yes=yes)
            database.set_retention(classes)
            found = database.retention
    else:
        with place.read() as database:
            found = database.retention
    if as_json:
        print_json({"retention": [_retention_json(name, one) for name, one in found.items()]})
    else:
        console().print(_retention_table(found))


@at_place
def usage(
    place: Place,
    by: Annotated[
        Grouping,
        typer.Option(
            help="Show a row for each class, for its generations, or for its topic structures."
        ),
    ] = Grouping.CLASS,
    quota: Annotated[
        str | None, typer.Option(help="Show also when this much will be on disk: 1250GB.")
    ] = None,
    tz: TzOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what is stored, by retention class, and how fast it grows.

    \b
    Example:
      topicdb usage fleet.db --by generation --quota 1250GB
    """
    quota_bytes = None if quota is None else planning.size_bytes(quota, what="--quota")
    with place.read(quota_bytes=quota_bytes) as database, Waiting("counting"):
        found, forecast = database.usage(by=by.value), database.forecast()
    if as_json:
        print_json({"usage": [asdict(one) for one in found], **asdict(forecast)})
        return
    out = console()
    out.print(facts_table(_forecast_facts(forecast)))
    out.print()
    out.print(_usage_table(found, by))


def plan(
    age: Annotated[str, typer.Option(help="Keep messages for this long: 7d.")],
    per_day: Annotated[
        str | None, typer.Option(help="Count on this much on disk in a day: 125000MB.")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="Count on this many messages a second, which goes with --size."),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            help="Count on this size of a message, topic and value together, which goes "
            "with --rate."
        ),
    ] = None,
    disk_factor: Annotated[
        float,
        typer.Option(
            help="Count on this many bytes on disk for each byte of a message, which "
            "goes with --rate."
        ),
    ] = 1.0,
    db: Annotated[
        str | None,
        typer.Option(
            "--db",
            metavar="PATH|URL",
            help="Take what comes in a day from the database in this directory, or at this server.",
        ),
    ] = None,
    rotate: Annotated[
        str | None,
        typer.Option(
            help="Begin a new generation after this time. By default it is a day, or an "
            "eighth of the age."
        ),
    ] = None,
    spare: Annotated[
        float, typer.Option(help="Leave room for this many generations beside the age.")
    ] = (planning.SPARE_CYCLES),
    fill: Annotated[float, typer.Option(help="Let the log take this part of the quota.")] = (
        planning.FILL
    ),
    quota_trim: Annotated[
        float, typer.Option(help="Let the oldest generations go from this part of the quota on.")
    ] = planning.QUOTA_TRIM,
    token: TokenOption = None,
    token_file: TokenFileOption = None,
    ca: CaOption = None,
    as_json: JsonOption = False,
) -> None:
    """Work out how much disk a retention takes, and a quota for it.

    \b
    Example:
      topicdb plan --age 30d --rate 5000 --size 300
    """
    place = None if db is None else Place(db, token, token_file, ca)
    found = planning.plan(
        _bytes_per_day(per_day, rate, size, disk_factor, place),
        age,
        rotate=rotate,
        spare_cycles=spare,
        fill=fill,
        quota_trim=quota_trim,
    )
    if as_json:
        kept = _retention_json("#", found.retention)
        print_json({**asdict(found), "retention": kept})
    else:
        _print_plan(found)


@at_place
def trim(
    place: Place,
    before: BeforeOption,
    filter: Annotated[
        str | None,
        typer.Option(
            help="Take only topics that match this filter. By default it is '#', every "
            "topic that does not begin with $."
        ),
    ] = None,
    tz: TzOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove the messages from before a time.

    The command says how many messages would go, and asks.

    \b
    Example:
      topicdb trim fleet.db --before 30d --filter 'debug/#' --dry-run
    """
    moment = past_time(before, "--before", tz)
    with place.write() as database, Waiting("trimming") as waiting:
        trimmed = database.trim(moment, filter, dry_run=True)
        if not dry_run:
            with waiting.paused():
                _confirm_trimmed(place.where, trimmed, yes=yes)
            trimmed = database.trim(moment, filter, dry_run=False)
    if as_json:
        slabs = [_slab_json(slab) for slab in trimmed.slabs]
        found = {"done": not dry_run, "before": trimmed.before, "slabs": slabs}
        print_json({**found, "messages": trimmed.messages})
    else:
        _print_trimmed(trimmed, done=not dry_run)


@at_place
def rotate(
    place: Place,
    retention_class: Annotated[
        str | None,
        typer.Option(
            "--class", metavar="FILTER", help="Rotate only the retention class of this filter."
        ),
    ] = None,
    layout: Annotated[
        LayoutChoice | None,
        typer.Option(
            help="Store the new generations in this layout. By default it is what the "
            "class says, or else that of the ones before. Older generations stay as "
            "they are."
        ),
    ] = None,
    reset_clock: Annotated[
        bool,
        typer.Option(
            "--reset-clock",
            help="Let timestamps that are assigned go on from what the clock shows, "
            "though later ones were assigned while it was wrong.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Start new generations. What is stored so far becomes read-only.

    \b
    Example:
      topicdb rotate fleet.db --class 'alarm/#'
    """
    with place.write() as database, Waiting("rotating"):
        database.rotate(
            retention_class,
            layout=None if layout is None else layout.value,
            reset_clock=reset_clock,
        )
        current = [
            slab
            for slab in database.slabs()
            if not slab.read_only and retention_class in (None, slab.retention_class)
        ]
    if as_json:
        print_json({"current": [_slab_json(slab) for slab in current]})
        return
    for slab in current:
        name = printable(slab.retention_class)
        print(f"shard {slab.shard}, class {name}: generation {slab.generation}, {slab.layout}")


def _classes(texts: list[str]) -> dict[str, Retention]:
    classes: dict[str, Retention] = {}
    for text in texts:
        filter, mark, limits = text.rpartition("=")  # a filter may contain "=", limits do not
        if not mark or not filter or not limits:
            raise typer.BadParameter(
                f"{text!r}: expected FILTER=LIMITS, such as 'alarm/#=365d'", param_hint="--set"
            )
        if filter in classes:
            raise typer.BadParameter(f"{filter!r} is given twice", param_hint="--set")
        classes[filter] = parse_retention(limits, what=f"--set {filter}")
    return classes


def confirm_dropped(foreseen: Maintained, *, yes: bool) -> None:
    """Asks whether the messages that ``foreseen`` drops may go; raises UserError if not."""
    if not foreseen.dropped:
        return
    messages = sum(item.slab.messages for item in foreseen.dropped)
    size = decimal(sum(item.disk_bytes for item in foreseen.dropped))
    slabs = f"{len(foreseen.dropped):,} slab{'' if len(foreseen.dropped) == 1 else 's'}"
    confirm(
        f"by these limits up to {messages:,} messages ({slabs}, {size}) go as soon as the database "
        "is next open for writing",
        yes=yes,
    )


def _confirm_trimmed(path: str, trimmed: Trimmed, *, yes: bool) -> None:
    messages = trimmed.messages + sum(slab.messages for slab in trimmed.slabs)
    if messages:
        confirm(
            f"{messages:,} messages of {path} from before {time_text(trimmed.before)} go for good",
            yes=yes,
        )


def _age_us(age: str | timedelta | None) -> int | None:
    return None if age is None else duration_us(age)


def _retention_json(filter: str, one: Retention) -> dict[str, Any]:
    return {
        "filter": filter,
        "age_us": _age_us(one.age),
        "bytes": one.bytes,
        "rotate_us": _age_us(one.rotate),
        "keep_last": one.keep_last,
        "layout": one.layout,
    }


def _retention_table(classes: Mapping[str, Retention]) -> Table:
    has_layout = any(one.layout is not None for one in classes.values())
    layout = ["layout"] if has_layout else []
    rows = table("class", "age>", "bytes>", "keep last>", "rotates after>", *layout)
    for name, one in classes.items():
        size = "-" if one.bytes is None else f"{planning.size_bytes(one.bytes):,}"
        last = "-" if one.keep_last is None else f"{one.keep_last:,}"
        has_only_last = one.keep_last and one.age is None and one.bytes is None
        age = "-" if has_only_last else age_text(_age_us(one.age))
        layout = [one.layout or "-"] if has_layout else []
        rows.add_row(printable(name), age, size, last, _rotation_text(one), *layout)
    return rows


def _rotation_text(one: Retention) -> str:
    age_us = _age_us(one.age)
    if one.rotate is None and age_us is not None:
        return age_text(max(age_us // planning.ROTATIONS, 1))
    if one.rotate is None and one.keep_last is not None and one.bytes is None:
        return age_text(planning.KEEP_LAST_ROTATE_US)
    return "-" if one.rotate is None else age_text(_age_us(one.rotate))


def _forecast_facts(forecast: Forecast) -> dict[str, str]:
    facts = {
        "on disk": decimal(forecast.disk_bytes),
        "a day": decimal(round(forecast.bytes_per_day)),
    }
    if forecast.days_left is not None:
        facts["days to the quota"] = f"{forecast.days_left:,.1f}"
    return facts


def _usage_table(found: list[Usage], by: Grouping) -> Table:
    columns = {
        Grouping.CLASS: ["class"],
        Grouping.GENERATION: ["class", "generation>"],
        Grouping.STRUCTURE: ["class", "structure"],
    }[by]
    has_garbage = by is not Grouping.STRUCTURE
    sizes = ["messages>", "bytes>", "on disk>", *(["garbage>"] if has_garbage else [])]
    rows = table(*columns, *sizes, "first", "last")
    for one in sorted(found, key=lambda one: -one.disk_bytes if by is Grouping.STRUCTURE else 0):
        part = {
            Grouping.CLASS: [],
            Grouping.GENERATION: [str(one.generation)],
            Grouping.STRUCTURE: [printable(one.structure or "")],
        }[by]
        rows.add_row(
            printable(one.retention_class),
            *part,
            f"{one.messages:,}",
            f"{one.bytes:,}",
            f"{one.disk_bytes:,}",
            *([f"{one.garbage_bytes:,}"] if has_garbage else []),
            time_or_dash(one.first_timestamp),
            time_or_dash(one.last_timestamp),
        )
    return rows


def _bytes_per_day(
    per_day: str | None, rate: float | None, size: str | None, disk_factor: float, db: Place | None
) -> float:
    ways = (per_day is not None, rate is not None or size is not None, db is not None)
    if sum(ways) != 1 or (rate is None) != (size is None):
        raise typer.BadParameter("give --per-day, or --rate and --size, or --db")
    if per_day is not None:
        return planning.size_bytes(per_day, what="--per-day")
    if rate is not None and size is not None:
        message_bytes = planning.size_bytes(size, what="--size")
        return planning.bytes_per_day(rate, message_bytes, disk_factor)
    assert db is not None
    with db.read() as database:
        if not any(one.messages for one in database.usage()):
            raise UserError(
                f"{db.where}: nothing is stored yet that could tell what comes in a day"
            )
        return database.forecast().bytes_per_day


def _print_plan(found: planning.Plan) -> None:
    age, rotates = (age_text(_age_us(one)) for one in (found.retention.age, found.retention.rotate))
    facts = {
        "a day": _bytes(round(found.bytes_per_day)),
        "kept for": f"{age}, in up to {found.generations} generations of {rotates}",
        "log": f"{_bytes(found.log_bytes)}, at most",
        "quota": _bytes(found.quota_bytes),
    }
    if found.trim_bytes is not None:
        facts["the oldest go from"] = (
            f"{_bytes(found.trim_bytes)}, {found.reserve_days:.1f} days of messages above the log"
        )
    out = console()
    out.print(facts_table(facts))
    out.print()
    out.print(f'retention={{"#": Retention("{age}", rotate="{rotates}")}},')
    out.print(f"quota_bytes={found.quota_bytes:_}, quota_trim={found.quota_trim}")


def _bytes(size: int) -> str:
    return f"{size / 1_000_000:,.0f} MB" if size >= 10_000_000 else f"{size:,} bytes"


def _print_trimmed(trimmed: Trimmed, *, done: bool) -> None:
    went = "went" if done else "would go"
    out = console()
    if trimmed.slabs:
        rows = table("shard>", "class", "generation>", "messages>", "first", "last")
        for slab in trimmed.slabs:
            rows.add_row(
                str(slab.shard),
                printable(slab.retention_class),
                str(slab.generation),
                f"{slab.messages:,}",
                time_or_dash(slab.first_timestamp),
                time_or_dash(slab.last_timestamp),
            )
        out.print(rows)
    slabs = f"{len(trimmed.slabs):,} slab{'' if len(trimmed.slabs) == 1 else 's'}"
    when = time_text(trimmed.before)
    print(f"{slabs} and {trimmed.messages:,} messages of others from before {when} {went}")


def _slab_json(slab: topicdb.Slab) -> dict[str, Any]:
    return {
        "shard": slab.shard,
        "retention_class": slab.retention_class,
        "generation": slab.generation,
        "messages": slab.messages,
        "bytes": slab.bytes,
    }
