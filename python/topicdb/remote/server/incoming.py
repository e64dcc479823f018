"""Checks Arrow data from clients before anything of it is decoded.

Flight's own reader of a ``DoPut`` decompresses each batch before the server sees it: 47 KiB become
gigabytes. So messages arrive as an IPC stream of Arrow in the body of an action, and the server
reads the metadata of each IPC message first. It takes only what clients of TopicDB send, plain
columns without compression, which are not larger in memory than on the way.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from topicdb import _core
from topicdb.engines.columns import KEY_COLUMN, is_view

COLUMNS = ("topic", "timestamp", "value")
BATCHES_MAX = 1_024
_METADATA_BYTES_MAX = 1 << 20
_HEADER_OF_MESSAGE = 2  # numbers of fields, by their order in Arrow's Message.fbs
_COMPRESSION_OF_BATCH = 3


def table_of(data: pa.Buffer, size_max: int) -> pa.Table:
    """Returns the messages of an IPC stream.

    Raises QuotaError if they have more than ``size_max`` bytes, and ValueError if the data is no
    such stream or has a form that clients do not send.
    """
    check_size(data.size, size_max)
    try:
        _check(data)
        with pa.ipc.open_stream(pa.BufferReader(data), options=_options()) as reader:
            _check_schema(reader.schema)
            table = reader.read_all()
        check_size(table.nbytes, size_max)  # buffers may overlap
        table.validate(full=True)  # it comes from outside: offsets may point anywhere
    except (pa.ArrowException, OSError, struct.error, MemoryError, OverflowError) as error:
        raise ValueError(f"malformed Arrow data: {error}") from None
    return table


def check_size(size: int, size_max: int) -> None:
    """Raises QuotaError if an append of ``size`` bytes is too large."""
    if size > size_max:
        raise _core.QuotaError(
            f"an append may have {size_max} bytes here: split it, or raise the server's limit"
        )


def _check(data: pa.Buffer) -> None:
    batches = 0
    for message in _messages(data):
        if message.metadata.size > _METADATA_BYTES_MAX:
            raise ValueError("malformed Arrow data: the description of a batch is too long")
        if message.type == "schema":
            continue
        if message.type != "record batch":
            raise ValueError(f"Arrow data: a {message.type} does not travel: send plain columns")
        batches += 1
        if batches > BATCHES_MAX:
            raise ValueError(f"Arrow data: more than {BATCHES_MAX} batches do not go together")
        if _is_compressed(bytes(message.metadata)):
            raise ValueError("Arrow data: compressed batches are not taken: send them as they are")


def _options() -> Any:
    """Returns options with which the reader copies buffers that are not aligned."""
    alignment = getattr(pa.ipc, "Alignment", None)  # older versions read them as they are
    if alignment is None:
        return pa.ipc.IpcReadOptions()
    return pa.ipc.IpcReadOptions(ensure_alignment=alignment.DataTypeSpecific)


def _messages(data: pa.Buffer) -> Iterator[Any]:
    reader = pa.ipc.MessageReader.open_stream(pa.BufferReader(data))
    while True:
        try:
            yield reader.read_next_message()
        except StopIteration:
            return


def _check_schema(schema: pa.Schema) -> None:
    if len(schema.names) > len(COLUMNS) + 1:
        columns = ", ".join([*COLUMNS, KEY_COLUMN])
        raise ValueError(f"Arrow data: expected {columns}, got {len(schema)} columns")
    for field in schema:
        kind = field.type
        is_coded = pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind)
        if is_coded or pa.types.is_nested(kind) or is_view(kind):
            raise ValueError(f"column {field.name!r}: {kind} does not travel")


def _is_compressed(metadata: bytes) -> bool:
    """Returns whether a record batch is compressed; Arrow has verified the flatbuffer."""
    message = struct.unpack_from("<I", metadata)[0]
    header = _field(metadata, message, _HEADER_OF_MESSAGE)
    if header is None:
        return False
    batch = header + struct.unpack_from("<I", metadata, header)[0]
    return _field(metadata, batch, _COMPRESSION_OF_BATCH) is not None


def _field(data: bytes, table: int, number: int) -> int | None:
    """Returns where a field of a flatbuffer's table is, or None if the table does not have it."""
    fields = table - struct.unpack_from("<i", data, table)[0]
    entry = 4 + 2 * number
    if entry + 2 > struct.unpack_from("<H", data, fields)[0]:
        return None
    offset = struct.unpack_from("<H", data, fields + entry)[0]
    return table + offset if offset else None
