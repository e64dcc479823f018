"""The pace of a replay: as the messages came, faster, slower, or by messages a second."""

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
    """The speed of a replay.

    Without ``factor`` and ``per_s`` a replay is as fast as it can be. At most one of them is set.

    Attributes:
        factor: the replay is this many times as fast as the messages came.
        per_s: messages a second.
    """

    factor: float | None = None
    per_s: float | None = None

    def __str__(self) -> str:
        if self.factor is not None:
            return f"{self.factor:g}x"
        return "max" if self.per_s is None else f"{self.per_s:g}/s"


def parse_rate(text: str | float | None) -> Rate:
    """Returns the rate that ``text`` stands for.

    ``"10x"`` is ten times as fast as the messages came. ``"500/s"``, ``"500"`` and the number 500
    are messages a second. ``"max"`` and None are as fast as possible.

    Raises ValueError if the text or number is no such rate, and TypeError for other types.
    """
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
    """Tells how many messages may go now. Not thread-safe: its owner locks it.

    With a factor, the first message goes at once. Each later one goes when the time between both
    timestamps, divided by the factor, has passed; so a replay that is late catches up. A message
    that is older than one before it goes together with that one.

    With messages a second, as many as belong to 50 ms may go at once.
    """

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._paused_at: float | None = None
        self._origin_us: int | None = None  # a message of this timestamp goes at _origin_at
        self._origin_at = 0.0
        self._last_us = 0  # the greatest timestamp that has gone; it went at _last_at
        self._last_at = 0.0
        self._tokens_at = clock()
        self._tokens = self._burst

    @property
    def rate(self) -> Rate:
        """The rate that it keeps to."""
        return self._rate

    @property
    def _burst(self) -> float:
        return max(1.0, _BURST_S * (self._rate.per_s or 0.0))

    def allowed(self, timestamps: npt.NDArray[np.int64]) -> tuple[int, float]:
        """Returns how many of the next messages may go now, and the seconds until more may go.

        ``timestamps``: those of the next messages, in their order. Messages that may go are the
        first ones, and count as gone. The seconds are 0.0 if all may go. They are at most an hour
        (``WAIT_MAX_S``), and always that during a pause; the caller then asks again.
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
        # 1e-9: a thousand thousandths of a token may add up to a little less than one.
        allowed = min(count, int(self._tokens + 1e-9))
        self._tokens -= allowed
        return allowed, 0.0 if allowed == count else _bounded((1 - self._tokens) / per_s)

    def due_s(self, timestamp: int) -> float:
        """Returns the seconds until a message of this timestamp may go.

        Returns 0.0 without a factor, and if nothing has gone yet.
        """
        if self._rate.factor is None or self._origin_us is None:
            return 0.0
        now = self._clock() if self._paused_at is None else self._paused_at
        due_at = self._origin_at + (timestamp - self._origin_us) / 1e6 / self._rate.factor
        return max(0.0, due_at - now)

    def pause(self) -> None:
        """Lets nothing go until ``resume``. During a pause it does nothing."""
        if self._paused_at is None:
            self._paused_at = self._clock()

    def resume(self) -> None:
        """Goes on as if there had been no pause. Without a pause it does nothing."""
        if self._paused_at is None:
            return
        now = self._clock()
        self._origin_at += now - self._paused_at
        self._last_at += now - self._paused_at
        self._tokens_at += max(0.0, now - max(self._paused_at, self._tokens_at))
        self._paused_at = None

    def set_rate(self, rate: Rate) -> None:
        """Keeps to this rate from now on.

        The difference between now and the next message's timestamp, in stored time, stays the same
        if both rates have a factor.
        """
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
        """Lets the next message go at once, with a factor, as what follows is from elsewhere."""
        self._origin_us = None


def _bounded(wait_s: float) -> float:
    return min(max(wait_s, _WAIT_MIN_S), WAIT_MAX_S)
