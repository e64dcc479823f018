"""Planning: how much disk a retention takes, and which quota leaves room beside it.

>>> from topicdb.lifecycle import planning
>>> found = planning.plan(planning.size_bytes("125000MB"), "7d")
>>> found.log_bytes, found.quota_bytes                  # 8 days of it, and that is 0.8 of the quota
(1000000000000, 1250000000000)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta

from topicdb.arguments.sizes import size_bytes as size_bytes
from topicdb.arguments.times import duration_us
from topicdb.lifecycle.retention import Age, Retention

FILL = 0.8
QUOTA_TRIM = 0.9
SPARE_CYCLES = 1.0

_DAY_US = 86_400 * 1_000_000
ROTATIONS = 8  # generations of an age, unless rotate is given: as the database does it
KEEP_LAST_ROTATE_US = _DAY_US  # of a class that has only keep_last


@dataclass(frozen=True, slots=True)
class Plan:
    """The size of a retention on disk, and the options to open the database with.

    - ``bytes_per_day``: as given to ``plan``.
    - ``retention``: of the class. ``quota_bytes``, ``quota_trim``: for ``topicdb.open``.
    - ``log_bytes``: the most bytes of files, while ``bytes_per_day`` come.
    - ``trim_bytes``: from here on the oldest messages are dropped before their age; None: never.
    - ``reserve_days``: how many days of messages may come beyond the plan before that happens.
    - ``generations``: the most generations of a shard.
    """

    bytes_per_day: float
    retention: Retention
    log_bytes: int
    quota_bytes: int
    quota_trim: float | None
    trim_bytes: int | None
    reserve_days: float
    generations: int


def plan(
    bytes_per_day: float,
    age: Age,
    *,
    rotate: Age | None = None,
    spare_cycles: float = SPARE_CYCLES,
    fill: float = FILL,
    quota_trim: float | None = QUOTA_TRIM,
) -> Plan:
    """Returns the disk that messages of ``bytes_per_day`` take when they are kept for ``age``.

    Messages are dropped by generations, which last for ``rotate``: the oldest message is up to
    age + rotate old when its generation is dropped. Until then, the log grows:

        log = bytes_per_day * (age + spare_cycles * rotate)      quota = log / fill

    - ``bytes_per_day``: bytes of files, that is, compressed.
    - ``rotate``: by default a day; or an eighth of ``age``, if that is longer, or if ``age`` is
      less than a day.
    - ``spare_cycles``: 1 is what the last generation needs; more leaves room for busy days.
    - ``fill``: the part of the quota that the log may take. ``quota_trim``: as in ``topicdb.open``.

    Raises ValueError for a number that makes no sense, naming it.
    """
    age_us = duration_us(age, what="age")
    rotate_us = _rotate_us(age_us) if rotate is None else duration_us(rotate, what="rotate")
    if not (bytes_per_day > 0 and math.isfinite(bytes_per_day)):
        raise ValueError(f"bytes_per_day: expected more than 0, got {bytes_per_day}")
    if not (spare_cycles >= 1 and math.isfinite(spare_cycles)):
        raise ValueError(f"spare_cycles: expected 1 or more, got {spare_cycles}")
    if quota_trim is not None and not 0 < quota_trim <= 1:
        raise ValueError(f"quota_trim: expected a part of the quota, up to 1, got {quota_trim}")
    limit = 1.0 if quota_trim is None else quota_trim
    if not 0 < fill <= limit:
        raise ValueError(
            f"fill: expected more than 0 and at most {limit}, from where on the oldest go (or "
            f"nothing is stored any more), got {fill}"
        )
    log = bytes_per_day * (age_us + spare_cycles * rotate_us) / _DAY_US
    quota = log / fill
    if not math.isfinite(quota):
        raise ValueError("bytes_per_day, age, spare_cycles: so many bytes cannot be counted")
    return Plan(
        bytes_per_day=bytes_per_day,
        retention=Retention(
            timedelta(microseconds=age_us), None, timedelta(microseconds=rotate_us)
        ),
        log_bytes=round(log),
        quota_bytes=round(quota),
        quota_trim=quota_trim,
        trim_bytes=None if quota_trim is None else round(quota * quota_trim),
        reserve_days=(quota * limit - log) / bytes_per_day,
        generations=math.ceil(age_us / rotate_us) + 1,
    )


def bytes_per_day(
    messages_per_second: float, message_bytes: float, disk_factor: float = 1.0
) -> float:
    """Returns how many bytes messages take on disk in a day.

    - ``message_bytes``: of topic and value.
    - ``disk_factor``: bytes on disk for each of those; 1 for messages that do not compress. In an
      existing database it is ``disk_bytes`` divided by ``bytes`` of ``Database.usage``.

    Raises ValueError for a number that is not above zero, naming it.
    """
    factors = {
        "messages_per_second": messages_per_second,
        "message_bytes": message_bytes,
        "disk_factor": disk_factor,
    }
    for name, value in factors.items():
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{name}: expected more than 0, got {value}")
    return messages_per_second * message_bytes * disk_factor * 86_400


def _rotate_us(age_us: int) -> int:
    eighth = max(age_us // ROTATIONS, 1)
    return max(eighth, _DAY_US) if age_us >= _DAY_US else eighth
