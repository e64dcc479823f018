"""The columns of messages in Spark, and their Arrow types, exactly as Spark wants them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

DDL = "topic string, timestamp timestamp, value binary"
_ARROW_SCHEMA = pa.schema(
    [("topic", pa.string()), ("timestamp", pa.timestamp("us", tz="UTC")), ("value", pa.binary())]
)
_TO_WRITE = {
    "topic": ("string",),
    "timestamp": ("timestamp", "bigint"),
    "value": ("binary", "string"),
}


def to_arrow(batch: Any) -> pa.RecordBatch:
    """A batch of the core."""
    return pa.RecordBatch.from_arrays(pa.record_batch(batch).columns, schema=_ARROW_SCHEMA)


def check_columns(types: Mapping[str, str], *, needs_timestamp: bool) -> None:
    """ValueError that names a column, what it should be and what it is.

    ``types``: of the columns of a DataFrame to be written, in Spark's short names.
    """
    for name, allowed in _TO_WRITE.items():
        if name not in types:
            if name == "timestamp" and not needs_timestamp:
                continue
            raise ValueError(f"column {name!r} is missing; the DataFrame has {list(types)}")
        if types[name] not in allowed:
            raise ValueError(f"column {name!r}: expected {' or '.join(allowed)}, got {types[name]}")
    for name in types:
        if name not in _TO_WRITE:
            raise ValueError(
                f"column {name!r} is unknown: expected topic, timestamp and value; select them"
            )


def located(error: Exception, where: str) -> Exception:
    """The same error, saying where it happened. UnicodeError's children take no single text."""
    kind = ValueError if isinstance(error, UnicodeError) else type(error)
    return kind(f"{where}: {error}")
