"""Groups: the messages of a filter, divided among members."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from topicdb import _core
from topicdb.arguments.filters import Filters, filter_list
from topicdb.arguments.forms import form_of
from topicdb.closing import Closing
from topicdb.engine import Engine
from topicdb.follow.leases import Lease, Part
from topicdb.follow.losses import Loss, Reporter
from topicdb.follow.member import Member
from topicdb.follow.positions import Place, Positions, lag_of
from topicdb.follow.subscription import Subscription, check_log

_ALL = (1 << 63) - 1


class Group(Closing):
    """A group of workers that share the messages of a filter; made by ``Database.group``.

    The topics are divided into parts by a hash, and each part is lent to one member at a time: the
    messages of a topic are worked on in their order. When members join or leave, as few parts as
    possible change hands, and each only after what was given of it is acknowledged. So in calm
    conditions each message is given once. A member that neither polls, acknowledges nor calls
    ``heartbeat`` for ``member_timeout`` loses its parts. Other members get what it had not
    acknowledged, and its next call raises ConflictError. So each message is worked on at least
    once.

    Thread-safe. All callers in a process share one object for a name. Its positions are stored in
    the database, and outlast it.

    Example:
        >>> group = db.group("workers", "site/#")
        >>> with group.join("worker-1") as member:
        ...     member.ack(member.poll(timeout=30))
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
        """Sets what is done when a member comes to where messages were dropped.

        Arguments:
            report: is called with each ``Loss``.
        """
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

        Arguments:
            name: unique in the group; None: the first free one of "member-1", "member-2", ….
            properties: as in ``Database.scan``.
            raw: as in ``Database.scan``.

        Returns:
            The member. Close it, or use ``with``.

        Raises:
            ConflictError: there is a member of this name.

        Example:
            >>> with db.group("workers", "site/#").join() as member:
            ...     member.name
            'member-1'
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

        Each part goes on where it is acknowledged; see ``Consumer.set_filters``. If the filters are
        these already, nothing happens.

        Arguments:
            filter: as in ``Database.scan``.

        Raises:
            TopicError: something is no topic filter.
            SchemaError: a part would stand in a generation without a log, or topics of the new
                filters go to such a one now.
            ConflictError: there are members, or another object has taken the name over. After these
                errors nothing has changed.
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
        """How many messages had expired (MQTT 5) and were given to nobody, since it was opened."""
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
