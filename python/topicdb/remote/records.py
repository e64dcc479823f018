"""How results with named fields travel: as the tuple of the fields, in their order.

A dataclass that the core gives, such as ``topicdb.Receipt``, is a tuple to who speaks the protocol.
The client makes the object again, of the class that the method of ``topicdb.engine.Engine`` is
annotated with.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

Value = TypeVar("Value")
Make: TypeAlias = Callable[[Any], Any]


def is_record(value: object) -> bool:
    """Whether it travels in this way."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def plain_of(record: Any) -> tuple[Any, ...]:
    """What travels of a record; a field may be a record itself."""
    kind: Any = type(record)
    return tuple(getattr(record, name) for name in _fields_of(kind))


def record_of(kind: type[Value], plain: Any) -> Value:
    """The record of which this is what ``plain_of`` gave. TypeError, ValueError: it is none."""
    any_kind: Any = kind
    found: Value = _make_of(any_kind)(plain)
    return found


def result_of(method: Callable[..., Value], plain: Any) -> Value:
    """What the method of an engine gave, of what travelled."""
    found: Value = plain
    make = _make_of_result(method)
    return found if make is None else make(plain)


@cache
def _fields_of(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


@cache
def _make_of_result(method: Callable[..., Any]) -> Make | None:
    return _make_in(get_type_hints(method)["return"])


def _make_in(hint: Any) -> Make | None:
    """What makes such a value of what travelled; None: they are the same."""
    if dataclasses.is_dataclass(hint):
        assert isinstance(hint, type)
        return _make_of(hint)
    if get_origin(hint) is list:
        (item,) = get_args(hint)
        make = _make_in(item)
        return None if make is None else _each(make)
    if get_origin(hint) in (Union, types.UnionType):
        for make in map(_make_in, get_args(hint)):
            if make is not None:
                return _optional(make)
    return None


def _each(make: Make) -> Make:
    return lambda plain: [make(one) for one in plain]


def _optional(make: Make) -> Make:
    return lambda plain: None if plain is None else make(plain)


@cache
def _make_of(kind: Any) -> Make:
    hints = get_type_hints(kind)
    makes = [_make_in(hints[name]) for name in _fields_of(kind)]

    def make(plain: Any) -> Any:
        if not isinstance(plain, tuple) or len(plain) != len(makes):
            raise ValueError(f"{kind.__name__}: expected a tuple of {len(makes)}")
        pairs = zip(makes, plain, strict=True)
        return kind(*(field if make is None else make(field) for make, field in pairs))

    return make
