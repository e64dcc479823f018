"""The contract between ``topicdb.Database`` and the engine that it is built on.

``_core.Database`` fulfils it in this process, ``remote.client.engine.RemoteEngine`` by calls of a
server; a third party may fulfil it, too (docs/internals/engines.md).
All times are integers: microseconds since 1970-01-01 UTC. A bound of None means "no bound".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeAlias

from topicdb._core import Iterator, ScanIterator, Slab, Stream
from topicdb.cursor.contract import (
    RowPlace,
    ScanCursor,
    Serials,
    StreamCursor,
    SubscriptionCursor,
    TailCursor,
)
from topicdb.jobs import Applied
from topicdb.results import (
    CommitSpan,
    Dropped,
    Maintained,
    QuotaState,
    RetentionClass,
    ScanStep,
    SlabUsage,
    Snapshot,
    StructureUsage,
    TrimCount,
)
from topicdb.rights import ADMIN, ANYBODY, Right, served
from topicdb.types import CommitKnown, Keys, MessageGroup, Page, Receipt, Slice

__all__ = [
    "AppendQueue",
    "Engine",
    "Filters",
    "RowPlace",
    "ScanCursor",
    "Serials",
    "StreamCursor",
    "SubscriptionCursor",
    "TailCursor",
    "TransactionEngine",
]

Filters: TypeAlias = "str | Sequence[str] | None"
"""One topic filter, several of which one has to match, or None: every topic, "$…", too."""


class TransactionEngine(Protocol):
    """A transaction on one shard, until ``commit`` or ``rollback``. One call at a time."""

    def write(
        self,
        topic: str,
        timestamp: int | None,
        value: object | None,
        reserved: bool = False,
        escapes: bool = False,
    ) -> None:
        """Stores a message at commit.

        - ``timestamp``: None lets the commit assign it.
        - ``value``: None stands for the serial of the commit, 8 bytes big-endian.
        - ``reserved``: the topic may be one of TopicDB's own.
        - ``escapes``: readers are to see this value. Otherwise it is stored as it is.
        """

    def delete(
        self, filter: str, start: int | None, end: int | None, reserved: bool = False
    ) -> None:
        """Removes at commit the messages that match in ``start`` <= timestamp < ``end``."""

    def get(self, topic: str, timestamp: int) -> bytes | None:
        """Returns the value of one message as it is stored, or None."""

    def scan(self, filter: str, start: int | None, end: int | None) -> ScanCursor:
        """Reads the messages that match, by timestamp."""

    def require(self, topic: str, timestamp: int, value: object | None) -> None:
        """Lets the commit fail unless this message is stored; None: unless none is there."""

    def require_present(self, topic: str, timestamp: int) -> None:
        """Lets the commit fail unless a message is stored there, whatever its value."""

    def commit(self) -> Receipt:
        """Applies everything or nothing."""

    def rollback(self) -> None:
        """Forgets everything. May be repeated."""

    @property
    def open(self) -> bool:
        """Whether it is neither committed nor rolled back."""

    @property
    def shard(self) -> int:
        """The shard that it reads and writes."""


class Engine(Protocol):
    """A database. Thread-safe; whoever opened it closes it.

    A server offers it to clients by ``topicdb.remote``. Methods that are marked with ``served``
    travel unchanged; each of the others has a call of its own there.

    docs/internals/engines.md says what each method promises; ``topicdb.conformance`` checks it.
    An engine that lacks something has an attribute ``lacks``, a frozenset of
    ``topicdb.engines.Feature``.
    """

    @property
    def path(self) -> str:
        """The directory of the database, or the address of its server."""

    @property
    def schema(self) -> dict[str, Any]:
        """The options of ``topicdb.open`` that are stored."""

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""

    @property
    def clock_ahead_us(self) -> int:
        """How far the last assigned timestamp is ahead of the clock, in µs.

        0 in an engine that leaves the warning about it to another one, such as that of a server.
        """

    @served(Right("read", 0))
    def missing_shards(self, filters: Filters, /) -> dict[int, str]:
        """Returns the missing shards that may hold what matches, and why each is missing."""

    def partial(self) -> Engine:
        """Returns an engine of the same database whose reads leave out missing shards.

        In all else the two are alike, and nobody has to close this one.
        """

    def seeing(self, serials: Serials | None, timeout_us: int, /) -> Engine:
        """Returns an engine of the same database whose reads see these commits.

        It waits for them, when this is called or when a read of the result begins, for at most
        ``timeout_us``; it raises StaleError then.

        - ``serials``: {shard: serial}; None: everything that was acknowledged before, whichever
          process has acknowledged it. Raises NoQuorumError if nobody can tell in time.
        """

    def append_rows(
        self,
        rows: Iterable[Any],
        durability: str | None,
        escapes: bool = False,
        id: str | None = None,
        key: Keys | None = None,
        /,
    ) -> Receipt:
        """Stores (topic, timestamp, value) rows.

        With ``escapes`` readers see these values; otherwise they are stored as they are. ``key``
        decides the shards of a database that shards by key.
        """

    def append_arrow(
        self,
        data: object,
        durability: str | None,
        escapes: bool = False,
        id: str | None = None,
        key: Keys | None = None,
        /,
    ) -> Receipt:
        """Stores messages that have an Arrow C stream or array, otherwise like ``append_rows``.

        They may have a column of keys instead of ``key``.
        """

    @served(ADMIN)
    def find_append(self, id: str, /) -> Receipt | None:
        """Returns the receipt of the append with this id, or None."""

    @served(Right("delete", 0))
    def delete(
        self, filter: str, start: int | None, end: int | None, durability: str | None, /
    ) -> Receipt:
        """Removes the messages that match in ``start`` <= timestamp < ``end``."""

    def begin(
        self, shard: int, generation: int | None, durability: str | None, /
    ) -> TransactionEngine:
        """Begins a transaction on ``shard``; ``generation`` None: on all generations."""

    def scan(
        self,
        filter: Filters,
        start: int | None,
        end: int | None,
        order: str,
        streams: Sequence[Stream] | None,
        /,
    ) -> ScanCursor:
        """Reads the messages that match in ``start`` <= timestamp < ``end``.

        An engine whose attribute ``reads_columns`` has the name of this method takes the names of
        columns as one more argument: docs/internals/engines.md. One whose attribute ``parcels`` has
        versions of parcels gives cursors of ``scan_slices`` the method ``next_parcel``, too.
        """

    def last(self, filter: Filters, start: int | None, end: int | None, /) -> ScanCursor:
        """Reads the newest message of each topic."""

    @served(Right("read", 0))
    def streams(
        self, filter: Filters, start: int | None, end: int | None, generation_min: int | None, /
    ) -> list[Stream]:
        """Returns the streams that may hold messages that match, of generations from one on."""

    @served(Right("read", 1))
    def iterator(
        self, stream: Stream, filter: str, start: int | None, end: int | None, /
    ) -> Iterator:
        """Returns an iterator at the first message of a stream."""

    def next(self, iterator: Iterator, rows_max: int, bytes_max: int, /) -> Page:
        """Returns messages from an iterator on."""

    @served(Right("read", 0))
    def scan_iterator(self, filter: Filters, start: int | None, end: int | None, /) -> ScanIterator:
        """Returns an iterator at the start of what is stored now."""

    def next_of_scan(self, iterator: ScanIterator, rows_max: int, bytes_max: int, /) -> ScanStep:
        """Returns messages from an iterator on, or a loss."""

    @served(Right("read", 0))
    def slices(
        self,
        filters: Sequence[str] | None,
        start: int | None,
        end: int | None,
        after: Serials,
        until: Serials,
        bytes_max: int,
        /,
    ) -> list[Slice]:
        """Returns slices of about ``bytes_max`` bytes that together hold what matches."""

    def scan_slices(self, filters: Sequence[str] | None, slices: Sequence[Slice], /) -> ScanCursor:
        """Reads the messages of these slices that match; columns are as of ``scan``."""

    @served(Right("read", 0))
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
        """Counts messages by the first levels of their topics, and by spans of ``span`` µs.

        - ``topic_levels``: 0: topics do not matter; None: all levels.
        - ``span``: None: time does not matter. Spans begin at ``origin`` and at multiples of
          ``span`` from it.
        """

    @served(Right("read", 0))
    def explain(self, filter: Filters, start: int | None, end: int | None, /) -> dict[str, int]:
        """Returns what a scan costs; ``topicdb.Database.explain`` documents the keys."""

    def tail(
        self,
        filters: Sequence[str] | None,
        after: Serials,
        until: Serials,
        given: Sequence[Iterator] = ...,
        /,
    ) -> TailCursor:
        """Reads commits behind ``after``, up to ``until``; leaves out what iterators have given."""

    def watch_streams(self, filter: str, existing: bool, /) -> StreamCursor:
        """Gives new streams, with ``existing`` after those that are there."""

    def subscribe(
        self,
        filters: Sequence[str] | None,
        places: dict[int, RowPlace] | None,
        start_us: int,
        window: int,
        window_bytes: int,
        part: tuple[int, int] = ...,
        counted: Serials = ...,
        given: Sequence[Iterator] = ...,
        /,
    ) -> SubscriptionCursor:
        """Subscribes to messages.

        - ``places``: where to begin in each shard; None: with what is committed from now on.
        - ``part``: (number, count): only topics of this one of ``count`` parts.
        - ``counted``: what was dropped up to these commits is not reported as a loss.
        - ``given``: what these iterators have given is left out.
        """

    @served(Right("read", 0))
    def check_log(
        self,
        filters: Sequence[str] | None,
        places: dict[int, RowPlace] | None,
        start_us: int,
        given: Sequence[Iterator] = ...,
        /,
    ) -> None:
        """Raises SchemaError, which names a generation without a log, if a reader would miss it.

        The arguments are those of ``subscribe``. Whoever begins anew asks this first; readers that
        go on where they were find out when they read.
        """

    @served(Right("read", 0))
    def places_at(self, filters: Sequence[str] | None, start_us: int, /) -> dict[int, RowPlace]:
        """Returns by shard the place of the first message that is not older than that."""

    @served(Right("read", 1))
    def measure_log(
        self,
        shard: int,
        filters: Sequence[str] | None,
        after: int,
        until: int | None,
        start: int | None,
        rows_max: int,
        bytes_max: int,
        whole_blocks: bool = False,
    ) -> CommitSpan:
        """Returns how far commits behind ``after`` go within the limits, at least one commit.

        With ``whole_blocks`` it ends earlier where a block ends, once half of ``bytes_max`` is
        reached.
        """

    @served(Right("read", 1))
    def count_dropped(
        self,
        shard: int,
        filters: Sequence[str] | None,
        start_us: int,
        place: RowPlace,
        counted: int,
        /,
    ) -> int:
        """Returns how many messages behind a place were dropped before they were read, at most.

        Drops up to the commit ``counted`` are left out.
        """

    @served(ADMIN)
    def subscription_stats(self) -> dict[str, int]:
        """Returns counts of subscriptions and of the reads for them."""

    @served(ANYBODY)
    def retention(self) -> list[RetentionClass]:
        """Returns the retention classes in the order in which they are tried."""

    @served(ADMIN)
    def set_retention(
        self, classes: Sequence[RetentionClass], dry_run: bool = False, /
    ) -> Maintained:
        """Replaces the classes, unless ``dry_run``; returns what ``maintain`` would do next."""

    @served(ADMIN)
    def quota(self) -> QuotaState:
        """Returns the quota of this engine, and how much counts against it."""

    @served(ADMIN)
    def set_quota(
        self, quota_bytes: int | None, quota_trim: float | None, dry_run: bool = False, /
    ) -> list[Dropped]:
        """Replaces the quota of this engine, unless ``dry_run``; None leaves a part as it is.

        Returns what ``maintain`` would drop for it next.
        """

    @served(ADMIN)
    def rotate(
        self,
        retention_class: str | None,
        resets_clock: bool = False,
        layout: str | None = None,
        /,
    ) -> None:
        """Begins a new generation of one class, or of all.

        ``layout`` None: that of the class's rule, or of the generation before.
        """

    @served(ADMIN)
    def jobs(self) -> list[Applied]:
        """Returns the jobs that were applied, by shard and sequence."""

    @served(ADMIN)
    def slabs(self) -> list[Slab]:
        """Returns the slabs of all shards, classes and generations."""

    @served(ADMIN)
    def drop_slab(self, shard: int, retention_class: str, generation: int, /) -> None:
        """Removes a generation that is not the current one."""

    @served(ADMIN)
    def expire(self, as_if_us: int | None, /) -> list[Slab]:
        """Drops what is older than its class allows, and returns those slabs."""

    @served(ADMIN)
    def maintain(self, as_if_us: int | None, /) -> Maintained:
        """Rotates and drops as retention wants it, at ``as_if_us`` or, with None, now."""

    def trim(self, before_us: int, filter: str | None, dry_run: bool, /) -> TrimCount:
        """Removes messages before ``before_us``; with ``dry_run`` it only counts them."""

    def snapshot(self, path: str, base: str | None, copy: bool, /) -> Snapshot:
        """Copies the database to ``path``."""

    @served(ADMIN)
    def usage(self) -> list[SlabUsage]:
        """Returns what each slab takes on disk."""

    @served(ADMIN)
    def usage_by_structure(self) -> list[StructureUsage]:
        """Returns what the messages of each structure take, by class."""

    @served(ADMIN)
    def stats(self) -> dict[str, Any]:
        """Returns counts and sizes; ``topicdb.Database.stats`` documents the keys."""

    @served(ANYBODY)
    def refresh(self) -> None:
        """In a read-only engine, shows what another process has written since."""

    @served(ADMIN)
    def flush(self) -> None:
        """Moves what is in memory to files, and fsyncs them."""

    def close(self) -> None:
        """Waits for calls in flight, and frees what the engine holds. May be repeated."""


class AppendQueue(Protocol):
    """Asynchronous appends and commits to one engine. Thread-safe."""

    def start(
        self,
        messages: Any,
        durability: str | None,
        *,
        escapes: bool,
        id: str | None,
        key: Keys | None = None,
    ) -> Future[Receipt]:
        """Queues an append of rows, or of an object that has an Arrow C stream or array.

        The messages are copied before it returns. It waits while too many are queued.
        """

    def commit(
        self, transaction: Any, /, *, urgent: bool = False, room_us: int | None = None
    ) -> Future[Receipt] | None:
        """Begins to commit a transaction of the engine, of which the caller uses nothing any more.

        It gathers with others, unless ``urgent``. Waits at most ``room_us`` while too much is
        queued; then it returns None, and nothing is stored. The future has what ``commit`` gives.
        """

    def give_up(self, transaction: Any, /) -> CommitKnown:
        """Withdraws a commit that was begun here, unless it is being applied by now.

        Returns what is known of it then. If none was begun, it rolls the transaction back.
        """

    def close_engine(self) -> None:
        """Finishes what is queued, and closes the engine. May be repeated."""
