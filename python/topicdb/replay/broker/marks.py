"""Keeps bridges from storing again what is replayed: marks messages, or refuses the replay."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from topicdb.arguments.filters import overlap, unshared
from topicdb.engine import Engine
from topicdb.mqtt.follows import Follows, stored

if TYPE_CHECKING:
    pass

REPLAY_PROPERTY = "topicdb-replay"
"""The MQTT 5 user property that each replayed message has: the ``id`` of the replay."""


def is_replayed(user_properties: tuple[tuple[str, str], ...]) -> bool:
    """Returns whether a message with these properties comes from a replay."""
    return any(name == REPLAY_PROPERTY for name, _ in user_properties)


def marked(
    user_properties: tuple[tuple[str, str], ...], replay_id: str
) -> tuple[tuple[str, str], ...]:
    """Returns these properties, with the mark of this replay instead of any other mark."""
    others = tuple(one for one in user_properties if one[0] != REPLAY_PROPERTY)
    return (*others, (REPLAY_PROPERTY, replay_id))


class Doubles:
    """The filters of bridges of this database that would store what is replayed again.

    These bridges follow the same broker, and cannot recognise replayed messages: the replay has no
    marks (``is_marked``), or the bridge speaks MQTT 3.1.1. It reads the database once, when it is
    made, and does not change. Thread-safe.
    """

    def __init__(self, core: Engine, host: str, port: int, is_marked: bool) -> None:
        self._found: list[tuple[str, str, Follows]] = []
        for name, follows in stored(core):
            if follows.stores_replays or (is_marked and follows.protocol == "5"):
                continue
            if follows.port == port and _is_same(follows.host, host):
                self._found += [(unshared(one), name, follows) for one in follows.filters]

    def __bool__(self) -> bool:
        return bool(self._found)

    def check(self, filter: str) -> None:
        """Raises ValueError if one of the bridges follows a topic that this filter matches."""
        for followed, name, follows in self._found:
            if overlap(followed, filter):
                raise ValueError(
                    f"the bridge {name!r} of this database follows {followed!r} of the broker "
                    f"{follows.host}:{follows.port} with MQTT {follows.protocol}, and would store "
                    f"what is replayed to {filter!r} again: messages can be marked as replayed "
                    "only if both speak MQTT 5 (mark=True); or give them topics that the bridge "
                    "does not follow (remap=); or let it store them "
                    "(stored_again='allow', --allow-stored-again)"
                )

    def checked(self, naming: Callable[[str], str]) -> Callable[[str], str]:
        """Returns a function that names topics as ``naming`` does, and raises as ``check`` does."""

        def named(topic: str) -> str:
            found = naming(topic)
            self.check(found)
            return found

        return named


def _is_same(one: str, other: str) -> bool:
    """Returns whether two names or addresses lead to one machine, as far as that can be known."""
    if one.casefold() == other.casefold():
        return True
    return not _addresses(one).isdisjoint(_addresses(other))


def _addresses(host: str) -> set[str]:
    """Returns the addresses of a host, with "" for every address of this machine."""
    try:
        found: list[Any] = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return set()
    return {"" if _is_of_this_machine(family, place) else place[0] for family, *_, place in found}


def _is_of_this_machine(family: int, place: Any) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind(place)  # to port 0, so that it takes nobody else's port
    except OSError:
        return False
    return True
