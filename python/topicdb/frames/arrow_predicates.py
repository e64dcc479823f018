"""Reads predicates of pyarrow, in which DuckDB says what it filters, for topics and times.

pyarrow has no public way to walk an expression. Its pickled form is an Arrow file that lists the
nodes in its metadata and has the literals as columns. What is not understood there selects
everything, and the predicate itself is applied to what was read: a change of that form costs speed
alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import pyarrow as pa

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
    "equal": ("==", "=="),
    "less": ("<", ">"),
    "less_equal": ("<=", ">="),
    "greater": (">", "<"),
    "greater_equal": (">=", "<="),
}

_ODD = (
    pa.ArrowException,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


def selection_of(expression: Any) -> Selection:
    """Returns a selection that has at least the messages which ``expression`` lets through."""
    try:
        return _selection(_tree(expression))
    except _ODD:
        return EVERYTHING


def fields_of(expression: Any) -> list[str] | None:
    """Returns the columns that ``expression`` uses; None if it is not understood."""
    try:
        return list(dict.fromkeys(_fields(_tree(expression))))
    except _ODD:
        return None


def _fields(node: Any) -> Iterator[str]:
    if isinstance(node, _Field):
        yield str(node)
    elif isinstance(node, _Call):
        for argument in node.arguments:
            yield from _fields(argument)


class _Call:
    def __init__(self, name: str) -> None:
        self.name = name
        self.arguments: list[Any] = []  # calls, fields and literals
        self.options: Any = None


class _Field(str):
    __slots__ = ()


def _tree(expression: Any) -> Any:
    """Returns an expression as calls, fields and literals, which are Arrow scalars or arrays."""
    _, (data,) = expression.__reduce__()
    batch = pa.ipc.open_file(data).read_all().combine_chunks()
    root = _Call("")
    open_calls = [root]
    for kind, text in _metadata_items(batch.schema):
        if kind == "call":
            call = _Call(text)
            open_calls[-1].arguments.append(call)
            open_calls.append(call)
        elif kind == "end":
            open_calls.pop()
        elif kind == "field_ref":
            open_calls[-1].arguments.append(_Field(text))
        elif kind == "literal":
            open_calls[-1].arguments.append(batch.column(int(text))[0])
        elif kind == "options":
            open_calls[-1].options = batch.column(int(text))[0]
        else:
            raise ValueError(f"an expression has a node {kind!r}")
    (found,) = root.arguments
    return found


def _metadata_items(schema: pa.Schema) -> list[tuple[str, str]]:
    """Returns the metadata of a schema in its order, with keys that repeat.

    ``schema.metadata`` has each key once. This reads Arrow's C data interface, whose third pointer
    is the metadata: a count, and then for each key and value its length and its bytes.
    """
    capsule = schema.__arrow_c_schema__()
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = (ctypes.c_void_p * 3).from_address(pointer_of(capsule, b"arrow_schema"))[2]
    if address is None:
        return []

    def number() -> int:
        nonlocal address
        found = ctypes.c_int32.from_address(address).value
        address += 4
        return found

    def text() -> str:
        nonlocal address
        length = number()
        found = ctypes.string_at(address, length)
        address += length
        return found.decode()

    return [(text(), text()) for _ in range(number())]


def _selection(node: Any) -> Selection:
    if not isinstance(node, _Call):
        return EVERYTHING
    if node.name in _COMPARISONS:
        return _compared(node)
    reader = _READERS.get(node.name)
    return EVERYTHING if reader is None else reader(node)


def _compared(call: _Call) -> Selection:
    left, right = call.arguments
    comparison, swapped = _COMPARISONS[call.name]
    if isinstance(right, _Field):
        left, right, comparison = right, left, swapped
    if not isinstance(left, _Field) or not isinstance(right, pa.Scalar):
        return EVERYTHING
    if left == "timestamp":
        moment = _microseconds(right)
        return EVERYTHING if moment is None else of_time(comparison, moment)
    if left == "topic" and comparison == "==":
        topic = right.as_py()
        return of_topics([topic]) if isinstance(topic, str) else EVERYTHING
    return EVERYTHING


def _among(call: _Call) -> Selection:
    (field,) = call.arguments
    if not isinstance(field, _Field):
        return EVERYTHING
    values = call.options["value_set"].values
    if field == "topic":
        return of_topics(topic for topic in values.to_pylist() if topic is not None)
    if field != "timestamp":
        return EVERYTHING
    found = [_microseconds(value) for value in values if value.is_valid]
    moments = [moment for moment in found if moment is not None]
    if len(moments) < len(found):
        return EVERYTHING
    if not moments:
        return NOTHING
    return of_time(">=", min(moments)).both(of_time("<=", max(moments)))


def _begins(call: _Call) -> Selection:
    (field,) = call.arguments
    if field != "topic" or call.options["ignore_case"].as_py():
        return EVERYTHING
    pattern = call.options["pattern"].as_py()
    return of_prefix(pattern.decode() if isinstance(pattern, bytes) else pattern)


def _if_valid(call: _Call) -> Selection:
    """Reads ``if_else(is_valid(…), condition, null)``, which DuckDB puts around a list."""
    _, condition, otherwise = call.arguments
    if isinstance(otherwise, pa.Scalar) and not otherwise.is_valid:
        return _selection(condition)
    return EVERYTHING


_READERS: dict[str, Callable[[_Call], Selection]] = {
    "and": lambda call: reduce(Selection.both, map(_selection, call.arguments)),
    "and_kleene": lambda call: reduce(Selection.both, map(_selection, call.arguments)),
    "or": lambda call: reduce(Selection.either, map(_selection, call.arguments)),
    "or_kleene": lambda call: reduce(Selection.either, map(_selection, call.arguments)),
    "is_in": _among,
    "starts_with": _begins,
    "if_else": _if_valid,
}


def _microseconds(value: pa.Scalar) -> int | None:
    """Returns a moment in µs since 1970; None for what is none, or not exact in µs."""
    if not pa.types.is_timestamp(value.type) or value.type.tz is None or not value.is_valid:
        return None
    found: int = value.cast(pa.timestamp("us", value.type.tz)).value  # raises if it is not exact
    return found
