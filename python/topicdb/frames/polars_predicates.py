"""Reads predicates of polars for topics and times.

polars has no public way to walk an expression; its JSON form is what DuckDB reads, too. What is not
understood there selects everything, and the predicate itself is applied to what was read: a change
of that form costs speed alone.
"""

from __future__ import annotations

import io
import json
from typing import Any

import polars as pl

from topicdb.frames.selection import (
    EVERYTHING,
    NOTHING,
    Comparison,
    Selection,
    of_prefix,
    of_time,
    of_topics,
)

_COMPARISONS: dict[str, tuple[Comparison, Comparison]] = {  # as it is, and with its sides swapped
    "Eq": ("==", "=="),
    "EqValidity": ("==", "=="),
    "Lt": ("<", ">"),
    "LtEq": ("<=", ">="),
    "Gt": (">", "<"),
    "GtEq": (">=", "<="),
}
_BETWEEN: dict[str, tuple[Comparison, Comparison]] = {
    "Both": (">=", "<="),
    "Left": (">=", "<"),
    "Right": (">", "<="),
    "None": (">", "<"),
}
_TIME = pl.Datetime("us", "UTC")


def selection_of(predicate: pl.Expr) -> Selection:
    """Returns a selection that has at least the messages which ``predicate`` lets through."""
    try:
        return _selection(json.loads(predicate.meta.serialize(format="json")))
    except (
        pl.exceptions.PolarsError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
    ):
        return EVERYTHING


def _selection(node: Any) -> Selection:
    (kind, found), *others = node.items()
    if others:
        return EVERYTHING
    if kind == "BinaryExpr":
        operator = found["op"]
        if operator in ("And", "LogicalAnd"):
            return _selection(found["left"]).both(_selection(found["right"]))
        if operator in ("Or", "LogicalOr"):
            return _selection(found["left"]).either(_selection(found["right"]))
        return _compared(operator, found["left"], found["right"])
    if kind == "Function":
        return _called(found["function"], *found["input"])
    return EVERYTHING


def _compared(operator: str, left: Any, right: Any) -> Selection:
    if operator not in _COMPARISONS:
        return EVERYTHING
    comparison, swapped = _COMPARISONS[operator]
    if "Column" in right:
        left, right, comparison = right, left, swapped
    return _column_compared(left, comparison, right)


def _column_compared(column: Any, comparison: Comparison, literal: Any) -> Selection:
    name = column.get("Column")
    if name == "timestamp":
        moments = _moments(literal)
        return EVERYTHING if moments is None else of_time(comparison, *moments)
    if name == "topic" and comparison == "==":
        return _topics(literal)
    return EVERYTHING


def _called(function: Any, column: Any, *literals: Any) -> Selection:
    name = column.get("Column")
    boolean = function.get("Boolean", {})
    if "IsIn" in boolean:
        if name == "topic":
            return _topics(literals[0])
        moments = _moments(literals[0]) if name == "timestamp" else None
        if moments is None:
            return EVERYTHING
        if not moments:
            return NOTHING
        return of_time(">=", min(moments)).both(of_time("<=", max(moments)))
    if "IsBetween" in boolean:
        low, high = _BETWEEN[boolean["IsBetween"]["closed"]]
        above = _column_compared(column, low, literals[0])
        return above.both(_column_compared(column, high, literals[1]))
    if function.get("StringExpr") == "StartsWith" and name == "topic":
        (prefix,) = _values(literals[0])
        return of_prefix(prefix) if isinstance(prefix, str) else EVERYTHING
    return EVERYTHING


def _values(literal: Any) -> pl.Series:
    """Returns the values of an expression without columns; those of a list one by one."""
    found = pl.select(pl.Expr.deserialize(io.StringIO(json.dumps(literal)), format="json"))
    values = found.to_series()
    return values.explode() if isinstance(values.dtype, pl.List | pl.Array) else values


def _topics(literal: Any) -> Selection:
    values = _values(literal).drop_nulls()
    is_text = values.dtype == pl.String or not len(values)
    return of_topics(values) if is_text else EVERYTHING


def _moments(literal: Any) -> list[int] | None:
    """Returns moments in µs since 1970; None for what are none, or not exact in µs."""
    values = _values(literal)
    if not isinstance(values.dtype, pl.Datetime) or values.dtype.time_zone is None:
        return None
    values = values.drop_nulls()
    exact = values.cast(_TIME)
    if not (exact.cast(values.dtype) == values).all():
        return None
    moments: list[int] = exact.to_physical().to_list()
    return moments
