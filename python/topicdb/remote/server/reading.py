"""The calls of a server that begin a read of messages which filters match.

Some send messages as they are stored, as parcels, which the core makes (docs/internals/parcels.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from topicdb import _core
from topicdb.cursor.columns import read_columns, reads_columns
from topicdb.cursor.scan import check_batch_limits
from topicdb.engine import Engine, ScanCursor
from topicdb.remote.server.handles import Caller, Limits
from topicdb.remote.server.memory import Charge
from topicdb.remote.server.objects import Subscription, Tail, Watch
from topicdb.remote.wire import PARTIAL, PARTIAL_CALLS, arrow_of, without_needs
from topicdb.rights import served_methods

_SCAN_BYTES = 2 << 20  # about what an open scan takes beside its batch
SCAN_PARCELS = "scan_parcels"
PARCEL_SCHEMA = pa.schema(
    [
        pa.field("parcel", pa.binary(), nullable=False),
        pa.field("messages", pa.uint64(), nullable=False),
    ]
)
"""Each batch has one parcel, and the number of messages in it."""
_KEYS = ["topic", "timestamp"]
WAIT_US_MAX = 500_000
"""A call waits at most this long, so that it does not hold up a shutdown or a client's Ctrl-C."""
ACKNOWLEDGED_WAIT_US_MAX = 10_000_000
"""A call that asks what was acknowledged waits at most this long, as one that writes may."""


def seen(core: Engine, method: str, args: list[Any]) -> tuple[Engine, str, list[Any]]:
    """Returns the engine of a call, its name and its arguments, once its read sees what it must.

    Waits for that as long as the call allows, at most half a second for commits, and ten for what
    was acknowledged. Raises what ``Engine.seeing`` does, and ValueError for a malformed call.
    """
    name = without_needs(method)
    if name == method:
        return core, method, args
    serials, wait_us = _needed(method, args)
    wait_us_max = ACKNOWLEDGED_WAIT_US_MAX if serials is None else WAIT_US_MAX
    engine = core.partial() if name.startswith(PARTIAL) else core
    return engine.seeing(serials, max(0, min(wait_us, wait_us_max))), name, args[1:]


def _needed(method: str, args: list[Any]) -> tuple[Any, int]:
    if args and isinstance(args[0], tuple) and len(args[0]) == 2:
        serials, wait_us = args[0]
        if isinstance(wait_us, int) and (serials is None or isinstance(serials, dict)):
            return serials, wait_us
    raise ValueError(f"{method}: expected first what the read must see, and how long to wait")


