"""A base class for engines that are written in Python."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn, cast

from topicdb import _core
from topicdb._core import Iterator
from topicdb.engine import Engine, Filters, RowPlace, ScanCursor, Serials
from topicdb.engines.columns import split_keys
from topicdb.engines.features import FEATURES, Feature
from topicdb.engines.groups import MessageGroups
from topicdb.engines.scans import BatchScan, Numbered
from topicdb.engines.values import checked_arrow, checked_filters
from topicdb.results import QuotaState
from topicdb.types import Keys, MessageGroup, Receipt

METHODS: frozenset[str] = frozenset(
    name for name, found in vars(Engine).items() if callable(found) and not name.startswith("_")
)
"""The names of all methods of the contract."""

_ATTRIBUTES = ("path", "schema", "closed", "clock_ahead_us")
_FEATURE_OF = {method: feature for feature, methods in FEATURES.items() for method in methods}
_ROWS_MAX, _BYTES_MAX = 10_000, 8 << 20
_LOOK_S = 0.02
_BEHIND_ALL = (1 << 63) - 1  # a time behind all messages


class EngineBase:
    """Fulfils ``topicdb.engine.Engine`` as far as a subclass does not.

    Methods that need nothing but others are made of those. All others raise NotImplementedError,
    also those that a later TopicDB adds to the contract. ``lacks`` says which features are missing
    because a method is.

    A subclass has ``path``, ``schema``, ``closed``, ``append_rows``, ``scan``, ``stats``, ``flush``
    and ``close``. It sets ``persists`` if what it stores is there when it is opened again, and
    ``takes_given`` if its tails and subscriptions begin behind iterators. docs/internals/engines.md
    has a whole engine.

    Example:
        >>> from topicdb.engines import EngineBase
        >>> class MemoryEngine(EngineBase):
        ...     path, schema = "memory", {"shards": 1}
        >>> "transactions" in MemoryEngine().lacks
        True
    """

    persists: ClassVar[bool] = False
    takes_given: ClassVar[bool] = False

    clock_ahead_us = 0
    """Always 0: an engine that tells of its clock overrides it."""

    @property
    def lacks(self) -> frozenset[Feature]:
        """The features of which the class does not have every method."""
        kind = type(self)
        missing: set[Feature] = {
            f for f, methods in FEATURES.items() if not all(hasattr(kind, m) for m in methods)
        }
        missing.add("directory")
        if not kind.persists:
            missing.add("persistence")
        if not kind.takes_given:
            missing.add("given")
        return frozenset(missing)

    def check_open(self) -> None:
        """Raises ClosedError if the engine is closed."""
        if self.closed:
            raise _core.ClosedError(f"{self.path} is closed")

    def missing_shards(self, filters: Filters, /) -> dict[int, str]:
        """Returns none: an engine that opens without some of its shards overrides it."""
        checked_filters(filters)
        self.check_open()
        return {}

    def partial(self) -> Engine:
        """Returns this engine: one that opens without some of its shards overrides it."""
        return cast(Engine, self)

    def seeing(self, serials: Serials | None, timeout_us: int, /) -> Engine:
        """Returns this engine once its ``stats`` have these commits; looks again until then."""
        give_up_at = time.monotonic() + timeout_us / 1e6
        while True:
            self.refresh()
            behind = _behind(self.stats()["shards"], serials or {})
            if behind is None:
                return cast(Engine, self)
            if time.monotonic() >= give_up_at:
                raise _core.StaleError(f"{self.path}: {behind}: wait longer")
            time.sleep(_LOOK_S)

    def append_arrow(
        self,
        data: object,
        durability: str | None,
        escapes: bool = False,
        id: str | None = None,
        key: Keys | None = None,
        /,
    ) -> Receipt:
        """Stores messages that have an Arrow C stream or array, by ``append_rows``.

        Without pyarrow, a column of keys is a ValueError.
        """
        rest, keys = split_keys(data, key)
        rows = checked_arrow(rest, escapes)
        receipt: Receipt = self.append_rows(rows, durability, False, id, keys)
        return receipt

    def last(self, filter: Filters, start: int | None, end: int | None, /) -> ScanCursor:
        """Reads the newest message of each topic, for which it reads all by ``scan``."""
        newest: dict[str, Numbered] = {}
        scan: ScanCursor = self.scan(filter, start, end, "stream", None)
        try:
            while (batch := scan.next_batch(_ROWS_MAX, _BYTES_MAX, True)) is not None:
                assert batch.serials is not None
                for message, serial in zip(batch, batch.serials.tolist(), strict=True):
                    known = newest.get(message.topic)
                    if known is None or known[1] <= message.timestamp:
                        newest[message.topic] = (*message, serial)
        finally:
            scan.close()
        return BatchScan([newest[topic] for topic in sorted(newest, key=str.encode)])

    def summarize(
        self,
        filter: Filters,
        start: int | None,
        end: int | None,
        topic_levels: int | None,
        span: int | None,
        origin: int,
        /,
    ) -> list[MessageGroup]:
        """Counts messages in groups, for which it reads all of them by ``scan``."""
        groups = MessageGroups(topic_levels, span, origin)
        scan: ScanCursor = self.scan(filter, start, end, "none", None)
        try:
            while (batch := scan.next_batch(_ROWS_MAX, _BYTES_MAX, False)) is not None:
                for message in batch:
                    groups.add(message.topic, message.timestamp)
        finally:
            scan.close()
        return groups.sorted()

    def quota(self) -> QuotaState:
        """Returns that there is none, and what ``stats`` counts."""
        return QuotaState(0, 0.0, self.stats()["disk_bytes"])

    def check_log(
        self,
        filters: Sequence[str] | None,
        places: dict[int, RowPlace] | None,
        start_us: int,
        given: Sequence[Iterator] = (),
        /,
    ) -> None:
        """Finds nothing to tell: an engine without a log of some messages overrides it."""
        self.places_at(filters, _BEHIND_ALL)  # refuses what it cannot read, and costs little

    def subscription_stats(self) -> dict[str, int]:
        """Returns zeros: an engine that has subscriptions may count them."""
        self.check_open()
        keys = ("subscriptions", "live_reads", "catch_up_reads", "shared_reads", "page_bytes")
        return dict.fromkeys(keys, 0)

    def refresh(self) -> None:
        """Does nothing: an engine that is open for writing is always up to date."""
        self.check_open()

    def __getattr__(self, name: str) -> Any:
        if name in METHODS:
            return functools.partial(_lacking, type(self).__name__, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def check_engine(engine: object) -> None:
    """Raises TypeError, naming what is missing, unless an object has what every engine needs."""
    needed = [*_ATTRIBUTES, *sorted(METHODS - set(_FEATURE_OF))]
    missing = [name for name in needed if not hasattr(engine, name)]
    if missing:
        raise TypeError(
            f"engine: {type(engine).__name__} has no {', '.join(missing)}: see "
            "docs/internals/engines.md; topicdb.engines.EngineBase has some of it"
        )


def _behind(shards: Iterable[Mapping[str, Any]], serials: Mapping[int, int]) -> str | None:
    """Returns what the first shard lacks of these commits; None: nothing.

    Raises ValueError for a shard that is not there.
    """
    known = {shard["shard"]: shard["serial"] for shard in shards}
    for shard, serial in serials.items():
        if shard not in known:
            raise ValueError(f"at_least: there is no shard {shard}, only {sorted(known)}")
        if known[shard] < serial:
            return f"shard {shard} has not come to commit {serial}, only to {known[shard]}"
    return None


def _lacking(engine: str, method: str, *args: object, **named: object) -> NoReturn:
    feature = _FEATURE_OF.get(method)
    why = f"it lacks {feature!r}" if feature else "every engine needs it"
    raise NotImplementedError(f"{engine} has no {method}(): {why}")


def stats_of(
    shards: Iterable[dict[str, Any]], missing: Mapping[int, str] = MappingProxyType({})
) -> dict[str, Any]:
    """Returns ``Engine.stats`` for these shards; keys that are not given have 0 or "".

    Arguments:
        shards: what to say of each shard, at least ``shard`` and ``serial``.
        missing: the missing shards, and why each is missing.

    Returns:
        What ``Engine.stats`` returns.
    """
    found = [{**_shard_stats(), **shard} for shard in shards]
    sums = ("messages", "bytes", "streams", "disk_bytes")
    totals: dict[str, Any] = {key: sum(shard[key] for shard in found) for key in sums}
    counts = ("runs", "last_run", "rotated", "dropped_slabs", "dropped_messages", "kept_messages")
    maintenance: dict[str, Any] = {**dict.fromkeys((*counts, "dropped_bytes"), 0), "error": ""}
    whole: dict[str, Any] = {
        "cache_bytes": 0,
        "maintenance": maintenance,
        "missing_shards": dict(missing),
    }
    return {**totals, **whole, "shards": found}


_SHARD_NUMBERS = (
    "clock",
    "clock_ahead",
    "clock_held",
    "messages",
    "bytes",
    "streams",
    "slabs",
    "disk_bytes",
    "memory_bytes",
    "structure_bytes",
    "fresh_blocks",
    "fresh_bytes",
    "sealed_bytes",
    "resealed_bytes",
)
READ_COUNTS = (
    "blocks",
    "blocks_skipped_by_time",
    "blocks_skipped_by_stream",
    "blocks_skipped_by_word",
    "pages",
    "pages_skipped_by_time",
    "pages_skipped_by_topic",
    "pages_read",
    "bytes_read",
    "rows_examined",
    "rows_matched",
    "rows_spilled",
    "bytes_spilled",
)
"""The counts of reads: in ``stats`` by shard, and with ``slabs`` and ``streams`` in ``explain``."""


def _shard_stats() -> dict[str, Any]:
    reads = dict.fromkeys(READ_COUNTS, 0)
    return {
        **dict.fromkeys(_SHARD_NUMBERS, 0),
        "sealing_error": "",
        "is_sealing": False,
        "reads": reads,
    }
