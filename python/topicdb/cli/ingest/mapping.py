"""Turns records into messages: says which columns make topic, timestamp, value and key."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Sequence
from decimal import Decimal
from enum import Enum
from typing import Any

from topicdb import _core
from topicdb.arguments.times import TIMESTAMP_MAX, check_plausible, time_us
from topicdb.cli.errors import UserError
from topicdb.cli.ingest.records import Fields
from topicdb.cli.times import stored_time

WHOLE_ROW = "*"
TIMESTAMP_COLUMN = "timestamp"

_encode_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_TEMPLATE_PART = re.compile(r"\{\{|\}\}|\{([^{}]+)\}|([^{}]+)|(.)")
_NUMBER = re.compile(r"[+-]?\d{1,40}(\.\d{1,40})?")
# A number of JSON that other programs read without loss: 007 and numbers of more digits are names.
_NUMBER_CELL = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,18})?([eE][+-]?[0-9]{1,2})?")


class TimeUnit(str, Enum):
    """Units of timestamps that are numbers."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    NANOSECONDS = "ns"


_MICROSECONDS = {
    TimeUnit.SECONDS: Decimal(1_000_000),
    TimeUnit.MILLISECONDS: Decimal(1_000),
    TimeUnit.MICROSECONDS: Decimal(1),
    TimeUnit.NANOSECONDS: Decimal("0.001"),
}


class TopicTemplate:
    """Makes topics of records: from a column, or from a template.

    ``site`` is a column. ``plant/{site}/pump/{id}`` is a template with columns in braces; ``{{``
    stands for a brace. The constructor raises ValueError for a lone or empty brace.
    """

    def __init__(self, text: str) -> None:
        if not text:
            raise ValueError("the topic must be a column or a template such as 'site/{id}'")
        self._column = None if set(text) & set("/{}") else text
        self._parts: list[tuple[str, bool]] = []  # (text or column, whether it is a column)
        if self._column is None:
            self._parse(text)
            self.columns = [part for part, is_column in self._parts if is_column]
        else:
            self.columns = [self._column]

    def _parse(self, text: str) -> None:
        for match in _TEMPLATE_PART.finditer(text):
            column, literal, stray = match.groups()
            if stray is not None:
                raise ValueError(
                    f"{text!r}: {stray!r} at position {match.start() + 1} belongs to no "
                    "{column}; write {{ or }} for the character itself"
                )
            if column is not None:
                self._parts.append((column, True))
            else:
                self._parts.append((literal or match[0][0], False))

    def __call__(self, fields: Fields) -> str:
        """Returns the topic of a record; raises ValueError if a column is missing or no word."""
        if self._column is not None:
            return _word(fields, self._column)
        return "".join(
            _word(fields, part) if is_column else part for part, is_column in self._parts
        )


class Mapping:
    """Turns records into rows of topic, timestamp (or None) and value.

    Arguments:
        topic: makes the topic.
        timestamp: the column with the timestamp. None: the column ``timestamp``, if there is one.
        time_unit: the unit of numbers. None: microseconds, if the number can be meant so.
        value: the column with the value, or ``*`` for the rest of the record as a JSON object.
        encoding: a column that says ``base64`` where the value is base64 text, or None.
        zone: the zone of times without one, as --tz names it. None: such times are errors.
        key: the column with the key, or None.
        cells_as_numbers: with ``value`` ``*``, text that is a number of JSON becomes one in the
            object, digit by digit as it is. For CSV, whose cells are all text.
    """

    def __init__(
        self,
        topic: TopicTemplate,
        timestamp: str | None = None,
        time_unit: TimeUnit | None = None,
        value: str = WHOLE_ROW,
        encoding: str | None = None,
        zone: str | None = None,
        key: str | None = None,
        *,
        cells_as_numbers: bool = False,
    ) -> None:
        self._topic = topic
        self._timestamp_required = timestamp is not None
        self._timestamp = TIMESTAMP_COLUMN if timestamp is None else timestamp
        self._time_unit = time_unit
        self._value = value
        self._encoding = encoding
        self._zone = zone
        self._key = key
        self._used = {*topic.columns, self._timestamp}
        self._encode_rest = _json_of_cells if cells_as_numbers else _json

    def check_columns(self, columns: Sequence[str]) -> None:
        """Raises UserError if a column that the user has named is not among ``columns``."""
        named = [*self._topic.columns]
        if self._timestamp_required:
            named.append(self._timestamp)
        if self._value != WHOLE_ROW:
            named.append(self._value)
        if self._key is not None:
            named.append(self._key)
        for column in named:
            if column not in columns:
                raise UserError(_missing(column, columns))

    def row(self, fields: Fields) -> tuple[str, int | None, bytes]:
        """Returns the message of a record, or raises ValueError or, for its topic, TopicError."""
        topic = self._topic(fields)
        _core.check_topic(topic)
        timestamp = timestamp_us(
            fields.get(self._timestamp), self._time_unit, self._timestamp, self._zone
        )
        return topic, timestamp, self._value_of(fields)

    def key(self, fields: Fields) -> str | None:
        """Returns the key of a record, or None if it has none.

        Raises ValueError if it is no text, number or truth value.
        """
        if self._key is None or fields.get(self._key) in (None, ""):
            return None
        return _word(fields, self._key)

    def _value_of(self, fields: Fields) -> bytes:
        if self._value == WHOLE_ROW:
            used = self._used
            rest = {name: value for name, value in fields.items() if name not in used}
            return self._encode_rest(rest)
        if self._value not in fields:
            raise ValueError(_missing(self._value, list(fields)))
        value = fields[self._value]
        if self._encoding is not None and fields.get(self._encoding) == "base64":
            return _from_base64(value, self._value)
        return value.encode() if isinstance(value, str) else _json(value)


