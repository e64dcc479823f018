"""The options of ``format("topicdb")``: one table for checks, errors and documentation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from topicdb.spark import checks
from topicdb.spark.checks import EARLIEST, LATEST, Serials
from topicdb.spark.place import Place, Remote
from topicdb.types import AtLeastLike

Use: TypeAlias = Literal["batch", "stream", "write"]

_READS = frozenset({"batch", "stream"})
_BATCH = frozenset({"batch"})
_STREAM = frozenset({"stream"})
_WRITE = frozenset({"write"})
_ALL = frozenset({"batch", "stream", "write"})


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    ``uses``: the kinds of query that take it. ``check`` turns its text into its value, or raises
    ValueError with the reason. Errors do not show the text of an option that ``is_secret``.
    """

    name: str
    type: str
    default: str
    uses: frozenset[str]
    meaning: str
    check: Callable[[str], Any]
    is_secret: bool = False


OPTIONS = (
    Option("path", "text", "", _ALL, "directory of the database; also `load(path)`", checks.path),
    Option(
        "remote",
        "addresses",
        "",
        _ALL,
        "instead of `path`: servers that offer the database, as `grpc+tls://host:port`, separated "
        "by commas; a write takes one, or without the JAR the sites of a cluster",
        checks.given,
    ),
    Option(
        "token",
        "text",
        "",
        _ALL,
        "with `remote`: the token, as `topicdb token new` printed it",
        checks.given,
        is_secret=True,
    ),
    Option(
        "tls_root_certs",
        "file",
        "well-known authorities",
        _ALL,
        "with `remote`: PEM file of the authority that vouches for the servers; the driver reads "
        "it",
        checks.given,
    ),
    Option(
        "tls_certificate_name",
        "text",
        "the host",
        _ALL,
        "with `remote`: the name in the certificates of the servers",
        checks.given,
    ),
    Option(
        "tls_certificate",
        "file",
        "",
        _ALL,
        "with `remote` and `tls_key`: PEM file of the certificate of this client; the driver reads "
        "it",
        checks.given,
    ),
    Option(
        "tls_key",
        "file",
        "",
        _ALL,
        "with `tls_certificate`: PEM file of its private key; the driver reads it, and tasks get "
        "it",
        checks.given,
    ),
    Option(
        "insecure",
        "flag",
        "false",
        _ALL,
        "with `remote`: sends the token without TLS to other machines, too",
        checks.flag,
    ),
    Option(
        "topicFilter",
        "filter or JSON list",
        "every topic, also `$…`",
        _READS,
        "MQTT topic filter, or several; a message has to match at least one",
        checks.filters,
    ),
    Option(
        "startingTimestamp",
        "time",
        "",
        _READS,
        "batch: only messages of this time or later; stream: begins at the first commit that has "
        "such a message",
        checks.time,
    ),
    Option("endingTimestamp", "time", "", _BATCH, "only messages before this time", checks.time),
    Option(
        "startingOffsets",
        "`earliest`, `latest`, JSON",
        "batch `earliest`, stream `latest`",
        _READS,
        "only commits after these serials; shards that you do not name begin at their first commit",
        checks.offsets,
    ),
    Option(
        "endingOffsets",
        "`latest`, JSON",
        "`latest`",
        _BATCH,
        "only commits up to these serials; shards that you do not name end at their last commit",
        checks.offsets,
    ),
    Option(
        "atLeast",
        "`acknowledged`, JSON",
        "",
        _BATCH,
        "what the read [must see](../concepts/clusters.md#reading) at a site of a cluster: all "
        "that any site has acknowledged, or these serials; the driver waits for it",
        checks.seen,
    ),
    Option(
        "maxMessagesPerTrigger",
        "number",
        "",
        _STREAM,
        "the most messages of a micro-batch, but at least one commit",
        checks.number,
    ),
    Option(
        "maxBytesPerTrigger",
        "number",
        "",
        _STREAM,
        "the most bytes of topics and values of a micro-batch, but at least one commit; not "
        "together with `maxMessagesPerTrigger`",
        checks.number,
    ),
    Option(
        "commitOrder",
        "flag",
        "true",
        _STREAM,
        "`true`: a task gets its messages in the order of their commits; `false`: in no order, "
        "which is faster",
        checks.flag,
    ),
    Option(
        "minPartitions",
        "number",
        "1",
        _READS,
        "at least about this many tasks, if there is enough to divide",
        checks.number,
    ),
    Option(
        "failOnDataLoss",
        "flag",
        "true",
        _READS,
        "whether it is an error if a generation was dropped before it was read",
        checks.flag,
    ),
    Option(
        "pushdown",
        "flag",
        "true",
        _BATCH,
        "whether predicates on topic and timestamp limit what is read",
        checks.flag,
    ),
    Option(
        "mode",
        "`FAILFAST`, `DROPMALFORMED`",
        "`FAILFAST`",
        _WRITE,
        "a row that is not a valid message fails the job, or is left out and counted",
        checks.mode,
    ),
    Option(
        "commitTimeout",
        "seconds",
        "60",
        _WRITE,
        "how long a commit waits for processes that have shards open for writing",
        checks.seconds,
    ),
    Option("checkpointLocation", "text", "", _WRITE, "Spark's own option for streams", str),
    Option(
        "includeMetadata",
        "flag",
        "false",
        _READS,
        "two more columns: `shard` int, and `serial` bigint of the commit in that shard",
        checks.flag,
    ),
    Option(
        "includeProperties",
        "flag",
        "false",
        _READS,
        "a column for each [MQTT property](../concepts/properties.md#columns), null where a "
        "message does not have it",
        checks.flag,
    ),
)
_BY_KEY = {option.name.lower(): option for option in OPTIONS}
_OF_REMOTE = (
    "token",
    "tls_root_certs",
    "tls_certificate_name",
    "tls_certificate",
    "tls_key",
    "insecure",
)


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
        if option is None or use not in option.uses:
            raise ValueError(_unknown(key, option, use))
        try:
            values[option.name] = option.check(text)
        except (ValueError, TypeError) as error:
            shown = "…" if option.is_secret else repr(text)
            raise ValueError(f"option {option.name}={shown}: {error}") from None
    _check_place(values)
    return values


