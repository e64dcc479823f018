"""JSON values as columns: one for each field, by its path."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

FIELDS_MAX = 1_000
DEPTH_MAX = 200
VALUE = "value"
"""The column of values that are JSON, but no objects: numbers, text, lists."""


def parsed(value: bytes) -> Any:
    """Returns what a JSON value stands for; None for what is no JSON in UTF-8.

    None, too, for objects and lists within each other in more than 200 levels. Half of a surrogate
    pair, which no text can have, becomes a question mark.
    """
    try:
        found = json.loads(value.decode())
        if b"\\ud" in value.lower():
            text = json.dumps(found, ensure_ascii=False).encode(errors="replace")
            found = json.loads(text)
    except (ValueError, RecursionError):  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        return None
    is_deep = value.count(b"[") + value.count(b"{") > DEPTH_MAX and _is_deep(found)
    return None if is_deep else found


def _is_deep(found: Any) -> bool:
    level = [found]
    for _ in range(DEPTH_MAX):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
        level = inner
    return any(isinstance(item, (dict, list)) for item in level)


def columns_of(values: Iterable[bytes], taken: Iterable[str]) -> dict[str, list[Any]]:
    """Returns a column for each field of the values, with None where a value lacks it.

    A field of an object in an object has a path with points: ``motor.temp``. Values that are no
    objects are in the column ``value``, which is left out if every value is an object without a
    field of that name. A field whose column would have a name that is taken gets ``value.`` before
    its path.

    Arguments:
        values: the values.
        taken: the names of the other columns.

    Raises:
        ValueError: there are more than 1,000 different fields.
    """
    reserved = set(taken)
    columns: dict[str, list[Any]] = {VALUE: []}
    has_value = False
    rows = 0
    for row, value in enumerate(values):
        rows += 1
        found = parsed(value)
        fields = _fields(found) if isinstance(found, dict) else [(VALUE, found)]
        for path, item in fields:
            name = f"{VALUE}.{path}" if path in reserved else path
            column = columns.get(name)
            if column is None:
                if len(columns) > FIELDS_MAX:
                    raise ValueError(
                        f"values: the JSON values have more than {FIELDS_MAX:,} different fields; "
                        "choose fewer topics, or use values='text'"
                    )
                column = columns[name] = []
            has_value = has_value or name == VALUE
            del column[row:]  # of another field with the same path
            column.extend([None] * (row - len(column)))
            column.append(item)
    if rows and not has_value:
        del columns[VALUE]
    for column in columns.values():
        column.extend([None] * (rows - len(column)))
    return columns


def _fields(found: dict[str, Any]) -> list[tuple[str, Any]]:
    """Returns the paths of an object's fields, and what they have."""
    fields: list[tuple[str, Any]] = []
    waiting = list(reversed(found.items()))
    while waiting:
        path, item = waiting.pop()
        if isinstance(item, dict) and item:
            waiting.extend((f"{path}.{name}", inner) for name, inner in reversed(item.items()))
        else:
            fields.append((path, item))
    return fields
