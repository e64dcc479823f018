"""What is replayed into a broker says so, that no bridge stores it again; or it is refused."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from topicdb.engine import Engine
from topicdb.filters import overlap, unshared
from topicdb.mqtt.follows import Follows, stored

if TYPE_CHECKING:
    pass

REPLAY_PROPERTY = "topicdb-replay"
"""The MQTT 5 user property that each replayed message has: the ``id`` of the replay."""


def is_replayed(user_properties: tuple[tuple[str, str], ...]) -> bool:
    """Whether a message comes from a replay."""
    return any(name == REPLAY_PROPERTY for name, _ in user_properties)


def marked(
    user_properties: tuple[tuple[str, str], ...], replay_id: str
) -> tuple[tuple[str, str], ...]:
    """These properties, with the mark of this replay and of no other one."""
    others = tuple(one for one in user_properties if one[0] != REPLAY_PROPERTY)
    return (*others, (REPLAY_PROPERTY, replay_id))


class Doubles:
    """Topics that a bridge of this database would store again, since it could not tell."""

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
        """ValueError: a bridge follows this filter, or topic, or a part of it."""
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
        """This naming, which raises as ``check``."""

        def named(topic: str) -> str:
            found = naming(topic)
            self.check(found)
            return found

        return named


def _is_same(one: str, other: str) -> bool:
    """Whether two names or addresses lead to the same machine, as far as that can be known."""
    if one.casefold() == other.casefold():
        return True
    return not _addresses(one).isdisjoint(_addresses(other))


def _addresses(host: str) -> set[str]:
    """Those of a host; all of this machine are the same one."""
    try:
        found: list[Any] = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return set()
    return {"" if _is_of_this_machine(family, place) else place[0] for family, *_, place in found}


def _is_of_this_machine(family: int, place: Any) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind(place)  # to port 0: nobody else's
    except OSError:
        return False
    return True
