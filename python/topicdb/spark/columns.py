"""The columns of messages in Spark, and their Arrow types, exactly as Spark wants them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

DDL = "topic string, timestamp timestamp, value binary"
METADATA_DDL = f"{DDL}, shard int, serial bigint"
_ARROW_SCHEMA = pa.schema(
    [("topic", pa.string()), ("timestamp", pa.timestamp("us", tz="UTC")), ("value", pa.binary())]
)
_METADATA_SCHEMA = pa.schema([*_ARROW_SCHEMA, ("shard", pa.int32()), ("serial", pa.int64())])
_TO_WRITE = {
    "topic": ("string",),
    "timestamp": ("timestamp", "bigint"),
    "value": ("binary", "string"),
}


def to_arrow(batch: Any, shard: int | None = None) -> pa.RecordBatch:
    """A batch of the core; with its serials if its ``shard`` is given."""
    columns = pa.record_batch(batch).columns
    if shard is None:
        return pa.RecordBatch.from_arrays(columns, schema=_ARROW_SCHEMA)
    shards = pa.array(np.full(len(batch), shard, np.int32))
    serials = pa.array(batch.serials.astype(np.int64))
    return pa.RecordBatch.from_arrays([*columns, shards, serials], schema=_METADATA_SCHEMA)


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
