"""Errors as Flight carries them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow.flight as flight

from topicdb import _core
from topicdb.remote.errors import AccessError, UnavailableError, packed
from topicdb.remote.wire import encode

_logger = logging.getLogger(__name__)


@contextmanager
def as_flight() -> Iterator[None]:
    """Errors travel with all that they say; those that nobody expects are logged as well."""
    try:
        yield
    except flight.FlightError:
        raise
    except Exception as error:
        if not isinstance(error, (_core.Error, ValueError, TypeError, OverflowError)):
            _logger.exception("a call failed")
        raise flight_error(error) from error


def flight_error(error: BaseException) -> Exception:
    """The one that says as much."""
    kind = flight.FlightServerError
    if isinstance(error, AccessError):
        kind = flight.FlightUnauthorizedError
    elif isinstance(error, UnavailableError):
        kind = flight.FlightUnavailableError
    found: Exception = kind(str(error), encode(packed(error)))
    return found
