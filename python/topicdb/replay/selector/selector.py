"""Conditions on the properties of messages, in the part of SQL-92 that JMS selectors use."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from topicdb.replay.selector.logic import (
    Condition,
    Operand,
    Pattern,
    Properties,
    Value,
    all_of,
    any_of,
    arithmetic,
    comparison,
    divided,
    membership,
    negated,
    resemblance,
)

if TYPE_CHECKING:
    from sqlglot.expressions import Expression

DEPTH_MAX = 100  # of the tree of a condition; a chain of ANDs, or of ORs, counts once
_SHOWN_MAX = 200
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "EQ": operator.eq,
    "NEQ": operator.ne,
    "LT": operator.lt,
    "LTE": operator.le,
    "GT": operator.gt,
    "GTE": operator.ge,
}


class Selector:
    """A condition such as ``"plant = 'north' AND level >= 3"``. Thread-safe: it does not change.

    Identifiers are names of properties, and are case-sensitive. A name that is no identifier stands
    in double quotes, such as ``"client-id"``. A property that is missing is NULL.

    There are ``= <> < <= > >=``, ``AND OR NOT``, ``BETWEEN``, ``IN ('a', 'b')``, ``LIKE`` with
    ``ESCAPE``, ``IS [NOT] NULL``, ``+ - * /``, parentheses, text in single quotes, numbers, TRUE
    and FALSE.

    A condition is true, false or unknown. A comparison is unknown if one side is NULL, if the sides
    are of different kinds (text, number, boolean), or if it asks for the order of booleans. A
    selector matches only if its condition is true.

    The quotient of integers is an integer, rounded towards zero. The quotient of a number and zero
    is NULL.

    Attributes:
        text: the condition as it was given.
        names: the properties that it asks for.

    Example:
        >>> from topicdb.replay import Selector
        >>> Selector("plant = 'north' AND level >= 3").matches({"plant": "north", "level": 4})
        True
    """

    def __init__(self, text: str) -> None:
        """Compiles a condition.

        Arguments:
            text: the condition.

        Raises:
            ValueError: ``text`` is no such condition; the text of the error names the part.
            TypeError: ``text`` is no text.
            ImportError: sqlglot is missing: install ``topicdb[replay]``.
        """
        if not isinstance(text, str):
            raise TypeError(f"selector: expected text, got {type(text).__name__}")
        compiler = _Compiler(text)
        self.text = text
        self._condition = compiler.compile()
        self.names: frozenset[str] = frozenset(compiler.names)

    def matches(self, properties: Properties) -> bool:
        """Returns whether the condition is true for these properties.

        Arguments:
            properties: values by name. None stands for NULL. Of a value that is no str, int, float
                or bool, a condition can only find out that it is not NULL.

        Returns:
            True if the condition is true; False if it is false or unknown.
        """
        return self._condition(properties) is True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selector) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Selector({self.text!r})"


class _Compiler:
    """Turns the text of one selector into functions; used once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._shown = _shown(text)
        self._depth = 0
        self.names: set[str] = set()

    def compile(self) -> Condition:
        try:
            return self._condition(self._parse())
        except RecursionError:
            raise ValueError(f"selector {self._shown}: it is nested too deeply") from None

    def _parse(self) -> Any:
        try:
            import sqlglot
            from sqlglot import errors, expressions
        except ImportError as error:
            raise ImportError("selectors need sqlglot: pip install topicdb[replay]") from error
        try:
            # Some versions of sqlglot read up to the first semicolon, and ignore the rest.
            if any(token.token_type.name == "SEMICOLON" for token in sqlglot.tokenize(self._text)):
                raise ValueError(f"selector {self._shown}: ';' does not belong there")
            return sqlglot.parse_one(self._text, into=expressions.Condition)
        except errors.SqlglotError as error:
            raise ValueError(f"selector {self._shown}: {_reason(error)}") from None

    # Expressions that are true, false or unknown.

    def _condition(self, node: Expression) -> Condition:
        kind = type(node).__name__
        if kind in ("And", "Or"):
            return self._junction(node)
        method = _CONDITIONS.get("Order" if kind in _ORDERS else kind)
        if method is None:
            if kind in _OPERANDS:
                self._refuse(node, "it is a value, not a condition")
            self._refuse(node, "selectors have no such expression")
        self._enter(node)
        found: Condition = method(self, node)
        self._depth -= 1
        return found

    def _junction(self, node: Expression) -> Condition:
        self._enter(node)
        parts = [self._condition(part) for part in _parts(node)]
        self._depth -= 1
        return all_of(parts) if type(node).__name__ == "And" else any_of(parts)

    def _not(self, node: Expression) -> Condition:
        self._check_parts(node, "this")
        return negated(self._condition(node.this))

    def _group(self, node: Expression) -> Condition:
        self._check_parts(node, "this")
        return self._condition(node.this)

    def _order(self, node: Expression) -> Condition:
        self._check_parts(node, "this", "expression")
        order = _ORDERS[type(node).__name__]
        return comparison(order, self._operand(node.this), self._operand(node.expression))

    def _between(self, node: Expression) -> Condition:
        self._check_parts(node, "this", "low", "high")
        value = self._operand(node.this)
        low, high = self._operand(node.args["low"]), self._operand(node.args["high"])
        return all_of([comparison(operator.ge, value, low), comparison(operator.le, value, high)])

    def _in(self, node: Expression) -> Condition:
        self._check_parts(node, "this", "expressions")
        if not node.expressions:
            self._refuse(node, "expected values: IN ('a', 'b')")
        return membership(
            self._operand(node.this), [self._constant(item) for item in node.expressions]
        )

    def _like(self, node: Expression, escape: str | None = None) -> Condition:
        self._check_parts(node, "this", "expression", "negate")
        pattern = node.expression
        if not pattern.args.get("is_string"):
            self._refuse(pattern, "expected a pattern in single quotes")
        try:
            found = Pattern(pattern.this, escape)
        except ValueError as error:
            self._refuse(node, str(error))
        condition = resemblance(self._operand(node.this), found)
        return negated(condition) if node.args.get("negate") else condition

    def _escape(self, node: Expression) -> Condition:
        self._check_parts(node, "this", "expression")
        like, escape = node.this, node.expression
        if type(like).__name__ != "Like":
            self._refuse(node, "ESCAPE goes with LIKE")
        if not escape.args.get("is_string") or len(escape.this) != 1:
            self._refuse(escape, "expected one character in single quotes")
        return self._like(like, escape.this)

    def _is(self, node: Expression) -> Condition:
        self._check_parts(node, "this", "expression")
        if type(node.expression).__name__ != "Null":
            self._refuse(node, "expected IS NULL or IS NOT NULL")
        value = self._operand(node.this)
        return lambda properties: value(properties) is None

    def _flag(self, node: Expression) -> Condition:
        """Compiles TRUE, FALSE, or a property that is a boolean."""
        value = self._operand(node)

        def condition(properties: Properties) -> bool | None:
            found = value(properties)
            return found if found is True or found is False else None

        return condition

    # Expressions that have a value.

    def _operand(self, node: Expression) -> Operand:
        kind = type(node).__name__
        method = _OPERANDS.get(kind)
        if method is None:
            if kind == "Null":
                self._refuse(node, "compare with IS NULL")
            if kind in _CONDITIONS or kind in _ORDERS or kind in ("And", "Or"):
                self._refuse(node, "it is a condition, not a value")
            self._refuse(node, "selectors have no such expression")
        self._enter(node)
        found: Operand = method(self, node)
        self._depth -= 1
        return found

    def _property(self, node: Expression) -> Operand:
        if any(node.args.get(part) for part in ("table", "db", "catalog")):
            self._refuse(node, "a name with dots needs double quotes")
        self._check_parts(node, "this")
        if type(node.this).__name__ != "Identifier":
            self._refuse(node, "expected the name of a property")
        name: str = node.name
        self.names.add(name)
        return lambda properties: properties.get(name)

    def _literal(self, node: Expression) -> Operand:
        value = self._constant(node)
        return lambda properties: value

    def _constant(self, node: Expression) -> Value:
        kind = type(node).__name__
        if kind == "Boolean":
            return bool(node.this)
        if kind == "Neg":
            value = self._constant(node.this)
            if type(value) in (int, float):
                return -value  # type: ignore[operator]
        if kind != "Literal":
            self._refuse(node, "expected text in single quotes, a number, TRUE or FALSE")
        if node.args["is_string"]:
            return str(node.this)
        return self._number(node)

    def _number(self, node: Expression) -> int | float:
        text = str(node.this)
        try:
            number = int(text) if text.isdecimal() else float(text)
        except ValueError:  # it may also have far too many digits
            number = math.nan
        if isinstance(number, float) and not math.isfinite(number):
            self._refuse(node, "it is no number")
        return number

    def _operand_group(self, node: Expression) -> Operand:
        self._check_parts(node, "this")
        return self._operand(node.this)

    def _negative(self, node: Expression) -> Operand:
        self._check_parts(node, "this")
        return arithmetic(operator.sub, lambda properties: 0, self._operand(node.this))

    def _calculation(self, node: Expression) -> Operand:
        self._check_parts(node, "this", "expression", "typed", "safe")
        calculate = _CALCULATIONS[type(node).__name__]
        return arithmetic(calculate, self._operand(node.this), self._operand(node.expression))

    # Checks.

    def _enter(self, node: Expression) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            self._refuse(node, f"it is nested more than {DEPTH_MAX} deep")

    def _check_parts(self, node: Expression, *known: str) -> None:
        """Refuses a node that has other parts than these.

        Newer versions of sqlglot read more, and keep it in parts that this code does not know.
        """
        for name, part in node.args.items():
            if part and name not in known:
                self._refuse(node, "selectors have no such expression")

    def _refuse(self, node: Expression, why: str) -> NoReturn:
        raise ValueError(f"selector {self._shown}: {_shown(node.sql())}: {why}")


