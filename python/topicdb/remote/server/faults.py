"""Errors as Flight carries them, and what the log tells of those that nobody expects."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow.flight as flight

from topicdb import _core
from topicdb.errors import AccessError, UnavailableError
from topicdb.remote.errors import packed
from topicdb.remote.wire import encode

_logger = logging.getLogger(__name__)
_EXPECTED = (_core.Error, ValueError, TypeError, OverflowError, NotImplementedError)
_LOG_INTERVAL_S = 10.0


class Faults:
    """Makes errors Flight's. Thread-safe.

    The log gets a line of each that nobody expects, but of the same place one in ten seconds: what
    a client sends again and again does not fill it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._log_at: dict[str, float] = {}
        self._untold: dict[str, int] = {}

    @contextmanager
    def as_flight(self, method: str) -> Iterator[None]:
        """Errors travel with all that they say."""
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
    """The one that says as much."""
    kind = flight.FlightServerError
    if isinstance(error, AccessError):
        kind = flight.FlightUnauthorizedError
    elif isinstance(error, UnavailableError):
        kind = flight.FlightUnavailableError
    found: Exception = kind(str(error), encode(packed(error)))
    return found
