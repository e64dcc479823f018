"""Members of groups: each reads the parts of a group that are lent to it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from topicdb import _core
from topicdb._core import Batch
from topicdb.arguments.forms import Form
from topicdb.arguments.times import now_us, timeout_us
from topicdb.closing import Closing
from topicdb.follow.leases import Given, Lease
from topicdb.mqtt.expiry import without_expired

if TYPE_CHECKING:
    from topicdb.follow.group import Group

_ALL = (1 << 63) - 1


class Member(Closing):
    """A member of a group; made by ``Group.join``.

    Like a ``Consumer``: iterate it or call ``poll``, and ``ack`` what is done. One thread at a time
    may use it; another may close it.
    """

    def __init__(self, group: Group, name: str, now: float, form: Form = "payload") -> None:
        self._group = group
        self._form = form
        self._name = name
        self._seen_at = now
        self._gone = False
        self._left = False
        self._leases: list[Lease] = []
        self._tokens = _core.ReadyTokens()
        self._batches: WeakKeyDictionary[Batch, tuple[Lease, int]] = WeakKeyDictionary()

    @property
    def name(self) -> str:
        """The name of the member, unique in the group."""
        return self._name

    @property
    def parts(self) -> list[int]:
        """The numbers of the parts that it has."""
        with self._group._lock:
            return sorted(lease.number for lease in self._leases)

    def heartbeat(self) -> None:
        """Says that the member is alive, while long work keeps it from polling and acknowledging.

        Raises:
            ConflictError: it was silent for too long; see ``poll``.
        """
        with self._group._lock:
            self._check()
            self._seen_at = self._group._clock()
            self._group._drop_silent()
            self._group._balance()

    def poll(self, rows: int = 1_000, timeout: float | timedelta | None = 1.0) -> Batch:
        """Returns the next messages of one part.

        Arguments:
            rows: the most messages.
            timeout: how many seconds to wait; None: for ever.

        Returns:
            The batch. It is empty if nothing comes in time, or when another thread closes the
            member.

        Raises:
            ConflictError: the member was silent for too long and lost its parts: join again.
            LossError: messages were dropped before the group had them (``on_loss="raise"``); the
                next call continues behind them.
            SchemaError: all of its parts have come to a generation that keeps no commit log, behind
                everything before it.
            ClosedError: the member or the group is closed.
        """
        if rows < 1:
            raise ValueError(f"rows must be at least 1, got {rows}")
        wait_us = timeout_us(timeout)
        with self._group._lock:
            self._check()
        batch = self._poll(None if wait_us is None else wait_us / 1e6, rows)
        return _core.empty_batch() if batch is None else batch

    def _poll(self, timeout_s: float | None, rows: int) -> Batch | None:
        """Returns the next messages, or None if none come in time or the member is closed."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            with self._group._lock:
                if self._has_ended():
                    return None
                self.heartbeat()
                batch, has_more = self._take(rows)
                if batch is not None:
                    return batch
            if has_more and (end is None or time.monotonic() < end):
                continue
            wait = self._group._timeout_s / 4
            if end is not None:
                wait = min(wait, end - time.monotonic())
                if wait <= 0:
                    return None
            self._tokens.take(round(wait * 1e6))

    def _take(self, rows: int) -> tuple[Batch | None, bool]:
        """Returns the next messages of a part; and, if it found none, whether to try again.

        A part that comes to a generation without a log has a SchemaError. Parts come there one by
        one, so this raises it when all of them have.
        """
        has_more = False
        gap: _core.SchemaError | None = None
        is_behind = False  # whether a part has not come to the gap
        for number, lease in enumerate(self._leases):
            if lease.revoked_at is not None:
                continue
            try:
                delivery = lease.subscription._next(0, rows)
            except _core.SchemaError as error:
                gap = error
                continue
            if delivery is None:
                is_behind = True
                continue
            batch, expired = without_expired(delivery.batch, now_us())
            self._group._expired += expired
            is_done = len(batch) == 0
            lease.given.append(Given(delivery.seqno, delivery.shard, delivery.next, is_done))
            if is_done:
                lease.settle(0)
                has_more = True
                continue
            batch = batch.read_as(self._form)
            self._batches[batch] = (lease, delivery.seqno)
            self._leases.append(self._leases.pop(number))  # the next call tries the others first
            return batch, True
        if gap is not None and not is_behind and not has_more:
            raise gap
        return None, has_more

    def __iter__(self) -> Iterator[Batch]:
        """Gives each batch in turn; ends when the member or the group is closed."""
        while (batch := self._poll(None, _ALL)) is not None:
            yield batch

    def ack(self, batch: Batch) -> None:
        """Says that the work on ``batch``, and on earlier batches of the same part, is done.

        Arguments:
            batch: of ``poll``. An empty batch needs no acknowledgement.

        Raises:
            ValueError: this member did not get the batch, or has acknowledged it already.
            ConflictError: another member got its part since, and works on the batch again.
        """
        with self._group._lock:
            self._check()
            self._seen_at = self._group._clock()
            if len(batch) == 0:  # ``poll`` gives such a batch when nothing came
                return
            lease, seqno = self._lease_of(batch)
            places = {given.shard: given.next for given in lease.given if given.seqno <= seqno}
        self._group._positions.save(
            {f"{lease.number}-{shard}": place for shard, place in places.items()}
        )
        with self._group._lock:
            lease.settle(seqno)
            if not lease.ended and lease.revoked_at is not None and not lease.given:
                self._group._end(lease)
            self._group._balance()

    def _lease_of(self, batch: Batch) -> tuple[Lease, int]:
        found = self._batches.get(batch)
        if found is None:
            raise ValueError("ack: this batch was not given by this member")
        lease, seqno = found
        if lease.ended:
            raise _core.ConflictError(
                f"part {lease.number} of {self._group._positions.name} was taken from member "
                f"{self._name!r}: the batch is another's by now"
            )
        if not any(given.seqno == seqno for given in lease.given):
            raise ValueError("ack: this batch is acknowledged already")
        return lease, seqno

    def _has_ended(self) -> bool:
        """Returns whether the member or the group was closed; the caller holds the lock."""
        return self._left or self._group._closed

    def _check(self) -> None:
        if self._has_ended():
            raise _core.ClosedError(f"member {self._name!r} has left its group")
        if self._gone:
            raise _core.ConflictError(
                f"member {self._name!r} was silent for more than {self._group._timeout_s} s, and "
                f"{self._group._positions.name} has given its parts to others: join again"
            )

    @property
    def closed(self) -> bool:
        """Whether it has left, or was dropped."""
        return self._left or self._gone

    def close(self) -> None:
        """Leaves the group. Others get what it has not acknowledged. May be repeated."""
        with self._group._lock:
            self._left = True
            if not self._gone:
                self._group._remove(self)
                self._group._balance()

    def __repr__(self) -> str:
        return f"<topicdb.Member {self._name!r} of {self._group.name!r}>"