def timestamp_us(
    value: Any, unit: TimeUnit | None, column: str, zone: str | None = None
) -> int | None:
    """Returns ``value`` of ``column`` as microseconds since the epoch; None if it is null or empty.

    A number counts ``unit``s since the epoch; what is less than a microsecond is cut off. Text is a
    number, or ISO 8601 with a zone, or without one if ``zone`` says which. Raises ValueError for
    anything else, and without a unit for a number that is hardly meant to be microseconds.
    """
    what = f"column {column!r}"
    if value is None or value == "":
        return None
    if type(value) is int and unit in (TimeUnit.MICROSECONDS, None):
        result = value  # the usual case, without the cost of a Decimal
    else:
        number = _number(value, what)
        if number is None:
            moment = stored_time(value, what, zone)
            return time_us(value if moment is None else moment, what=what)
        result = int(number * _MICROSECONDS[unit or TimeUnit.MICROSECONDS])
    if unit is None and result <= TIMESTAMP_MAX:
        _check_unit(result, what)
    try:
        return time_us(result, what=what)
    except ValueError:
        raise ValueError(
            f"{what}: {value} {(unit or TimeUnit.MICROSECONDS).value} is outside 1970-01-01 .. "
            "2**63 microseconds; choose the unit with --timestamp-unit"
        ) from None


def _check_unit(timestamp: int, what: str) -> None:
    try:
        check_plausible(timestamp, what=what)
    except ValueError as error:
        raise ValueError(f"{error}; or say with --timestamp-unit what the numbers count") from None


def _number(value: Any, what: str) -> Decimal | None:
    """Returns a time that is a number or the text of one; None for text that may be ISO 8601."""
    if isinstance(value, str):
        text = value.strip()
        if _NUMBER.fullmatch(text):
            return Decimal(text)
        if text[:1].isdigit():
            return None
        # "now" and "-24h" mean something in a query; in data they would be guesses.
        raise ValueError(
            f"{what}: {value!r} is no time; expected a number or ISO 8601 with a zone, "
            "such as '2026-01-31T14:02:00Z'"
        )
    if isinstance(value, float) and not math.isfinite(value):  # JSON has numbers such as 1e400
        raise ValueError(f"{what}: a number that large is no time")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Decimal(str(value))
    raise ValueError(f"{what}: expected a number or text, got {_json(value).decode()[:80]}")


def _word(fields: Fields, column: str) -> str:
    value = fields.get(column)
    if value is None:
        raise ValueError(
            _missing(column, list(fields))
            if column not in fields
            else f"column {column!r} is null, and the topic needs it"
        )
    if isinstance(value, str):
        return value
    if isinstance(value, (dict, list)):
        raise ValueError(
            f"column {column!r} is no word for a topic or key: {_json(value).decode()[:80]}"
        )
    return _json(value).decode()


def _json(value: Any) -> bytes:
    return _encode_json(value).encode()


def _json_of_cells(cells: Fields) -> bytes:
    """Returns a JSON object of text cells, in which the text of a number is that number."""
    fields = (
        f"{_encode_json(name)}:{cell if _NUMBER_CELL.fullmatch(cell) else _encode_json(cell)}"
        for name, cell in cells.items()
    )
    return f"{{{','.join(fields)}}}".encode()


def _from_base64(value: Any, column: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise ValueError(f"column {column!r}: not base64, though the record says so") from None


def _missing(column: str, columns: Sequence[str]) -> str:
    there = ", ".join(columns[:20]) or "none"
    return f"no column {column!r}; there are: {there} (see --topic, --timestamp, --value)"
