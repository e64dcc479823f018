"""Finds the time at which a device made a message, in the message itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, TypeAlias, get_args

from topicdb.arguments.times import TIMESTAMP_MAX, duration_us, time_us
from topicdb.mqtt.envelope import Envelope

TimeUnit: TypeAlias = Literal["s", "ms", "us", "ns"]
PAST, FUTURE = "30d", "5min"
_US = {"s": Decimal(1_000_000), "ms": Decimal(1_000), "us": Decimal(1), "ns": Decimal("0.001")}
_DIGITS_MAX = 40


class DeviceTime:
    """Finds the time of a message in its JSON payload, or in a user property. Immutable.

    - ``source``: ``field:NAME``, a member of the object that the payload is; ``field:A/B``, a
      member of an object in it; or ``property:NAME``, the last user property of that name.
    - ``unit``: of numbers; text may also be ISO 8601 with a zone.
    - ``past``, ``future``: how long before and after the time of reception the time may be.

    Raises ValueError, which names the option.
    """

    def __init__(
        self, source: str, unit: TimeUnit, past: str | timedelta, future: str | timedelta
    ) -> None:
        kind, _, name = source.partition(":")
        if kind not in ("field", "property") or not name:
            raise ValueError(
                "timestamp: expected 'field:NAME', of a JSON payload, or 'property:NAME', a user "
                f"property, got {source!r}"
            )
        if unit not in get_args(TimeUnit):
            raise ValueError(f"timestamp_unit: expected s, ms, us or ns, got {unit!r}")
        self.is_property = kind == "property"
        self._name = name
        self._path = name.split("/")
        self._unit = _US[unit]
        self._past_us = duration_us(past, what="timestamp_past")
        self._future_us = duration_us(future, what="timestamp_future")

    def of(self, envelope: Envelope, received_us: int) -> int | None:
        """Returns the time in µs since 1970; None if the message has none, or one out of bounds."""
        found = self._in_properties(envelope) if self.is_property else self._in_payload(envelope)
        time = _microseconds(found, self._unit)
        if time is None or not 0 <= time <= TIMESTAMP_MAX:
            return None
        is_within = received_us - self._past_us <= time <= received_us + self._future_us
        return time if is_within else None

    def _in_properties(self, envelope: Envelope) -> Any:
        return dict(envelope.user_properties).get(self._name)

    def _in_payload(self, envelope: Envelope) -> Any:
        try:
            found: Any = json.loads(envelope.payload, parse_float=Decimal)
        except (ValueError, RecursionError, InvalidOperation):
            return None
        for name in self._path:
            if not isinstance(found, Mapping):
                return None
            found = found.get(name)
        return found


def _microseconds(found: Any, unit: Decimal) -> int | None:
    """Returns the microseconds of a number or text; None if it is no time."""
    if isinstance(found, str):
        text = found.strip()
        if not text[:1].isdigit():  # "now" and "-24h" mean something in a query
            return None
        try:
            if text.replace(".", "", 1).isdecimal():
                found = Decimal(text[:_DIGITS_MAX])
            else:
                return time_us(text)
        except (ValueError, InvalidOperation):
            return None
    if isinstance(found, bool) or not isinstance(found, (int, Decimal)):
        return None
    number = Decimal(found)
    if not number.is_finite() or number.adjusted() > _DIGITS_MAX:
        return None
    return int(number * unit)
