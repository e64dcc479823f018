"""Retention: how long messages are kept, what they take, and how they are trimmed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeAlias, cast

from topicdb._core import SchemaError, Slab
from topicdb.arguments.filters import one_filter
from topicdb.arguments.sizes import Size, is_number, is_size, size_bytes
from topicdb.arguments.times import (
    TimeLike,
    check_plausible,
    duration_us,
    is_duration,
    now_us,
    time_us,
)
from topicdb.engine import Engine
from topicdb.results import Dropped as Dropped
from topicdb.results import Maintained as Maintained
from topicdb.results import RetentionClass, SlabUsage

LayoutName: TypeAlias = Literal["columnar", "skipstream"]
LAYOUTS: tuple[LayoutName, ...] = ("columnar", "skipstream")
NO_LIMIT = 0
KEEP_LAST_MAX = 1_000_000
_DAY_US = 86_400 * 1_000_000

Age: TypeAlias = "str | timedelta"
RetentionLike: TypeAlias = "Retention | str | timedelta | None"
"""A Retention, a timedelta, None for "keep", or limits as text: ``"7d"``, ``"1h,10GiB"``."""

_KEEP = "keep"
_ROTATE = "rotate:"
_KEEP_LAST = "last:"
_LAYOUT = "layout:"


@dataclass(frozen=True, slots=True)
class Retention:
    """How long messages of a class are kept, and how; None sets no limit.

    Attributes:
        age: messages are dropped when they were stored this long ago: ``"7d"`` or a timedelta.
        bytes: how many bytes the files of all shards may have, as a number or ``"10GiB"``. Beyond
            that the oldest messages are dropped.
        rotate: how long a generation takes messages (default: an eighth of ``age``). Only whole
            generations are dropped, so no message outlives its age by more than this.
        keep_last: how many messages of each topic are kept, whatever their age. Without ``age`` and
            ``bytes``, all others are dropped once their generation ends (``rotate``: a day).
        layout: how new generations are stored: ``"columnar"`` (for messages, which are all kept) or
            ``"skipstream"`` (for state: one message of each topic and timestamp). Older generations
            keep their layout. None: as the generation before, or as the database was made.

    Example:
        >>> topicdb.Retention("1h", bytes="10GiB", keep_last=1).rotate is None
        True
    """

    age: Age | None = None
    bytes: Size | None = None
    rotate: Age | None = None
    keep_last: int | None = None
    layout: LayoutName | None = None


@dataclass(frozen=True, slots=True)
class Trimmed:
    """The result of a trim, or of one that would run; made by ``Database.trim``.

    Attributes:
        slabs: the slabs that are removed as a whole.
        messages: how many messages are removed one by one.
        before: messages with timestamps before this one go, in µs since 1970: how ``older_than``
            was understood.
    """

    slabs: list[Slab]
    messages: int
    before: int


@dataclass(frozen=True, slots=True)
class Usage:
    """The size of a retention class, of one of its generations, or of one structure's messages.

    Made by ``Database.usage``. For a structure it is what is stored now. ``bytes`` is estimated
    then, and with the layout skipstream ``messages`` as well; timestamps and garbage are unknown.

    Attributes:
        retention_class: the topic filter of the class.
        generation: the number of the generation; 0 unless it is about one.
        messages: how many messages were written.
        bytes: the bytes of their topics and values.
        disk_bytes: the bytes of files.
        first_timestamp: the smallest timestamp, in µs since 1970.
        last_timestamp: the greatest timestamp, in µs since 1970.
        structure: the structure; None unless it is about one.
        garbage_bytes: about how many of ``disk_bytes`` are of messages that were sealed again or
            deleted since. The next maintenance frees them.
    """

    retention_class: str
    generation: int
    messages: int
    bytes: int
    disk_bytes: int
    first_timestamp: int | None
    last_timestamp: int | None
    structure: str | None = None
    garbage_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Forecast:
    """How fast the files grow; made by ``Database.forecast``.

    Attributes:
        disk_bytes: the bytes of files now.
        bytes_per_day: the average growth on disk over the life of what is stored.
        days_left: how long it takes to reach the quota at that rate; None without a quota, or while
            nothing grows.
    """

    disk_bytes: int
    bytes_per_day: float
    days_left: float | None


def classes_of(engine: Engine) -> dict[str, Retention]:
    """Returns the classes, as ``Database.retention`` does."""
    return {
        one.filter: Retention(
            timedelta(microseconds=one.age_us) if one.age_us else None,
            one.bytes_max or None,
            timedelta(microseconds=one.rotate_us) if one.rotate_us else None,
            one.keep_last or None,
            cast("LayoutName | None", one.layout),
        )
        for one in engine.retention()
    }


def set_classes(
    engine: Engine, retention: Mapping[str, RetentionLike], *, dry_run: bool
) -> Maintained:
    """Replaces the classes, as ``Database.set_retention`` says."""
    return engine.set_retention(retention_classes(retention), dry_run)


def expire(engine: Engine, now: TimeLike | None) -> list[Slab]:
    """Drops what is too old, as ``Database.expire`` says."""
    return engine.expire(_as_if_us(now))


def maintain(engine: Engine, now: TimeLike | None) -> Maintained:
    """Rotates and drops, as ``Database.maintain`` says."""
    return engine.maintain(_as_if_us(now))


def trim(
    engine: Engine, older_than: TimeLike | timedelta, filter: str | None, *, dry_run: bool
) -> Trimmed:
    """Removes old messages, as ``Database.trim`` says."""
    if filter is not None:
        one_filter(filter)
    before = _before_us(older_than)
    gone = engine.trim(before, filter, dry_run)
    return Trimmed(gone.slabs, gone.messages, before)


def usage_of(engine: Engine, by: Literal["class", "generation", "structure"]) -> list[Usage]:
    """Returns what is stored, as ``Database.usage`` says."""
    if by == "structure":
        return [
            Usage(
                retention_class=one.retention_class,
                generation=0,
                messages=one.messages,
                bytes=one.bytes,
                disk_bytes=one.disk_bytes,
                first_timestamp=None,
                last_timestamp=None,
                structure=one.structure,
            )
            for one in engine.usage_by_structure()
        ]
    if by not in ("class", "generation"):
        raise ValueError(f"by: expected 'class', 'generation' or 'structure', got {by!r}")
    groups: dict[tuple[str, int], list[SlabUsage]] = {}
    for one in engine.usage():
        generation = one.slab.generation if by == "generation" else 0
        groups.setdefault((one.slab.retention_class, generation), []).append(one)
    return [_sum(name, generation, items) for (name, generation), items in groups.items()]


def forecast(engine: Engine, now: TimeLike | None) -> Forecast:
    """Returns how fast the files grow, as ``Database.forecast`` says."""
    at = _now_us(now)
    quota_bytes = engine.quota().quota_bytes
    usage = engine.usage()
    disk_bytes = sum(one.disk_bytes for one in usage)
    oldest: dict[tuple[int, str], int] = {}
    sizes: dict[tuple[int, str], int] = {}
    for one in usage:
        chain = one.slab.shard, one.slab.retention_class
        oldest[chain] = min(one.slab.created_at, oldest.get(chain, at))
        sizes[chain] = sizes.get(chain, 0) + one.disk_bytes
    per_day = sum(
        sizes[chain] * _DAY_US / (at - began) for chain, began in oldest.items() if at > began
    )
    left = None
    if quota_bytes and per_day > 0:
        left = max(quota_bytes - disk_bytes, 0) / per_day
    return Forecast(disk_bytes, per_day, left)


def retention_classes(retention: Mapping[str, RetentionLike]) -> list[RetentionClass]:
    """Returns the classes in the order given.

    Raises:
        TypeError: for what is no mapping, SchemaError for limits that cannot be.
    """
    if not isinstance(retention, Mapping):
        raise TypeError(
            "retention: expected a mapping of topic filters to ages or Retention, got "
            f"{type(retention).__name__}"
        )
    try:
        return [_class_of(filter, given) for filter, given in retention.items()]
    except ValueError as error:
        raise SchemaError(str(error)) from None


def parse_retention(text: str, *, what: str) -> Retention:
    """Parses ``"1h,10GiB,rotate:10m,last:5,layout:columnar"``, in any order, each at most once.

    ``"keep"`` sets no limit; a layout may stand beside it.

    Raises:
        ValueError: naming ``what``. A number without a unit is refused: it could be an age or a
            size.
    """
    given: dict[str, Any] = {}
    parts = [part.strip() for part in text.split(",")]
    if parts.count(_KEEP) == 1 and all(p == _KEEP or p.startswith(_LAYOUT) for p in parts):
        parts.remove(_KEEP)
    for part in parts:
        name, value = _limit(part, what)
        if name in given:
            raise ValueError(f"{what}: {name} is given twice in {text!r}")
        given[name] = value
    return Retention(**given)


def _limit(part: str, what: str) -> tuple[str, str | int]:
    if part.startswith(_ROTATE):
        return "rotate", part.removeprefix(_ROTATE)
    if part.startswith(_KEEP_LAST):
        number = part.removeprefix(_KEEP_LAST)
        if not (number.isascii() and number.isdecimal()):
            raise ValueError(f"{what}: {_KEEP_LAST} needs a number of messages, got {number!r}")
        return "keep_last", int(number)
    if part.startswith(_LAYOUT):
        return "layout", part.removeprefix(_LAYOUT)
    if is_duration(part):
        return "age", part
    if is_size(part):
        return "bytes", part
    why = "has no unit" if is_number(part) else "is neither an age nor a size"
    raise ValueError(
        f"{what}: {part!r} {why}; write an age with us, ms, s, m, h, d or w, such as '30d', or a "
        "size with B, kB, MB, GB, TB, KiB, MiB, GiB or TiB, such as '10GiB'"
    )


def _class_of(filter: str, given: RetentionLike) -> RetentionClass:
    what = f"retention[{filter!r}]"
    if isinstance(given, str):
        given = parse_retention(given, what=what)
    if not isinstance(given, Retention):
        given = Retention(given)
    bytes_max = None if given.bytes is None else size_bytes(given.bytes, what=f"{what}: bytes")
    if bytes_max is not None and bytes_max < 1:
        raise ValueError(f"{what}: bytes must be at least 1, or None, got {given.bytes}")
    if given.keep_last is not None and not 1 <= given.keep_last <= KEEP_LAST_MAX:
        raise ValueError(
            f"{what}: keep_last must be from 1 to {KEEP_LAST_MAX:,}, or None, got {given.keep_last}"
        )
    rotate = given.rotate
    return RetentionClass(
        filter=filter,
        age_us=NO_LIMIT if given.age is None else duration_us(given.age, what=what),
        bytes_max=bytes_max or NO_LIMIT,
        rotate_us=NO_LIMIT if rotate is None else duration_us(rotate, what=f"{what}: rotate"),
        keep_last=given.keep_last or NO_LIMIT,
        layout=_layout_of(given.layout, what),
    )


def _layout_of(layout: str | None, what: str) -> str | None:
    if layout is None or layout in LAYOUTS:
        return layout
    raise ValueError(f"{what}: layout: expected 'columnar', 'skipstream' or None, got {layout!r}")


def _as_if_us(now: TimeLike | None) -> int | None:
    return None if now is None else _now_us(now)


def _now_us(now: TimeLike | None) -> int:
    if now is None:
        return now_us()
    check_plausible(now, what="now")
    return time_us(now, what="now")


def _before_us(older_than: TimeLike | timedelta) -> int:
    if isinstance(older_than, timedelta) or is_duration(older_than):
        assert isinstance(older_than, (timedelta, str))
        return max(now_us() - duration_us(older_than, what="older_than"), 0)
    check_plausible(older_than, what="older_than")
    return time_us(older_than, what="older_than")


def _sum(name: str, generation: int, items: list[SlabUsage]) -> Usage:
    slabs = [item.slab for item in items]
    firsts = [slab.first_timestamp for slab in slabs if slab.first_timestamp is not None]
    lasts = [slab.last_timestamp for slab in slabs if slab.last_timestamp is not None]
    return Usage(
        name,
        generation,
        sum(slab.messages for slab in slabs),
        sum(slab.bytes for slab in slabs),
        sum(item.disk_bytes for item in items),
        min(firsts, default=None),
        max(lasts, default=None),
        garbage_bytes=sum(item.garbage_bytes for item in items),
    )
