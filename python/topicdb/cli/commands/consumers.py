"""``topicdb consumers``: lists, moves and drops consumers and groups."""

from __future__ import annotations

import difflib
from typing import Annotated, Any

import typer

import topicdb
from topicdb.cli.confirming import YesOption, confirm
from topicdb.cli.errors import DefaultGroup, UserError
from topicdb.cli.options import TIME, JsonOption, TzOption
from topicdb.cli.output import print_json, printable
from topicdb.cli.places import Place, at_place
from topicdb.cli.progress import Waiting
from topicdb.cli.report import console, table
from topicdb.cli.times import parse_time
from topicdb.follow.readers import Reader

app = typer.Typer(
    cls=DefaultGroup,
    no_args_is_help=True,
    help="Show, move and drop consumers and groups. `topicdb consumers PATH` lists them.",
)

NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Give the name of the consumer, or with --group of the group."
    ),
]
GroupOption = Annotated[bool, typer.Option("--group", help="Take NAME for that of a group.")]


@app.command("list")
@at_place
def show(place: Place, as_json: JsonOption = False) -> None:
    """List consumers and groups: their filters, where they are, how far behind, what they lost.

    A place is the shard and the commit before which everything is acknowledged. This works while
    another process writes.

    \b
    Example:
      topicdb consumers list fleet.db
      topicdb consumers fleet.db
    """
    with place.read() as database, Waiting("counting"):
        found = database.standings()
    if as_json:
        print_json({"consumers": [_json_of(one) for one in found]})
        return
    rows = table("kind", "name", "filters", "places", "lag>", "lost>")
    for one in found:
        rows.add_row(
            one.kind,
            printable(one.name),
            _filters_of(one),
            _places_of(one),
            f"{one.lag:,}",
            f"{one.lost:,}",
        )
    console().print(rows)


@app.command()
@at_place
def seek(
    place: Place,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Give the name of the consumer.")],
    start: Annotated[
        str,
        typer.Option(
            "--start",
            metavar="TIME|earliest|latest",
            help="Where it goes on: at the oldest message, behind the newest one, or at the first "
            f"one of a time. {TIME}",
        ),
    ],
    tz: TzOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a consumer go on somewhere else. No program may have it open meanwhile.

    \b
    Example:
      topicdb consumers seek fleet.db etl --start 'yesterday 14:02'
    """
    to = start if start in ("earliest", "latest") else parse_time(start, "--start", tz)
    with place.write() as database:
        before = _reader(database, "consumer", name)
        with _opened(database, before, before.filters) as consumer:
            consumer.seek(to)
        after = _reader(database, "consumer", name)
    if as_json:
        print_json({"consumer": _json_of(after), "lag_before": before.lag})
    else:
        print(
            f"consumer {printable(name)} goes on at {start}: {after.lag:,} messages to read, "
            f"{before.lag:,} before"
        )


@app.command()
@at_place
def filters(
    place: Place,
    name: NameArgument,
    filters: Annotated[
        list[str],
        typer.Argument(metavar="FILTER", help="Give its new topic filters in quotes."),
    ],
    group: GroupOption = False,
    as_json: JsonOption = False,
) -> None:
    """Replace the filters of a consumer or group, which goes on where it is.

    Topics that it had before lose nothing. Of new ones come the messages that are stored from where
    it is on. No program may have it open meanwhile.

    \b
    Example:
      topicdb consumers filters fleet.db etl 'site/#' 'alarm/#'
    """
    kind = "group" if group else "consumer"
    with place.write() as database:
        _opened(database, _reader(database, kind, name), filters).close()
        after = _reader(database, kind, name)
    if as_json:
        print_json({kind: _json_of(after)})
    else:
        print(
            f"{kind} {printable(name)} reads {_filters_of(after)}: {after.lag:,} messages to read"
        )


@app.command()
@at_place
def drop(
    place: Place,
    name: NameArgument,
    group: GroupOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Forget a consumer or group and where it is. The messages stay.

    The command says how many messages it has not acknowledged, and asks.

    \b
    Example:
      topicdb consumers drop fleet.db etl
    """
    kind = "group" if group else "consumer"
    with place.write() as database:
        found = _reader(database, kind, name)
        confirm(
            f"{kind} {printable(name)} of {place.where} is forgotten, with {found.lag:,} messages "
            "that it has not acknowledged",
            yes=yes,
        )
        (database.drop_group if group else database.drop_consumer)(name)
    if as_json:
        print_json({"dropped": _json_of(found)})
    else:
        print(f"dropped {kind} {printable(name)}: it was {found.lag:,} messages behind")


def _reader(database: topicdb.Database, kind: str, name: str) -> Reader:
    """Returns how a consumer or group stands.

    Raises UserError, which says which names there are, if there is none of this name.
    """
    found = {one.name: one for one in database.standings() if one.kind == kind}
    if name in found:
        return found[name]
    other = [one.kind for one in database.standings() if one.name == name]
    told = f"{database.path} has no {kind} {name!r}"
    if other == ["group"]:
        raise UserError(f"{told}, but a group of this name")
    if other:
        raise UserError(f"{told}, but a consumer of this name: leave out --group")
    meant = difflib.get_close_matches(name, found, n=1)
    if meant:
        raise UserError(f"{told}; did you mean {meant[0]!r}?")
    raise UserError(f"{told}; it has: {', '.join(map(repr, found)) or 'none'}")


def _opened(database: topicdb.Database, reader: Reader, filters: list[str] | None) -> Any:
    """Opens the consumer or group with these filters.

    Raises ConflictError, which says what to do, if a program has it open.
    """
    opening = database.group if reader.kind == "group" else database.consumer
    try:
        return opening(reader.name, filters, on_change="replace")
    except topicdb.ConflictError:
        raise topicdb.ConflictError(
            f"a program has {reader.kind} {reader.name!r} open: close it there, and try again"
        ) from None


def _filters_of(reader: Reader) -> str:
    return "every topic" if reader.filters is None else printable(", ".join(reader.filters))


def _places_of(reader: Reader) -> str:
    places = sorted(reader.places.items())
    return ", ".join(
        f"{shard}: {place.serial}" + (f" row {place.row}" if place.row else "")
        for shard, place in places
    )


def _json_of(reader: Reader) -> dict[str, Any]:
    places = {str(shard): list(place) for shard, place in sorted(reader.places.items())}
    return {**reader._asdict(), "places": places}
