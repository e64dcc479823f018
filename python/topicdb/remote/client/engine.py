"""An engine whose methods are calls of a server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, TypeVar

from topicdb._core import Iterator, ScanIterator, Slab, Stream
from topicdb.arguments.at_least import Needs
from topicdb.engine import Engine, Filters, RowPlace, Serials
from topicdb.engines.features import Feature
from topicdb.follow.losses import Loss
from topicdb.jobs import Applied
from topicdb.remote.client.appending import append
from topicdb.remote.client.connection import Connection
from topicdb.remote.client.reading import RemoteScan, RemoteTail, RemoteTransaction, RemoteWatch
from topicdb.remote.client.seeing import Asked, begin_where_seen
from topicdb.remote.client.subscribing import RemoteSubscription
from topicdb.remote.records import record_of, result_of
from topicdb.remote.wire import AT_LEAST, AT_LEAST_CALLS, PARTIAL, PARTIAL_CALLS
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
from topicdb.types import Keys, MessageGroup, Page, Receipt, Slice

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class RemoteEngine:
    """Implements ``topicdb.engine.Engine`` by calls over a connection. Thread-safe.

    The engine closes the connection. Its methods do what the protocol says.
    """

    clock_ahead_us = 0
    """Always 0: the server tells its own log."""

    def __init__(
        self, connection: Connection, *, is_partial: bool = False, needs: Needs | None = None
    ) -> None:
        """``is_partial``: reads leave out missing shards. ``needs``: what they must see."""
        self.connection = connection
        self._is_partial = is_partial
        self._needs = needs
        self._schema: dict[str, Any] = connection.hello["schema"]

    @property
    def lacks(self) -> frozenset[Feature]:
        """Returns what the engine of the server lacks; its directory is not this machine's."""
        return frozenset({*self.connection.hello.get("lacks", ()), "directory"})

    @property
    def path(self) -> str:
        """Returns the address of the server."""
        return self.connection.url

    @property
    def schema(self) -> dict[str, Any]:
        """Returns the schema as it was when the connection was made."""
        return self._schema

    @property
    def closed(self) -> bool:
        """Returns whether ``close`` was called."""
        return self.connection.closed

    def missing_shards(self, filters: Filters) -> dict[int, str]:
        return self._call(Engine.missing_shards, filters)

    def partial(self) -> RemoteEngine:
        return RemoteEngine(self.connection, is_partial=True, needs=self._needs)

    def seeing(self, serials: Serials | None, timeout_us: int) -> RemoteEngine:
        """Returns an engine whose reads the server lets wait, or another one of several."""
        needs = Needs(serials, timeout_us)
        return RemoteEngine(self.connection, is_partial=self._is_partial, needs=needs)

    def append_rows(
        self,
        rows: Iterable[Any],
        durability: str | None,
        escapes: bool = False,
        id: str | None = None,
        key: Keys | None = None,
    ) -> Receipt:
        """Stores rows, or anything that has Arrow data."""
        return append(self.connection, rows, durability, escapes, id, key)

    def append_arrow(
        self,
        data: object,
        durability: str | None,
        escapes: bool = False,
        id: str | None = None,
        key: Keys | None = None,
    ) -> Receipt:
        return append(self.connection, data, durability, escapes, id, key)

    def find_append(self, id: str) -> Receipt | None:
        return self._call(Engine.find_append, id)

    def delete(
        self, filter: str, start: int | None, end: int | None, durability: str | None
    ) -> Receipt:
        return self._call(Engine.delete, filter, start, end, durability)

    def begin(
        self, shard: int, generation: int | None, durability: str | None
    ) -> RemoteTransaction:
        lease = self.connection.lease()
        number = lease.call("begin", shard, generation, durability)
        return RemoteTransaction(lease, number, shard)

    def scan(
        self,
        filter: Filters,
        start: int | None,
        end: int | None,
        order: str,
        streams: Sequence[Stream] | None,
    ) -> RemoteScan:
        wanted = None if streams is None else list(streams)
        missing = self._left_out(filter) if wanted is None else {}
        return self._read("scan", filter, start, end, order, wanted, missing=missing)

    def last(self, filter: Filters, start: int | None, end: int | None) -> RemoteScan:
        return self._read("last", filter, start, end, missing=self._left_out(filter))

    def streams(
        self, filter: Filters, start: int | None, end: int | None, generation_min: int | None
    ) -> list[Stream]:
        return self._call(Engine.streams, filter, start, end, generation_min)

    def iterator(self, stream: Stream, filter: str, start: int | None, end: int | None) -> Iterator:
        return self._call(Engine.iterator, stream, filter, start, end)

    def next(self, iterator: Iterator, rows_max: int, bytes_max: int) -> Page:
        return self._call(Engine.next, iterator, rows_max, bytes_max)

    def scan_iterator(self, filter: Filters, start: int | None, end: int | None) -> ScanIterator:
        return self._call(Engine.scan_iterator, filter, start, end)

    def next_of_scan(self, iterator: ScanIterator, rows_max: int, bytes_max: int) -> ScanStep:
        def ask(connection: Connection, call: str, *asked: Asked) -> Any:
            return connection.call(call, *asked, iterator, rows_max, bytes_max)

        behind, batch, end_of_scan, loss = self._begin("next_of_scan", ask)
        return ScanStep(behind, batch, end_of_scan, None if loss is None else Loss(*loss))

    def slices(
        self,
        filters: Sequence[str] | None,
        start: int | None,
        end: int | None,
        after: Serials,
        until: Serials,
        bytes_max: int,
    ) -> list[Slice]:
        return self._call(Engine.slices, _list(filters), start, end, after, until, bytes_max)

    def scan_slices(
        self,
        filters: Sequence[str] | None,
        slices: Sequence[Slice],
        columns: Sequence[str] | None = None,
    ) -> RemoteScan:
        """Reads slices; the server sends only these columns. None: all of them."""
        chosen = () if columns is None else (list(columns),)
        self.connection.check_open()
        args = (_list(filters), list(slices), *chosen)
        return RemoteScan(self.connection, "scan_slices", args, columns=columns, needs=self._needs)

    def summarize(
        self,
        filter: Filters,
        start: int | None,
        end: int | None,
        topic_levels: int | None,
        span: int | None,
        origin: int,
    ) -> list[MessageGroup]:
        return self._call(Engine.summarize, filter, start, end, topic_levels, span, origin)

    def explain(self, filter: Filters, start: int | None, end: int | None) -> dict[str, int]:
        return self._call(Engine.explain, filter, start, end)

    def tail(
        self,
        filters: Sequence[str] | None,
        after: Serials,
        until: Serials,
        given: Sequence[Iterator] = (),
    ) -> RemoteTail:
        missing = self._left_out(filters)

        def begin(connection: Connection, call: str, *asked: Asked) -> RemoteTail:
            lease, wanted = connection.lease(), _list(filters)
            number, serials = lease.call(call, *asked, wanted, after, until, list(given))
            return RemoteTail(lease, number, serials, missing)

        tail = self._begin("tail", begin)
        if until:
            shards = tail.shards()
            if all(shard in until for shard in shards):
                tail.end_at({shard: until[shard] for shard in shards})
        return tail

    def watch_streams(self, filter: str, existing: bool) -> RemoteWatch:
        def begin(connection: Connection, call: str, *asked: Asked) -> RemoteWatch:
            lease = connection.lease()
            return RemoteWatch(lease, lease.call(call, *asked, filter, existing))

        return self._begin("watch", begin)

    def subscribe(
        self,
        filters: Sequence[str] | None,
        places: dict[int, RowPlace] | None,
        start_us: int,
        window: int,
        window_bytes: int,
        part: tuple[int, int] = (0, 1),
        counted: Mapping[int, int] = MappingProxyType({}),
        given: Sequence[Iterator] = (),
    ) -> RemoteSubscription:
        missing = self._left_out(filters)
        options = start_us, window, window_bytes, part, dict(counted), list(given)

        def begin(connection: Connection, call: str, *asked: Asked) -> RemoteSubscription:
            lease, wanted = connection.lease(), _list(filters)
            number = lease.call(call, *asked, wanted, _plain(places), *options)
            return RemoteSubscription(lease, number, missing)

        return self._begin("subscribe", begin)

    def check_log(
        self,
        filters: Sequence[str] | None,
        places: dict[int, RowPlace] | None,
        start_us: int,
        given: Sequence[Iterator] = (),
    ) -> None:
        self._call(Engine.check_log, _list(filters), _plain(places), start_us, list(given))

    def places_at(self, filters: Sequence[str] | None, start_us: int) -> dict[int, RowPlace]:
        return self._call(Engine.places_at, _list(filters), start_us)

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
        limits = rows_max, bytes_max, whole_blocks
        return self._call(Engine.measure_log, shard, _list(filters), after, until, start, *limits)

    def count_dropped(
        self,
        shard: int,
        filters: Sequence[str] | None,
        start_us: int,
        place: RowPlace,
        counted: int,
    ) -> int:
        return self._call(Engine.count_dropped, shard, _list(filters), start_us, place, counted)

    def subscription_stats(self) -> dict[str, int]:
        return self._call(Engine.subscription_stats)

    def retention(self) -> list[RetentionClass]:
        return self._call(Engine.retention)

    def set_retention(self, classes: Sequence[RetentionClass], dry_run: bool = False) -> Maintained:
        return self._call(Engine.set_retention, list(classes), dry_run)

    def quota(self) -> QuotaState:
        return self._call(Engine.quota)

    def set_quota(
        self, quota_bytes: int | None, quota_trim: float | None, dry_run: bool = False
    ) -> list[Dropped]:
        return self._call(Engine.set_quota, quota_bytes, quota_trim, dry_run)

    def rotate(
        self, retention_class: str | None, resets_clock: bool = False, layout: str | None = None
    ) -> None:
        self._call(Engine.rotate, retention_class, resets_clock, layout)

    def jobs(self) -> list[Applied]:
        return self._call(Engine.jobs)

    def slabs(self) -> list[Slab]:
        return self._call(Engine.slabs)

    def drop_slab(self, shard: int, retention_class: str, generation: int) -> None:
        self._call(Engine.drop_slab, shard, retention_class, generation)

    def expire(self, as_if_us: int | None) -> list[Slab]:
        return self._call(Engine.expire, as_if_us)

    def maintain(self, as_if_us: int | None) -> Maintained:
        return self._call(Engine.maintain, as_if_us)

    def trim(self, before_us: int, filter: str | None, dry_run: bool) -> TrimCount:
        return self._call(Engine.trim, before_us, filter, dry_run)

    def snapshot(self, path: str, base: str | None, copy: bool) -> Snapshot:
        """Copies the database to a folder of the server, under the name ``path``.

        ``base`` is a name there, too; the result has the whole path.
        """
        return record_of(Snapshot, self.connection.call("snapshot", path, base, copy))

    def usage(self) -> list[SlabUsage]:
        return self._call(Engine.usage)

    def usage_by_structure(self) -> list[StructureUsage]:
        return self._call(Engine.usage_by_structure)

    def stats(self) -> dict[str, Any]:
        return self._call(Engine.stats)

    def refresh(self) -> None:
        self._call(Engine.refresh)

    def flush(self) -> None:
        self._call(Engine.flush)

    def close(self) -> None:
        self.connection.close()

    def _call(
        self,
        method: Callable[Concatenate[Engine, Arguments], Result],
        *args: Arguments.args,
        **none: Arguments.kwargs,
    ) -> Result:
        """Returns the server's result of this method; all parameters of it are positional."""

        def ask(connection: Connection, call: str, *asked: Asked) -> Any:
            return connection.call(call, *asked, *args)

        given: Callable[..., Result] = method
        return result_of(given, self._begin(method.__name__, ask))

    def _begin(self, method: str, begin: Callable[..., Result]) -> Result:
        """Returns what ``begin(connection, call)`` returns: it makes that call to the server.

        If the call is of a read that must see something, ``begin`` gets what to ask for, too, as
        the first argument of the call. Then it may be called for several servers.
        """
        call = self._named(method)
        if self._needs is None or method not in AT_LEAST_CALLS:
            return begin(self.connection, call)
        return begin_where_seen(
            self.connection,
            self._needs,
            lambda connection, asked: begin(connection, AT_LEAST + call, asked),
        )

    def _named(self, call: str) -> str:
        return PARTIAL + call if self._is_partial and call in PARTIAL_CALLS else call

    def _read(
        self, method: str, *args: Any, missing: Mapping[int, str] = MappingProxyType({})
    ) -> RemoteScan:
        self.connection.check_open()
        name = self._named(method)
        return RemoteScan(self.connection, name, args, missing, needs=self._needs)

    def _left_out(self, filters: Filters) -> dict[int, str]:
        """Returns the missing shards that a read which begins now leaves out.

        It is asked before the read begins. So it may name a shard that is back by then, but never
        lacks one.
        """
        return self.missing_shards(filters) if self._is_partial else {}


def _plain(places: dict[int, RowPlace] | None) -> dict[int, RowPlace] | None:
    """Returns places as plain tuples, which is how they travel."""
    if places is None:
        return None
    return {shard: (serial, row) for shard, (serial, row) in places.items()}


def _list(filters: Sequence[str] | None) -> list[str] | None:
    return None if filters is None else list(filters)
