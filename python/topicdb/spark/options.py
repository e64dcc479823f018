"""The options of ``format("topicdb")``: one table for checks, errors and documentation."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import topicdb
from topicdb import _core
from topicdb.arguments.times import time_us, timeout_us

Use: TypeAlias = Literal["batch", "stream", "write"]
Serials: TypeAlias = "dict[int, int]"

EARLIEST = "earliest"
LATEST = "latest"
_READS = frozenset({"batch", "stream"})
_BATCH = frozenset({"batch"})
_STREAM = frozenset({"stream"})
_WRITE = frozenset({"write"})
_ALL = frozenset({"batch", "stream", "write"})
_NUMBER_MAX = 1 << 63


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    ``uses``: the kinds of query that take it. ``check`` turns its text into its value, or raises
    ValueError with the reason.
    """

    name: str
    type: str
    default: str
    uses: frozenset[str]
    meaning: str
    check: Callable[[str], Any]


def _filters(text: str) -> list[str]:
    filters: Any = [text]
    if text.lstrip().startswith("["):
        try:
            filters = json.loads(text)
        except ValueError:
            raise ValueError("expected a topic filter or a JSON list of filters") from None
        if not filters or not all(isinstance(item, str) for item in filters):
            raise ValueError("expected at least one filter in the list, each a string")
    for filter in filters:
        _core.check_filter(filter)
    return list(dict.fromkeys(filters))


def _time(text: str) -> int:
    digits = text.strip()
    return time_us(int(digits) if digits.isdecimal() else text, what="the time")


def _offsets(text: str) -> str | Serials:
    if text.strip().lower() in (EARLIEST, LATEST):
        return text.strip().lower()
    fault = ValueError(
        'expected "earliest", "latest" or serials of commits by shard, such as {"0": 17, "1": 4}'
    )
    try:
        given = json.loads(text)
        given = given.get("serials", given)  # an offset of Spark's checkpoints and logs
        serials = {int(shard): serial for shard, serial in given.items()}
    except (ValueError, AttributeError):
        raise fault from None
    if not all(type(serial) is int and 0 <= serial < _NUMBER_MAX for serial in serials.values()):
        raise fault
    return serials


def _number(text: str) -> int:
    if not text.strip().isdecimal() or not 1 <= int(text) < _NUMBER_MAX:
        raise ValueError("expected a whole number, at least 1")
    return int(text)


def _seconds(text: str) -> int:
    seconds = _number(text)
    timeout_us(seconds, what="the time")  # now, not when the tasks are done and it commits
    return seconds


