"""``topicdb queue``: shows and checks queues, writes out their items, and repairs them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from enum import Enum
from typing import Annotated, Any

import typer

from topicdb.cli import report
from topicdb.cli.confirming import YesOption, confirm
from topicdb.cli.errors import Group, UserError
from topicdb.cli.options import JsonOption
from topicdb.cli.output import json_fields, print_json
from topicdb.cli.progress import Waiting
from topicdb.queue import files as queue_files
from topicdb.queue.codecs import CodecError, codec_of, decoded
from topicdb.queue.consumer import DEFAULT_CURSOR
from topicdb.queue.records import Damage

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="Look into queues of TopicDB and of replayq, and repair them.",
)

PathArgument = Annotated[
    str, typer.Argument(metavar="PATH", help="Give the directory of the queue.")
]


class CodecChoice(str, Enum):
    """The codecs that have names."""

    JSON = "json"


@app.command()
def info(path: PathArgument, as_json: JsonOption = False) -> None:
    """Show segments, cursors and damage, without reading items. This changes nothing.

    \b
    Example:
      topicdb queue info out.q
    """
    found = queue_files.inspect(path)
    if as_json:
        damage = [_damage_json(one) for one in found.damage]
        print_json({**report.queue_json(path, found), "damage": damage})
        return
    report.print_queue(path, found)
    _print_damage(found.damage)


@app.command()
def verify(path: PathArgument, as_json: JsonOption = False) -> None:
    """Read and check every item. This changes nothing.

    The exit code is 1 if something is damaged.

    \b
    Example:
      topicdb queue verify out.q
    """
    with Waiting(f"verifying {path}"):
        found = queue_files.inspect(path, deep=True)
    if as_json:
        damage = [_damage_json(one) for one in found.damage]
        print_json({**report.queue_json(path, found), "damage": damage})
    else:
        _print_damage(found.damage)
    if found.damage:
        raise UserError(f"{path}: damage in {len(found.damage)} places")
    if not as_json:
        print(f"{path}: {found.items} items in {len(found.segments)} segments, none damaged")


@app.command()
def export(
    path: PathArgument,
    cursor: Annotated[str, typer.Option(help="Begin behind what this cursor has acknowledged.")] = (
        DEFAULT_CURSOR
    ),
    everything: Annotated[
        bool,
        typer.Option("--all", help="Write also items that are acknowledged and not yet freed."),
    ] = False,
    codec: Annotated[
        CodecChoice | None,
        typer.Option(help="Decode items with the codec with which they were appended."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON lines, as the command does in any case.")
    ] = False,
) -> None:
    """Write items as JSON lines with the sequence and the item.

    Without a codec an item is text, or base64 if it is not UTF-8. From the first item that is not
    acknowledged on, all items are written, including acknowledged ones. This changes nothing.

    \b
    Example:
      topicdb queue export out.q --codec json
    """
    low_water = 0
    if not everything:
        cursors = {found.name: found.low_water for found in queue_files.inspect(path).cursors}
        if cursor != DEFAULT_CURSOR and cursor not in cursors:
            raise UserError(f"{path} has no cursor {cursor!r}; there are {sorted(cursors)}")
        low_water = cursors.get(cursor, 0)
    for sequence, item in queue_files.stored_items(path):
        if sequence >= low_water:
            record = {"sequence": sequence, **_fields(path, sequence, item, codec)}
            sys.stdout.buffer.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")


def _fields(path: str, sequence: int, item: bytes, codec: CodecChoice | None) -> dict[str, Any]:
    if codec is None:
        return json_fields("item", item)
    try:
        return {"item": decoded(codec_of(codec.value), item)}
    except CodecError as error:
        raise UserError(
            f"{path}: item {sequence} is not of this codec ({error.__cause__}); leave --codec out"
        ) from None


@app.command()
def repair(path: PathArgument, yes: YesOption = False, as_json: JsonOption = False) -> None:
    """Make a damaged queue usable, without what cannot be read.

    If that loses items, the command says how many, and asks.

    \b
    Example:
      topicdb queue repair out.q
    """
    with Waiting(f"verifying {path}"):
        lost = sum(len(found.sequences) for found in queue_files.inspect(path, deep=True).damage)
    if lost:
        confirm(f"{lost:,} items of {path} cannot be read, and are left out for good", yes=yes)
    with Waiting(f"repairing {path}"):
        damage = queue_files.repair(path)
    lost = sum(len(found.sequences) for found in damage)
    if as_json:
        print_json({"path": path, "lost": lost, "damage": [_damage_json(one) for one in damage]})
        return
    _print_damage(damage)
    print(f"{path}: usable; {lost} items lost" if damage else f"{path}: nothing to repair")


def _damage_json(found: Damage) -> dict[str, Any]:
    lost = found.sequences
    items = [lost[0], lost[-1]] if lost else []
    return {"path": str(found.path), "what": found.what, "lost_items": items}


def _print_damage(damage: Iterable[Damage]) -> None:
    for found in damage:
        items = found.sequences
        lost = f"; lost: items {items[0]} to {items[-1]}" if items else ""
        print(f"damaged: {found.path}: {found.what}{lost}")
