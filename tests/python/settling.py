"""Reads until nothing more is stored; a wait that gave no message may have been too short."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from typing import Any, TypeVar

Given = TypeVar("Given", bound=Sized)

WAIT_S = 0.1  # for one call


def is_settled(subscription: Any) -> bool:
    """Returns whether a subscription has given all that it can give without an acknowledgement."""
    state = subscription.info()["state"]
    return state in ("full", "failed", "closed") or subscription.lag() == 0


def all_given(
    poll: Callable[[float], Given], settled: Callable[[], bool], last_wait_s: float = 0
) -> Iterator[Given]:
    """Yields what ``poll(timeout)`` gives, until ``settled()`` is true and ``poll`` gives nothing.

    Once ``settled()`` is true, ``poll`` waits for ``last_wait_s``, for items that should not come.
    """
    while True:
        is_last = settled()
        given = poll(last_wait_s if is_last else WAIT_S)
        if len(given) > 0:
            yield given
        elif is_last:
            return


def batches_of(consumer: Any) -> Iterator[Any]:
    """Yields the batches of a consumer, until there are no more."""
    return all_given(
        lambda wait: consumer.poll(timeout=wait), lambda: is_settled(consumer._subscription)
    )


def batches_of_member(member: Any) -> Iterator[Any]:
    """Yields the batches of a group's member, until its parts have no more."""
    return all_given(
        lambda wait: member.poll(timeout=wait),
        lambda: all(is_settled(lease.subscription) for lease in member._leases),
    )


def packets_of(session: Any, count: int, last_wait_s: float = 0) -> Iterator[Any]:
    """Yields the packets of a session, until there are no more or it may have no more in flight.

    ``last_wait_s`` means what it means for ``all_given``.
    """

    def settled() -> bool:
        with session._lock:
            subscription = session._subscribed()
        is_full = len(session.in_flight) >= session._receive_maximum
        return is_full or subscription is None or is_settled(subscription)

    return all_given(lambda wait: session.poll(count, timeout=wait), settled, last_wait_s)
