"""Reads of some columns: by the engine if it can leave the others unread, or here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from topicdb import _core
from topicdb._core import Batch
from topicdb.arguments.forms import Form
from topicdb.cursor.contract import ScanCursor
from topicdb.cursor.scan import missing_metadata
from topicdb.types import ArrowArray


def reads_columns(engine: object, method: str) -> bool:
    """Returns whether a method of an engine takes ``columns``, and leaves others unread if it can.

    Such an engine names these methods in its attribute ``reads_columns``.
    """
    return method in getattr(engine, "reads_columns", ())


def read_columns(
    engine: object, method: str, args: Sequence[Any], columns: Sequence[str] | None
) -> ScanCursor:
    """Begins a read of some columns: calls a method of the engine, ``scan`` or ``scan_slices``.

    ``args`` are its arguments without ``columns``. An engine that does not know this argument reads
    all columns, and the cursor leaves out the others.
    """
    read: Callable[..., ScanCursor] = getattr(engine, method)
    if columns is None:
        return read(*args)
    if reads_columns(engine, method):
        return read(*args, list(columns))
    return _Chosen(read(*args), columns)


class _Chosen:
    """Leaves out columns of another cursor, which it owns. One thread at a time reads."""

    def __init__(self, cursor: ScanCursor, columns: Sequence[str]) -> None:
        self._cursor = cursor
        self._columns = list(columns)

    def next_batch(
        self, rows_max: int, bytes_max: int, with_serials: bool = False, /
    ) -> Batch | None:
        batch = self._cursor.next_batch(rows_max, bytes_max, with_serials)
        return None if batch is None else batch.select(self._columns)

    def next_arrow(
        self, rows_max: int, bytes_max: int, form: Form = "stored", /
    ) -> ArrowArray | None:
        batch = self._cursor.next_batch(rows_max, bytes_max)
        return None if batch is None else batch.read_as(form).select(self._columns)

    def arrow_stream(self, rows_max: int, bytes_max: int, form: Form = "stored", /) -> object:
        import pyarrow as pa

        def batches() -> Any:
            while (arrow := self.next_arrow(rows_max, bytes_max, form)) is not None:
                yield pa.record_batch(arrow)

        schema = pa.schema(_core.arrow_schema(form, self._columns))
        schema = schema.with_metadata(missing_metadata(self.missing_shards()))
        return pa.RecordBatchReader.from_batches(schema, batches()).__arrow_c_stream__()

    def missing_shards(self) -> dict[int, str]:
        return self._cursor.missing_shards()

    def close(self) -> None:
        self._cursor.close()
