"""Leaves columns that a scan does not have out of frames and dictionaries of messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from topicdb.types import Properties

_COLUMNS = frozenset(("topic", "timestamp", "value", *Properties._fields))


def check_chosen(columns: Sequence[str] | None, values: object) -> None:
    """Raises ValueError if values are to be read as text or JSON that are not among the columns."""
    if columns is not None and values != "bytes" and "value" not in columns:
        raise ValueError(f"values: {values!r} needs the column 'value', and the scan has {columns}")


def names_of(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Returns those of the columns of a frame that were chosen; fields of JSON stay."""
    return [name for name in names if name in columns or name not in _COLUMNS]


def chosen_of(row: dict[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """Returns what was chosen of a message that is a dictionary."""
    return {name: row[name] for name in row if name in columns}
