"""What a group lends to its members: parts, and what was given of them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from topicdb.follow.positions import Place
from topicdb.follow.subscription import Subscription

if TYPE_CHECKING:
    from topicdb.follow.member import Member


class Part:
    """A part of a group: the messages of all topics with this hash. At most one member has it."""

    def __init__(self, number: int, places: dict[int, Place]) -> None:
        self.number = number
        self.places = places  # everything before them is acknowledged
        self.lease: Lease | None = None


class Given(NamedTuple):
    """Messages that were given and are not acknowledged.

    ``is_done``: all of them have expired, so none needs an acknowledgement.
    """

    seqno: int
    shard: int
    next: Place
    is_done: bool


class Lease:
    """A part while a member has it. All of it is used with the lock of the group held."""

    def __init__(self, part: Part, member: Member, subscription: Subscription) -> None:
        self.part = part
        self.member = member
        self.subscription = subscription
        self.given: deque[Given] = deque()  # given and not acknowledged
        self.revoked_at: float | None = None  # when the part was asked back; it gives nothing since
        self.ended = False

    @property
    def number(self) -> int:
        return self.part.number

    def settle(self, seqno: int) -> None:
        """Acknowledges what was given up to ``seqno``, and what follows it and needs no work."""
        while self.given and (self.given[0].seqno <= seqno or self.given[0].is_done):
            done = self.given.popleft()
            known = self.part.places.get(done.shard, done.next)
            self.part.places[done.shard] = max(known, done.next)
            seqno = max(seqno, done.seqno)
        if not self.ended and seqno > 0:
            self.subscription.ack(seqno)

    def pass_by(self) -> None:
        """Moves the places past messages of other parts, if all that it gave is acknowledged."""
        if not self.given and not self.subscription.closed:
            self.part.places.update(self.subscription.info()["places"])
