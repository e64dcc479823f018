"""Points in time as the API accepts them, and their conversion to microseconds since 1970."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta, timezone
from typing import SupportsIndex, TypeAlias

TIMEOUT_SECONDS_MAX = 1e9  # about thirty years

TimeLike: TypeAlias = "int | SupportsIndex | datetime | str"
"""int µs since the epoch, an aware datetime, ISO 8601 text with a zone, or relative: ``"-24h"``."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
TIMESTAMP_MAX = (1 << 63) - 1
# Numbers outside this range are hardly meant to be microseconds: today's seconds and milliseconds
# are smaller, today's nanoseconds larger.
_PLAUSIBLE_MIN_US = 10**14  # in March 1973
_PLAUSIBLE_MAX_US = 10**17  # in the year 5138
_FAITHFUL_BELOW = 10**8  # such a number means no time of today in any unit: 1973 as seconds

_UNIT_US = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60 * 1_000_000,
    "min": 60 * 1_000_000,
    "h": 3_600 * 1_000_000,
    "d": 86_400 * 1_000_000,
    "w": 7 * 86_400 * 1_000_000,
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|min|m|h|d|w)")


def now_us() -> int:
    """Returns the time of the system clock in microseconds since 1970."""
    return time.time_ns() // 1_000


def is_duration(value: object) -> bool:
    """Returns whether ``value`` is text such as ``"90s"``."""
    return isinstance(value, str) and _DURATION.fullmatch(value.strip()) is not None


def duration_us(text: str | timedelta, *, what: str = "duration") -> int:
    """Returns the microseconds of ``"90s"``, ``"365d"`` or a timedelta.

    Raises ValueError, naming ``what``, for anything else, for a duration that is not above zero,
    and for one of 2**63 µs (292,000 years) or more.
    """
    result: float
    if isinstance(text, timedelta):
        result = text // _MICROSECOND
    else:
        match = _DURATION.fullmatch(text.strip()) if isinstance(text, str) else None
        if match is None:
            raise ValueError(
                f"{what}: {text!r} is not a duration; write a number and one of "
                "us, ms, s, m, h, d, w, such as '24h' or '7d'"
            )
        result = float(match[1]) * _UNIT_US[match[2]]  # infinite if there are too many digits
    if result > TIMESTAMP_MAX:
        raise ValueError(f"{what}: {text!r} must be less than 2**63 microseconds")
    us = round(result)
    if us <= 0:
        raise ValueError(f"{what}: {text!r} must be more than zero")
    return us


def time_us(value: TimeLike, *, what: str = "timestamp", now: int | None = None) -> int:
    """Returns ``value`` as microseconds since 1970-01-01 UTC.

    Raises ValueError, naming the argument ``what``, for a naive datetime, text without a zone, or a
    time outside 0 <= t < 2**63. Raises TypeError for any other type.
    """
    if isinstance(value, datetime):
        result = _from_datetime(value, what)
    elif isinstance(value, str):
        result = _from_text(value, what, now)
    elif isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(
            f"{what}: expected int microseconds, an aware datetime or text, "
            f"got {type(value).__name__}"
        )
    else:
        result = value.__index__()
    if not 0 <= result <= TIMESTAMP_MAX:
        raise ValueError(f"{what}: {value!r} is outside 1970-01-01 .. 2**63 microseconds")
    return result


def check_plausible(value: object, *, what: str) -> None:
    """Raises ValueError for a number that is hardly meant to be microseconds since 1970.

    For calls that remove messages by time. There, seconds or nanoseconds, as ``time.time()`` and
    ``time.time_ns()`` give them, would mean 1970 or a far future. Times below 100 s after 1970
    pass.
    """
    if isinstance(value, (str, datetime, timedelta, bool)) or not hasattr(value, "__index__"):
        return
    number: int = value.__index__()
    if number < _FAITHFUL_BELOW or _PLAUSIBLE_MIN_US <= number < _PLAUSIBLE_MAX_US:
        return
    raise ValueError(f"{what}: {_doubt(number)}")


