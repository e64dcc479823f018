"""Times as people type them at a shell, and as the commands show them.

``parse_time`` takes what the option ``--start`` and others of its kind get:

| text | meaning |
|---|---|
| ``now`` | this moment |
| ``-90s``, ``-1h``, ``-7d`` | so long ago |
| ``14:02``, ``14:02:30.5`` | today at that time of day |
| ``today``, ``yesterday``, ``2026-11-27`` | the beginning of that day |
| ``yesterday 14:02``, ``2026-11-27T14:02`` | that day at that time of day |
| ``14:02Z``, ``2026-11-27T14:02+02:00`` | the same with the zone in the text |
| ``1764252120000000`` | microseconds since 1970 |

A time without a zone is one of the zone that ``--tz`` names, which is that of the machine by
default. ``time_text`` shows times in the same zone.
"""

from __future__ import annotations

import difflib
import re
from datetime import date, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from topicdb.arguments.times import (
    duration_us,
    is_duration,
    naive_of,
    now_us,
    time_of_text,
    time_us,
)
from topicdb.cli.errors import UserError

LOCAL = "local"
EXAMPLES = "14:02, 'yesterday 14:02', 2026-11-27T14:02, -1h or now"

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_WORDS = ("now", "today", "yesterday")
_TIME = re.compile(
    r"(?P<day>today|yesterday|\d{4}-\d{2}-\d{2})?(?P<gap>[ t]+)?"
    r"(?:(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?)?"
    r" ?(?P<zone>z|utc|[+-]\d{2}:?\d{2})?"
)
_OTHER_DATE = re.compile(r"\d{1,4}[./]\d{1,2}[./]\d{1,4}")


class _Shown:
    """The zone in which ``time_text`` shows times; None is that of the machine."""

    zone: tzinfo | None = None


def show_in(name: str | None) -> None:
    """Lets ``time_text`` show times in the zone that --tz names; None is that of the machine.

    Raises UserError if there is no such zone.
    """
    _Shown.zone = zone_of(name)


def zone_of(name: str | None) -> tzinfo | None:
    """Returns the zone that --tz names; None is that of the machine.

    Raises UserError if there is no such zone.
    """
    if name is None or name == LOCAL:
        return None
    if name.upper() in ("UTC", "Z"):
        return timezone.utc
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UserError(
            f"--tz: there is no time zone {name!r}; write UTC, local, or a name such as "
            "Europe/Berlin"
        ) from None


def time_text(timestamp: int) -> str:
    """Returns a timestamp in ISO 8601 with microseconds and the offset of its zone.

    The zone is the one of --tz. In UTC the text ends with ``Z``. After the year 9999 the text is
    the number.
    """
    try:
        moment = _EPOCH + timedelta(microseconds=timestamp)
    except OverflowError:
        return str(timestamp)
    try:
        moment = moment.astimezone(_Shown.zone)
    except (OverflowError, ValueError, OSError):  # the last day of the year 9999
        moment = moment.astimezone(timezone.utc)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def parse_time(text: str, what: str, zone: str | None = None, *, now: int | None = None) -> int:
    """Returns the microseconds since 1970 of a time that a person has typed.

    Arguments:
        text: the time, in one of the forms that the module lists.
        what: the name of the option, for messages.
        zone: the zone of times that name none, as --tz has it; None: that of the machine.
        now: the moment that ``now``, ``-1h`` and ``today`` are counted from, in microseconds since
            1970; None: what the clock shows.

    Raises:
        UserError: there is no such zone.
        ValueError: the text is no time, or one before 1970; or it is a number that is hardly meant
            to be microseconds.
    """
    now = now_us() if now is None else now
    place = zone_of(zone)
    typed = text.strip()
    plain = time_of_text(typed, what=what)
    if not isinstance(plain, str):
        return time_us(plain, what=what)
    if plain == "now" or (plain.startswith("-") and is_duration(plain[1:])):
        return time_us(plain, what=what, now=now)
    match = _TIME.fullmatch(plain.lower())
    if match is not None and (match["day"] or match["hour"]):
        return time_us(_moment(match, text, what, place, now), what=what)
    try:
        moment = datetime.fromisoformat(plain)
    except ValueError:
        raise ValueError(f"{what}: {text!r} is no time; {_advice(plain)}") from None
    if moment.utcoffset() is None:
        moment = placed(moment, place, what)
    return time_us(moment, what=what)


def optional_time(
    text: str | None, what: str, zone: str | None = None, *, now: int | None = None
) -> int | None:
    """Returns ``parse_time`` of the text, or None for None."""
    return None if text is None else parse_time(text, what, zone, now=now)


