"""Knows which messages at an endpoint have expired, by the expiry interval of MQTT 5."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from topicdb import _core
from topicdb.arguments.times import now_us
from topicdb.follow.positions import Place
from topicdb.mqtt.envelope import Envelope
from topicdb.mqtt.expiry import expires_at_us
from topicdb.replay.endpoint.spool import WAITING, Held, Lent, Spool
from topicdb.replay.records import EndpointRecord
from topicdb.types import Message

Accepts: TypeAlias = Callable[[Held, int], bool]
LOOK_S = 0.1  # it looks for expired messages at most this often


class Expiry:
    """Finds the messages of one endpoint that have expired before a client was given them.

    It regards live messages of an endpoint whose ``expired`` is "remove": a replay is asked for
    what was, and brings expired messages, too. The endpoint's ``Contents`` own this object, which
    notes in each chunk when its messages expire. Not thread-safe: the endpoint's lock is held.
    """

    def __init__(self, record: EndpointRecord, now: Callable[[], int] = now_us) -> None:
        self._record = record
        self._now_us = now
        self._first_us: int | None = None  # nothing that waits expires before this

    def note(self, held: Held, live_from: Place) -> None:
        """Notes when the live messages of a chunk expire."""
        if self._record.expired != "remove":
            return
        batch = held.stored.batch
        if batch.read_as("payload") is batch:  # no message in it has properties
            return
        found: dict[int, int] = {}
        for index, owner in enumerate(held.owners):
            if owner == WAITING and held.place(index) >= live_from:
                end_us = _end_of(held.message(index))
                if end_us is not None:
                    found[index] = end_us
        if found:
            held.expires = found
            first = min(found.values())
            self._first_us = first if self._first_us is None else min(self._first_us, first)

    def note_all(self, spool: Spool, live_from: Place) -> None:
        """Notes when the messages of all chunks expire, as the endpoint's rule has changed."""
        self._first_us = None
        for held in spool.chunks():
            held.expires = None
            self.note(held, live_from)

    def accepts(self, also: Accepts | None) -> Accepts | None:
        """Returns a function that tells whether a message may be given, or None if any may.

        It may not if it has expired, or if ``also`` does not accept it.
        """
        if self._first_us is None or self._first_us > (now := self._now_us()):
            return also

        def may_be_given(held: Held, index: int) -> bool:
            return not _is_over(held, index, now) and (also is None or also(held, index))

        return may_be_given

    def over(self, spool: Spool) -> list[Lent]:
        """Returns the messages that have expired and wait for a client, by chunk."""
        now = self._now_us()
        if self._first_us is None or self._first_us > now:
            return []
        lents: list[Lent] = []
        ends: list[int] = []  # also of those that are returned, until they are gone
        for held in spool.chunks():
            waiting = {i: end for i, end in held.expiring() if held.owners[i] == WAITING}
            ends += waiting.values()
            indexes = [index for index, end_us in waiting.items() if end_us <= now]
            if indexes:
                lents.append(Lent(held, indexes, held.stored))
        self._first_us = min(ends, default=None)
        return lents

    def given_back(self) -> None:
        """Notes that messages wait again that a client had: they may have expired meanwhile."""
        if self._record.expired == "remove":
            self._first_us = 0

    def wait_s(self) -> float | None:
        """Returns after how many seconds to look again, or None if nothing here can expire."""
        if self._first_us is None:
            return None
        return max(LOOK_S, (self._first_us - self._now_us()) / 1e6)


def _is_over(held: Held, index: int, now_us: int) -> bool:
    end_us = None if held.expires is None else held.expires.get(index)
    return end_us is not None and end_us <= now_us


def _end_of(message: Message) -> int | None:
    if not message.value.startswith(_core.ENVELOPE_MAGIC):
        return None
    envelope = Envelope.decode(message.value)
    return None if envelope is None else expires_at_us(envelope, message.timestamp)