def _flag(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.strip().lower() == "true"


def _not_yet(text: str) -> Any:
    raise ValueError("not yet: the name is reserved")


def _mode(text: str) -> bool:
    if text.strip().upper() not in ("FAILFAST", "DROPMALFORMED"):
        raise ValueError("expected FAILFAST or DROPMALFORMED")
    return text.strip().upper() == "DROPMALFORMED"


def _path(text: str) -> str:
    if not text:
        raise ValueError("expected the directory of a database")
    return os.path.abspath(text)  # tasks may run in another directory


OPTIONS = (
    Option("path", "text", "", _ALL, "directory of the database; also `load(path)`", _path),
    Option(
        "topicFilter",
        "filter or JSON list",
        "every topic, also `$…`",
        _READS,
        "MQTT topic filter, or several; a message has to match at least one",
        _filters,
    ),
    Option(
        "startingTimestamp",
        "time",
        "",
        _READS,
        "batch: only messages of this time or later; stream: begins at the first commit that has "
        "such a message",
        _time,
    ),
    Option("endingTimestamp", "time", "", _BATCH, "only messages before this time", _time),
    Option(
        "startingOffsets",
        "`earliest`, `latest`, JSON",
        "batch `earliest`, stream `latest`",
        _READS,
        "only commits after these serials; shards that you do not name begin at their first commit",
        _offsets,
    ),
    Option(
        "endingOffsets",
        "`latest`, JSON",
        "`latest`",
        _BATCH,
        "only commits up to these serials; shards that you do not name end at their last commit",
        _offsets,
    ),
    Option(
        "maxMessagesPerTrigger",
        "number",
        "",
        _STREAM,
        "the most messages of a micro-batch, but at least one commit",
        _number,
    ),
    Option(
        "maxBytesPerTrigger",
        "number",
        "",
        _STREAM,
        "the most bytes of topics and values of a micro-batch, but at least one commit; not "
        "together with `maxMessagesPerTrigger`",
        _number,
    ),
    Option(
        "commitOrder",
        "flag",
        "true",
        _STREAM,
        "`true`: a task gets its messages in the order of their commits; `false`: in no order, "
        "which is faster",
        _flag,
    ),
    Option(
        "minPartitions",
        "number",
        "1",
        _READS,
        "at least about this many tasks, if there is enough to divide",
        _number,
    ),
    Option(
        "failOnDataLoss",
        "flag",
        "true",
        _READS,
        "whether it is an error if a generation was dropped before it was read",
        _flag,
    ),
    Option(
        "pushdown",
        "flag",
        "true",
        _BATCH,
        "whether predicates on topic and timestamp limit what is read",
        _flag,
    ),
    Option(
        "mode",
        "`FAILFAST`, `DROPMALFORMED`",
        "`FAILFAST`",
        _WRITE,
        "a row that is not a valid message fails the job, or is left out and counted",
        _mode,
    ),
    Option(
        "commitTimeout",
        "seconds",
        "60",
        _WRITE,
        "how long a commit waits for processes that have shards open for writing",
        _seconds,
    ),
    Option("checkpointLocation", "text", "", _WRITE, "Spark's own option for streams", str),
    Option(
        "includeMetadata",
        "flag",
        "false",
        _READS,
        "two more columns: `shard` int, and `serial` bigint of the commit in that shard",
        _flag,
    ),
    Option(
        "includeProperties",
        "flag",
        "false",
        _READS,
        "a column for each [MQTT property](../concepts/properties.md#columns), null where a "
        "message does not have it",
        _flag,
    ),
    Option("remote", "text", "", _ALL, "reserved", _not_yet),
    Option("token", "text", "", _ALL, "reserved", _not_yet),
)
_BY_KEY = {option.name.lower(): option for option in OPTIONS}


def markdown() -> str:
    """Returns the table of the documentation."""
    lines = ["| option | type | default | where | meaning |", "|---|---|---|---|---|"]
    for option in OPTIONS:
        where = "all" if option.uses == _ALL else ", ".join(sorted(option.uses))
        lines.append(
            f"| `{option.name}` | {option.type} | {option.default} | {where} | {option.meaning} |"
        )
    return "\n".join(lines) + "\n"


def parse(options: Mapping[str, str], use: Use) -> dict[str, Any]:
    """Returns the values of the options that are given, by their proper names.

    Raises ValueError, which names the option, for one that is unknown, out of place or wrong.
    """
    values: dict[str, Any] = {}
    for key, text in options.items():
        option = _BY_KEY.get(key.lower())
        if option is None or (use not in option.uses and option.check is not _not_yet):
            raise ValueError(_unknown(key, option, use))
        try:
            values[option.name] = option.check(text)
        except (ValueError, TypeError) as error:
            raise ValueError(f"option {option.name}={text!r}: {error}") from None
    if "path" not in values:
        raise ValueError(
            "option path is missing: give the directory of the database, as in "
            "spark.read.format('topicdb').load('/data/fleet.db')"
        )
    return values


def is_true(options: Mapping[str, str], name: str) -> bool:
    """Returns whether a flag is given and true. It checks nothing else; ``parse`` does later."""
    given = {key.lower(): text for key, text in options.items()}
    return given.get(name.lower(), "").strip().lower() == "true"


def _unknown(key: str, option: Option | None, use: Use) -> str:
    names = ", ".join(sorted(item.name for item in OPTIONS if use in item.uses))
    kind = {"batch": "a batch read", "stream": "a stream read", "write": "a write"}[use]
    if option is None:
        return f"option {key!r} is unknown; {kind} takes {names}"
    return f"option {option.name!r} is not for {kind}, which takes {names}"


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """The options of every read.

    ``filters`` None: every topic. ``start``: µs since 1970, or None. ``partitions_min``: about the
    least number of tasks.
    """

    path: str
    filters: list[str] | None
    start: int | None
    partitions_min: int
    fail_on_data_loss: bool
    metadata: bool
    properties: bool


@dataclass(frozen=True, kw_only=True)
class BatchOptions(ReadOptions):
    """The options of a batch read: only commits behind ``after``, up to ``until``, by shard."""

    end: int | None
    after: Serials
    until: Serials
    pushdown: bool


@dataclass(frozen=True, kw_only=True)
class StreamOptions(ReadOptions):
    """The options of a stream read."""

    starting: str | Serials
    messages_max: int | None
    bytes_max: int | None
    commit_order: bool


@dataclass(frozen=True)
class WriteOptions:
    """The options of a write. ``commit_timeout``: seconds."""

    path: str
    drop_malformed: bool
    commit_timeout: int


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Parses the options of a write. Raises ValueError as ``parse`` does."""
    values = parse(options, "write")
    return WriteOptions(values["path"], values.get("mode", False), values.get("commitTimeout", 60))


def _read_options(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "path": values["path"],
        "filters": values.get("topicFilter"),
        "start": values.get("startingTimestamp"),
        "partitions_min": values.get("minPartitions", 1),
        "fail_on_data_loss": values.get("failOnDataLoss", True),
        "metadata": values.get("includeMetadata", False),
        "properties": values.get("includeProperties", False),
    }


def batch_options(options: Mapping[str, str]) -> BatchOptions:
    """Parses the options of a batch read. Raises ValueError as ``parse`` does."""
    values = parse(options, "batch")
    after = values.get("startingOffsets", EARLIEST)
    until = values.get("endingOffsets", LATEST)
    if after == LATEST or until == EARLIEST:
        name = "startingOffsets" if after == LATEST else "endingOffsets"
        raise ValueError(f"option {name}: a batch read from there has no messages")
    return BatchOptions(
        **_read_options(values),
        end=values.get("endingTimestamp"),
        after={} if after == EARLIEST else after,
        until={} if until == LATEST else until,
        pushdown=values.get("pushdown", True),
    )


def stream_options(options: Mapping[str, str]) -> StreamOptions:
    """Parses the options of a stream read. Raises ValueError as ``parse`` does."""
    values = parse(options, "stream")
    for one, other in (
        ("maxMessagesPerTrigger", "maxBytesPerTrigger"),
        ("startingOffsets", "startingTimestamp"),
    ):
        if one in values and other in values:
            raise ValueError(f"options {one} and {other}: give one of them, not both")
    return StreamOptions(
        **_read_options(values),
        starting=values.get("startingOffsets", LATEST),
        messages_max=values.get("maxMessagesPerTrigger"),
        bytes_max=values.get("maxBytesPerTrigger"),
        commit_order=values.get("commitOrder", True),
    )


def describe_missing(slices: set[tuple[int, str, int]], path: str) -> str:
    """Returns the text of the error about generations that were dropped."""
    shard, retention_class, generation = min(slices)
    more = f", and {len(slices) - 1} more" if len(slices) > 1 else ""
    return (
        f"generation {generation} of class '{retention_class}' of shard {shard} of {path}{more} "
        "was dropped before it was read; failOnDataLoss=false goes on without it"
    )


def slabs_of(database: topicdb.Database) -> set[tuple[int, str, int]]:
    """Returns shard, class and generation of each slab."""
    return {(slab.shard, slab.retention_class, slab.generation) for slab in database.slabs()}
