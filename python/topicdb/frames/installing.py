"""Gives the classes of the extension the methods that it leaves to Python."""

from __future__ import annotations

from typing import Any

from topicdb import _core
from topicdb.frames.converting import Values, pandas_of, polars_of, pylist_of
from topicdb.frames.shown import batch_html, batch_repr, record_html


def install() -> None:
    """Gives ``Batch`` its conversions, and notebooks what they show of the results of the core.

    To be called once, before any object is made.
    """
    _set(_core.Batch, "to_pylist", _to_pylist)
    _set(_core.Batch, "to_pandas", _to_pandas)
    _set(_core.Batch, "to_polars", _to_polars)
    _set(_core.Batch, "__repr__", batch_repr)
    _set(_core.Batch, "_repr_html_", batch_html)
    for kind in (_core.Slab, _core.Stream):
        _set(kind, "_repr_html_", record_html)


def _set(kind: type, name: str, method: Any) -> None:
    setattr(kind, name, method)


def _to_pylist(self: _core.Batch, *, values: Values = "bytes") -> list[dict[str, Any]]:
    """Returns the messages as dictionaries; see ``Scan.to_pylist``."""
    return pylist_of([self], values)


def _to_pandas(self: _core.Batch, *, values: Values = "bytes") -> Any:
    """Returns the messages as a pandas.DataFrame; see ``Scan.to_pandas``."""
    return pandas_of([self], _form(self), values)


def _to_polars(self: _core.Batch, *, values: Values = "bytes") -> Any:
    """Returns the messages as a polars.DataFrame; see ``Scan.to_polars``."""
    return polars_of([self], _form(self), values)


def _form(batch: _core.Batch) -> Any:
    return "payload" if batch.properties is None else "properties"
