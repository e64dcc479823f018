"""Scans, tails, watches and transactions of a database in another process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from topicdb import _core
from topicdb.arguments.at_least import Needs
from topicdb.arguments.forms import Form
from topicdb.arguments.times import TIMESTAMP_MAX
from topicdb.cursor.scan import missing_metadata
from topicdb.remote.client.connection import Connection
from topicdb.remote.client.lease import Lease, RemoteHandle, wait_slices
from topicdb.remote.client.seeing import Asked, begin_where_seen
from topicdb.remote.records import record_of
from topicdb.remote.wire import AT_LEAST, batch_of, in_form
from topicdb.types import CommitKnown, Receipt

WAIT_SLICE_US = 500_000
GIVE_UP_TIMEOUT_S = 1.0
CHANGES_BYTES_MAX = 4 << 20
CHANGES_JSON_BYTES_MAX = 1 << 20
JSON_BYTES_OF_CHANGE = 150  # at most, without the topic
_OWN = "$topicdb/"


class RemoteScan:
    """A running read, as ``_core.Scan`` is; it begins with the first batch."""

    def __init__(
        self,
        source: Connection | Lease,
        method: str,
        args: tuple[Any, ...],
        missing: Mapping[int, str] = MappingProxyType({}),
        columns: Sequence[str] | None = None,
        needs: Needs | None = None,
    ) -> None:
        """``missing``: the shards that it leaves out. ``columns``: what is sent; None: all.

        ``needs``: what it must see; the source is a connection then.
        """
        self._needs = needs
        self._columns = columns
        self._source = source
        self._call = (method, *args)
        self._missing = missing
        self._reader: Any = None
        self._closed = False

    def next_batch(
        self, rows_max: int, bytes_max: int, with_serials: bool = False
    ) -> _core.Batch | None:
        """Returns the next messages, or None at the end."""
        arrow = self._next(rows_max, bytes_max, with_serials)
        return None if arrow is None else batch_of(arrow)

    def next_arrow(
        self, rows_max: int, bytes_max: int, form: Form = "stored"
    ) -> pa.RecordBatch | None:
        """Returns what ``next_batch`` does as Arrow data; copies only values that are envelopes."""
        arrow = self._next(rows_max, bytes_max, False)
        return None if arrow is None else in_form(arrow, form)

    def _next(self, rows_max: int, bytes_max: int, with_serials: bool) -> pa.RecordBatch | None:
        if self._closed:
            return None
        if self._reader is None:
            return self._first(rows_max, bytes_max, with_serials)
        return self._chunk()

    def _first(self, *limits: Any) -> pa.RecordBatch | None:
        if self._needs is None:
            self._reader = self._source.read(*self._call, *limits)
            return self._chunk()
        method, *args = self._call

        def begin(connection: Connection, asked: Asked) -> pa.RecordBatch | None:
            self._source = connection
            self._reader = connection.read(AT_LEAST + method, asked, *args, *limits)
            return self._chunk()

        assert isinstance(self._source, Connection)
        return begin_where_seen(self._source, self._needs, begin)

    def _chunk(self) -> pa.RecordBatch | None:
        source = self._source
        connection = source.connection if isinstance(source, Lease) else source
        with connection.calling(), connection.told():
            try:
                return self._reader.read_chunk().data
            except StopIteration:
                self._closed = True
                return None

    def arrow_stream(self, rows_max: int, bytes_max: int, form: Form = "stored") -> object:
        """Returns the rest as an Arrow C stream."""

        # The caller gets the error of a read that must see something. That of a batch which pyarrow
        # asks for later would be one of pyarrow's.
        first = None if self._needs is None else self.next_arrow(rows_max, bytes_max, form)

        def batches() -> Any:
            if first is not None:
                yield first
            while (arrow := self.next_arrow(rows_max, bytes_max, form)) is not None:
                yield arrow

        schema = pa.schema(_core.arrow_schema(form))
        if self._columns is not None:
            schema = pa.schema([schema.field(name) for name in self._columns])
        schema = schema.with_metadata(missing_metadata(self._missing))
        reader = pa.RecordBatchReader.from_batches(schema, batches())
        return reader.__arrow_c_stream__()

    def missing_shards(self) -> dict[int, str]:
        """Returns the missing shards that it leaves out, and why each is missing."""
        return dict(self._missing)

    def close(self) -> None:
        """Ends the read. May be repeated."""
        if not self._closed and self._reader is not None:
            self._reader.cancel()
        self._closed = True


class RemoteTail:
    """Commits in their order, as ``_core.Tail`` gives them.

    ``missing``: the shards that it leaves out.
    """

    def __init__(
        self, lease: Lease, number: int, serials: dict[int, int], missing: Mapping[int, str]
    ) -> None:
        self._handle = RemoteHandle(lease, number)
        self._serials = serials
        self._missing = missing
        self._ends: dict[int, int] | None = None

    def end_at(self, serials: dict[int, int]) -> None:
        """Lets it end once it has given everything up to these commits, by shard."""
        self._ends = serials

    def next_batch(
        self, rows_max: int, bytes_max: int, timeout_us: int | None, with_serials: bool = False
    ) -> _core.Batch | None:
        """Returns whole commits of one shard, or None if none came in time or it has ended."""
        for wait_us in wait_slices(timeout_us, WAIT_SLICE_US):
            batch, serials = self._handle.call(
                "tail.next", rows_max, bytes_max, wait_us, with_serials
            )
            self._serials = serials
            if batch is not None:
                assert isinstance(batch, _core.Batch)
                return batch
            if self._is_done():
                break
        return None

    def _is_done(self) -> bool:
        if self._ends is None:
            return False
        return all(self._serials.get(shard, 0) >= last for shard, last in self._ends.items())

    def serials(self) -> dict[int, int]:
        """Returns the serial up to which it has given everything, by shard."""
        return dict(self._serials)

    def shards(self) -> list[int]:
        """Returns the shards that it reads."""
        shards: list[int] = self._handle.call("tail.shards")
        return shards

    def missing_shards(self) -> dict[int, str]:
        """Returns the missing shards that it leaves out, and why each is missing."""
        return dict(self._missing)

    def close(self) -> None:
        """Ends the tail."""
        self._handle.close()


class RemoteWatch:
    """Streams as they come to be, as ``_core.StreamWatch`` gives them."""

    def __init__(self, lease: Lease, number: int) -> None:
        self._handle = RemoteHandle(lease, number)

    def next_streams(self, timeout_us: int | None) -> list[_core.Stream]:
        """Returns the streams that are new, or none if none came in time."""
        for wait_us in wait_slices(timeout_us, WAIT_SLICE_US):
            streams: list[_core.Stream] = self._handle.call("watch.next", wait_us)
            if streams:
                return streams
        return []

    def close(self) -> None:
        """Ends the watch."""
        self._handle.close()


class Changes(NamedTuple):
    """Changes of a transaction that were not sent yet, and how much they are."""

    items: list[Any]
    bytes: int
    json_bytes: int


class RemoteTransaction:
    """A transaction at the server, used as ``_core.Transaction`` is.

    Changes wait here until a read or the commit takes them along, or until there are too many. That
    call raises what the server has against them.
    """

    def __init__(self, lease: Lease, number: int, shard: int) -> None:
        self._handle = RemoteHandle(lease, number)
        self._shard = shard
        self._changes: list[Any] = []
        self._bytes = 0
        self._json_bytes = 0
        self._committing = False  # whether a commit was begun for which no caller waits
        self.withdraw: Callable[[], bool] = _never
        """Takes such a commit back before it is sent, and returns whether it did."""

    def write(
        self,
        topic: str,
        timestamp: int | None,
        value: object | None,
        reserved: bool = False,
        escapes: bool = False,
    ) -> None:
        """Writes a message at commit; ``value`` None stands for the serial of the commit."""
        _core.check_topic(topic)
        if topic.startswith(_OWN) and not reserved:
            raise _core.TopicError(f"topic {topic!r}: topics under $topicdb/ are TopicDB's own")
        if timestamp is not None and not 0 <= timestamp <= TIMESTAMP_MAX:
            raise ValueError(f"timestamp {timestamp} is outside 0 <= t < 2**63 microseconds")
        data = None if value is None else bytes(memoryview(value))  # type: ignore[arg-type]
        if data is not None and escapes:
            data = _core.escaped_value(data)
        self._change(["write", topic, timestamp, data, reserved], topic, data)

    def delete(
        self, filter: str, start: int | None, end: int | None, reserved: bool = False
    ) -> None:
        """Removes at commit what matches."""
        _core.check_filter(filter)
        if filter.startswith(_OWN) and not reserved:
            raise _core.TopicError(f"filter {filter!r}: topics under $topicdb/ are TopicDB's own")
        if end is not None and (start or 0) > end:
            raise ValueError(f"the range to delete ends at {end}, before it begins at {start}")
        self._change(["delete", filter, start, end, reserved], filter, None)

    def require(self, topic: str, timestamp: int, value: object | None) -> None:
        """Lets the commit fail unless this message is stored; None: unless there is none."""
        _core.check_topic(topic)
        data = None if value is None else bytes(memoryview(value))  # type: ignore[arg-type]
        self._change(["require", topic, timestamp, data], topic, data)

    def require_present(self, topic: str, timestamp: int) -> None:
        """Lets the commit fail unless there is a message, whatever its value."""
        _core.check_topic(topic)
        self._change(["require_present", topic, timestamp], topic, None)

    def _change(self, change: list[Any], topic: str, data: bytes | None) -> None:
        self._check_open()
        self._changes.append(change)
        self._bytes += len(data or b"")
        self._json_bytes += JSON_BYTES_OF_CHANGE + len(topic) * (1 if topic.isascii() else 12)
        if self._bytes > CHANGES_BYTES_MAX or self._json_bytes > CHANGES_JSON_BYTES_MAX:
            self._flush()

    def _flush(self) -> None:
        if self._changes:
            self._call("transaction.apply", self._taken().items)

    def _taken(self) -> Changes:
        changes = Changes(self._changes, self._bytes, self._json_bytes)
        self._changes, self._bytes, self._json_bytes = [], 0, 0
        return changes

    def _call(self, method: str, changes: list[Any], *args: Any) -> Any:
        self._check_open()
        try:
            return self._handle.call(method, changes, *args)
        except BaseException:
            if changes:
                self.rollback()  # as the server has done
            raise

    def get(self, topic: str, timestamp: int) -> bytes | None:
        """Returns the value of a message, or None if there is none."""
        _core.check_topic(topic)  # here, since an error of the server ends the transaction
        changes = self._taken().items
        value: bytes | None = self._call("transaction.get", changes, topic, timestamp)
        return value

    def scan(self, filter: str, start: int | None, end: int | None) -> RemoteScan:
        """Returns a scan of what matches."""
        self._check_open()
        self._flush()
        arguments = (self._handle.number, filter, start, end)
        return RemoteScan(self._handle.lease, "transaction.scan", arguments)

    def commit(self) -> Receipt:
        """Applies everything or nothing, and returns the receipt."""
        self._check_open()
        changes = self._taken().items
        try:
            return record_of(Receipt, self._handle.call("transaction.commit", changes))
        except _core.QuotaError:
            self._handle.close()  # there may have been too many calls to let this one in
            raise
        finally:
            self._handle.ended()

    def begin_commit(self) -> Changes:
        """Ends the transaction for its user, and returns the changes that the commit takes along.

        The caller sends them, and calls ``ended`` when the server has answered.
        """
        self._check_open()
        self._committing = True
        return self._taken()

    def give_up(self) -> CommitKnown:
        """Withdraws a commit that was begun if it is not being applied, here or at the server."""
        if not self._committing:
            self.rollback()
            return "not stored"
        if self.withdraw():
            return "not stored"
        try:
            known: CommitKnown = self.lease.call(
                "transaction.give_up", self.number, timeout=GIVE_UP_TIMEOUT_S
            )
        except _core.Error:
            return "unknown"  # it is over by now, or the server cannot be asked
        return known

    def leave(self) -> None:
        """Has it rolled back at the server soon; does not wait for that."""
        self._handle.leave()

    def ended(self) -> None:
        """Notes that the server has ended it."""
        self._handle.ended()

    def rollback(self) -> None:
        """Forgets the transaction, unless a commit was begun. May be repeated."""
        if self._handle.lease.connection.is_forked or self._committing:
            return
        self._changes = []
        self._handle.close()

    def _check_open(self) -> None:
        self._handle.lease.connection.check_open()
        if self._committing or self._handle.over:
            raise _core.ClosedError("the transaction is over, or its connection broke")

    @property
    def lease(self) -> Lease:
        """Returns the lease to which it belongs."""
        return self._handle.lease

    @property
    def number(self) -> int:
        """Returns its number at the server."""
        return self._handle.number

    @property
    def open(self) -> bool:
        """Returns whether it is neither committed nor rolled back, and its connection holds."""
        return not self._committing and not self._handle.over

    @property
    def shard(self) -> int:
        """Returns the shard in which it reads and writes."""
        return self._shard


def _never() -> bool:
    return False
