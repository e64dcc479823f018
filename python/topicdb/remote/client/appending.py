"""Appends to a database in another process."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from topicdb import _core
from topicdb._core import UnavailableError
from topicdb.engines.appends import fulfil
from topicdb.engines.columns import KEY_COLUMN, refuse_both, without_keys
from topicdb.engines.values import check_topic
from topicdb.remote.client.committing import Committer
from topicdb.remote.client.connection import Connection
from topicdb.remote.client.reading import RemoteTransaction
from topicdb.remote.errors import unpacked
from topicdb.remote.records import record_of
from topicdb.remote.server.incoming import BATCHES_MAX, COLUMNS, check_size
from topicdb.remote.wire import has_envelopes
from topicdb.types import CommitKnown, Keys, Receipt
from topicdb.waiting import wait_for

CHUNK_ROWS = 65_536
PENDING_BYTES_MAX = 64 << 20
GATHER_S = 0.001
TOGETHER_MAX = 1_000
TOGETHER_BYTES_MAX = 4 << 20
# A server takes 64 KiB of JSON with a call, which here has the count and the id of each append.
TOGETHER_JSON_BYTES_MAX = 32 << 10
JSON_BYTES_OF_APPEND = 32  # at most, without the id
IDLE_S = 0.05
REPEAT_S = 10.0
REPEAT_PAUSE_S = 0.2
_ENCODINGS = (
    pa.types.is_dictionary,
    pa.types.is_run_end_encoded,
    pa.types.is_string_view,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)


def table_of(messages: Any, *, escapes: bool, key: Keys | None = None) -> pa.Table:
    """Returns messages, rows or anything with Arrow data, as the table that travels.

    ``escapes``: readers are to see exactly these values, so those that look like envelopes are
    escaped. ``key``: as in ``Engine.append_rows``; it becomes a column. Raises TopicError,
    ValueError or TypeError for messages that cannot be stored.
    """
    table = _given(messages)
    keys: pa.Array | None = None
    if table is None:
        table = _table_of_batch(_core.batch_of_rows(messages, escapes))
    else:
        # A column of no text or bytes stays there, and the server says what is wrong with it.
        table, keys = without_keys(table)
        if _is_encoded(table) or (escapes and _may_need_escapes(table)):
            table = _table_of_batch(_core.batch_of_arrow(table, None, escapes))
    if key is not None:
        if keys is not None:
            refuse_both(key)
        keys = pa.array(_core.key_column(key, table.num_rows), pa.binary())
    return table if keys is None else table.append_column(KEY_COLUMN, keys)


def _given(messages: Any) -> pa.Table | None:
    """Returns messages that come as Arrow data as a table, or None if they come otherwise."""
    if hasattr(messages, "__arrow_c_stream__"):
        try:
            found = pa.RecordBatchReader.from_stream(messages).read_all()
        except pa.ArrowException as error:
            raise ValueError(f"the Arrow stream failed: {error}") from error
    elif hasattr(messages, "__arrow_c_array__"):
        found = pa.Table.from_batches([pa.record_batch(messages)])
    else:
        return None
    _check_columns(found.schema.names)
    return found


def _may_need_escapes(table: pa.Table) -> bool:
    if "value" not in table.schema.names:
        return False  # the server says what is wrong with it
    kind = table.schema.field("value").type
    return (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)) and has_envelopes(table)


def _table_of_batch(batch: _core.Batch) -> pa.Table:
    arrow = pa.record_batch(batch)
    to_assign = batch.timestamps < 0
    if to_assign.any():
        kind = arrow.schema.field("timestamp").type
        times = pa.array(batch.timestamps, mask=to_assign).cast(kind)
        columns = [arrow.column("topic"), times, arrow.column("value")]
        arrow = pa.RecordBatch.from_arrays(columns, names=list(COLUMNS))
    return pa.Table.from_batches([arrow])


def _check_columns(names: Sequence[str]) -> None:
    """Raises ValueError for columns that the core refuses, before anything is sent."""
    for name in names:
        if name not in (*COLUMNS, KEY_COLUMN):
            raise ValueError(
                f"column {name!r} is unknown: expected topic, timestamp, value and key"
            )
        if names.count(name) > 1:
            raise ValueError(f"column {name!r} is there twice")


def _check_topics(table: pa.Table) -> None:
    """Raises TopicError for topics that the server would refuse, which it tells only later."""
    if "topic" not in table.schema.names:
        return  # the server says what is wrong with it
    column = table.column("topic")
    if not pa.types.is_string(column.type) and not pa.types.is_large_string(column.type):
        return
    try:
        topics = pc.unique(column).to_pylist()  # in the order of their first rows
    except UnicodeDecodeError:
        return
    for topic in topics:
        if topic is not None and not _is_good(topic):
            row = pc.index(column, topic).as_py()
            check_topic(topic, f"row {row}: ")


def _is_good(topic: str) -> bool:
    try:
        check_topic(topic)
    except _core.TopicError:
        return False
    return True


def _is_encoded(table: pa.Table) -> bool:
    """Returns whether a column has an encoding that the server does not take.

    The core makes plain columns of such ones.
    """
    return any(check(kind) for kind in table.schema.types for check in _ENCODINGS)


def append(
    connection: Connection,
    messages: Any,
    durability: str | None,
    escapes: bool = False,
    id: str | None = None,
    key: Keys | None = None,
) -> Receipt:
    """Stores messages as ``Engine.append_rows`` does.

    With an id it is repeated for up to ``REPEAT_S`` seconds while the server cannot be reached: the
    server stores it once.
    """
    data = packed(connection, table_of(messages, escapes=escapes, key=key))
    id = id_for(connection) if id is None else id
    if id is None:
        return record_of(Receipt, connection.call("append", durability, data))
    give_up_at = time.monotonic() + REPEAT_S
    is_doubtful = False
    while True:
        try:
            return record_of(Receipt, connection.call("append", durability, data, id))
        except UnavailableError as error:
            if time.monotonic() > give_up_at:
                raise error_after(error, is_doubtful) from None
            is_doubtful = is_doubtful or not isinstance(error, _core.NoQuorumError)
        time.sleep(REPEAT_PAUSE_S)


def error_after(error: BaseException, is_doubtful: bool) -> BaseException:
    """Returns the error of the last attempt to append, or what it means after earlier ones.

    ``is_doubtful``: whether an earlier attempt was not answered. What it has stored is not known
    then, though the last one has done nothing.
    """
    if is_doubtful and isinstance(error, _core.NoQuorumError):
        return _core.UnknownOutcomeError(f"whether this append is stored is not known yet: {error}")
    return error


def id_for(connection: Connection) -> str | None:
    """Returns an id for an append that has none, if another server may have to repeat it."""
    return secrets.token_hex(8) if connection.has_others else None


def packed(connection: Connection, table: pa.Table) -> pa.Buffer:
    """Returns a table as an IPC stream of Arrow, in plain columns.

    Raises QuotaError before anything is sent if the server would not take that much.
    """
    check_size(table.nbytes, connection.hello["append_bytes_max"])
    batches = table.to_batches(max_chunksize=CHUNK_ROWS)
    if len(batches) > BATCHES_MAX:
        batches = table.combine_chunks().to_batches()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema.remove_metadata()) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


@dataclass(eq=False)
class _Queued:
    batch: pa.RecordBatch
    bytes: int
    durability: str | None
    future: Future[Receipt]
    id: str | None
    give_up_at: float  # until then it is sent again, if it has an id, while the server is away
    is_doubtful: bool = False  # whether an attempt was not answered

    @property
    def json_bytes(self) -> int:
        """Returns how much JSON it adds to a call, at most."""
        return JSON_BYTES_OF_APPEND + (0 if self.id is None else len(json.dumps(self.id)))


class Appender:
    """Sends appends one after the other, without keeping the caller waiting. Thread-safe.

    The database that ``topicdb.connect`` returns owns it. Its thread begins with the first append,
    and ends when none came for a while. Commits go through a queue of their own.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # A call has some bytes beside its messages, for which the other half is more than enough.
        self._together_max = min(TOGETHER_BYTES_MAX, connection.hello["append_bytes_max"] // 2)
        self._changed = threading.Condition()
        self._queue: deque[_Queued] = deque()
        self._bytes = 0
        self._thread: threading.Thread | None = None
        self._closed = False
        self._commits = Committer(connection)

    def commit(
        self, transaction: RemoteTransaction, *, urgent: bool = False, room_us: int | None = None
    ) -> Future[Receipt] | None:
        """Begins to commit a transaction, as ``AppendQueue.commit`` says."""
        return self._commits.commit(transaction, urgent=urgent, room_us=room_us)

    def give_up(self, transaction: RemoteTransaction) -> CommitKnown:
        """Withdraws a commit, as ``AppendQueue.give_up`` says."""
        return transaction.give_up()

    def start(
        self,
        messages: Any,
        durability: str | None,
        *,
        escapes: bool,
        id: str | None,
        key: Keys | None = None,
    ) -> Future[Receipt]:
        """Queues an append as ``AppendQueue.start`` does."""
        table = table_of(messages, escapes=escapes, key=key)
        _check_topics(table)
        future: Future[Receipt] = Future()
        future.set_running_or_notify_cancel()  # what is queued cannot be taken back
        if table.num_rows == 0:
            future.set_result(append(self._connection, table, durability))
            return future
        (batch,) = table.combine_chunks().to_batches()
        size = batch.nbytes
        with self._changed:
            self._connection.check_open()
            wait_for(self._changed, lambda: self._bytes < PENDING_BYTES_MAX or self._closed)
            if self._closed:
                raise _core.ClosedError(f"the connection to {self._connection.url} is closed")
            give_up_at = time.monotonic() + REPEAT_S
            id = id_for(self._connection) if id is None else id
            self._queue.append(_Queued(batch, size, durability, future, id, give_up_at))
            self._bytes += size
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="topicdb-appender", daemon=True
                )
                self._thread.start()
        return future

    def close(self) -> None:
        """Waits until everything that is queued is sent; no more can be queued."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._commits.close()

    def close_engine(self) -> None:
        """Waits until everything that is queued is sent, and closes the connection."""
        self.close()
        self._connection.close()

    def _run(self) -> None:
        while some := self._next():
            self._send(some)

    def _next(self) -> list[_Queued]:
        """Returns the appends that go together in one call, or none if the thread is to end.

        Several go together only as far as the server takes them. One that is too large goes alone.
        """
        with self._changed:
            self._changed.wait_for(lambda: bool(self._queue) or self._closed, IDLE_S)
            if not self._queue:
                self._thread = None
                return []
        time.sleep(GATHER_S)  # what comes meanwhile goes with it
        some: list[_Queued] = []
        size = json_bytes = 0
        with self._changed:
            while self._queue and len(some) < TOGETHER_MAX:
                first, queued = some[0] if some else self._queue[0], self._queue[0]
                size += queued.bytes
                json_bytes += queued.json_bytes
                is_like = queued.durability == first.durability
                if not is_like or not queued.batch.schema.equals(first.batch.schema):
                    break
                is_large = size > self._together_max or json_bytes > TOGETHER_JSON_BYTES_MAX
                if some and is_large:
                    break
                some.append(self._taken_locked())
        return some

    def _send(self, some: list[_Queued]) -> None:
        """Sends appends in one call, and gives each future its outcome."""
        counts = [queued.batch.num_rows for queued in some]
        table = pa.Table.from_batches([queued.batch for queued in some]).combine_chunks()
        try:
            data = packed(self._connection, table)
            ids = [queued.id for queued in some]
            more = [ids] if any(ids) else []
            told = self._connection.call("append_async", some[0].durability, counts, data, *more)
            for number, is_error, outcome in told:
                queued = some[number]
                if is_error:
                    fulfil(queued.future, error_after(unpacked(outcome), queued.is_doubtful))
                else:
                    fulfil(queued.future, record_of(Receipt, outcome))
        except Exception as error:
            for queued in self._put_back(some, error):
                fulfil(queued.future, error_after(error, queued.is_doubtful))

    def _put_back(self, sent: list[_Queued], error: Exception) -> list[_Queued]:
        """Queues appends again that may be repeated, and returns those whose outcome is unknown."""
        now = time.monotonic()
        is_broken = isinstance(error, UnavailableError)
        lost = [queued for queued in sent if not queued.future.done()]
        again = [one for one in lost if is_broken and one.id is not None and now < one.give_up_at]
        if not isinstance(error, _core.NoQuorumError):
            for queued in again:
                queued.is_doubtful = True
        with self._changed:
            self._queue.extendleft(reversed(again))
            self._bytes += sum(queued.bytes for queued in again)
        if again:
            time.sleep(REPEAT_PAUSE_S)
        return [queued for queued in lost if queued not in again]

    def _taken_locked(self) -> _Queued:
        queued = self._queue.popleft()
        self._bytes -= queued.bytes
        self._changed.notify_all()
        return queued
