"""Prints tables and trees for people: ``info``, ``streams``, ``structures``, ``stats``."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.tree import Tree

import topicdb
from topicdb.arguments.times import duration_us
from topicdb.cli.output import printable
from topicdb.cli.times import time_text
from topicdb.engines.values import RESERVED
from topicdb.jobs import Applied
from topicdb.lifecycle.retention import Retention
from topicdb.queue.files import QueueInfo

_WIDTH_OF_FILES = 10_000  # nothing is cut when the output is no terminal
_AGE_UNITS = (("d", 86_400_000_000), ("h", 3_600_000_000), ("s", 1_000_000), ("us", 1))
_EMPTY_LEVEL = "(empty level)"
_SLAB_FIELDS = (
    "shard",
    "retention_class",
    "generation",
    "layout",
    "read_only",
    "messages",
    "bytes",
    "streams",
    "first_timestamp",
    "last_timestamp",
)


def console() -> Console:
    """Returns a console that shows topics as they are: no markup, no emoji codes."""
    width = None if sys.stdout.isatty() else _WIDTH_OF_FILES
    return Console(markup=False, emoji=False, highlight=False, width=width)


def print_info(database: topicdb.Database) -> None:
    """Prints the schema, totals and slabs of a database."""
    slabs = database.slabs()
    facts = {"path": database.path, **_schema_facts(database), **_slab_totals(slabs)}
    facts["on disk"] = decimal(database.stats()["disk_bytes"])
    for shard, reason in sorted(database.missing_shards.items()):
        facts[f"missing: shard {shard}"] = printable(reason)
    out = console()
    out.print(facts_table(facts))
    out.print()
    out.print(_slab_table(slabs))


def info_json(database: topicdb.Database) -> dict[str, Any]:
    """Returns what ``print_info`` prints, for JSON; times are microseconds since 1970."""
    slabs = database.slabs()
    stored = _stored(slabs)
    return {
        "path": database.path,
        "schema": database.schema,
        "retention": {name: _limits_text(one) for name, one in database.retention.items()},
        "messages": stored.messages,
        "bytes": stored.bytes,
        "disk_bytes": database.stats()["disk_bytes"],
        "first_timestamp": stored.first_timestamp,
        "last_timestamp": stored.last_timestamp,
        "missing_shards": database.missing_shards,
        "slabs": [_fields(slab, _SLAB_FIELDS) for slab in slabs],
    }


def stream_json(stream: topicdb.Stream) -> dict[str, Any]:
    """Returns the fields of a stream, for JSON."""
    return _fields(stream, ("shard", "retention_class", "generation", "id", "structure"))


def _fields(record: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def print_explained(found: Mapping[str, int]) -> None:
    """Prints what a scan has read and skipped, as ``Database.explain`` returns it."""
    facts = {
        "slabs": f"{found['slabs']:,} may hold such messages, in {found['streams']:,} streams",
        "blocks": f"{found['blocks']:,} considered; skipped: {_skipped(found, 'blocks')}",
        "pages": f"{found['pages']:,} in the other blocks; skipped: {_skipped(found, 'pages')}",
        "read": f"{found['pages_read']:,} pages, {decimal(found['bytes_read'])} as stored",
        "messages": f"{found['rows_examined']:,} examined, {found['rows_matched']:,} match",
    }
    if found["rows_spilled"]:
        facts["in a temporary file"] = (
            f"{found['rows_spilled']:,} messages, {decimal(found['bytes_spilled'])}"
        )
    console().print(facts_table(facts))


def _skipped(found: Mapping[str, int], what: str) -> str:
    prefix = f"{what}_skipped_by_"
    return ", ".join(
        f"{count:,} by {name.removeprefix(prefix)}"
        for name, count in found.items()
        if name.startswith(prefix)
    )


def queue_json(path: str, queue: QueueInfo) -> dict[str, Any]:
    """Returns what ``print_queue`` prints, for JSON."""
    return {
        "path": path,
        "format": queue.format,
        "items": queue.items,
        "closed": queue.closed,
        "segments": [
            {
                "number": segment.number,
                "first_item": segment.sequences.start,
                "items": len(segment.sequences),
                "bytes": segment.bytes,
                "sealed": segment.sealed,
            }
            for segment in queue.segments
        ],
        "cursors": [
            _fields(cursor, ("name", "low_water", "next_sequence", "unacknowledged"))
            for cursor in queue.cursors
        ],
    }


def print_queue(path: str, queue: QueueInfo) -> None:
    """Prints the facts of a queue, and a row for each segment and cursor."""
    facts = {
        "path": path,
        "format": queue.format,
        "stored items": str(queue.items),
        "on disk": decimal(sum(segment.bytes for segment in queue.segments)),
    }
    if queue.format == "topicdb":
        facts["closed"] = "yes" if queue.closed else "no: in use, or killed"
    out = console()
    out.print(facts_table(facts))
    segments = table("segment>", "first item>", "items>", "bytes>", "sealed")
    for segment in queue.segments:
        segments.add_row(
            str(segment.number),
            str(segment.sequences.start),
            str(len(segment.sequences)),
            str(segment.bytes),
            "yes" if segment.sealed else "no",
        )
    cursors = table("cursor", "acknowledged before>", "next item>", "popped, not acknowledged>")
    for cursor in queue.cursors:
        cursors.add_row(
            cursor.name,
            str(cursor.low_water),
            str(cursor.next_sequence),
            str(cursor.unacknowledged),
        )
    for rows in (segments, cursors):
        out.print()
        out.print(rows)


def print_streams(streams: Sequence[topicdb.Stream]) -> None:
    """Prints a row for each stream."""
    rows = table("shard>", "class", "generation>", "stream>", "structure")
    for stream in streams:
        rows.add_row(
            str(stream.shard),
            printable(stream.retention_class),
            str(stream.generation),
            str(stream.id),
            printable(stream.structure),
        )
    console().print(rows)


def print_jobs(applied: Sequence[Applied]) -> None:
    """Prints a row for each sequence, or job without one, in each shard."""
    rows = table(
        "job", "number>", "shard>", "first serial>", "last serial>", "messages>", "malformed>", "at"
    )
    for job in sorted(applied, key=lambda job: (job.applied_at, job.sequence, job.shard)):
        numbers = (
            job.number or "",
            job.shard,
            job.first_serial,
            job.last_serial,
            job.messages,
            job.malformed,
        )
        rows.add_row(
            printable(job.sequence), *(str(number) for number in numbers), time_text(job.applied_at)
        )
    console().print(rows)


def print_stats(stats: Mapping[str, Any]) -> None:
    """Prints totals, and a row for each shard."""
    shards: list[Mapping[str, Any]] = stats["shards"]
    # This handle only reads: it does no maintenance, and has no subscriptions.
    beside = ("shards", "maintenance", "subscriptions", "missing_shards")
    totals = {name: _figure(name, value) for name, value in stats.items() if name not in beside}
    for shard, reason in sorted(stats["missing_shards"].items()):
        totals[f"missing: shard {shard}"] = printable(reason)
    # The counts of reads are only in --json: they would be a table within a table.
    columns = [name for name in shards[0] if name != "reads"] if shards else []
    rows = table(*(f"{column}>" for column in columns))
    for shard in shards:
        rows.add_row(*(_figure(column, shard[column]) for column in columns))
    out = console()
    out.print(facts_table(totals))
    out.print()
    out.print(rows)


@dataclass
class Size:
    """Messages, and bytes of topics and values, of a structure or below a level of the tree."""

    messages: int = 0
    bytes: int = 0


def structure_sizes(
    database: topicdb.Database, filter: str, structures: Mapping[str, Sequence[topicdb.Stream]]
) -> dict[str, Size]:
    """Returns how many messages match, and their bytes of topics and values, by structure.

    It reads all of them.
    """
    sizes = {}
    for structure, streams in structures.items():
        size = sizes[structure] = Size()
        for batch in database.scan(filter, streams=streams).batches():
            size.messages += len(batch)
            size.bytes += sum(len(m.topic.encode()) + len(m.value) for m in batch)
    return sizes


def structures_json(
    structures: Mapping[str, Sequence[topicdb.Stream]], sizes: Mapping[str, Size] | None
) -> list[dict[str, Any]]:
    """Returns each structure with its streams and, with ``sizes``, its messages and bytes."""
    return [
        {
            "structure": structure,
            "streams": len(streams),
            **(_fields(sizes[structure], ("messages", "bytes")) if sizes is not None else {}),
        }
        for structure, streams in structures.items()
    ]


@dataclass
class _Level:
    """A node of the tree of structures, with the streams at and below it.

    ``name`` is its level, or several that were joined. ``own`` counts the streams that end here.
    """

    name: str
    streams: int = 0
    own: int = 0
    size: Size | None = None
    children: dict[str, _Level] = field(default_factory=dict)


def structure_tree(
    structures: Mapping[str, Sequence[topicdb.Stream]],
    title: str,
    sizes: Mapping[str, Size] | None = None,
) -> Tree:
    """Returns a tree of the levels of ``structures``, with the streams at and below each level.

    With ``sizes`` each level has its messages, its bytes, and its share of all bytes. Levels that
    only lead to one other are joined (``metrics/+``), so that deep topics stay readable.
    """
    root = _Level(title)
    for structure, streams in structures.items():
        _insert(root, structure.split("/"), len(streams), sizes[structure] if sizes else None)
    total = root.size.bytes if root.size else 0
    tree = Tree(_level_label(root, total))
    pending = deque((tree, child) for child in root.children.values())
    while pending:  # no recursion: a topic may have thousands of levels
        parent, child = pending.popleft()
        level = _joined(child)
        branch = parent.add(_level_label(level, total))
        pending.extend((branch, below) for below in level.children.values())
    return tree


def _insert(root: _Level, words: Sequence[str], streams: int, size: Size | None) -> None:
    level = root
    _add(level, streams, size)
    for word in words:
        level = level.children.setdefault(word, _Level(word))
        _add(level, streams, size)
    level.own += streams


def _add(level: _Level, streams: int, size: Size | None) -> None:
    level.streams += streams
    if size is not None:
        level.size = level.size or Size()
        level.size.messages += size.messages
        level.size.bytes += size.bytes


def _joined(level: _Level) -> _Level:
    name = level.name
    while len(level.children) == 1 and not level.own:
        (level,) = level.children.values()
        name = f"{name}/{level.name}"
    return replace(level, name=name)


def _level_label(level: _Level, total_bytes: int) -> str:
    """Returns ``metrics/+  (3 streams)``; says how many end here if others go on below."""
    count = f"{level.streams:,} stream{'' if level.streams == 1 else 's'}"
    here = f", {level.own:,} of them here" if level.own and level.children else ""
    text = f"{printable(level.name) or _EMPTY_LEVEL}  ({count}{here})"
    if level.size is None:
        return text
    share = level.size.bytes / max(total_bytes, 1)
    return f"{text}  {level.size.messages:,} messages, {decimal(level.size.bytes)}, {share:.1%}"


def _schema_facts(database: topicdb.Database) -> dict[str, str]:
    texts = {name: _schema_value(value) for name, value in database.schema.items()}
    return {**texts, "retention": _retention_text(database.retention)}


def _retention_text(classes: Mapping[str, Retention]) -> str:
    """Returns each class with its limits, as ``retention --set`` takes them, or ``kept``."""
    texts = (f"{printable(name)}: {_limits_text(one)}" for name, one in classes.items())
    return ", ".join(texts) or "-"


def _limits_text(one: Retention) -> str:
    limits = []
    if one.age is not None:
        limits.append(age_text(duration_us(one.age)))
    if one.bytes is not None:
        limits.append(f"{one.bytes}B")
    if one.keep_last is not None:
        limits.append(f"last:{one.keep_last}")
    if one.layout is not None:
        limits.append(f"layout:{one.layout}")
    return ",".join(limits) or age_text(None)


def _schema_value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(_schema_value(item) for item in value) or "-"
    return printable(str(value))


def age_text(microseconds: int | None) -> str:
    """Returns an age such as ``7d``, in the largest unit that divides it, or ``kept`` for None."""
    if microseconds is None:
        return "kept"
    return next(
        f"{microseconds // size}{unit}" for unit, size in _AGE_UNITS if microseconds % size == 0
    )


@dataclass(frozen=True)
class _Stored:
    """Totals of the messages that somebody stored: TopicDB's own are not among them."""

    messages: int
    bytes: int
    streams: int
    first_timestamp: int | None
    last_timestamp: int | None


