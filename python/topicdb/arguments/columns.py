"""The columns of messages that a caller wants."""

from __future__ import annotations

from collections.abc import Sequence

from topicdb import _core
from topicdb.arguments.forms import Form
from topicdb.arguments.wrong_types import wrong_type

KEYS = frozenset({"topic", "timestamp"})
"""The columns that need no values."""


def checked_columns(columns: Sequence[str] | None, form: Form) -> list[str] | None:
    """Returns the columns of a read as a list; None: all.

    Raises:
        TypeError: it is no sequence of str, ValueError: there is no such column in this form.
    """
    if columns is None:
        return None
    if isinstance(columns, str | bytes) or not all(isinstance(name, str) for name in columns):
        raise wrong_type("columns", "a list of str, or None", columns)
    _core.arrow_schema(form, list(columns))  # raises for a name that no column has
    if form != "properties" and not {*KEYS, "value"}.issuperset(columns):
        (other, *_) = (name for name in columns if name not in {*KEYS, "value"})
        raise ValueError(f"columns: {other!r} needs properties=True")
    return list(columns)
