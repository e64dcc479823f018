"""The options of a forwarder, and their checks."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypeAlias

from topicdb.arguments.times import timeout_us
from topicdb.arguments.wrong_types import wrong_type
from topicdb.forward.sink import PermanentError

Seconds: TypeAlias = "float | timedelta"
Poison: TypeAlias = "Literal['stop', 'drop'] | Callable[[list[bytes], PermanentError], object]"
OnError: TypeAlias = Callable[[Exception], object]
_COUNT_MAX = (1 << 63) - 1


@dataclass(frozen=True)
class Options:
    """The options of a ``Forwarder``; durations are in seconds."""

    batch_count: int
    batch_bytes: int
    in_flight_max: int
    retry_min: float
    retry_max: float
    retry_jitter: float
    confirm_timeout: float | None
    stop_timeout: float
    poison: Poison
    on_error: OnError | None

    def __post_init__(self) -> None:
        for name in ("batch_count", "batch_bytes", "in_flight_max"):
            _check_count(name, getattr(self, name))
        if not 0 < self.retry_min <= self.retry_max:
            raise ValueError(
                f"0 < retry_min <= retry_max is needed, got {self.retry_min} and {self.retry_max}"
            )
        if not 0 <= self.retry_jitter <= 1:
            raise ValueError(f"retry_jitter: expected 0 to 1, got {self.retry_jitter}")
        if self.poison not in ("stop", "drop") and not callable(self.poison):
            raise ValueError(f"poison: expected 'stop', 'drop' or a function, got {self.poison!r}")
        if self.on_error is not None and not callable(self.on_error):
            raise wrong_type("on_error", "a function or None", self.on_error)

    def pause(self, failures: int) -> float:
        """Returns the seconds to wait after ``failures`` failed attempts in a row (at least 1)."""
        doublings = min(failures - 1, 60)  # more would overflow a float
        longest: float = min(self.retry_max, self.retry_min * 2.0**doublings)
        return longest * (1 - self.retry_jitter * random.random())


def _check_count(name: str, value: object) -> None:
    """Raises TypeError or ValueError for what the queue would refuse again and again."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(name, "int", value)
    if not 1 <= value <= _COUNT_MAX:
        raise ValueError(f"{name} must be at least 1 and less than 2**63, got {value}")


def seconds(value: Seconds | None, what: str) -> float | None:
    """Returns a duration in seconds; None is for ever. Raises ValueError, naming ``what``."""
    us = timeout_us(value, what=what)
    return None if us is None else us / 1_000_000


def finite_seconds(value: Seconds, what: str) -> float:
    """Returns a duration in seconds. Raises ValueError, naming ``what``, also for None."""
    result = seconds(value, what)
    if result is None:
        raise ValueError(f"{what}: expected seconds, got None")
    return result
