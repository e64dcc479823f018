"""A warning in the log when the timestamps that a database assigns are ahead of the clock."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from threading import Lock

from topicdb.engine import Engine

AHEAD_US = 60 * 1_000_000
"""Less is no news: clocks are adjusted all the time, and many messages at once run ahead."""
TELL_EVERY_S = 3_600.0

_log = logging.getLogger(__name__)
_lock = Lock()
_told_at: dict[str, float] = {}


def tell_of_clock(core: Engine) -> None:
    """Warns in the log if timestamps are ahead of the clock; once an hour for each database.

    To be called after appends. Thread-safe.
    """
    ahead_us = core.clock_ahead_us
    if ahead_us <= AHEAD_US:
        return
    now = time.monotonic()
    with _lock:
        if now - _told_at.get(core.path, -TELL_EVERY_S) < TELL_EVERY_S:
            return
        _told_at[core.path] = now
    _log.warning(
        "%s: the clock stepped back: timestamps that are assigned are %s ahead of it, and stay "
        "increasing; rotate(reset_clock=True) has them go on from what it shows now",
        core.path,
        timedelta(seconds=ahead_us // 1_000_000),
    )
