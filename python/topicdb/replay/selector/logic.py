"""The parts of a selector as functions of properties, with three-valued logic.

A condition returns True, False, or None for unknown. An operand returns a value, or None for NULL.
"""

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
    """Returns the conditions joined with AND."""

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
    """Returns the conditions joined with OR."""

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
    """Returns NOT of the condition."""

    def condition(properties: Properties) -> bool | None:
        found = part(properties)
        return None if found is None else not found

    return condition


def comparison(order: Callable[[Any, Any], bool], left: Operand, right: Operand) -> Condition:
    """Returns the comparison of two operands.

    It is unknown if one of them is NULL, if they are not of the same kind (see ``KINDS``), and for
    booleans unless it is ``=`` or ``<>``.
    """
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
    """Returns IN: the comparisons of a value with each constant, joined with OR."""
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
    """Returns the result of a calculation, which is NULL if there is none.

    That is so if an operand or the result is no number, and for overflow and division by zero.
    """

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
    """Returns the quotient; that of integers is rounded towards zero."""
    if type(a) is float or type(b) is float:
        return a / b
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


class Pattern:
    """A pattern of LIKE, where ``%`` stands for any text, and ``_`` for any character.

    It is matched from left to right without backtracking, so that no pattern takes long.
    """

    def __init__(self, text: str, escape: str | None) -> None:
        """Raises ValueError if the escape character does not stand before %, _ or itself."""
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
        """Returns whether the pattern matches the whole text."""
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
    """Returns LIKE, which is unknown if the value is no text."""

    def condition(properties: Properties) -> bool | None:
        found = value(properties)
        return pattern.matches(found) if type(found) is str else None

    return condition
