"""Groups: the messages of a filter, divided among members."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any
from weakref import WeakKeyDictionary

from topicdb import _core
from topicdb._core import Batch
from topicdb.arguments.filters import Filters, filter_list
from topicdb.arguments.forms import Form, form_of
from topicdb.arguments.times import now_us, timeout_us
from topicdb.closing import Closing
from topicdb.engine import Engine
from topicdb.follow.leases import Given, Lease, Part
from topicdb.follow.losses import Loss, Reporter
from topicdb.follow.positions import Place, Positions, lag_of
from topicdb.follow.subscription import Subscription, check_log
from topicdb.mqtt.expiry import without_expired

_ALL = (1 << 63) - 1


class Group(Closing):
    """A group of workers that share the messages of a filter; made by ``Database.group``.

    The topics are divided into parts by a hash, and each part is lent to one member at a time: the
    messages of a topic are worked on in their order. When members join or leave, as few parts as
    possible change hands, and each only after what was given of it is acknowledged. So in calm
    conditions each message is given once. A member that neither polls, acknowledges nor calls
    ``heartbeat`` for ``member_timeout`` loses its parts; other members get what it had not
    acknowledged, and its next call raises ConflictError. So each message is worked on at least
    once.

    Thread-safe. All callers in a process share one object for a name. Its positions are stored in
    the database, and outlast it.

    >>> group = db.group("workers", "jobs/#")                           # doctest: +SKIP
    >>> with group.join("worker-1") as member:                          # doctest: +SKIP
    ...     batch = member.poll()
    ...     member.ack(batch)
    """

    _shown = ("filters", "parts", "members", "expired")

    def __init__(
        self,
        core: Engine,
        positions: Positions,
        kept: tuple[Mapping[str, Any], Mapping[str, Any]],
        window: tuple[int, int],
        member_timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``kept``: what to store if the name is new, and what to store instead if it is not."""
        self._core = core
        self._positions = positions
        self._window = window
        self._timeout_s = member_timeout_s
        self._clock = clock
        self._lock = threading.RLock()
        self._members: dict[str, Member] = {}
        self._closed = False
        self._expired = 0
        self._report: Reporter | None = None
        self._kept, places = positions.open(*kept)
        start = {int(shard): Place(*place) for shard, place in self._kept["start"].items()}
        self._parts = [Part(number, dict(start)) for number in range(self._kept["parts"])]
        for key, place in places.items():
            number, shard = key.split("-")
            self._parts[int(number)].places[int(shard)] = place

    def report_to(self, report: Reporter) -> None:
        """Sets what is done when a member comes to where messages were dropped."""
        self._report = report

    @property
    def lost(self) -> int:
        """How many messages were dropped before a member had them, at most.

        They are counted when a member comes to where they were. The count is stored with what the
        member acknowledges.
        """
        with self._lock:
            return self._positions.losses.total

    def join(
        self, name: str | None = None, *, properties: bool = False, raw: bool = False
    ) -> Member:
        """Adds a member, and returns it with its share of the parts.

        - ``name``: unique in the group; None: the first free one of "member-1", "member-2", …
        - ``properties``, ``raw``: as in ``Database.scan``.

        Raises ConflictError if there is a member of this name.
        """
        form = form_of(properties=properties, raw=raw)
        with self._lock:
            self._check_open()
            if name is None:
                name = next(
                    one for n in range(1, _ALL) if (one := f"member-{n}") not in self._members
                )
            self._drop_silent()
            if name in self._members:
                raise _core.ConflictError(f"{self._positions.name} has a member {name!r}")
            member = Member(self, name, self._clock(), form)
            self._members[name] = member
            self._balance()
            return member

    def set_filters(self, filter: Filters) -> None:
        """Replaces the filters, at once and for good, while the group has no members.

        Each part goes on where it is acknowledged: no message that the old and the new filters
        match is left out, and none comes again that is acknowledged. Of topics that only the new
        filters match comes what was committed from there on. If the filters are these already, it
        does nothing.

        Raises TopicError for what is no topic filter, and SchemaError if a part would stand in a
        generation without a log, or if topics of the new filters go to such a one now. Raises
        ConflictError while there are members, or if another object has taken the name over. Then
        nothing has changed.
        """
        filters = filter_list(filter)
        with self._lock:
            self._check_open()
            if filters == self._kept["filters"]:
                return
            self._drop_silent()
            if self._members:
                raise _core.ConflictError(
                    f"{self._positions.name} has members ({', '.join(sorted(self._members))}): its "
                    "filters can be replaced when they have left"
                )
            check_log(self._core, filters, self._farthest(), self._kept["start_us"])
            kept = {**self._kept, "filters": filters}
            self._positions.restart(kept, self._places(), self._positions.losses)
            self._kept = kept

    def _places(self) -> dict[str, Place]:
        """Returns the places by key as they are stored; the lock is held."""
        return {
            f"{part.number}-{shard}": place
            for part in self._parts
            for shard, place in part.places.items()
        }

    def _farthest(self) -> dict[int, Place]:
        """Returns for each shard where the part stands that is farthest behind; under the lock."""
        return {
            shard: min(part.places.get(shard, Place(1, 0)) for part in self._parts)
            for shard in range(self._core.schema["shards"])
        }

    def members(self) -> dict[str, list[int]]:
        """Returns the numbers of the parts that each member has, by its name."""
        with self._lock:
            self._drop_silent()
            self._balance()
            return {name: member.parts for name, member in sorted(self._members.items())}

    def lag(self) -> int:
        """Returns how many messages are stored and not acknowledged, at most.

        It counts from the part that is farthest behind.
        """
        with self._lock:
            for part in self._parts:
                if part.lease is not None:
                    part.lease.pass_by()
            places = self._farthest()
        return lag_of(self._core, self._kept["filters"], self._kept["start_us"], places)

    @property
    def expired(self) -> int:
        """How many messages were given to nobody because they had expired (MQTT 5).

        Counted since the group was opened.
        """
        return self._expired

    @property
    def name(self) -> str:
        """The name that it was opened with."""
        return self._positions.label

    @property
    def filters(self) -> list[str] | None:
        """The filters that it has now; None: every topic."""
        filters: list[str] | None = self._kept["filters"]
        return filters

    @property
    def parts(self) -> int:
        """How many parts the topics are divided into."""
        return len(self._parts)

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closed

    def close(self) -> None:
        """Ends all members, and stores its positions. May be repeated."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for member in list(self._members.values()):
                self._remove(member)
            if not self._core.closed:
                self._positions.save(self._places())

    def __repr__(self) -> str:
        return f"<topicdb.Group {self.name!r}{' (closed)' if self._closed else ''}>"

    # The lock is held in all methods below.

    def _check_open(self) -> None:
        if self._closed:
            raise _core.ClosedError(f"{self._positions.name} is closed")

    def _remove(self, member: Member) -> None:
        for lease in list(member._leases):
            self._end(lease)
        self._members.pop(member.name, None)
        member._gone = True
        member._tokens.close()

    def _drop_silent(self) -> None:
        """Removes members that were silent for too long, and ends leases not given back in time."""
        now = self._clock()
        for member in list(self._members.values()):
            if now - member._seen_at > self._timeout_s:
                self._remove(member)
                continue
            for lease in list(member._leases):
                if lease.revoked_at is not None and now - lease.revoked_at > self._timeout_s:
                    self._end(lease)

    def _balance(self) -> None:
        """Lends free parts, and asks parts back that another member should have."""
        if not self._members:
            return
        members = sorted(
            self._members.values(), key=lambda member: (-len(member._leases), member.name)
        )
        least, more = divmod(len(self._parts), len(members))
        share = {m.name: least + (1 if n < more else 0) for n, m in enumerate(members)}
        for member in members:
            lent = [lease for lease in member._leases if lease.revoked_at is None]
            lent.sort(key=lambda lease: (len(lease.given) > 0, -lease.number))
            for lease in lent[: max(0, len(lent) - share[member.name])]:
                self._revoke(lease)
        free = [part for part in self._parts if part.lease is None]
        for member in reversed(members):
            while free and len(member._leases) < share[member.name]:
                self._lend(free.pop(), member)

    def _lend(self, part: Part, member: Member) -> None:
        kept = self._kept
        core = self._core.subscribe(
            kept["filters"],
            dict(part.places),
            kept["start_us"],
            *self._window,
            (part.number, len(self._parts)),
            self._positions.losses.start_all(self._core.schema["shards"]),
        )
        subscription = Subscription(
            core, self._core, kept["filters"], kept["start_us"], None, "stored", self._lose
        )
        part.lease = Lease(part, member, subscription)
        member._leases.append(part.lease)
        core.on_ready(member._tokens, part.number)

    def _lose(self, loss: Loss) -> None:
        more = self._positions.losses.add(loss)
        if more and self._report is not None:
            self._report(loss._replace(messages=more))

    def _revoke(self, lease: Lease) -> None:
        lease.revoked_at = self._clock()
        if not lease.given:
            self._end(lease)

    def _end(self, lease: Lease) -> None:
        lease.pass_by()
        lease.ended = True
        lease.subscription.close()
        lease.part.lease = None
        lease.member._leases.remove(lease)


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

        Raises ConflictError if it was silent for too long; see ``poll``.
        """
        with self._group._lock:
            self._check()
            self._seen_at = self._group._clock()
            self._group._drop_silent()
            self._group._balance()

    def poll(self, rows: int = 1_000, timeout: float | timedelta | None = 1.0) -> Batch:
        """Returns the next messages of one part, at most ``rows``.

        Returns an empty batch if there are none for ``timeout`` seconds (None: waits for ever), or
        when another thread closes the member meanwhile.

        Raises ConflictError if it was silent for too long and its parts were given to others: join
        again. Raises LossError if messages were dropped before the group had them
        (``on_loss="raise"``); the next call continues behind them. Raises SchemaError when all of
        its parts have come to a generation that keeps no commit log, behind everything before it.
        Raises ClosedError if the member or the group is closed.
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

        An empty batch, which ``poll`` gives when nothing came, needs no acknowledgement. Raises
        ValueError if this member did not get the batch, or has acknowledged it already. Raises
        ConflictError if its part was given to another member since, which works on the batch again.
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