class Reads:
    """The calls that begin reads with one engine. Thread-safe.

    A ``Service`` owns two: one whose reads fail if a shard is missing that they need, and one whose
    reads leave missing shards out. The names of the calls of the second begin with ``PARTIAL``.
    """

    def __init__(self, core: Engine, limits: Limits, prefix: str = "") -> None:
        self._core = core
        self._limits = limits
        self._prefix = prefix

    @classmethod
    def of_part(cls, core: Engine, limits: Limits) -> Reads:
        """Returns the calls whose reads leave out missing shards."""
        return cls(core.partial(), limits, PARTIAL)

    def scans(self) -> dict[str, Callable[..., ScanCursor]]:
        """Returns the calls that begin a scan, by name."""
        scans: dict[str, Callable[..., ScanCursor]] = {"scan": self._scan, "last": self._last}
        if not self._prefix:  # slices name their shards
            scans["scan_slices"] = self._scan_slices
        return self._named(scans)

    def calls(self) -> dict[str, Callable[..., Any]]:
        """Returns the calls that open something that lasts, or read a step, by name."""
        calls: dict[str, Callable[..., Any]] = {
            "tail": self._tail,
            "watch": self._watch,
            "subscribe": self._subscribe,
        }
        if not self._prefix:  # iterators name their shards
            calls |= {"next": self._next, "next_of_scan": self._next_of_scan}
        return self._named(calls)

    def served(self) -> dict[str, Callable[..., Any]]:
        """Returns the methods of the engine that are passed on unchanged, by name."""
        names = served_methods()
        if self._prefix:
            names = {name: right for name, right in names.items() if name in PARTIAL_CALLS}
        return self._named({name: _method_of(self._core, name) for name in names})

    def _named(self, calls: dict[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
        return {self._prefix + name: call for name, call in calls.items()}

    def _scan(
        self, caller: Caller, filter: Any, start: Any, end: Any, order: Any, streams: Any
    ) -> ScanCursor:
        caller.access.check_read(filter)
        return self._core.scan(filter, start, end, order, streams)

    def _last(self, caller: Caller, filter: Any, start: Any, end: Any) -> ScanCursor:
        caller.access.check_read(filter)
        return self._core.last(filter, start, end)

    def _scan_slices(
        self, caller: Caller, filters: Any, slices: Any, columns: Any = None
    ) -> ScanCursor:
        """Begins to read slices.

        A client may have changed its slices. They only choose among the messages that the filters
        match, and those the token may read. An engine that can leaves out the other columns; if it
        cannot, they are left out when the messages are sent.
        """
        caller.access.check_read(filters)
        if columns is None or not reads_columns(self._core, "scan_slices"):
            return self._core.scan_slices(filters, slices)
        return read_columns(self._core, "scan_slices", (filters, slices), columns)

    def _next(self, caller: Caller, iterator: _core.Iterator, rows: int, size: int) -> Any:
        if not isinstance(iterator, _core.Iterator):
            raise TypeError("next: expected an iterator")
        check_batch_limits(rows, size)
        caller.access.check_read(iterator.filter)
        size = caller.charge.share(min(size, self._limits.batch_bytes_max))
        return self._core.next(iterator, rows, size)

    def _next_of_scan(
        self, caller: Caller, iterator: _core.ScanIterator, rows: int, size: int
    ) -> Any:
        if not isinstance(iterator, _core.ScanIterator):
            raise TypeError("next_of_scan: expected an iterator of a scan")
        check_batch_limits(rows, size)
        caller.access.check_read(iterator.filters)
        size = caller.charge.share(min(size, self._limits.batch_bytes_max))
        return self._core.next_of_scan(iterator, rows, size)

    def _tail(
        self, caller: Caller, filters: Any, after: Any, until: Any, given: Any = ()
    ) -> tuple[int, Any]:
        caller.access.check_read(filters)
        tail = self._core.tail(filters, after, until, given)
        return caller.client.keep(Tail(tail)), tail.serials()

    def _watch(self, caller: Caller, filter: str, existing: bool) -> int:
        caller.access.check_read(filter)
        return caller.client.keep(Watch(self._core.watch_streams(filter, existing)))

    def _subscribe(
        self,
        caller: Caller,
        filters: Any,
        places: Any,
        start_us: int,
        window: int,
        window_bytes: int,
        part: Any,
        counted: Any,
        given: Any = (),
    ) -> int:
        caller.access.check_read(filters)
        size = self._limits.window_bytes(window_bytes)
        core = self._core.subscribe(filters, places, start_us, window, size, part, counted, given)
        return caller.client.keep(Subscription(core, size))


def _method_of(core: Engine, name: str) -> Callable[..., Any]:
    """Returns a method of an engine. An engine of a third party may lack it."""

    def lacking(*args: Any) -> Any:
        raise NotImplementedError(f"the engine of this server has no {name}()")

    found: Callable[..., Any] = getattr(core, name, lacking)
    return found


def chunks(
    scan: ScanCursor,
    rows_max: int,
    bytes_max: int,
    with_serials: bool,
    columns: list[str],
    charge: Charge,
) -> Iterator[pa.RecordBatch]:
    """Yields these columns of the batches of a scan, each read when there is room for it."""

    def read(size: int) -> pa.RecordBatch | None:
        batch = scan.next_batch(rows_max, size, with_serials)
        if batch is None:
            return None
        arrow = arrow_of(batch)
        return arrow if arrow.schema.names == columns else arrow.select(columns)

    return _charged(scan, read, bytes_max, charge)


class Parcels:
    """Reads parcels from one engine. A ``Service`` owns it. Thread-safe."""

    def __init__(self, core: Engine, limits: Limits) -> None:
        self._core = core
        self._limits = limits

    def versions(self) -> list[int]:
        """Returns the versions of parcels that clients may ask for; none if the engine has none."""
        return list(getattr(self._core, "parcels", ()))

    def read(
        self, caller: Caller, filters: Any, slices: Any, with_values: Any, bytes_max: Any
    ) -> Iterator[pa.RecordBatch]:
        """Returns the parcels of slices, each with about ``bytes_max`` bytes.

        A client may have changed its slices, as for ``scan_slices``: a parcel has messages that the
        filters match, and no others. Raises AccessError, ValueError and what the engine raises.
        """
        if not self.versions():
            raise ValueError(f"{SCAN_PARCELS}: the engine of this server has no parcels")
        check_batch_limits(1, bytes_max)
        caller.access.check_read(filters)
        columns = None if with_values is True else _KEYS
        scan = read_columns(self._core, "scan_slices", (filters, slices), columns)
        return _parcels(scan, min(bytes_max, self._limits.batch_bytes_max), caller.charge)


def messages_in(arrow: pa.RecordBatch) -> int:
    """Returns the number of messages in a batch, also if it has a parcel."""
    if arrow.schema.names != PARCEL_SCHEMA.names:
        return int(arrow.num_rows)
    return int(arrow.column("messages")[0].as_py())


def _parcels(scan: Any, bytes_max: int, charge: Charge) -> Iterator[pa.RecordBatch]:
    """Yields parcels, each read when there is room for it."""

    def read(size: int) -> pa.RecordBatch | None:
        parcel = scan.next_parcel(size)
        return None if parcel is None else _arrow_of(parcel)

    return _charged(scan, read, bytes_max, charge)


def _charged(
    scan: ScanCursor,
    read: Callable[[int], pa.RecordBatch | None],
    bytes_max: int,
    charge: Charge,
) -> Iterator[pa.RecordBatch]:
    """Yields what ``read(size)`` returns until it returns None, and closes the scan at the end.

    Each batch is read when there is room for it. It counts until the next one is asked for: by then
    the client has it, or nearly.
    """
    arrow = None
    try:
        charge.take(_SCAN_BYTES)
        while True:
            arrow = None
            charge.settle(_SCAN_BYTES)
            arrow = read(charge.share(bytes_max))
            if arrow is None:
                return
            charge.settle(_SCAN_BYTES + arrow.nbytes)
            yield arrow
    finally:
        scan.close()


def _arrow_of(parcel: Any) -> pa.RecordBatch:
    data = pa.py_buffer(parcel)
    offsets = pa.array([0, data.size], pa.int32()).buffers()[1]
    column = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, data])
    counts = pa.array([parcel.messages], pa.uint64())
    return pa.RecordBatch.from_arrays([column, counts], schema=PARCEL_SCHEMA)