def time_of_text(text: str, *, what: str) -> TimeLike:
    """Returns text of a command line as a time: digits are microseconds, if that is plausible.

    Raises ValueError for another number, such as a year or seconds, and says what it would mean.
    """
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()):
        return text
    number = int(digits)
    if number == 0 or _PLAUSIBLE_MIN_US <= number < _PLAUSIBLE_MAX_US:
        return number
    raise ValueError(f"{what}: {_doubt(number)}")


def _doubt(number: int) -> str:
    """Says why a number is not taken for microseconds, and what to write instead."""
    try:
        moment = (_EPOCH + timedelta(microseconds=number)).isoformat()
    except OverflowError:
        moment = "a time after the year 9999"
    return (
        f"{number} microseconds since 1970 would be {moment}; if that is meant, write it so; "
        f"{_guess(number)}"
    )


def _guess(number: int) -> str:
    # Integers only: the number may be larger than any float.
    for unit, us in (
        ("seconds", number * 1_000_000),
        ("milliseconds", number * 1_000),
        ("nanoseconds", number // 1_000),
    ):
        if _PLAUSIBLE_MIN_US <= us < _PLAUSIBLE_MAX_US // 10:
            moment = (_EPOCH + timedelta(microseconds=us)).isoformat()
            return f"if these are {unit}, write {us} or {moment}"
    if 1_000 <= number <= 9_999:
        return f"if it is a year, write {number}-01-01T00:00:00Z"
    return "write ISO 8601 with a zone ('2026-01-31T14:02:00Z')"


def optional_time_us(value: TimeLike | None, *, what: str, now: int | None = None) -> int | None:
    """Returns what ``time_us`` returns, and None for None."""
    return None if value is None else time_us(value, what=what, now=now)


def time_range_us(start: TimeLike | None, end: TimeLike | None) -> tuple[int | None, int | None]:
    """Returns both bounds of a range; relative ones are measured from the same moment."""
    now = now_us()
    return (
        optional_time_us(start, what="start", now=now),
        optional_time_us(end, what="end", now=now),
    )


def _from_datetime(value: datetime, what: str) -> int:
    if value.utcoffset() is None:
        raise ValueError(
            f"{what}: {value!r} has no time zone; "
            "use datetime(..., tzinfo=timezone.utc) or .astimezone()"
        )
    return (value - _EPOCH) // _MICROSECOND


def naive_of(text: str) -> datetime | None:
    """Returns the time of ISO 8601 text without a zone, or None for anything else."""
    stripped = text.strip()
    if stripped[:4].isdigit() and stripped[4:5] != "-":
        return None  # a number; newer Pythons take some of them for a date
    try:
        parsed = datetime.fromisoformat(stripped)
    except ValueError:
        return None
    return parsed if parsed.utcoffset() is None else None


def _from_text(value: str, what: str, now: int | None) -> int:
    text = value.strip()
    if text == "now":
        return now_us() if now is None else now
    if text.startswith("-") and _DURATION.fullmatch(text[1:].strip()):
        return max(0, (now_us() if now is None else now) - duration_us(text[1:], what=what))
    try:
        parsed = datetime.fromisoformat(text[:-1] + "+00:00" if text[-1:] in "Zz" else text)
    except ValueError:
        raise ValueError(
            f"{what}: {value!r} is no time; write ISO 8601 with a zone ('2026-01-31T14:02:00Z') "
            "or relative ('-24h')"
        ) from None
    if parsed.utcoffset() is None:
        raise ValueError(
            f"{what}: {value!r} has no time zone; end it with Z or +02:00, for example"
        )
    return _from_datetime(parsed, what)


def timeout_us(timeout: float | timedelta | None, *, what: str = "timeout") -> int | None:
    """Returns seconds to wait as microseconds; None means for ever.

    Raises ValueError for a number below 0 or of 1e9 and more.
    """
    if timeout is None:
        return None
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if not 0 <= seconds < TIMEOUT_SECONDS_MAX:
        raise ValueError(f"{what}: expected seconds from 0 on, or None, got {timeout!r}")
    return round(seconds * 1_000_000)
