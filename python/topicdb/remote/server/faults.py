"""Turns errors into those of Flight, and logs those that are not expected."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow.flight as flight

from topicdb import _core
from topicdb._core import UnavailableError
from topicdb.errors import AccessError
from topicdb.remote.errors import packed, short
from topicdb.remote.wire import encode

_logger = logging.getLogger(__name__)
_EXPECTED = (
    _core.Error,
    ValueError,
    TypeError,
    OverflowError,
    NotImplementedError,
    ImportError,
)
_LOG_INTERVAL_S = 10.0


class Faults:
    """Turns errors into those of Flight, and logs those that are not expected. Thread-safe.

    The log gets at most one line in ten seconds for each place in the code, so a client that causes
    an error again and again does not fill it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._log_at: dict[str, float] = {}
        self._untold: dict[str, int] = {}

    @contextmanager
    def as_flight(self, method: str) -> Iterator[None]:
        """Raises errors of the block as errors of Flight, which carry all that they say."""
        try:
            yield
        except flight.FlightError:
            raise
        except Exception as error:
            if not isinstance(error, _EXPECTED):
                self._log(method, error)
            raise flight_error(error) from None

    def _log(self, method: str, error: Exception) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "nowhere"
        now = time.monotonic()
        with self._lock:
            if now < self._log_at.get(place, now):
                self._untold[place] = self._untold.get(place, 0) + 1
                return
            self._log_at[place] = now + _LOG_INTERVAL_S
            untold = self._untold.pop(place, 0)
        more = f" ({untold} more since the last line)" if untold else ""
        text = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        _logger.error("%s failed at %s: %s%s", method[:100], place, text, more)


def flight_error(error: BaseException) -> Exception:
    """Returns the error of Flight that fits ``error`` best, with ``error`` in its details.

    A long text is cut, and so are lists of conflicts and failures; see ``errors.short``.
    """
    kind = flight.FlightServerError
    if isinstance(error, AccessError):
        kind = flight.FlightUnauthorizedError
    elif isinstance(error, UnavailableError):
        kind = flight.FlightUnavailableError
    told = short(packed(error))
    found: Exception = kind(told["text"], encode(told))
    return found
