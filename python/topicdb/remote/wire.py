"""Encodes calls and results: JSON, and behind it the bytes that the JSON refers to.

    size of the JSON   4 bytes, little-endian
    JSON               UTF-8; what JSON has no form for is an object with one key, the kind
    bytes              {"bytes": [offset, size]} counts from here

docs/reference/serve.md lists the kinds; ``records`` describes results with named fields. The
messages of a scan do not travel in this form but as Arrow data. Those of an append are an IPC
stream of Arrow, which is of the kind ``arrow``.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicdb import _core
from topicdb.arguments.forms import Form
from topicdb.remote.records import is_record, plain_of
from topicdb.types import Slice

PROTOCOL = 4
PARTIAL = "partial."
"""Stands before the name of a call whose read leaves out missing shards."""
PARTIAL_CALLS = frozenset(
    {
        "check_log",
        "explain",
        "last",
        "places_at",
        "scan",
        "scan_iterator",
        "slices",
        "streams",
        "subscribe",
        "summarize",
        "tail",
        "watch",
    }
)
"""The calls whose names it may stand before."""
AT_LEAST = "at_least."
"""Stands before the name of a call whose read must see commits, also before ``PARTIAL``.

The call has one more argument, the first: a tuple of {shard: serial}, or None for everything that
was acknowledged, and how long the server may wait, in µs.
"""
AT_LEAST_CALLS = PARTIAL_CALLS | {"iterator", "next", "next_of_scan", "scan_slices"}
"""The calls whose names it may stand before, with or without ``PARTIAL``."""
_SIZE = struct.Struct("<I")
_ALIGNMENT = 8  # of the bytes, as Arrow needs it

SCHEMA = pa.schema(_core.arrow_schema())
SERIAL_SCHEMA = SCHEMA.append(pa.field("serial", pa.uint64(), nullable=False))
_EMPTY: dict[str, Any] = {"topic": "", "timestamp": 0, "value": b""}
ROW_SCHEMA = SERIAL_SCHEMA.append(pa.field("row", pa.uint32(), nullable=False))


def without_needs(method: str) -> str:
    """Returns the name of a call without ``AT_LEAST``, if that may stand before it."""
    name = method.removeprefix(AT_LEAST)
    return name if name.removeprefix(PARTIAL) in AT_LEAST_CALLS else method


def bare_name(method: str) -> str:
    """Returns the name of a call without what says how its read sees the database."""
    return method.removeprefix(AT_LEAST).removeprefix(PARTIAL)


def columns_schema(columns: Sequence[str] | None, *, with_serials: bool) -> pa.Schema:
    """Returns the schema of batches with these columns; None: with all of them.

    Raises ValueError, which names what is wrong, for columns that messages do not have.
    """
    if columns is None:
        return SERIAL_SCHEMA if with_serials else SCHEMA
    known = SCHEMA.names
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        raise ValueError(f"columns: expected a list of names, got {columns!r}")
    if not all(isinstance(name, str) and name in known for name in columns):
        raise ValueError(f"columns: expected names of {', '.join(known)}, got {list(columns)!r}")
    if not columns or len(set(columns)) < len(columns):
        raise ValueError(f"columns: expected at least one, and each once, got {list(columns)!r}")
    fields = [SCHEMA.field(name) for name in columns]
    return pa.schema([*fields, SERIAL_SCHEMA.field("serial")] if with_serials else fields)


def arrow_of(batch: _core.Batch) -> pa.RecordBatch:
    """Returns a batch as Arrow data, without a copy; serials, if it has them, become a column."""
    arrow = pa.record_batch(batch)
    if batch.serials is None:
        return arrow
    return pa.RecordBatch.from_arrays(
        [*arrow.columns, pa.array(batch.serials)],
        schema=arrow.schema.append(SERIAL_SCHEMA.field("serial")),
    )


def batch_of(arrow: pa.RecordBatch) -> _core.Batch:
    """Returns the batch that ``arrow_of`` was given; leaves out other columns.

    A column that was not asked for has empty topics or values, or the timestamp 0.
    """
    names = arrow.schema.names
    serials = arrow.column("serial").to_numpy() if "serial" in names else None
    columns = [
        arrow.column(field.name)
        if field.name in names
        else pa.repeat(pa.scalar(_EMPTY[field.name], field.type), arrow.num_rows)
        for field in SCHEMA
    ]
    return _core.batch_of_arrow(pa.RecordBatch.from_arrays(columns, schema=SCHEMA), serials)


def has_envelopes(arrow: pa.RecordBatch | pa.Table) -> bool:
    """Returns whether a value may be an envelope, by the bytes with which each envelope begins."""
    values = arrow.column("value")
    return bool(pc.any(pc.starts_with(values, _core.ENVELOPE_MAGIC)).as_py())


def in_form(arrow: pa.RecordBatch, form: Form) -> pa.RecordBatch:
    """Returns messages, given as they are stored, with their values in another form."""
    if "value" not in arrow.schema.names:
        return arrow
    if form == "stored" or (form == "payload" and not has_envelopes(arrow)):
        return arrow
    return pa.record_batch(batch_of(arrow).read_as(form))


def encode(value: Any) -> bytes:
    """Returns the bytes that travel for a value; raises TypeError if a part has no form."""
    blobs: list[bytes | memoryview] = []
    size = 0

    def keep(data: bytes | memoryview) -> list[int]:
        nonlocal size
        blobs.append(data)
        size += len(data)
        return [size - len(data), len(data)]

    text = json.dumps(_plain(value, keep), separators=(",", ":")).encode()
    text += b" " * (-(_SIZE.size + len(text)) % _ALIGNMENT)
    return b"".join([_SIZE.pack(len(text)), text, *blobs])


def _plain(value: Any, keep: Callable[[bytes | memoryview], list[int]]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [_plain(item, keep) for item in value]
    if isinstance(value, Slice):
        return {"slice": list(value)}
    if isinstance(value, tuple):
        return {"tuple": [_plain(item, keep) for item in value]}
    if isinstance(value, dict):
        pairs = [[_plain(key, keep), _plain(item, keep)] for key, item in value.items()]
        return {"dict": pairs}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"bytes": keep(bytes(value))}
    if isinstance(value, pa.Buffer):
        return {"arrow": keep(memoryview(value))}
    if isinstance(value, _core.Stream):
        return {"stream": keep(bytes(value))}
    if isinstance(value, _core.Iterator):
        return {"iterator": keep(bytes(value))}
    if isinstance(value, _core.ScanIterator):
        return {"scan_iterator": keep(bytes(value))}
    if isinstance(value, _core.Slab):
        return {"slab": list(value.__getstate__())}
    if isinstance(value, _core.Batch):
        arrow = arrow_of(value)
        has_serials = value.serials is not None
        return {"batch": [*keep(arrow.serialize().to_pybytes()), has_serials]}
    if is_record(value):
        return {"tuple": [_plain(item, keep) for item in plain_of(value)]}
    if isinstance(value, np.ndarray):
        return {"rows": keep(value.astype("<u4").tobytes())}
    raise TypeError(f"{type(value).__name__} does not travel")


def decode(
    data: bytes | memoryview, *, trusted: bool = False, json_bytes_max: int | None = None
) -> Any:
    """Returns the value for which ``encode`` gave these bytes.

    ``trusted``: the data comes from the server, and may have batches, whose form is not checked.
    ``json_bytes_max``: a limit for the size of the JSON, checked before it is parsed. Raises
    ValueError if the data is malformed, and QuotaError if the JSON is larger than the limit.
    """
    view = memoryview(data)
    if json_bytes_max is not None and len(view) >= _SIZE.size:
        _check_json_size(_SIZE.unpack_from(view)[0], json_bytes_max)
    try:
        (size,) = _SIZE.unpack_from(view)
        body = view[_SIZE.size + size :]
        if _SIZE.size + size > len(view):
            raise ValueError("it is cut off")
        text = bytes(view[_SIZE.size : _SIZE.size + size])
        return _Decoder(body, trusted).value(json.loads(text))
    except (
        ValueError,
        TypeError,
        KeyError,
        OverflowError,
        RecursionError,
        struct.error,
        _core.Error,
    ) as error:
        raise ValueError(f"a malformed message: {error}") from None


def _check_json_size(size: int, size_max: int) -> None:
    if size > size_max:
        raise _core.QuotaError(
            f"the arguments of this call may have {size_max} bytes as JSON, these have {size}: "
            "give fewer at a time"
        )


class _Decoder:
    """Makes a value from parsed JSON and the bytes behind it; one object serves one message."""

    def __init__(self, body: memoryview, trusted: bool) -> None:
        self._body = body
        self._trusted = trusted

    def value(self, plain: Any) -> Any:
        if isinstance(plain, list):
            return [self.value(item) for item in plain]
        if not isinstance(plain, dict):
            return plain
        ((kind, content),) = plain.items()
        return _KINDS[kind](self, content)

    def blob(self, place: list[int]) -> bytes:
        return bytes(self._part(place))

    def _part(self, place: list[int]) -> memoryview:
        offset, size = place
        if offset < 0 or size < 0 or offset + size > len(self._body):
            raise ValueError("it refers to bytes that are not there")
        return self._body[offset : offset + size]

    def arrow(self, place: list[int]) -> pa.Buffer:
        """Returns a buffer of the bytes, which copies them only if they are not aligned."""
        data = pa.py_buffer(self._part(place))
        return data if data.address % _ALIGNMENT == 0 else pa.py_buffer(data.to_pybytes())

    def dict(self, pairs: list[Any]) -> dict[Any, Any]:
        return {self.value(key): self.value(item) for key, item in pairs}

    def slab(self, state: list[Any]) -> _core.Slab:
        slab = _core.Slab.__new__(_core.Slab)
        slab.__setstate__(tuple(state))
        return slab

    def batch(self, content: list[Any]) -> _core.Batch:
        if not self._trusted:
            raise ValueError("batches do not go this way")
        schema = SERIAL_SCHEMA if content[2] else SCHEMA
        return batch_of(pa.ipc.read_record_batch(pa.py_buffer(self.blob(content[:2])), schema))


_KINDS: dict[str, Callable[[_Decoder, Any], Any]] = {
    "tuple": lambda decoder, items: tuple(decoder.value(item) for item in items),
    "dict": _Decoder.dict,
    "bytes": _Decoder.blob,
    "arrow": _Decoder.arrow,
    "stream": lambda decoder, place: _core.Stream.from_bytes(decoder.blob(place)),
    "iterator": lambda decoder, place: _core.Iterator.from_bytes(decoder.blob(place)),
    "scan_iterator": lambda decoder, place: _core.ScanIterator.from_bytes(decoder.blob(place)),
    "slab": _Decoder.slab,
    "slice": lambda _, fields: Slice(*fields),
    "batch": _Decoder.batch,
    "rows": lambda decoder, place: np.frombuffer(decoder.blob(place), dtype="<u4"),
}
