"""How fast messages are replayed: as they came, faster, slower, or so many a second."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

WAIT_MAX_S = 3600.0
_BURST_S = 0.05
_WAIT_MIN_S = 1e-6
_TIME_MAX = (1 << 63) - 1
_RATE = re.compile(r"(\d+\.?\d*|\.\d+)\s*(x|/s)?", re.IGNORECASE)


class Rate(NamedTuple):
    """Of a replay: ``factor`` times as fast as it was, or messages ``per_s``; without both, as fast
    as it goes."""

    factor: float | None = None
    per_s: float | None = None

    def __str__(self) -> str:
        if self.factor is not None:
            return f"{self.factor:g}x"
        return "max" if self.per_s is None else f"{self.per_s:g}/s"


def parse_rate(text: str | float | None) -> Rate:
    """``"10x"``, ``"500/s"`` or a number (messages a second), ``"max"`` or None. ValueError."""
    if isinstance(text, str):
        return _parse(text)
    if text is None:
        return Rate()
    if isinstance(text, bool) or not isinstance(text, (int, float)):
        raise TypeError(f"rate: expected text, a number or None, got {type(text).__name__}")
    return Rate(per_s=_checked(float(text), text))


def _parse(text: str) -> Rate:
    word = text.strip().lower()
    if word == "max":
        return Rate()
    match = _RATE.fullmatch(word)
    number = _checked(float(match[1]) if match else math.nan, text)
    return Rate(factor=number) if match and match[2] == "x" else Rate(per_s=number)


def _checked(number: float, given: object) -> float:
    if not 0 < number < math.inf:
        raise ValueError(
            f"rate: {given!r} is no rate; write '1x' (as it was), '10x' or '0.5x', messages a "
            "second such as '500/s', or 'max'"
        )
    return number


class Pacer:
    """Tells how many messages may go now. Not thread-safe.

    With a factor the first message goes at once, and each later one after the time between their
    timestamps, divided by the factor: whoever was late catches up. A message that is older than one
    before it goes with that. With messages a second, up to 50 ms' worth may go at once.
    """

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._paused_at: float | None = None
        self._origin_us: int | None = None  # this timestamp goes at _origin_at
        self._origin_at = 0.0
        self._last_us = 0  # the greatest that has gone, at _last_at
        self._last_at = 0.0
        self._tokens_at = clock()
        self._tokens = self._burst

    @property
    def rate(self) -> Rate:
        """What it keeps to."""
        return self._rate

    @property
    def _burst(self) -> float:
        return max(1.0, _BURST_S * (self._rate.per_s or 0.0))

    def allowed(self, timestamps: npt.NDArray[np.int64]) -> tuple[int, float]:
        """How many of these, which come next, may go now, from the first on; they count as gone.

        And seconds until the next may: 0.0 if all may go; at most an hour (``WAIT_MAX_S``), as
        always during a pause: then ask again.
        """
        if len(timestamps) == 0:
            return 0, 0.0
        if self._paused_at is not None:
            return 0, WAIT_MAX_S
        if self._rate.factor is not None:
            return self._allowed_by_time(timestamps, self._rate.factor)
        if self._rate.per_s is not None:
            return self._allowed_by_count(len(timestamps), self._rate.per_s)
        return len(timestamps), 0.0

    def _allowed_by_time(
        self, timestamps: npt.NDArray[np.int64], factor: float
    ) -> tuple[int, float]:
        now = self._clock()
        if self._origin_us is None:
            self._origin_us, self._origin_at = int(timestamps[0]), now
            self._last_us = self._origin_us
        passed_us = min((now - self._origin_at) * 1e6 * factor, float(_TIME_MAX))
        limit_us = min(self._origin_us + round(passed_us), _TIME_MAX)
        is_early = timestamps > limit_us
        first_early = int(is_early.argmax())
        count = first_early if is_early[first_early] else len(timestamps)
        if count > 0:
            self._last_us = max(self._last_us, int(timestamps[:count].max()))
            self._last_at = now
        if count == len(timestamps):
            return count, 0.0
        due_s = (int(timestamps[count]) - self._origin_us) / 1e6 / factor
        return count, _bounded(self._origin_at + due_s - now)

    def _allowed_by_count(self, count: int, per_s: float) -> tuple[int, float]:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._tokens_at) * per_s)
        self._tokens_at = now
        allowed = min(count, int(self._tokens + 1e-9))  # a thousandth of a second adds up to one
        self._tokens -= allowed
        return allowed, 0.0 if allowed == count else _bounded((1 - self._tokens) / per_s)

    def due_s(self, timestamp: int) -> float:
        """Seconds until a message of this timestamp may go; 0.0 without a factor, or if nothing has
        gone yet."""
        if self._rate.factor is None or self._origin_us is None:
            return 0.0
        now = self._clock() if self._paused_at is None else self._paused_at
        due_at = self._origin_at + (timestamp - self._origin_us) / 1e6 / self._rate.factor
        return max(0.0, due_at - now)

    def pause(self) -> None:
        """Nothing may go until ``resume``. May be repeated."""
        if self._paused_at is None:
            self._paused_at = self._clock()

    def resume(self) -> None:
        """Goes on as if the pause had not been. May be repeated."""
        if self._paused_at is None:
            return
        now = self._clock()
        self._origin_at += now - self._paused_at
        self._last_at += now - self._paused_at
        self._tokens_at += max(0.0, now - max(self._paused_at, self._tokens_at))
        self._paused_at = None

    def set_rate(self, rate: Rate) -> None:
        """From now on: the next message is as far away in stored time as it was."""
        now = self._clock() if self._paused_at is None else self._paused_at
        if self._origin_us is not None and self._rate.factor is not None:
            passed_us = min((now - self._last_at) * 1e6 * self._rate.factor, float(_TIME_MAX))
            self._origin_us = min(self._last_us + round(passed_us), _TIME_MAX)
            self._origin_at = now
            self._last_us, self._last_at = self._origin_us, now
        if rate.factor is None:
            self._origin_us = None
        self._rate = rate
        self._tokens = min(self._tokens, self._burst)
        self._tokens_at = max(self._tokens_at, now)

    def restart(self) -> None:
        """What comes next is from elsewhere: its first message goes at once."""
        self._origin_us = None


def _bounded(wait_s: float) -> float:
    return min(max(wait_s, _WAIT_MIN_S), WAIT_MAX_S)
