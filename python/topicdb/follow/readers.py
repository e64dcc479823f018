"""Consumers, sessions and groups by their names: those that are open, and those that are stored."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from threading import Lock
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from topicdb import _core
from topicdb.arguments.times import TIMESTAMP_MAX, timeout_us
from topicdb.closing import nothing
from topicdb.engine import Engine
from topicdb.follow import session_state
from topicdb.follow.consumer import Consumer
from topicdb.follow.group import Group
from topicdb.follow.positions import PARTS_MAX, Place, Positions, standings
from topicdb.follow.session import Session
from topicdb.follow.subscription import Start, check_log, check_window, start_of

One = TypeVar("One", Consumer, Session)
OnChange: TypeAlias = Literal["error", "replace"]
"""What opening a name does if it has other filters; see ``Database.consumer``."""
Hold: TypeAlias = Callable[[str, str, bool], Callable[[], None]]
"""Takes a name of a kind also from other processes (if it may), and returns what gives it up."""


class Reader(NamedTuple):
    """A consumer or group and how it stands, whoever has it open; made by ``Database.standings``.

    Attributes:
        kind: "consumer" or "group".
        name: its name in the database.
        filters: its topic filters; None: every topic.
        lag: about how many messages are stored and not acknowledged.
        lost: how many messages were dropped with their generation before it could read them, at
            most.
        places: for each shard, the place before which everything is acknowledged; for a group
            that of the part that is farthest behind.
    """

    kind: str
    name: str
    filters: list[str] | None
    lag: int
    lost: int
    places: dict[int, Place]


def _hold_here(kind: str, name: str, takeover: bool) -> Callable[[], None]:
    """Takes a name of a database that is open in this process: no other process has its names."""
    return nothing


class OpenReaders:
    """The consumers, sessions and groups of one database that are open, each under its name.

    It makes sure that a name is open once. A consumer or session has its name until it is closed or
    another one takes the name over. A group is one object for all who ask for its name. ``hold``
    takes names of consumers and sessions where other processes may have some, too.

    The database owns it, and it lives as long. It holds only weak references to what is open.
    Thread-safe; its lock guards the groups, and is held while a group is made.
    """

    def __init__(self, engine: Engine, hold: Hold = _hold_here) -> None:
        self._engine = engine
        self._hold = hold
        self._consumers: WeakValueDictionary[str, Consumer] = WeakValueDictionary()
        self._sessions: WeakValueDictionary[str, Session] = WeakValueDictionary()
        self._groups: WeakValueDictionary[str, Group] = WeakValueDictionary()
        self._groups_lock = Lock()

    def consumer(self, name: str, make: Callable[[], Consumer], *, takeover: bool) -> Consumer:
        """Opens a consumer with ``make``, under this name.

        Raises:
            ConflictError: the name is open, unless ``takeover``.
        """
        return self._opened_as(self._consumers, name, "consumer", make, takeover=takeover)

    def session(self, client_id: str, make: Callable[[], Session], *, takeover: bool) -> Session:
        """Opens a session with ``make``, under this client id.

        Raises:
            ConflictError: the session is open, unless ``takeover``.
        """
        return self._opened_as(self._sessions, client_id, "session", make, takeover=takeover)

    def group(self, name: str, make: Callable[[], Group], join: Callable[[Group], object]) -> Group:
        """Returns the group that is open under this name, after calling ``join`` with it.

        If none is open, opens one with ``make``.
        """
        with self._groups_lock:
            group = self._groups.get(name)
            if group is None or group.closed:
                group = self._groups[name] = make()
            else:
                join(group)
        return group

    def has_session(self, client_id: str) -> bool:
        """Returns whether this session is open here."""
        session = self._sessions.get(client_id)
        return session is not None and not session.closed

    def drop_consumer(self, name: str) -> None:
        """Forgets it.

        Raises:
            NotFoundError: or ConflictError if it is open.
        """
        self._drop(self._consumers, "consumer", name)

    def drop_group(self, name: str) -> None:
        """Forgets it.

        Raises:
            NotFoundError: or ConflictError if it is open.
        """
        self._drop(self._groups, "group", name)

    def drop_session(self, client_id: str) -> None:
        """Forgets it.

        Raises:
            NotFoundError: or ConflictError if it is open.
        """
        with ExitStack() as stack:
            stack.callback(self._make_way(self._sessions, client_id, "session", takeover=False))
            if not session_state.drop(self._engine, client_id):
                raise _core.NotFoundError(
                    f"there is no session {client_id!r} in {self._engine.path}"
                )

    def _drop(self, opened: WeakValueDictionary[str, Any], kind: str, name: str) -> None:
        with ExitStack() as stack:
            stack.callback(self._make_way(opened, name, kind, takeover=False))
            positions = Positions(self._engine, kind, name, None)
            if positions.kept() is None:
                raise positions.missing()
            positions.drop()

    def _make_way(
        self,
        opened: WeakValueDictionary[str, Any],
        name: str,
        kind: str,
        *,
        takeover: bool,
    ) -> Callable[[], None]:
        """Takes the name, and returns the function that gives it up.

        If an object has the name open, ends that with ``takeover``, and raises ConflictError
        without.
        """
        other = opened.get(name)
        if other is not None and not other.closed:
            if not takeover:
                raise _core.ConflictError(
                    f"{kind} {name!r} is open already: close it, or take it with takeover=True"
                )
            other.abandon()
        return self._hold(kind, name, takeover)

    def _opened_as(
        self,
        opened: WeakValueDictionary[str, One],
        name: str,
        kind: str,
        make: Callable[[], One],
        *,
        takeover: bool,
    ) -> One:
        """Opens a reader that has the name until it is closed."""
        give_up = self._make_way(opened, name, kind, takeover=takeover)
        try:
            handle = make()
        except BaseException:
            give_up()
            raise
        handle.at_end(give_up)
        opened[name] = handle
        return handle


class Kept(NamedTuple):
    """What is kept with a name.

    Attributes:
        made: what is stored with it, or is to be stored if the name is new.
        changed: what is to be stored instead of a part of that.
    """

    made: dict[str, Any]
    changed: dict[str, Any]


def kept_for(
    engine: Engine,
    positions: Positions,
    filters: list[str] | None,
    start: Start,
    on_change: OnChange,
) -> Kept:
    """Returns what is kept with a name that is to be opened with these filters.

    Raises:
        ValueError: the name has other filters, unless ``on_change`` is "replace". Then it raises
            AccessError if this client may not read the new ones.
        SchemaError: a new name, or one with new filters, would begin in a generation without a log.
    """
    if on_change not in ("error", "replace"):
        raise ValueError(f"on_change: expected 'error' or 'replace', got {on_change!r}")
    kept = positions.kept()
    if kept is None:
        places, start_us = start_of(start)
        check_log(engine, filters, places, start_us)
        if places is None:
            places = engine.places_at(filters, TIMESTAMP_MAX)
        return Kept({"filters": filters, "start_us": start_us, "start": places}, {})
    if kept["filters"] == filters:
        return Kept(kept, {})
    if on_change == "error":
        raise ValueError(
            f"filter: {positions.name} has the filters {kept['filters']}, got {filters}; drop it, "
            "give another name, or change them with on_change='replace'"
        )
    check_log(engine, filters, positions.farthest(), kept["start_us"])  # before anything is stored
    return Kept(kept, {"filters": filters})


def readers_of(engine: Engine) -> list[Reader]:
    """Returns all consumers and groups that were made and not dropped, and how each stands."""
    return [
        Reader(kind, name, *standing)
        for kind in ("consumer", "group")
        for name, standing in standings(engine, kind).items()
        if standing is not None
    ]


def group_timeout_us(
    parts: int, member_timeout: float | timedelta, window: int, window_bytes: int
) -> int:
    """Returns ``member_timeout`` in µs.

    Raises:
        ValueError: an option of a group is wrong.
    """
    if not 1 <= parts <= PARTS_MAX:
        raise ValueError(f"parts: expected 1 to {PARTS_MAX}, got {parts}")
    timeout = timeout_us(member_timeout, what="member_timeout")
    if not timeout:
        raise ValueError(f"member_timeout must be more than zero, got {member_timeout!r}")
    check_window(window, window_bytes)
    return timeout