def _stored(slabs: Sequence[topicdb.Slab]) -> _Stored:
    others = [slab for slab in slabs if not slab.retention_class.startswith(RESERVED)]
    first = [slab.first_timestamp for slab in others if slab.first_timestamp is not None]
    last = [slab.last_timestamp for slab in others if slab.last_timestamp is not None]
    return _Stored(
        messages=sum(slab.messages for slab in others),
        bytes=sum(slab.bytes for slab in others),
        streams=sum(slab.streams for slab in others),
        first_timestamp=min(first, default=None),
        last_timestamp=max(last, default=None),
    )


def _slab_totals(slabs: Sequence[topicdb.Slab]) -> dict[str, str]:
    stored = _stored(slabs)
    return {
        "slabs": f"{len(slabs):,}",
        "messages": f"{stored.messages:,}",
        "topics and values": decimal(stored.bytes),
        "streams": f"{stored.streams:,}",
        "first message": time_or_dash(stored.first_timestamp),
        "last message": time_or_dash(stored.last_timestamp),
    }


def _slab_table(slabs: Sequence[topicdb.Slab]) -> Table:
    rows = table(
        "shard>",
        "class",
        "generation>",
        "layout",
        "state",
        "messages>",
        "bytes>",
        "streams>",
        "first",
        "last",
    )
    for slab in slabs:
        rows.add_row(
            str(slab.shard),
            printable(slab.retention_class),
            str(slab.generation),
            slab.layout,
            "read-only" if slab.read_only else "current",
            f"{slab.messages:,}",
            f"{slab.bytes:,}",
            f"{slab.streams:,}",
            time_or_dash(slab.first_timestamp),
            time_or_dash(slab.last_timestamp),
        )
    return rows


def facts_table(facts: Mapping[str, str]) -> Table:
    """Returns a table with a line for each fact: its name and its value."""
    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True)
    rows.add_column(overflow="fold")
    for name, value in facts.items():
        rows.add_row(name, value)
    return rows


def table(*columns: str) -> Table:
    """Returns a plain table; a name that ends with ``>`` is that of a column of figures."""
    rows = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        figures = column.endswith(">")
        rows.add_column(
            column.removesuffix(">"), justify="right" if figures else "left", overflow="fold"
        )
    return rows


def _figure(name: str, value: int | str) -> str:
    if isinstance(value, str):  # sealing_error
        return printable(value) or "-"
    if name == "clock":  # the last assigned timestamp, 0 before there is one
        return time_text(value) if value else "-"
    return f"{value:,}"


def time_or_dash(timestamp: int | None) -> str:
    """Returns ``time_text`` of a timestamp, or a dash for None."""
    return "-" if timestamp is None else time_text(timestamp)
