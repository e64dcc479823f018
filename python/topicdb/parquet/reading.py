"""Reads Parquet files of messages and checks them: types, nulls, times and metadata.

Importing this module needs pyarrow; ``topicdb.parquet`` imports it when it is asked to read.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from topicdb import _core
from topicdb.parquet.int96 import InexactTimeError, MillisecondTimes, exact_times
from topicdb.parquet.writing import ABOUT_KEY, ABOUT_VERSION, SUFFIX, About, message_schema
from topicdb.types import Properties

BATCH_ROWS = 1 << 16
BATCH_BYTES = 16 << 20
_CHUNK_BYTES = 1 << 20

_TEXT = ("string", "large_string", "string_view")
_BYTES = ("binary", "large_binary", "binary_view")
_PART_NAME = re.compile(r"part-(\d{5,})-of-(\d{5,})\.parquet")
_UTC_US = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class Source:
    """A file with the columns of messages.

    ``about``: None if TopicDB has not written it. ``key``: the column with keys, or None.
    """

    path: Path
    rows: int
    about: About | None
    key: str | None
    dictionaries: tuple[str, ...]  # columns to read as dictionaries, since their values may repeat
    has_int96: bool  # its times are of the Parquet type INT96


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a file, as messages. ``first`` is the number of the first one, from 0."""

    source: Source
    first: int
    batch: pa.RecordBatch

    @property
    def is_stored(self) -> bool:
        """Whether values are as they are to be stored, with their properties."""
        about = self.source.about
        return about is not None and about.properties is not False


def open_sources(paths: Iterable[Path], key: str | None = None) -> list[Source]:
    """Returns the files at ``paths``; for a directory, those that end with ``.parquet``, by name.

    ``key``: the column with keys, which each of them must have. Raises OSError if something is not
    there, CorruptionError for what is no Parquet file, ValueError if a column is missing or has
    another type, SchemaError if a newer TopicDB wrote a file.
    """
    return [_source(file, key) for path in paths for file in _files_at(path)]


def digest_of(sources: Sequence[Source], key: str | None = None) -> str:
    """Returns a name for the content of the files in this order, whatever the files are called.

    With the column ``key`` the content is another one.
    """
    whole = hashlib.sha256(b"" if key is None else b"key " + key.encode() + b"\0")
    for source in sources:
        content = hashlib.sha256()
        with open(source.path, "rb", buffering=0) as file:
            while chunk := file.read(_CHUNK_BYTES):
                content.update(chunk)
        whole.update(content.digest())
    return whole.hexdigest()


def read(source: Source) -> Iterator[Rows]:
    """Gives all rows, in batches of bounded size.

    Raises ValueError, naming column and row, for a null or a time that is not whole microseconds;
    CorruptionError if a part of the file is damaged.
    """
    first = 0
    with _opened(source.path, source.dictionaries) as file:
        batches = _all_batches(source, file)
        for batch in _exact_batches(source, batches) if source.has_int96 else batches:
            for piece in _cut(batch, source.key):
                yield Rows(source, first, _as_messages(source, first, piece))
                first += piece.num_rows