def _parts(node: Expression) -> Iterator[Expression]:
    """Yields the parts that a chain of ANDs, or of ORs, joins, in their order.

    It does not recurse, as there may be thousands.
    """
    kind = type(node)
    stack = [node]
    while stack:
        part = stack.pop()
        if type(part) is kind:
            stack += [part.expression, part.this]
        else:
            yield part


def _shown(text: str) -> str:
    return repr(text) if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]!r}…"


def _reason(error: Exception) -> str:
    """Returns why and where the text is no condition, without sqlglot's coloured context."""
    found = getattr(error, "errors", None)
    if not found or not found[0].get("highlight"):
        return "it is no condition; is a quote missing, or a part at its end?"
    return f"it is no condition: see {found[0]['highlight']!r} at column {found[0]['col']}"


_CALCULATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": divided,
}
_OPERANDS: dict[str, Callable[[_Compiler, Any], Operand]] = {
    "Column": _Compiler._property,
    "Literal": _Compiler._literal,
    "Boolean": _Compiler._literal,
    "Paren": _Compiler._operand_group,
    "Neg": _Compiler._negative,
    **dict.fromkeys(_CALCULATIONS, _Compiler._calculation),
}
_CONDITIONS: dict[str, Callable[[_Compiler, Any], Condition]] = {
    "Not": _Compiler._not,
    "Paren": _Compiler._group,
    "Order": _Compiler._order,
    "Between": _Compiler._between,
    "In": _Compiler._in,
    "Like": _Compiler._like,
    "Escape": _Compiler._escape,
    "Is": _Compiler._is,
    "Column": _Compiler._flag,
    "Boolean": _Compiler._flag,
}
