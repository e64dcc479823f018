"""Prepares messages for the way to a server, where ``incoming`` checks them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from topicdb import _core
from topicdb.engines.columns import KEY_COLUMN, refuse_both, without_keys
from topicdb.engines.values import check_topic
from topicdb.remote.client.connection import Connection
from topicdb.remote.server.incoming import BATCHES_MAX, COLUMNS, check_size
from topicdb.remote.wire import has_envelopes
from topicdb.types import Keys

CHUNK_ROWS = 65_536
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
        table = table_of_batch(_core.batch_of_rows(messages, escapes))
    else:
        # A column of no text or bytes stays there, and the server says what is wrong with it.
        table, keys = without_keys(table)
        if _is_encoded(table) or (escapes and _may_need_escapes(table)):
            table = table_of_batch(_core.batch_of_arrow(table, None, escapes))
    if key is not None:
        if keys is not None:
            refuse_both(key)
        keys = pa.array(_core.key_column(key, table.num_rows), pa.binary())
    return table if keys is None else table.append_column(KEY_COLUMN, keys)


def table_of_batch(batch: _core.Batch) -> pa.Table:
    """Returns rows of the core as the table that travels; a timestamp of -1 becomes null."""
    arrow = pa.record_batch(batch)
    to_assign = batch.timestamps < 0
    if to_assign.any():
        kind = arrow.schema.field("timestamp").type
        times = pa.array(batch.timestamps, mask=to_assign).cast(kind)
        columns = [arrow.column("topic"), times, arrow.column("value")]
        arrow = pa.RecordBatch.from_arrays(columns, names=list(COLUMNS))
    return pa.Table.from_batches([arrow])


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


def check_topics(table: pa.Table) -> None:
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
    wrong = next((topic for topic in topics if topic is not None and not _is_good(topic)), None)
    if wrong is not None:
        check_topic(wrong, f"row {pc.index(column, wrong).as_py()}: ")


def check_topics_of_rows(topics: Sequence[str]) -> None:
    """Does what ``check_topics`` does for rows with these topics."""
    wrong = next((topic for topic in dict.fromkeys(topics) if not _is_good(topic)), None)
    if wrong is not None:
        check_topic(wrong, f"row {topics.index(wrong)}: ")


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


def _check_columns(names: Sequence[str]) -> None:
    """Raises ValueError for columns that the core refuses, before anything is sent."""
    for name in names:
        if name not in (*COLUMNS, KEY_COLUMN):
            raise ValueError(
                f"column {name!r} is unknown: expected topic, timestamp, value and key"
            )
        if names.count(name) > 1:
            raise ValueError(f"column {name!r} is there twice")


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