def _files_at(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(
        file for file in path.iterdir() if file.suffix == SUFFIX and file.name[0] not in "._"
    )
    if not files:
        raise FileNotFoundError(errno.ENOENT, f"the directory has no {SUFFIX} files", str(path))
    _check_complete(path, [file.name for file in files])
    return files


def _check_complete(path: Path, names: list[str]) -> None:
    found = [match for name in names if (match := _PART_NAME.fullmatch(name))]
    for total in {match[2] for match in found}:
        there = {int(match[1]) for match in found if match[2] == total}
        for part in range(int(total)):
            if part not in there:
                raise FileNotFoundError(
                    errno.ENOENT,
                    "a part of the export is missing",
                    str(path / f"part-{part:05}-of-{total}{SUFFIX}"),
                )


@contextmanager
def _opened(
    path: Path, dictionaries: Sequence[str] = (), *, int96_unit: str = "ns"
) -> Iterator[pq.ParquetFile]:
    """Opens a file. Raises OSError if there is none, CorruptionError if it is no Parquet file."""
    with open(path, "rb") as raw:
        with _damage_named(path):
            file = pq.ParquetFile(
                raw,
                read_dictionary=list(dictionaries) or None,
                coerce_int96_timestamp_unit=int96_unit,
                page_checksum_verification=True,
                buffer_size=_CHUNK_BYTES,
                pre_buffer=False,
            )
        with file:
            yield file


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # an error of the file system
        text = "; ".join(str(error).splitlines())
        raise _core.CorruptionError(f"{path}: no Parquet file, or damaged: {text}") from error


def _source(path: Path, key: str | None) -> Source:
    with _opened(path) as file:
        _check_columns(path, file.schema_arrow, key)
        has_int96 = _check_times(path, file)
        metadata = file.metadata
        written = (metadata.metadata or {}).get(ABOUT_KEY)
        about = None if written is None else _about(path, written)
        if about is not None and about.properties:
            _check_properties(path, file.schema_arrow)
        dictionaries = _dictionaries(metadata, {"topic", "value", key})
        return Source(path, metadata.num_rows, about, key, dictionaries, has_int96)


def _check_columns(path: Path, schema: pa.Schema, key: str | None) -> None:
    for name in ("topic", "timestamp", "value", *(() if key is None else (key,))):
        count = len(schema.get_all_field_indices(name))
        if count != 1:
            there = "is missing" if count == 0 else "is there twice"
            raise ValueError(
                f"{path}: column {name!r} {there}; there are: {', '.join(schema.names)}"
            )
    _check_type(path, schema, "topic", _TEXT, "string")
    _check_type(path, schema, "value", _TEXT + _BYTES, "binary or string")
    if key is not None:
        _check_type(path, schema, key, _TEXT + _BYTES, "string or binary, as it is to be the key")


def _check_times(path: Path, file: pq.ParquetFile) -> bool:
    """Returns whether times are of the type INT96. Raises ValueError if they have a wrong type."""
    kind = file.schema_arrow.field("timestamp").type
    columns = map(file.schema.column, range(len(file.schema)))
    # INT96, as Hive and Spark write it by default, has no zone: it is UTC.
    is_int96 = any(c.path == "timestamp" and c.physical_type == "INT96" for c in columns)
    is_zoned = pa.types.is_timestamp(kind) and kind.tz is not None
    if not (is_int96 or is_zoned or pa.types.is_int64(kind)):
        raise ValueError(
            f"{path}: column 'timestamp': expected a timestamp with a time zone, or int64 "
            f"microseconds, got {kind}"
        )
    return is_int96


def _check_properties(path: Path, schema: pa.Schema) -> None:
    wanted = message_schema("properties")
    for name in Properties._fields:
        kind = wanted.field(name).type
        if schema.names.count(name) != 1 or _shape(schema.field(name).type) != _shape(kind):
            raise ValueError(
                f"{path}: column {name!r}: expected {kind}, as the file says that it has the "
                "columns of properties"
            )


def _shape(kind: pa.DataType) -> Any:
    """Returns a type without the names that writers are free to choose."""
    if pa.types.is_list(kind):
        return [_shape(kind.value_type)]
    if pa.types.is_struct(kind):
        return {field.name: _shape(field.type) for field in kind}
    return kind


def _check_type(
    path: Path, schema: pa.Schema, name: str, allowed: Sequence[str], expected: str
) -> None:
    kind = schema.field(name).type
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    if str(plain) not in allowed:
        raise ValueError(f"{path}: column {name!r}: expected {expected}, got {kind}")


def _about(path: Path, written: bytes) -> About:
    try:
        fields: dict[str, Any] = json.loads(written)
        version = fields.pop("version")
        if type(version) is int and version > ABOUT_VERSION:
            raise _core.SchemaError(f"{path}: a newer TopicDB wrote it; upgrade")
        about = About(**fields)
        if (version == 1) != (about.properties is None):
            raise ValueError(f"version {version!r} with properties {about.properties!r}")
        _check_about(about)
    except _core.SchemaError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _core.CorruptionError(
            f"{path}: what it says of its export is damaged: {error}"
        ) from error
    return about


def _check_about(about: About) -> None:
    filters = [about.filter] if isinstance(about.filter, str) else about.filter or []
    for filter in filters:
        _core.check_filter(filter)
    for time in (about.start, about.end):
        if time is not None and (type(time) is not int or not 0 <= time < 1 << 63):
            raise ValueError(f"the time {time!r}")
    if about.layout not in ("columnar", "skipstream") or about.timestamp_bytes not in (0, 8):
        raise ValueError(f"the layout {about.layout!r}, {about.timestamp_bytes!r} bytes of time")


def _dictionaries(metadata: pq.FileMetaData, names: Collection[str | None]) -> tuple[str, ...]:
    """Returns which of these columns are stored with dictionaries.

    There, a few bytes may stand for gigabytes of values.
    """
    found = set()
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            if column.has_dictionary_page and column.path_in_schema in names:
                found.add(column.path_in_schema)
    return tuple(sorted(found))


def _batches(source: Source, file: pq.ParquetFile, group: int) -> Iterator[pa.RecordBatch]:
    path, about = source.path, file.metadata.row_group(group)
    properties = Properties._fields if source.about and source.about.properties else ()
    columns = dict.fromkeys(["topic", "timestamp", "value", *properties])
    if source.key is not None:
        columns[source.key] = None  # which may be one of them
    row_bytes = about.total_byte_size // max(about.num_rows, 1) + 1
    batches = file.iter_batches(
        batch_size=min(max(BATCH_BYTES // row_bytes, 1), BATCH_ROWS),
        row_groups=[group],
        columns=list(columns),
        use_threads=False,
    )
    yield from _named(path, batches)


def _all_batches(source: Source, file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    for group in range(file.num_row_groups):
        yield from _batches(source, file, group)


def _named(path: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Gives the batches. Raises CorruptionError, naming the file, if one cannot be read."""
    while True:
        with _damage_named(path):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _exact_batches(source: Source, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Gives the batches of a file with INT96, with exact times in microseconds.

    Raises ValueError for a time that would be rounded or does not fit.
    """
    first, path = 0, source.path
    with _opened(path, int96_unit="ms") as file:
        found = file.iter_batches(BATCH_ROWS, columns=["timestamp"], use_threads=False)
        coarse = MillisecondTimes(path, (one.column(0) for one in _named(path, found)))
        for batch in batches:
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            try:
                ms = coarse.take(batch.num_rows)
                columns["timestamp"] = exact_times(columns["timestamp"], ms)
            except InexactTimeError as error:
                raise _inexact(source, first + error.row, f"{error.ns} ns of INT96") from None
            yield pa.RecordBatch.from_pydict(columns)
            first += batch.num_rows


def _cut(batch: pa.RecordBatch, key: str | None) -> Iterator[pa.RecordBatch]:
    """Cuts a batch into pieces that stay small when repeated values are written out.

    ``key``: the column with keys, or None.
    """
    lengths = _lengths(batch.column("topic")) + _lengths(batch.column("value"))
    if key is not None:
        lengths = lengths + _lengths(batch.column(key))
    ends = np.cumsum(lengths)
    first = 0
    while first < batch.num_rows:
        done = ends[first - 1] if first else 0
        end = max(int(np.searchsorted(ends, done + BATCH_BYTES, side="right")), first + 1)
        yield batch.slice(first, end - first)
        first = end


def _lengths(column: pa.Array) -> npt.NDArray[np.int64]:
    if pa.types.is_dictionary(column.type):
        lengths = pc.binary_length(column.dictionary).take(column.indices)
    else:
        lengths = pc.binary_length(column)
    return np.asarray(lengths.fill_null(0), dtype=np.int64)


def _as_messages(source: Source, first: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = []
    for field in message_schema():
        column = batch.column(field.name)
        if column.null_count:
            row = first + int(np.argmax(np.asarray(column.is_null())))
            raise ValueError(f"{source.path}: row {row}: column {field.name!r} is null")
        if field.name == "timestamp":
            columns.append(_times(source, first, column))
        else:
            columns.append(column.cast(field.type))
    if source.about is not None and source.about.properties:
        columns[2] = _stored(source, first, columns[1], columns[2], batch)
    schema = message_schema()
    if source.key is not None:
        keys = batch.column(source.key)
        if pa.types.is_dictionary(keys.type):
            keys = keys.dictionary_decode()
        columns.append(keys.cast(pa.binary()))
        schema = schema.append(pa.field("key", pa.binary()))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _stored(
    source: Source, first: int, times: pa.Array, values: pa.Array, batch: pa.RecordBatch
) -> pa.Array:
    """Returns values with their properties, as they are to be stored.

    Raises ValueError, naming the row, for properties that no message can have.
    """
    found = [values.to_pylist(), times.cast(pa.int64()).to_pylist()]
    for name in Properties._fields:
        column = batch.column(name)
        found.append((column.cast(pa.int64()) if name == "received" else column).to_pylist())
    stored = []
    for number, row in enumerate(zip(*found, strict=True)):
        try:
            stored.append(_stored_one(*row))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{source.path}: row {first + number}: {error}") from error
    return pa.array(stored, pa.binary())


def _stored_one(
    value: bytes,
    timestamp: int,
    qos: int | None,
    retain: bool | None,
    client_id: str | None,
    payload_format: int | None,
    message_expiry_s: int | None,
    content_type: str | None,
    response_topic: str | None,
    correlation_data: bytes | None,
    user_properties: list[dict[str, str]] | None,
    subscription_ids: list[int] | None,
    received: int | None,
) -> bytes:
    if qos is None:
        return _core.escaped_value(value)
    return _core.encode_envelope(
        value,
        qos,
        bool(retain),
        client_id or "",
        payload_format,
        message_expiry_s,
        content_type,
        response_topic,
        correlation_data,
        [(pair["name"], pair["value"]) for pair in user_properties or ()],
        subscription_ids or [],
        None if received == timestamp else received,
    )


def _times(source: Source, first: int, column: pa.Array) -> pa.Array:
    """Returns times in microseconds.

    Raises ValueError for a time that would be rounded or does not fit.
    """
    try:
        times = column.cast(_UTC_US)
    except pa.ArrowInvalid:
        row = next(row for row in range(len(column)) if not _fits(column.slice(row, 1)))
        text = column.slice(row, 1).cast(pa.int64())[0]
        raise _inexact(source, first + row, f"{text} of {column.type}") from None
    if source.about is not None and len(times):
        _check_range(source, source.about, first, np.asarray(times.cast(pa.int64())))
    return times


def _inexact(source: Source, row: int, time: str) -> ValueError:
    return ValueError(
        f"{source.path}: row {row}: column 'timestamp': {time} is no whole number of microseconds "
        "from 1970 to 2**63; round it before"
    )


def _fits(times: pa.Array) -> bool:
    try:
        times.cast(_UTC_US)
    except pa.ArrowInvalid:
        return False
    return True


def _check_range(source: Source, about: About, first: int, times: npt.NDArray[np.int64]) -> None:
    end = (1 << 63) - 1 if about.end is None else about.end - 1
    outside = (times < (about.start or 0)) | (times > end)
    if outside.any():
        row = int(np.argmax(outside))
        raise ValueError(
            f"{source.path}: row {first + row}: column 'timestamp': {times[row]} is outside the "
            "range that the file says it was exported for"
        )


def naming(rows: Rows, error: Exception) -> Exception:
    """Returns an error of storing rows with the file, the row of the file, and the column.

    The text of ``error`` is "row 3: …", counted from the first of ``rows``.
    """
    text = str(error)
    match = re.match(r"row (\d+): (.*)", text, re.DOTALL)
    if match is None:
        return type(error)(f"{rows.source.path}: {text}")
    column = (
        "topic"
        if isinstance(error, _core.TopicError)
        else "timestamp"
        if match[2].startswith("timestamp")
        else rows.source.key
        if match[2].startswith("key:")
        else "value"
    )
    row = rows.first + int(match[1])
    return type(error)(f"{rows.source.path}: row {row}: column {column!r}: {match[2]}")


def files_bytes(sources: Sequence[Source]) -> int:
    """Returns the size of all files together."""
    return sum(os.stat(source.path).st_size for source in sources)
