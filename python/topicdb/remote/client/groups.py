"""Shared groups of a database in another process: the server lends the parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from topicdb import _core
from topicdb._core import Batch
from topicdb.follow.group import Group, Member
from topicdb.forms import Form, form_of
from topicdb.remote.client.connection import Lease, RemoteHandle, wait_slices
from topicdb.remote.client.reading import WAIT_SLICE_US
from topicdb.times import timeout_us

_ALL = (1 << 63) - 1


class RemoteGroup(Group):
    """As ``Group``, which is at the server: its members may be in any process.

    ``close`` ends the members that were made here.
    """

    def __init__(
        self,
        lease: Callable[[], Lease],
        name: str,
        filters: list[str] | None,
        open_group: Callable[[], int],
    ) -> None:
        self._lease = lease
        self._name = name
        self._open_group = open_group
        self._filters = filters
        self._made: WeakSet[RemoteMember] = WeakSet()
        self._parts_count = open_group()
        self._closed = False

    def join(
        self, name: str | None = None, *, properties: bool = False, raw: bool = False
    ) -> Member:
        """A new member, with its share of the parts. ConflictError: there is one of this name."""
        form = form_of(properties=properties, raw=raw)
        lease = self._opened()
        number, given = lease.call("group.join", self._name, name)
        member = RemoteMember(lease, number, self._name, given, form)
        self._made.add(member)
        return member

    def members(self) -> dict[str, list[int]]:
        """The parts of each member."""
        members: dict[str, list[int]] = self._opened().call("group.members", self._name)
        return members

    def lag(self) -> int:
        """Messages that are stored and not acknowledged: so many at most."""
        lag: int = self._opened().call("group.lag", self._name)
        return lag

    @property
    def lost(self) -> int:
        """Messages that were dropped before a member had them: so many at most.

        Counted when a member comes to where they were, and stored with what it acknowledges.
        """
        lost: int = self._opened().call("group.lost", self._name)
        return lost

    def _opened(self) -> Lease:
        if self._closed:
            raise _core.ClosedError(f"group {self._name!r} is closed")
        try:
            self._lease().call("group.members", self._name)
        except _core.ClosedError:
            self._open_group()  # the server was started anew
        return self._lease()

    @property
    def expired(self) -> int:
        """Messages that were given to nobody, as they had expired (MQTT 5), since the server has
        opened the group."""
        expired: int = self._opened().call("group.expired", self._name)
        return expired

    @property
    def name(self) -> str:
        """The name it was opened with."""
        return self._name

    @property
    def filters(self) -> list[str] | None:
        """What it was made with; None: every topic."""
        return self._filters

    @property
    def parts(self) -> int:
        """Into how many the topics are divided."""
        return self._parts_count

    @property
    def closed(self) -> bool:
        """``close`` was called."""
        return self._closed

    def close(self) -> None:
        """Ends the members that were made here. May be repeated."""
        self._closed = True
        for member in list(self._made):
            member.close()

    def __repr__(self) -> str:
        return f"<topicdb.Group {self._name!r}{' (closed)' if self._closed else ''}>"


class RemoteMember(Member):
    """As ``Member``; it leaves the group when its connection ends."""

    def __init__(self, lease: Lease, number: int, group: str, name: str, form: Form) -> None:
        self._handle = RemoteHandle(lease, number)
        self._group_name = group
        self._form = form
        self._name = name
        self._numbers: WeakKeyDictionary[Batch, int] = WeakKeyDictionary()

    @property
    def name(self) -> str:
        """Unique in the group."""
        return self._name

    @property
    def parts(self) -> list[int]:
        """The numbers of the parts that it has."""
        parts: list[int] = [] if self._handle.over else self._handle.call("member.parts")
        return parts

    def heartbeat(self) -> None:
        """It is alive, though it neither polls nor acknowledges: the work takes long.

        ConflictError: it was not for too long; see ``poll``.
        """
        self._handle.call("member.heartbeat")

    def poll(self, rows: int = 1_000, timeout: float | timedelta | None = 1.0) -> Batch:
        """The next messages of one part; an empty batch if there are none for ``timeout`` seconds.

        ConflictError: it was silent for too long, and its parts were given to others: join again.
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
        """Each batch in turn, until it leaves."""
        while (batch := self._polled(None, _ALL)) is not None:
            yield batch

    def ack(self, batch: Batch) -> None:
        """The work on this batch, and on those that were given before it of the same part, is done.

        ValueError: it was not given by this member, or is acknowledged already. ConflictError: its
        part was given to another member since, who works on it again.
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
        """It has left, or its connection has ended."""
        return self._handle.over

    def close(self) -> None:
        """Leaves the group; what is not acknowledged goes to others. May be repeated."""
        self._handle.close()

    def __repr__(self) -> str:
        return f"<topicdb.Member {self._name!r} of {self._group_name!r}>"
