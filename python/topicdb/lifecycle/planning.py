"""Sizes: how much disk a retention takes, and which quota leaves room beside it.

>>> from topicdb.lifecycle import planning
>>> found = planning.plan(planning.size_bytes("125000MB"), "7d")
>>> found.log_bytes, found.quota_bytes                  # 8 days of it, and that is 0.8 of the quota
(1000000000000, 1250000000000)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta

from topicdb.lifecycle.retention import Age, Retention
from topicdb.sizes import size_bytes as size_bytes
from topicdb.times import duration_us

FILL = 0.8
QUOTA_TRIM = 0.9
SPARE_CYCLES = 1.0

_DAY_US = 86_400 * 1_000_000
ROTATIONS = 8  # of an age, where nothing else is said: what the database does
KEEP_LAST_ROTATE_US = _DAY_US  # where only keep_last is said


@dataclass(frozen=True, slots=True)
class Plan:
    """What a retention takes on disk, and what to open the database with.

    - ``log_bytes``: of files at most, while ``bytes_per_day`` come.
    - ``quota_bytes``, ``quota_trim``: for ``topicdb.open``; ``retention``: of the class.
    - ``trim_bytes``: from there on the oldest go before their age; None: never.
    - ``reserve_days``: of messages that may come beyond what was planned, before that happens.
    - ``generations``: that a shard has at most.
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
    """The disk that messages of ``bytes_per_day`` take when they are kept for ``age``.

    They go by generations, which last for ``rotate``: the oldest message is up to age + rotate old
    when its generation goes. So that long, the log grows:

        log = bytes_per_day * (age + spare_cycles * rotate)      quota = log / fill

    - ``bytes_per_day``: of files, that is compressed.
    - ``rotate``: by default a day, or an eighth of ``age`` if that is longer or ``age`` is less.
    - ``spare_cycles``: 1 is what the last generation needs; more leaves room for busy days.
    - ``fill``: the part of the quota that the log may take. ``quota_trim``: as of ``topicdb.open``.

    ValueError: a number that makes no sense, naming it.
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
    """What messages take on disk in a day.

    - ``message_bytes``: of topic and value.
    - ``disk_factor``: bytes on disk for each of those; 1 for what does not compress. ``disk_bytes``
      by ``bytes`` of ``Database.usage`` is what it is in a database.
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