def past_time(text: str, what: str, zone: str | None = None) -> int:
    """Returns the microseconds since 1970 of a time, or of an age such as ``30d`` before now.

    Raises what ``parse_time`` raises.
    """
    now = now_us()
    if is_duration(text):
        return max(0, now - duration_us(text, what=what))
    return parse_time(text, what, zone, now=now)


def range_of(start: str | None, end: str | None, zone: str | None) -> dict[str, Any]:
    """Returns the arguments ``start`` and ``end`` of the API, both counted from the same moment.

    Raises what ``parse_time`` raises.
    """
    now = now_us()
    return {
        "start": optional_time(start, "--start", zone, now=now),
        "end": optional_time(end, "--end", zone, now=now),
    }


def stored_time(text: str, what: str, zone: str | None) -> datetime | None:
    """Returns the moment of ISO 8601 text of a data file that names no zone; None for other text.

    Data may come from anywhere: its zone is never taken for that of the machine. So ``zone`` is the
    one of --tz, and without it such a text raises ValueError.
    """
    naive = naive_of(text)
    if naive is None:
        return None
    if zone is None:
        raise ValueError(
            f"{what}: {text!r} has no time zone; end it with Z or +02:00, or say with --tz which "
            "it is in: --tz UTC, --tz Europe/Berlin, --tz local"
        )
    return placed(naive, zone_of(zone), what)


def placed(naive: datetime, zone: tzinfo | None, what: str) -> datetime:
    """Returns a time of day that a clock in ``zone`` shows, with its zone; None: of the machine.

    When clocks go back, an hour comes twice: then the first one is meant. Raises ValueError when
    clocks go forward over that time, so that none shows it, and for a time that Python cannot say
    in UTC.
    """
    name = "the zone of this machine" if zone is None else str(zone)
    try:
        moment = naive.astimezone() if zone is None else naive.replace(tzinfo=zone)
        shown = moment.astimezone(timezone.utc).astimezone(zone)
    except (OverflowError, ValueError, OSError):
        when = naive.isoformat()
        raise ValueError(f"{what}: {when} in {name} is outside of the years 1 to 9999") from None
    if shown.replace(tzinfo=None) != naive.replace(fold=0):
        raise ValueError(
            f"{what}: no clock showed {naive.isoformat(sep=' ')} in {name}: it was put forward "
            "over that time; write an earlier or a later one"
        )
    return moment


def _moment(match: re.Match[str], text: str, what: str, zone: tzinfo | None, now: int) -> datetime:
    """Returns the moment of a text that ``_TIME`` matches, with its zone."""
    own = _offset(match["zone"])
    today = (_EPOCH + timedelta(microseconds=now)).astimezone(own or zone).date()
    days = {None: today, "today": today, "yesterday": today - timedelta(days=1)}
    if match["day"] and match["hour"] and not match["gap"]:
        raise ValueError(f"{what}: {text!r} is no time; {_advice(text)}")
    try:
        day = days[match["day"]] if match["day"] in days else date.fromisoformat(match["day"])
        naive = datetime(
            day.year,
            day.month,
            day.day,
            int(match["hour"] or 0),
            int(match["minute"] or 0),
            int(match["second"] or 0),
            int((match["fraction"] or "0").ljust(6, "0")[:6]),
        )
    except ValueError as error:
        raise ValueError(f"{what}: there is no time {text!r}: {error}") from None
    return placed(naive, zone, what) if own is None else naive.replace(tzinfo=own)


def _offset(text: str | None) -> tzinfo | None:
    """Returns the zone of ``z``, ``+02:00`` or ``-0330``; None for None."""
    if text is None:
        return None
    if text in ("z", "utc"):
        return timezone.utc
    size = timedelta(hours=int(text[1:3]), minutes=int(text[-2:]))
    return timezone(-size if text[0] == "-" else size)


def _advice(text: str) -> str:
    """Returns what to write instead of a text that is no time."""
    if is_duration(text) or (text[:1] == "+" and is_duration(text[1:])):
        age = text.removeprefix("+")
        duration_us(age)
        return f"for {age} ago write -{age}"
    word, _, rest = text.lower().partition(" ")
    meant = difflib.get_close_matches(word, _WORDS, n=1)
    if meant and meant[0] != word:
        return f"did you mean {' '.join((meant[0], *rest.split()))!r}?"
    if _OTHER_DATE.search(text):
        return "write the day as year-month-day, such as 2026-11-27"
    return f"write {EXAMPLES}"
