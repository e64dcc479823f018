"""The columns of messages in Spark, and their Arrow types, exactly as Spark needs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from topicdb import _core
from topicdb.spark.place import Place, shard_by_of

DDL = "topic string, timestamp timestamp, value binary"
_METADATA_DDL = "shard int, serial bigint"
_PROPERTIES_DDL = (
    "qos int, retain boolean, client_id string, payload_format int, message_expiry_s bigint, "
    "content_type string, response_topic string, correlation_data binary, "
    "user_properties array<struct<name:string,value:string>>, subscription_ids array<bigint>, "
    "received timestamp"
)
_TIME = pa.timestamp("us", tz="UTC")
_COLUMNS = [
    pa.field("topic", pa.string()),
    pa.field("timestamp", _TIME),
    pa.field("value", pa.binary()),
]
_METADATA = [pa.field("shard", pa.int32()), pa.field("serial", pa.int64())]
_PROPERTIES = [
    pa.field("qos", pa.int32()),
    pa.field("retain", pa.bool_()),
    pa.field("client_id", pa.string()),
    pa.field("payload_format", pa.int32()),
    pa.field("message_expiry_s", pa.int64()),
    pa.field("content_type", pa.string()),
    pa.field("response_topic", pa.string()),
    pa.field("correlation_data", pa.binary()),
    pa.field(
        "user_properties",
        pa.list_(pa.field("element", pa.struct([("name", pa.string()), ("value", pa.string())]))),
    ),
    pa.field("subscription_ids", pa.list_(pa.field("element", pa.int64()))),
    pa.field("received", _TIME),
]
_TO_WRITE = {
    "topic": ("string",),
    "timestamp": ("timestamp", "bigint"),
    "value": ("binary", "string"),
}
KEY = "key"
"""The column of keys, which rows for a database that shards by key may have."""
_KEY_TYPES = ("string", "binary")
APPEND_ROWS = 10_000
"""How many rows go together to the core."""


def ddl(*, metadata: bool, properties: bool) -> str:
    """Returns the columns of a read in the notation of Spark's schemas."""
    return ", ".join(
        [DDL, *([_METADATA_DDL] if metadata else []), *([_PROPERTIES_DDL] if properties else [])]
    )


def to_arrow(batch: Any, shard: int | None = None) -> pa.RecordBatch:
    """Returns a batch with the columns of Spark.

    With ``shard`` it has shard and serial, too; with properties if it was read with them.
    """
    found = pa.record_batch(batch)
    fields, columns = list(_COLUMNS), found.columns[: len(_COLUMNS)]
    if shard is not None:
        fields += _METADATA
        columns.append(pa.array(np.full(len(batch), shard, np.int32)))
        columns.append(pa.array(batch.serials.astype(np.int64)))
    if found.num_columns > len(_COLUMNS):
        fields += _PROPERTIES
        columns += [found.column(field.name).cast(field.type) for field in _PROPERTIES]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def check_columns(types: Mapping[str, str], *, needs_timestamp: bool, place: Place) -> None:
    """Checks the columns of a DataFrame to be written to the database at ``place``.

    ``types``: by column, in Spark's short names. Raises ValueError, which names the column, the
    type that it should have and the one that it has; SchemaError for a column of keys where the
    database shards by topic; NotFoundError if there is none.
    """
    for name, allowed in _TO_WRITE.items():
        if name not in types:
            if name == "timestamp" and not needs_timestamp:
                continue
            raise ValueError(f"column {name!r} is missing; the DataFrame has {list(types)}")
        if types[name] not in allowed:
            raise ValueError(f"column {name!r}: expected {' or '.join(allowed)}, got {types[name]}")
    for name in types:
        if name not in (*_TO_WRITE, KEY):
            raise ValueError(
                f"column {name!r} is unknown: expected topic, timestamp, value and key; select them"
            )
    shards_by = shard_by_of(place)
    if KEY not in types:
        return
    if types[KEY] not in _KEY_TYPES:
        raise ValueError(f"column {KEY!r}: expected {' or '.join(_KEY_TYPES)}, got {types[KEY]}")
    if shards_by != "key":
        raise _core.SchemaError(
            f"column {KEY!r}: {place} is sharded by topic, and its messages have no keys: leave "
            "the column out, or write to a database that was created with shard_by='key'"
        )


def in_batches(messages: Iterator[Any]) -> Iterator[Any]:
    """Gives record batches as they are (without empty ones), and tuples in lists of APPEND_ROWS."""
    rows: list[Any] = []
    for message in messages:
        if isinstance(message, pa.RecordBatch):
            if rows:  # keeps the order given
                yield rows
                rows = []
            if message.num_rows:
                yield message
            continue
        rows.append(message)
        if len(rows) == APPEND_ROWS:
            yield rows
            rows = []
    if rows:
        yield rows


def located(error: Exception, where: str) -> Exception:
    """Returns the same error with the place where it happened in its text.

    A UnicodeError becomes a ValueError, since its subclasses take no single text.
    """
    kind = ValueError if isinstance(error, UnicodeError) else type(error)
    return kind(f"{where}: {error}")
