"""Messages as frames of pandas and polars, and as plain Python objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from topicdb.arguments.forms import Form
from topicdb.arguments.wrong_types import wrong_type
from topicdb.frames.extras import library
from topicdb.frames.json_fields import VALUE, columns_of, parsed
from topicdb.types import Properties

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from topicdb._core import Batch

Values: TypeAlias = Literal["bytes", "text", "json"]
"""How frames give values: as bytes, as text (None where they are not UTF-8), or as JSON fields."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_PANDAS_TYPES = {  # of columns in which a value may be missing
    "qos": "Int64",
    "retain": "boolean",
    "payload_format": "Int64",
    "message_expiry_s": "Int64",
}
_INT64_END = 1 << 63


def check_values(values: object) -> None:
    """Raises ValueError unless ``values`` is a way to give values."""
    if values not in get_args(Values):
        raise ValueError(f"values: expected 'bytes', 'text' or 'json', got {values!r}")


def check_count(n: object) -> None:
    """Raises TypeError or ValueError unless ``n`` is a number of messages."""
    if isinstance(n, bool) or not isinstance(n, int):
        raise wrong_type("n", "int", n)
    if n < 0:
        raise ValueError(f"n: expected 0 or more messages, got {n}")


def text_of(value: bytes) -> str | None:
    """Returns the text of a value; None if it is not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def datetime_of(timestamp: int, topic: str) -> datetime:
    """Returns a timestamp as a datetime in UTC.

    Raises ValueError, which names the topic, for a time after the year 9999.
    """
    try:
        return _EPOCH + timedelta(microseconds=timestamp)
    except OverflowError:
        raise ValueError(
            f"topic {topic!r}: the timestamp {timestamp} µs is after the year 9999, which a "
            "datetime cannot be; use to_list(), to_polars() or to_arrow()"
        ) from None


def pylist_of(batches: Iterable[Batch], values: Values) -> list[dict[str, Any]]:
    """Returns messages as dictionaries; see ``Scan.to_pylist``."""
    check_values(values)
    readers: dict[str, Callable[[bytes], Any]] = {"bytes": bytes, "text": text_of, "json": parsed}
    read = readers[values]
    found: list[dict[str, Any]] = []
    message: tuple[Any, ...]
    for batch in batches:
        for message in batch:
            topic, timestamp, value = message[:3]
            row = {"topic": topic, "timestamp": datetime_of(timestamp, topic), "value": read(value)}
            properties: Any = message[3:]  # none, if it was read without them
            for one in properties:
                row.update(_properties_of(one, topic))
            found.append(row)
    return found


def _properties_of(properties: Properties, topic: str) -> dict[str, Any]:
    found = properties._asdict()
    if properties.received is not None:
        found["received"] = datetime_of(properties.received, topic)
    return found


def pandas_of(batches: Iterable[Batch], form: Form, values: Values) -> pd.DataFrame:
    """Returns messages as a DataFrame of pandas; see ``Scan.to_pandas``."""
    check_values(values)
    library("pandas", "to_pandas")
    import numpy as np
    import pandas as pd

    topics: list[str] = []
    times: list[Any] = [np.empty(0, np.int64)]
    stored: list[bytes] = []
    properties: list[Properties] = []
    for batch in batches:
        topics += batch.topics
        times.append(batch.timestamps)
        stored += batch.values
        properties += batch.properties or []
    columns = {"topic": topics, "timestamp": _times(pd, np.concatenate(times))}
    others: dict[str, Any] = {}
    if form == "properties":
        others = _property_columns(pd, properties)
    if values == "json":
        fields = columns_of(stored, ["topic", "timestamp", *others])
        made = {name: _pandas_column(pd, items) for name, items in fields.items()}
    else:
        made = {VALUE: stored if values == "bytes" else [text_of(value) for value in stored]}
    frame = pd.DataFrame({**columns, **made, **others})
    if not topics:  # no text or bytes tell pandas what these columns are of
        return frame.astype({"topic": object, **dict.fromkeys(made, object)})
    return frame


def _pandas_column(pd: Any, items: list[Any]) -> Any:
    """Returns a column of JSON values. Integers and truth values stay such where some are missing.

    pandas makes floats of integers otherwise, which have fewer digits.
    """
    kinds = {type(item) for item in items}
    if kinds == {int, type(None)} and _fit_int64(items):
        return pd.array(items, dtype="Int64")
    if kinds == {bool, type(None)}:
        return pd.array(items, dtype="boolean")
    return items


def _fit_int64(items: list[Any]) -> bool:
    return all(-_INT64_END <= item < _INT64_END for item in items if isinstance(item, int))


def _times(pd: Any, us: Any) -> Any:
    return pd.DatetimeIndex(us.view("datetime64[us]")).tz_localize("UTC")


def _property_columns(pd: Any, properties: list[Properties]) -> dict[str, Any]:
    import numpy as np

    columns: dict[str, Any] = {}
    for name in Properties._fields:
        items = [getattr(one, name) for one in properties]
        if name == "received":
            missing = np.iinfo(np.int64).min  # what numpy takes for "not a time"
            us = np.array([missing if item is None else item for item in items], np.int64)
            columns[name] = _times(pd, us)
        else:
            columns[name] = pd.array(items, dtype=_PANDAS_TYPES.get(name, object))
    return columns


def polars_of(
    batches: Iterable[Batch], form: Form, values: Values, chosen: Sequence[str] | None = None
) -> pl.DataFrame:
    """Returns messages as a DataFrame of polars; see ``Scan.to_polars``.

    ``chosen`` are the columns that the batches have as Arrow data; None: all.
    """
    check_values(values)
    library("polars", "to_polars")
    import polars as pl

    from topicdb import _core

    empty = _core.empty_batch().read_as(form)
    if chosen is not None:
        empty = empty.select(chosen)
    frame = pl.concat([pl.DataFrame(empty), *(pl.DataFrame(batch) for batch in batches)])
    if values == "text":
        return frame.with_columns(_texts(pl, frame[VALUE]))
    if values == "bytes":
        return frame
    others = [name for name in frame.columns if name != VALUE]
    fields = columns_of(frame[VALUE], others)
    columns = [_series(pl, name, items) for name, items in fields.items()]
    keys = [name for name in others if name in ("topic", "timestamp")]
    return frame.select(*keys, *columns, *others[len(keys) :])


def _texts(pl: Any, stored: Any) -> Any:
    try:
        return stored.cast(pl.String)
    except pl.exceptions.ComputeError:  # a value is not UTF-8; polars names none of them
        return pl.Series(VALUE, [text_of(value) for value in stored], pl.String)


def _series(pl: Any, name: str, items: list[Any]) -> Any:
    """Returns a column of JSON values: of one type if they have one, else of their JSON text."""
    kinds = {type(item) for item in items if item is not None}
    if kinds == {list}:
        kinds = {type(one) for item in items for one in item or [] if one is not None}
        kind = _polars_type(pl, kinds, [one for item in items for one in item or []])
        kind = None if kind is None else pl.List(kind)
    else:
        kind = _polars_type(pl, kinds, items)
    if kind is None:
        return pl.Series(name, [None if item is None else _json(item) for item in items], pl.String)
    return pl.Series(name, items, kind, strict=kind not in (pl.Float64, pl.List(pl.Float64)))


def _polars_type(pl: Any, kinds: set[type], items: list[Any]) -> Any:
    """Returns the type of a column of items of these kinds; None if there is none."""
    if not kinds:
        return pl.Null
    if kinds == {bool}:
        return pl.Boolean
    if kinds == {str}:
        return pl.String
    if kinds <= {int, float} and _fit_int64(items):
        return pl.Float64 if float in kinds else pl.Int64
    return None


def _json(item: Any) -> str:
    return json.dumps(item, ensure_ascii=False)
