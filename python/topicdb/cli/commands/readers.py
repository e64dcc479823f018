"""``topicdb readers``: consumers and groups, how far each is behind, and what it has lost."""

from __future__ import annotations

import json
from typing import Annotated

import typer

import topicdb
from topicdb.cli.errors import UserError
from topicdb.cli.options import JsonOption, PathArgument
from topicdb.cli.output import printable
from topicdb.cli.report import console, table
from topicdb.follow.readers import Reader


def readers(
    path: PathArgument,
    as_json: JsonOption = False,
    consumer: Annotated[
        str | None, typer.Option(metavar="NAME", help="The consumer whose filters to replace.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="NAME", help="The group whose filters to replace.")
    ] = None,
    filters: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FILTER", help="A topic filter for it; may be repeated."),
    ] = None,
) -> None:
    """List consumers and groups: how far each is behind, and what it has lost.

    With --set, replace the filters of one before. It goes on where it is: topics that it had before
    lose nothing, and of new ones come the messages from there on.
    """
    if filters or consumer is not None or group is not None:
        _replace_filters(path, consumer, group, filters or [])
    with topicdb.open(path, mode="r") as database:
        found = database.standings()
    if as_json:
        print(json.dumps({"readers": [reader._asdict() for reader in found]}, indent=2))
        return
    result = table("kind", "name", "filters", "lag>", "lost>")
    for one in found:
        result.add_row(
            one.kind, printable(one.name), _filters_of(one), f"{one.lag:,}", f"{one.lost:,}"
        )
    console().print(result)


def _filters_of(reader: Reader) -> str:
    return "every topic" if reader.filters is None else printable(", ".join(reader.filters))


def _replace_filters(
    path: str, consumer: str | None, group: str | None, filters: list[str]
) -> None:
    if not filters or (consumer is None) == (group is None):
        raise typer.BadParameter("--set needs --consumer or --group, and each of these needs --set")
    with topicdb.open(path) as database:
        if consumer is not None:
            if consumer not in database.consumers():
                raise UserError(f"{path} has no consumer {consumer!r}")
            database.consumer(consumer, filters, on_change="replace").close()
        elif group is not None:
            if group not in database.groups():
                raise UserError(f"{path} has no group {group!r}")
            database.group(group, filters, on_change="replace").close()
