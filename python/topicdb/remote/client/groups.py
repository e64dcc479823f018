"""Shared groups of a database in another process, whose server lends the parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from topicdb import _core
from topicdb._core import Batch
from topicdb.arguments.filters import Filters, filter_list
from topicdb.arguments.forms import Form, form_of
from topicdb.arguments.times import timeout_us
from topicdb.follow.group import Group
from topicdb.follow.member import Member
from topicdb.follow.readers import OnChange
from topicdb.remote.client.lease import Lease, RemoteHandle, wait_slices
from topicdb.remote.client.reading import WAIT_SLICE_US

_ALL = (1 << 63) - 1


class RemoteGroup(Group):
    """A ``Group`` that is at the server, so that its members may be in any process.

    ``close`` ends only the members that this object made.
    """

    def __init__(
        self,
        lease: Callable[[], Lease],
        name: str,
        filters: list[str] | None,
        open_group: Callable[[list[str] | None, OnChange], int],
        on_change: OnChange,
    ) -> None:
        self._lease = lease
        self._name = name
        self._open_group = open_group
        self._made: WeakSet[RemoteMember] = WeakSet()
        self._closed = False
        self.open_as(filters, on_change)

    def join(
        self, name: str | None = None, *, properties: bool = False, raw: bool = False
    ) -> Member:
        """Adds a member, which gets its share of the parts, and returns it.

        ``name``: the name of the member; None: one that is free. ``properties``, ``raw``: as of
        ``Database.scan``. Raises ConflictError if there is a member of this name.
        """
        form = form_of(properties=properties, raw=raw)
        lease = self._opened()
        number, given = lease.call("group.join", self._name, name)
        member = RemoteMember(lease, number, self._name, given, form)
        self._made.add(member)
        return member

    def members(self) -> dict[str, list[int]]:
        """Returns the numbers of the parts that each member has, by its name."""
        members: dict[str, list[int]] = self._opened().call("group.members", self._name)
        return members

    def lag(self) -> int:
        """Returns how many messages are stored and not acknowledged, at most."""
        lag: int = self._opened().call("group.lag", self._name)
        return lag

    @property
    def lost(self) -> int:
        """Returns how many messages were dropped before a member had them, at most.

        They are counted when a member comes to where they were, and the count is stored with what
        the member acknowledges.
        """
        lost: int = self._opened().call("group.lost", self._name)
        return lost

    def _opened(self) -> Lease:
        """Returns the lease, after opening the group again if the server was started anew."""
        if self._closed:
            raise _core.ClosedError(f"group {self._name!r} is closed")
        try:
            self._lease().call("group.members", self._name)
        except _core.ClosedError:
            self.open_as(self._filters, "error")  # the server was started anew
        return self._lease()

    def open_as(self, filters: list[str] | None, on_change: OnChange) -> None:
        """Opens the group at the server, if it is not open there, with these filters."""
        self._parts_count = self._open_group(filters, on_change)
        self._filters = filters

    def set_filters(self, filter: Filters) -> None:
        """Replaces the filters, at once and for good, while no client has members of the group.

        Each part goes on where it is acknowledged. Of topics that only the new filters match comes
        what was committed from there on. Raises TopicError for what is no topic filter, and
        ConflictError while there are members. Then nothing has changed.
        """
        filters = filter_list(filter)
        self._opened().call("group.set_filters", self._name, filters)
        self._filters = filters

    @property
    def expired(self) -> int:
        """Returns how many messages were given to no member, as they had expired (MQTT 5).

        The count begins when the server opens the group.
        """
        expired: int = self._opened().call("group.expired", self._name)
        return expired

    @property
    def name(self) -> str:
        """Returns the name of the group."""
        return self._name

    @property
    def filters(self) -> list[str] | None:
        """Returns the filters with which this object has the group; None: every topic."""
        return self._filters

    @property
    def parts(self) -> int:
        """Returns into how many parts the topics are divided."""
        return self._parts_count

    @property
    def closed(self) -> bool:
        """Returns whether ``close`` was called."""
        return self._closed

    def close(self) -> None:
        """Ends the members that this object made. May be repeated."""
        self._closed = True
        for member in list(self._made):
            member.close()

    def __repr__(self) -> str:
        return f"<topicdb.Group {self._name!r}{' (closed)' if self._closed else ''}>"


class RemoteMember(Member):
    """A ``Member`` of a group that is at the server; it leaves when its connection ends."""

    def __init__(self, lease: Lease, number: int, group: str, name: str, form: Form) -> None:
        self._handle = RemoteHandle(lease, number)
        self._group_name = group
        self._form = form
        self._name = name
        self._numbers: WeakKeyDictionary[Batch, int] = WeakKeyDictionary()

    @property
    def name(self) -> str:
        """Returns the name of the member, which is unique in the group."""
        return self._name

    @property
    def parts(self) -> list[int]:
        """Returns the numbers of the parts that the member has; none if it has left."""
        parts: list[int] = [] if self._handle.over else self._handle.call("member.parts")
        return parts

    def heartbeat(self) -> None:
        """Says that the member is alive; for work that takes long between ``poll`` and ``ack``.

        Raises ConflictError if it was silent for too long; see ``poll``.
        """
        self._handle.call("member.heartbeat")

    def poll(self, rows: int = 1_000, timeout: float | timedelta | None = 1.0) -> Batch:
        """Returns the next messages of one part, or an empty batch if none come in time.

        ``rows``: how many messages it returns at most. ``timeout``: how many seconds it waits, or a
        timedelta; None: for ever. Raises ConflictError if the member was silent for too long and
        its parts were given to others: join again. With ``on_loss="raise"`` it raises LossError if
        messages were dropped before the group had them; the next call goes on behind them.
        """
        if rows < 1:
            raise ValueError(f"rows must be at least 1, got {rows}")
        return self._polled(timeout_us(timeout), rows) or _core.empty_batch()

    def _polled(self, wait_us: int | None, rows: int) -> Batch | None:
        if self._handle.closed:
            raise _core.ClosedError(f"member {self._name!r} has left its group")
        for slice_us in wait_slices(wait_us, WAIT_SLICE_US):
            try:
                found: Any = self._handle.call("member.poll", rows, slice_us)
            except _core.ClosedError:
                if self._handle.closed:  # by another thread
                    return None
                raise
            if found is not None:
                number, batch = found
                assert isinstance(batch, Batch)
                batch = batch.read_as(self._form)
                self._numbers[batch] = number
                return batch
        return None

    def __iter__(self) -> Iterator[Batch]:
        """Yields each batch in turn, until the member leaves."""
        while (batch := self._polled(None, _ALL)) is not None:
            yield batch

    def ack(self, batch: Batch) -> None:
        """Says that the work on a batch, and on earlier ones of the same part, is done.

        Raises ValueError if this member did not give the batch, or it is acknowledged already, and
        ConflictError if its part was given to another member since, which works on it again.
        """
        if len(batch) == 0:  # as ``poll`` gives when nothing came
            self.heartbeat()
            return
        number = self._numbers.get(batch)
        if number is None:
            raise ValueError("ack: this batch was not given by this member")
        self._handle.call("member.ack", number)

    @property
    def closed(self) -> bool:
        """Returns whether the member has left, or its connection has ended."""
        return self._handle.over

    def close(self) -> None:
        """Leaves the group; what is not acknowledged goes to other members. May be repeated."""
        self._handle.close()

    def __repr__(self) -> str:
        return f"<topicdb.Member {self._name!r} of {self._group_name!r}>"
