"""What the parts of a selector become: functions of properties, with three-valued logic."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

Properties: TypeAlias = Mapping[str, object]
Value: TypeAlias = "str | int | float | bool | None"
Condition: TypeAlias = Callable[[Properties], "bool | None"]
Operand: TypeAlias = Callable[[Properties], Any]

KINDS: dict[type, str] = {str: "text", int: "number", float: "number", bool: "boolean"}
_EQUALITIES = (operator.eq, operator.ne)


def all_of(parts: Sequence[Condition]) -> Condition:
    """AND."""

    def condition(properties: Properties) -> bool | None:
        known = True
        for part in parts:
            found = part(properties)
            if found is None:
                known = False
            elif not found:
                return False
        return True if known else None

    return condition


def any_of(parts: Sequence[Condition]) -> Condition:
    """OR."""

    def condition(properties: Properties) -> bool | None:
        known = True
        for part in parts:
            found = part(properties)
            if found is None:
                known = False
            elif found:
                return True
        return False if known else None

    return condition


def negated(part: Condition) -> Condition:
    """NOT."""

    def condition(properties: Properties) -> bool | None:
        found = part(properties)
        return None if found is None else not found

    return condition


def comparison(order: Callable[[Any, Any], bool], left: Operand, right: Operand) -> Condition:
    """Unknown of NULL, of two kinds of values, and of booleans but for = and <>."""
    of_equality = order in _EQUALITIES
    kind_of = KINDS.get

    def condition(properties: Properties) -> bool | None:
        a, b = left(properties), right(properties)
        kind = kind_of(type(a))
        if kind is None or kind != kind_of(type(b)) or (kind == "boolean" and not of_equality):
            return None
        return order(a, b)

    return condition


def membership(value: Operand, constants: Sequence[Value]) -> Condition:
    """IN: as the comparisons with each, joined with OR."""
    by_kind: dict[str | None, set[Value]] = {}
    for constant in constants:
        by_kind.setdefault(KINDS[type(constant)], set()).add(constant)
    has_one_kind = len(by_kind) == 1

    def condition(properties: Properties) -> bool | None:
        found = value(properties)
        of_kind = by_kind.get(KINDS.get(type(found)))
        if of_kind is None:
            return None
        return True if found in of_kind else False if has_one_kind else None

    return condition


def arithmetic(calculate: Callable[[Any, Any], Any], left: Operand, right: Operand) -> Operand:
    """NULL of what is no number, and where there is no result."""

    def operand(properties: Properties) -> int | float | None:
        a, b = left(properties), right(properties)
        if type(a) not in (int, float) or type(b) not in (int, float):
            return None
        try:
            found: int | float = calculate(a, b)
        except (ZeroDivisionError, OverflowError):
            return None
        return found if found == found else None  # NaN

    return operand


def divided(a: int | float, b: int | float) -> int | float:
    """Integers towards zero."""
    if type(a) is float or type(b) is float:
        return a / b
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


class Pattern:
    """One of LIKE: ``%`` is any text, ``_`` any character.

    It is matched from left to right without going back, so that no pattern takes long.
    """

    def __init__(self, text: str, escape: str | None) -> None:
        """ValueError: the escape character stands before another one than % _ and itself."""
        parts: list[list[str]] = [[]]
        characters = iter(text)
        for character in characters:
            if character == escape:
                character = next(characters, "")
                if character not in ("%", "_", escape):
                    raise ValueError(f"expected % _ or {escape} behind the escape character")
                parts[-1].append(re.escape(character))
            elif character == "%":
                parts.append([])
            else:
                parts[-1].append("." if character == "_" else re.escape(character))
        self._is_whole = len(parts) == 1
        self._last_length = len(parts[-1])
        compiled = [re.compile("".join(part), re.DOTALL) for part in parts]
        self._first, self._inner, self._last = compiled[0], compiled[1:-1], compiled[-1]

    def matches(self, text: str) -> bool:
        """Whether it is all of the text."""
        if self._is_whole:
            return self._first.fullmatch(text) is not None
        end = len(text) - self._last_length  # the last part fits there or nowhere
        found = self._first.match(text)
        for part in self._inner:
            if found is None or found.end() > end:
                return False
            found = part.search(text, found.end(), end)
        if found is None or found.end() > end:
            return False
        return self._last.fullmatch(text, end) is not None


def resemblance(value: Operand, pattern: Pattern) -> Condition:
    """LIKE."""

    def condition(properties: Properties) -> bool | None:
        found = value(properties)
        return pattern.matches(found) if type(found) is str else None

    return condition
