"""Reading until nothing more is stored: a wait that ends without a message may be too short."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from typing import Any, TypeVar

Given = TypeVar("Given", bound=Sized)

WAIT_S = 0.1  # at a time


def is_settled(subscription: Any) -> bool:
    """Whether a subscription has given all that is stored, or waits for an acknowledgement."""
    state = subscription.info()["state"]
    return state in ("full", "failed", "closed") or subscription.lag() == 0


def all_given(
    poll: Callable[[float], Given], settled: Callable[[], bool], last_wait_s: float = 0
) -> Iterator[Given]:
    """What ``poll(timeout)`` gives until ``settled()`` was true before a call that gave nothing.

    That call waits for ``last_wait_s``: for what should not come.
    """
    while True:
        is_last = settled()
        given = poll(last_wait_s if is_last else WAIT_S)
        if len(given) > 0:
            yield given
        elif is_last:
            return


def batches_of(consumer: Any) -> Iterator[Any]:
    """The batches of a consumer, until there are no more."""
    return all_given(
        lambda wait: consumer.poll(timeout=wait), lambda: is_settled(consumer._subscription)
    )


def batches_of_member(member: Any) -> Iterator[Any]:
    """The batches of a group's member, until its parts have no more."""
    return all_given(
        lambda wait: member.poll(timeout=wait),
        lambda: all(is_settled(lease.subscription) for lease in member._leases),
    )


def packets_of(session: Any, count: int, last_wait_s: float = 0) -> Iterator[Any]:
    """The packets of a session, until there are no more or it may have no more in flight.

    ``last_wait_s`` is as of ``all_given``.
    """

    def settled() -> bool:
        with session._lock:
            subscription = session._subscribed()
        is_full = len(session.in_flight) >= session._receive_maximum
        return is_full or subscription is None or is_settled(subscription)

    return all_given(lambda wait: session.poll(count, timeout=wait), settled, last_wait_s)
