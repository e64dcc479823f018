"""The column of keys that Arrow data may have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from topicdb.types import Keys

if TYPE_CHECKING:
    import pyarrow as pa

KEY_COLUMN = "key"
"""The column of keys, which messages may have besides."""


def split_keys(data: Any, key: Keys | None) -> tuple[object, Keys | None]:
    """Takes the column of keys off the data of ``Engine.append_arrow``.

    Arguments:
        data: an object with an Arrow C stream or array.
        key: the argument, which is returned if there is no such column.

    Returns:
        The data without the column, and the keys. Without pyarrow it returns the data as it is.

    Raises:
        ValueError: both are given, a column has a wrong type, or a stream fails.
    """
    try:
        import pyarrow as pa  # importing topicdb does not take the time for it
    except ImportError:
        return data, key
    try:
        if hasattr(data, "__arrow_c_stream__"):
            table = pa.RecordBatchReader.from_stream(data).read_all()
        else:
            table = pa.Table.from_batches([pa.record_batch(data)])
    except pa.ArrowException as error:
        raise ValueError(f"the Arrow data cannot be read: {error}") from error
    rest, keys = without_keys(table)
    if keys is not None:
        refuse_both(key)
        return rest, keys.to_pylist()
    at = table.schema.get_field_index(KEY_COLUMN)
    if at >= 0:
        found = table.schema.field(at).type
        raise ValueError(f"column {KEY_COLUMN!r}: expected binary or string, got {found}")
    return table, key


def without_keys(table: pa.Table) -> tuple[pa.Table, pa.Array | None]:
    """Returns the table without its keys, and these as a plain column; None if it has none.

    A column that holds no text or bytes stays in the table.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    at = table.schema.get_field_index(KEY_COLUMN)
    if at < 0:
        return table, None
    keys = table.column(at).combine_chunks()
    if pa.types.is_run_end_encoded(keys.type):
        keys = pc.run_end_decode(keys)
    if pa.types.is_dictionary(keys.type):
        keys = keys.dictionary_decode()
    if is_view(keys.type):
        keys = pa.array(keys.to_pylist(), pa.binary())
    try:
        return table.remove_column(at), keys.cast(pa.binary())
    except pa.ArrowException:
        return table, None


def refuse_both(key: Keys | None) -> None:
    """Raises ValueError if keys are given, for messages that have a column of keys."""
    if key is not None:
        raise ValueError(
            f"key: the messages have a column {KEY_COLUMN!r}, too: give the column or the "
            "argument, not both"
        )


def is_view(kind: pa.DataType) -> bool:
    """Returns whether a type is a view, whose values lie in any order and may share bytes.

    Older versions of pyarrow have no views.
    """
    import pyarrow as pa

    names = ("is_string_view", "is_binary_view")
    return any(getattr(pa.types, name, lambda _: False)(kind) for name in names)
