"""The contract between a database and what it is built on.

``_core.Database`` keeps it in this process, ``remote.engine.RemoteEngine`` by calls of a server.
All times are microseconds since 1970-01-01 UTC; None means "no bound".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from topicdb._core import Batch, Iterator, ReadyTokens, Slab, Stream
from topicdb.forms import Form
from topicdb.jobs import Applied
from topicdb.results import (
    CommitSpan,
    Delivered,
    Maintained,
    RetentionClass,
    SlabUsage,
    Snapshot,
    StructureUsage,
    TrimCount,
)
from topicdb.types import ArrowArray, Page, Receipt, Slice

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Method = TypeVar("Method", bound=Callable[..., object])
Filters: TypeAlias = "str | Sequence[str] | None"
"""One topic filter, several of which one has to match, or None: every topic, "$…", too."""
Serials: TypeAlias = dict[int, int]
"""The serial of a commit by shard."""
RowPlace: TypeAlias = tuple[int, int]
"""Serial of a commit, number of a row in it."""


class Right(NamedTuple):
    """What a client of a server needs for a method; ``argument`` is the number of the one that says
    of which topics."""

    kind: Literal["any", "read", "delete", "admin"]
    argument: int | None = None


ANYBODY = Right("any")
ADMIN = Right("admin")


def served(right: Right) -> Callable[[Method], Method]:
    """Marks a method that a server passes on as it is to clients with that right."""

    def mark(method: Method) -> Method:
        _rights[method.__name__] = right
        return method

    return mark


_rights: dict[str, Right] = {}


def served_methods() -> dict[str, Right]:
    """By the names of methods of ``Engine``: those that are passed on as they are."""
    return dict(_rights)


class ScanCursor(Protocol):
    """A running read. Belongs to who opened it, who closes it. One thread at a time."""

    def next_batch(
        self, rows_max: int, bytes_max: int, with_serials: bool = False, /
    ) -> Batch | None:
        """The next messages as they are stored, or None at the end.

        ``with_serials``: the batch has the serial of each message's commit.
        """

    def next_arrow(
        self, rows_max: int, bytes_max: int, form: Form = "stored", /
    ) -> ArrowArray | None:
        """The next messages in a form, or None at the end."""

    def arrow_stream(self, rows_max: int, bytes_max: int, form: Form = "stored", /) -> object:
        """The rest as a PyCapsule "arrow_array_stream", which takes over this cursor."""

    def close(self) -> None:
        """Frees what it holds. May be repeated."""


class TailCursor(Protocol):
    """Commits in their order. Belongs to who opened it. One thread at a time; another may close."""

    def next_batch(
        self, rows_max: int, bytes_max: int, timeout_us: int | None, with_serials: bool = False, /
    ) -> Batch | None:
        """Whole commits of one shard, or None if there was none for so long."""

    def serials(self) -> Serials:
        """Up to where it has given everything."""

    def close(self) -> None:
        """Frees what it holds, and ends a call that waits. May be repeated."""


class StreamCursor(Protocol):
    """Streams as they come to be. One thread at a time; another may close."""

    def next_streams(self, timeout_us: int | None, /) -> list[Stream]:
        """All that are new; none if none came for so long."""

    def close(self) -> None:
        """Frees what it holds, and ends a call that waits. May be repeated."""


class SubscriptionCursor(Protocol):
    """Messages that are stored, and then those that are committed. Thread-safe."""

    def next(self, timeout_us: int | None, rows_max: int, /) -> Delivered | None:
        """None: nothing came for so long."""

    def acknowledge(self, seqno: int, /) -> None:
        """The messages up to there are done with. ValueError: they were not given, or are so."""

    def on_ready(self, tokens: ReadyTokens, token: int, /) -> None:
        """Gives the token whenever there is something for ``next`` after there was nothing."""

    def info(self) -> dict[str, Any]:
        """How it stands."""

    def find(
        self, shard: int, places: Sequence[RowPlace], /
    ) -> tuple[Batch, npt.NDArray[np.uint32]]:
        """Messages of its filters at these places, and their rows; those that are there."""

    def pause(self) -> None:
        """Gives nothing until ``resume``."""

    def resume(self) -> None:
        """Goes on."""

    def close(self) -> None:
        """Frees what it holds, and ends a call that waits. May be repeated."""

    @property
    def closed(self) -> bool:
        """``close`` was called, or the database is closed."""


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
        """``timestamp`` None: assigned at commit. ``value`` None: the serial of the commit, 8 bytes
        big-endian. ``reserved``: the topic may be one of TopicDB's own. ``escapes``: readers are to
        see this value; else it is as it is to be stored."""

    def delete(
        self, filter: str, start: int | None, end: int | None, reserved: bool = False
    ) -> None:
        """Removes at commit what matches in ``start`` <= timestamp < ``end``."""

    def get(self, topic: str, timestamp: int) -> bytes | None:
        """The value of one message, as it is stored."""

    def scan(self, filter: str, start: int | None, end: int | None) -> ScanCursor:
        """What matches, by timestamp."""

    def require(self, topic: str, timestamp: int, value: object | None) -> None:
        """Lets the commit fail unless this message is stored; None: unless there is none."""

    def commit(self) -> Receipt:
        """Applies everything or nothing."""

    def rollback(self) -> None:
        """Forgets everything. May be repeated."""

    @property
    def open(self) -> bool:
        """Neither committed nor rolled back."""

    @property
    def shard(self) -> int:
        """Where it reads and writes."""


class Engine(Protocol):
    """A database. Thread-safe; whoever opened it closes it.

    A server offers it to clients with ``topicdb.remote``: methods that are marked with ``served``
    travel as they are, the others have calls of their own there.

    What it raises is documented at the methods of ``topicdb.Database`` that call it.
    """

    @property
    def path(self) -> str:
        """Directory, or address of the server."""

    @property
    def schema(self) -> dict[str, Any]:
        """The options of ``topicdb.open`` that are stored."""

    @property
    def closed(self) -> bool:
        """``close`` was called."""

    @property
    def clock_ahead_us(self) -> int:
        """How far the last assigned timestamp is ahead of the clock; 0 if another tells of it."""

    def append_rows(
        self,
        rows: Iterable[Any],
        durability: str | None,
        escapes: bool = False,
        id: str | None = None,
        /,
    ) -> Receipt:
        """Stores (topic, timestamp, value) rows. ``escapes``: readers are to see these values."""

    def append_arrow(
        self,
        data: object,
        durability: str | None,
        escapes: bool = False,
        id: str | None = None,
        /,
    ) -> Receipt:
        """As ``append_rows``, of what has an Arrow C stream or array."""

    @served(ADMIN)
    def find_append(self, id: str, /) -> Receipt | None:
        """The receipt of the append with this id."""

    @served(Right("delete", 0))
    def delete(
        self, filter: str, start: int | None, end: int | None, durability: str | None, /
    ) -> Receipt:
        """Removes what matches."""

    def begin(
        self, shard: int, generation: int | None, durability: str | None, /
    ) -> TransactionEngine:
        """A new transaction."""

    def scan(
        self,
        filter: Filters,
        start: int | None,
        end: int | None,
        order: str,
        streams: Sequence[Stream] | None,
        /,
    ) -> ScanCursor:
        """What matches in ``start`` <= timestamp < ``end``."""

    def last(self, filter: Filters, start: int | None, end: int | None, /) -> ScanCursor:
        """The newest message of each topic."""

    @served(Right("read", 0))
    def streams(self, filter: Filters, start: int | None, end: int | None, /) -> list[Stream]:
        """Streams that may hold what matches."""

    @served(Right("read", 1))
    def iterator(
        self, stream: Stream, filter: str, start: int | None, end: int | None, /
    ) -> Iterator:
        """The position at the first message of a stream."""

    def next(self, iterator: Iterator, rows_max: int, bytes_max: int, /) -> Page:
        """Messages from a position on."""

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
        """Parts that together hold what matches."""

    def scan_slices(self, filters: Sequence[str] | None, slices: Sequence[Slice], /) -> ScanCursor:
        """What matches in these slices."""

    @served(Right("read", 0))
    def explain(self, filter: Filters, start: int | None, end: int | None, /) -> dict[str, int]:
        """What a scan takes."""

    def tail(self, filters: Sequence[str] | None, after: Serials, until: Serials, /) -> TailCursor:
        """Commits behind ``after``, up to ``until``."""

    def watch_streams(self, filter: str, existing: bool, /) -> StreamCursor:
        """New streams, and those that are there."""

    def subscribe(
        self,
        filters: Sequence[str] | None,
        places: dict[int, RowPlace] | None,
        start_us: int,
        window: int,
        window_bytes: int,
        part: tuple[int, int] = ...,
        counted: Serials = ...,
        /,
    ) -> SubscriptionCursor:
        """``places`` None: from now on. ``part``: number of one of so many parts of the topics.
        ``counted``: what was dropped by these commits is no loss."""

    @served(Right("read", 0))
    def places_at(self, filters: Sequence[str] | None, start_us: int, /) -> dict[int, RowPlace]:
        """Where messages from this time on begin, by shard."""

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
        """How far commits go within the limits. At least one commit.

        ``whole_blocks``: or less, but half of ``bytes_max``, if a block ends there.
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
        """Messages behind a place that were dropped before they were read, at most."""

    @served(ADMIN)
    def subscription_stats(self) -> dict[str, int]:
        """Counts of subscriptions and their reads."""

    @served(ANYBODY)
    def retention(self) -> list[RetentionClass]:
        """The classes, in the order in which they take topics."""

    @served(ADMIN)
    def set_retention(
        self, classes: Sequence[RetentionClass], dry_run: bool = False, /
    ) -> Maintained:
        """What ``maintain`` would do next because of them."""

    @served(ADMIN)
    def rotate(self, retention_class: str | None, resets_clock: bool = False, /) -> None:
        """Begins a new generation."""

    @served(ADMIN)
    def jobs(self) -> list[Applied]:
        """Jobs that were applied, by shard and sequence."""

    @served(ADMIN)
    def slabs(self) -> list[Slab]:
        """Of all shards, classes and generations."""

    @served(ADMIN)
    def drop_slab(self, shard: int, retention_class: str, generation: int, /) -> None:
        """Removes a generation that is not the current one."""

    @served(ADMIN)
    def expire(self, as_if_us: int | None, /) -> list[Slab]:
        """Drops what retention does not keep; which."""

    @served(ADMIN)
    def maintain(self, as_if_us: int | None, /) -> Maintained:
        """Rotates, and drops what retention does not keep."""

    def trim(self, before_us: int, filter: str | None, dry_run: bool, /) -> TrimCount:
        """Removes earlier messages, or says what would go."""

    def snapshot(self, path: str, base: str | None, copy: bool, /) -> Snapshot:
        """Copies the database."""

    @served(ADMIN)
    def usage(self) -> list[SlabUsage]:
        """What each slab takes."""

    @served(ADMIN)
    def usage_by_structure(self) -> list[StructureUsage]:
        """What each structure takes, by class."""

    @served(ADMIN)
    def stats(self) -> dict[str, Any]:
        """Counts and sizes."""

    @served(ANYBODY)
    def refresh(self) -> None:
        """Sees what another process wrote since."""

    @served(ADMIN)
    def flush(self) -> None:
        """Moves what is in memory to files, and fsyncs them."""

    def close(self) -> None:
        """Waits for calls in flight, and releases what it holds. May be repeated."""


class AppendQueue(Protocol):
    """Appends that nobody waits for, to one engine. Thread-safe."""

    def start(
        self, messages: Any, durability: str | None, *, escapes: bool, id: str | None
    ) -> Future[Receipt]:
        """Queues an append of rows, or of what has an Arrow C stream or array.

        The messages are copied before it returns. It waits while too many are queued.
        """

    def close_engine(self) -> None:
        """Finishes what is queued, and closes the engine. May be repeated."""
