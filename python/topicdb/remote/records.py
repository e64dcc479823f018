"""Turns results with named fields into tuples of their fields, and back.

The core returns dataclasses, such as ``topicdb.Receipt``. On the wire each is the tuple of its
fields, in their order. The receiver makes the object again; its class is the one in the annotation
of the method of ``topicdb.engine.Engine``.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from topicdb.database.verifying import Problem, Verification
from topicdb.follow.losses import Loss
from topicdb.results import Delivered, Snapshot
from topicdb.types import Slice

Value = TypeVar("Value")
Make: TypeAlias = Callable[[Any], Any]
Part: TypeAlias = "str | tuple[str, ...]"

_GROUPED: dict[type, tuple[Part, ...]] = {
    Problem: (
        "what",
        "shard",
        ("retention_class", "generation"),
        "structures",
        "messages",
        ("first_timestamp", "last_timestamp"),
    ),
    Snapshot: ("path", "serials", ("files", "bytes", "copied_bytes")),
    Verification: ("problems", ("shards", "slabs", "blocks", "pages", "messages")),
}
"""Fields that travel together as one tuple, or as None if all of them are None."""


def is_record(value: object) -> bool:
    """Returns whether a value travels as the tuple of its fields, as dataclasses do."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def plain_of(record: Any) -> tuple[Any, ...]:
    """Returns the tuple that travels for a record; a field of it may be a record itself."""
    kind: Any = type(record)
    return tuple(_plain_part(record, part) for part in _parts_of(kind))


def record_of(kind: type[Value], plain: Any) -> Value:
    """Returns the record of class ``kind`` for which ``plain_of`` gave this tuple.

    Raises TypeError or ValueError if the tuple does not fit the class.
    """
    any_kind: Any = kind
    found: Value = _make_of(any_kind)(plain)
    return found


def result_of(method: Callable[..., Value], plain: Any) -> Value:
    """Returns the result of a method of ``Engine``, made from what travelled."""
    make = _makes_of(method)["return"]
    found: Value = plain if make is None else make(plain)
    return found


def plain_result(result: Any) -> Any:
    """Returns the form in which the result of a method of ``Engine`` travels.

    Slices become plain tuples here: only slices that a client sends travel as the kind ``slice``.
    """
    if isinstance(result, list):
        return [tuple(one) if isinstance(one, Slice) else one for one in result]
    return result


def arguments_of(method: Callable[..., Any], plain: Sequence[Any]) -> list[Any]:
    """Returns the arguments for a method of ``Engine``, made from those that travelled.

    Surplus arguments stay as they are: the method refuses them. Raises TypeError or ValueError if
    an argument does not fit its annotation.
    """
    makes = [make for name, make in _makes_of(method).items() if name != "return"]
    return [
        one if number >= len(makes) or (make := makes[number]) is None else make(one)
        for number, one in enumerate(plain)
    ]


@dataclasses.dataclass(frozen=True, slots=True)
class About:
    """What travels of a ``Delivered`` beside its messages, which are Arrow data."""

    seqno: int
    shard: int
    serial: int
    row: int
    is_live: bool
    loss: Loss | None

    @staticmethod
    def of(given: Delivered) -> About:
        """Returns what travels with the messages of this delivery."""
        return About(given.seqno, given.shard, given.serial, given.row, given.is_live, given.loss)

    def plain(self) -> list[Any]:
        """Returns the list that travels; a loss is in it without its shard, the delivery's."""
        loss = None if self.loss is None else self.loss[1:]
        return [self.seqno, self.shard, self.serial, self.row, self.is_live, loss]

    @staticmethod
    def from_plain(plain: list[Any]) -> About:
        """Returns the object for which ``plain`` gave this list."""
        seqno, shard, serial, row, is_live, loss = plain
        lost = None if loss is None else Loss(shard, *loss)
        return About(seqno, shard, serial, row, is_live, lost)


@cache
def _parts_of(kind: Any) -> tuple[Part, ...]:
    return _GROUPED.get(kind) or tuple(field.name for field in dataclasses.fields(kind))


def _plain_part(record: Any, part: Part) -> Any:
    if isinstance(part, str):
        return getattr(record, part)
    group = tuple(getattr(record, name) for name in part)
    return None if all(value is None for value in group) else group


@cache
def _makes_of(method: Callable[..., Any]) -> dict[str, Make | None]:
    """Returns what makes each parameter, by name and in their order, and the result (``return``).

    None stands for a value that travels as it is.
    """
    return {name: _make_in(hint) for name, hint in get_type_hints(method).items()}


def _make_in(hint: Any) -> Make | None:
    """Returns what makes a value of this annotation, or None if it travels as it is."""
    kind: Any = hint
    if dataclasses.is_dataclass(hint) or hint is Slice:
        return _make_of(kind)
    if get_origin(hint) in (list, Sequence):
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
    parts = tuple(hints) if kind is Slice else _parts_of(kind)
    makes = [_make_in(hints[part]) if isinstance(part, str) else None for part in parts]

    def make(plain: Any) -> Any:
        if not isinstance(plain, tuple) or len(plain) != len(parts):
            raise ValueError(f"{kind.__name__}: expected a tuple of {len(parts)}")
        fields: dict[str, Any] = {}
        for part, make_field, value in zip(parts, makes, plain, strict=True):
            if isinstance(part, str):
                fields[part] = value if make_field is None else make_field(value)
            else:
                group = (None,) * len(part) if value is None else value
                fields.update(zip(part, group, strict=True))
        return kind(**fields)

    return make
