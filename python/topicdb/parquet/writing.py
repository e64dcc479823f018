"""Writes messages as Parquet files: columns, encodings, row groups, and metadata.

Importing this module needs pyarrow; ``topicdb.parquet`` imports it when it is asked to write.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from topicdb import _core
from topicdb.arguments.forms import Form

SUFFIX = ".parquet"
ABOUT_KEY = b"topicdb"
ABOUT_VERSION = 2

# A row group is large enough to compress well and to be worth a task of its own, and small enough
# to be held in memory twice.
ROW_GROUP_ROWS = 1 << 17
ROW_GROUP_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class About:
    """The metadata of an export in its files: the request, and the database.

    - ``filter``: one topic filter, several, or None for every topic.
    - ``start``, ``end``: µs since 1970.
    - ``properties``: whether there are columns of MQTT properties. None, in files of version 1:
      there are none, and values are as they are stored.
    """

    filter: str | list[str] | None
    start: int | None
    end: int | None
    layout: str
    timestamp_bytes: int
    properties: bool | None = None

    @property
    def form(self) -> Form:
        """The form of the columns."""
        return "properties" if self.properties else "payload"

    def encode(self) -> bytes:
        """Returns the value of the key ``topicdb`` in a file's metadata."""
        fields = asdict(self)
        version = ABOUT_VERSION
        if self.properties is None:  # the first release reads this, too
            version = 1
            del fields["properties"]
        return json.dumps({"version": version, **fields}).encode()


def message_schema(form: Form = "payload") -> pa.Schema:
    """Returns the columns topic string, timestamp timestamp[us, UTC] and value binary, never null.

    With the form "properties" it also has the columns of docs/concepts/properties.md.
    """
    return pa.schema(_core.arrow_schema(form))


def row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Gathers batches into row groups; the last one may be smaller, none is empty."""
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        row_bytes = max(batch.nbytes // max(batch.num_rows, 1), 1)
        while batch.num_rows > 0:
            room = max((ROW_GROUP_BYTES - size) // row_bytes, 1)
            head = batch.slice(0, min(ROW_GROUP_ROWS - rows, room))
            pending.append(head)
            rows += head.num_rows
            size += head.nbytes
            batch = batch.slice(head.num_rows)
            if rows == ROW_GROUP_ROWS or size + row_bytes > ROW_GROUP_BYTES:
                yield pa.Table.from_batches(pending)
                pending, rows, size = [], 0, 0
    if pending:
        yield pa.Table.from_batches(pending)


class FileWriter:
    """One Parquet file that is being written; a context manager. Not thread-safe.

    At the end of ``with`` the file is complete and fsynced. After an exception it is closed, and
    the caller removes it.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        self.rows = 0
        self._file = open(path, "xb")  # noqa: SIM115 - closed by __exit__
        self._writer = pq.ParquetWriter(
            self._file,
            schema,
            compression="zstd",
            # A value repeated in a dictionary would take unbounded memory to read; times are
            # nearly sorted, and their differences are small.
            use_dictionary=["topic"],
            column_encoding={"timestamp": "DELTA_BINARY_PACKED"},
            write_statistics=["topic", "timestamp"],
            write_page_index=True,
            write_page_checksum=True,
        )

    def write(self, table: pa.Table) -> None:
        """Writes a row group. Raises OSError if the file system failed."""
        with _naming(self.path):
            self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        self.rows += table.num_rows

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                with _naming(self.path):
                    self._writer.close()
                    self._file.flush()
                    os.fsync(self._file.fileno())
            else:
                with suppress(Exception):  # the first error matters
                    self._writer.close()
        finally:
            with suppress(OSError):  # it may fail once more to write what it could not before
                self._file.close()


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Adds the name of the file to an error of the file system, if it has none.

    The error of a write to an open file has none.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = os.fspath(path)
        raise


def write_file(path: Path, tables: Iterable[pa.Table], schema: pa.Schema) -> int:
    """Writes one file, a row group for each table; returns the number of rows."""
    with FileWriter(path, schema) as writer:
        for table in tables:
            writer.write(table)
    return writer.rows


def write_directory(
    path: Path, tables: Iterable[pa.Table], schema: pa.Schema, rows_max: int
) -> int:
    """Makes a directory of files of at most ``rows_max`` rows; returns the number of all rows.

    It has at least one file.

    The name of each file says how many files there are, so that the import notices a missing one.
    """
    path.mkdir()
    pieces = _pieces(tables, rows_max)
    rows = parts = 0
    piece: pa.Table | None = next(pieces, schema.empty_table())
    while piece is not None:
        with FileWriter(path / str(parts), schema) as writer:
            while piece is not None and writer.rows + piece.num_rows <= rows_max:
                writer.write(piece)
                piece = next(pieces, None)
        rows += writer.rows
        parts += 1
    for part in range(parts):
        os.rename(path / str(part), path / f"part-{part:05}-of-{parts:05}{SUFFIX}")
    _sync(path)
    return rows


def _pieces(tables: Iterable[pa.Table], rows_max: int) -> Iterator[pa.Table]:
    """Cuts tables where a file is full."""
    room = rows_max
    for table in tables:
        while table.num_rows > 0:
            piece = table.slice(0, min(room, table.num_rows))  # Arrow counts up to 2**63
            yield piece
            table = table.slice(piece.num_rows)
            room = room - piece.num_rows or rows_max


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """Gives a name beside ``path``, under which the block makes a file or directory.

    At the end of the block it is renamed to ``path`` and fsynced; after an exception it is removed.
    Raises ExistsError, before anything is written, if there is something at ``path``.
    """
    _refuse(path)
    part = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        yield part
        _rename(part, path)
        _sync(path.parent)
    except BaseException:
        _remove(part)
        raise


def _refuse(path: Path) -> None:
    if os.path.lexists(path):
        raise _core.ExistsError(f"{path} exists: choose another path, or move it away")


def _rename(part: Path, path: Path) -> None:
    if not part.is_dir():
        # If another process has made a file of that name meanwhile, a link fails; a rename would
        # replace it.
        try:
            os.link(part, path)
        except FileExistsError:
            _refuse(path)
            raise
        except OSError:  # the file system has no links
            pass
        else:
            part.unlink()
            return
    _refuse(path)
    os.rename(part, path)


def _remove(part: Path) -> None:
    if part.is_dir():
        shutil.rmtree(part, ignore_errors=True)
    else:
        with suppress(OSError):
            part.unlink()


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