def _check_place(values: Mapping[str, Any]) -> None:
    if "path" in values and "remote" in values:
        raise ValueError(
            "options path and remote: give one of them, not both: a directory, or servers that "
            "offer it"
        )
    if "path" not in values and "remote" not in values:
        raise ValueError(
            "option path is missing: give the directory of the database, as in "
            "spark.read.format('topicdb').load('/data/fleet.db'), or its servers with remote"
        )
    for name in _OF_REMOTE:
        if name in values and "remote" not in values:
            raise ValueError(f"option {name} goes with remote, which is missing")


def _place_of(values: Mapping[str, Any]) -> Place:
    """Returns the directory, or the servers with what their files of certificates have."""
    if "path" in values:
        path: str = values["path"]
        return path
    try:
        return Remote(
            values["remote"], **{name: values[name] for name in _OF_REMOTE if name in values}
        )
    except ValueError as error:
        raise ValueError(f"option remote={values['remote']!r}: {error}") from None


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

    place: Place
    filters: list[str] | None
    start: int | None
    partitions_min: int
    fail_on_data_loss: bool
    metadata: bool
    properties: bool


@dataclass(frozen=True, kw_only=True)
class BatchOptions(ReadOptions):
    """The options of a batch read: only commits behind ``after``, up to ``until``, by shard.

    ``at_least``: what it must see; None: nothing in particular.
    """

    end: int | None
    after: Serials
    until: Serials
    at_least: AtLeastLike | None
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

    place: Place
    drop_malformed: bool
    commit_timeout: int


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Parses the options of a write. Raises ValueError as ``parse`` does."""
    values = parse(options, "write")
    place = _place_of(values)
    return WriteOptions(place, values.get("mode", False), values.get("commitTimeout", 60))


def _read_options(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "place": _place_of(values),
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
        at_least=values.get("atLeast"),
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


def describe_missing(slices: set[tuple[int, str, int]], place: Place) -> str:
    """Returns the text of the error about generations that were dropped."""
    shard, retention_class, generation = min(slices)
    more = f", and {len(slices) - 1} more" if len(slices) > 1 else ""
    return (
        f"generation {generation} of class '{retention_class}' of shard {shard} of {place}{more} "
        "was dropped before it was read; failOnDataLoss=false goes on without it"
    )
