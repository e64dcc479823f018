"""Reads that must see commits, at the first of several servers that does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from topicdb._core import NoQuorumError, StaleError, UnavailableError
from topicdb.arguments.at_least import Needs
from topicdb.remote.client.connection import Connection

COMMITS_WAIT_US = 500_000
"""A server waits for commits at most this long in a call, so that Ctrl-C has to wait no longer.
What was acknowledged it has to find out anew in each call, so there it waits for as long as it may.
"""

_PAUSE_S = 0.02  # for servers that say at once that they do not see it

Asked: TypeAlias = "tuple[dict[int, int] | None, int]"
"""What a call gives the server: what its read must see, and how long the server may wait, in µs."""
Read = TypeVar("Read")


def begin_where_seen(
    connection: Connection, needs: Needs, begin: Callable[[Connection, Asked], Read]
) -> Read:
    """Returns what ``begin`` returns at the first server that sees what a read needs.

    If one does not in its part of the time, the next one is asked, and so on around: each of them
    once at least, until the time is over. What is open at ``connection`` stays there, since others
    have connections of their own. Raises the error of the last one that has answered.
    """
    give_up_at = time.monotonic() + needs.timeout_us / 1e6
    asking: list[Callable[[], Connection]] = [lambda: connection, *connection.others()]
    told: UnavailableError | None = None
    while True:
        for left, server in zip(range(len(asking), 0, -1), list(asking), strict=True):
            wait_us = max(0, round((give_up_at - time.monotonic()) * 1e6)) // left
            if needs.serials is not None:
                wait_us = min(wait_us, COMMITS_WAIT_US)
            try:
                return begin(server(), (needs.serials, wait_us))
            except (StaleError, NoQuorumError) as error:
                told = error
            except UnavailableError as error:
                asking.remove(server)
                if not asking:
                    raise told or error from None
        left_s = give_up_at - time.monotonic()
        if left_s <= 0:
            assert told is not None
            raise told
        time.sleep(min(_PAUSE_S, left_s))
