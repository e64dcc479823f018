"""The endpoints of a replay log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from topicdb.follow.positions import Place
from topicdb.replay.endpoint.dead_letters import check_dead_letter, check_expired
from topicdb.replay.endpoint.direct import DirectMessage
from topicdb.replay.endpoint.endpoint import Endpoint
from topicdb.replay.errors import ReplayError
from topicdb.replay.host import Host
from topicdb.replay.records import (
    Access,
    EndpointRecord,
    Expired,
    Kind,
    Subscribed,
    check_count,
)
from topicdb.replay.selector.properties import selector_of


class Asked(NamedTuple):
    """Options of an endpoint that one which exists must have as well; None: they do not matter."""

    selector: str | None = None
    dead_letter: str | None = None
    expired: Expired | None = None


class Endpoints:
    """The endpoints of one log, by name.

    The log owns this object, which lives as long as the log. The log holds its lock for all calls
    but ``find`` and ``give_direct``, which are thread-safe, and ``end``. ``opened`` is called with
    the name of each endpoint that is added.
    """

    def __init__(
        self, host: Host, store_interval_s: float, opened: Callable[[str], object]
    ) -> None:
        self._host = host
        self._store_interval_s = store_interval_s
        self._opened = opened
        self._by_name: dict[str, Endpoint] = {}

    def find(self, name: str) -> Endpoint | None:
        """Returns the endpoint of this name, or None if there is none."""
        return self._by_name.get(name)

    def give_direct(self, messages: Sequence[DirectMessage]) -> None:
        """Gives direct messages that were not logged to the clients of all endpoints."""
        for endpoint in list(self._by_name.values()):
            endpoint.give_direct(messages)

    def sorted(self) -> list[Endpoint]:
        """Returns all endpoints, sorted by name."""
        return [endpoint for _, endpoint in sorted(self._by_name.items())]

    def open(self, record: EndpointRecord) -> Endpoint:
        """Adds and returns the endpoint of this record, which goes on where it was."""
        endpoint = Endpoint(self._host, record, self._store_interval_s)
        self._by_name[record.name] = endpoint
        self._opened(record.name)
        return endpoint

    def found_or_made(
        self, record: EndpointRecord, filters: list[str] | None, asked: Asked
    ) -> Endpoint:
        """Returns the endpoint that the record names, or makes and stores it from the record.

        Raises ValueError if there is one that differs from the record, from ``filters``, or from
        what was asked for, or if a new one has no filters or would get its own dead letters.
        """
        known = self.find(record.name)
        if known is not None:
            _check_same(known, record, filters)
            _check_asked(known, asked)
            return known
        if not filters:
            raise ValueError(f"filter: a new endpoint {record.name!r} needs a topic filter")
        check_dead_letter(record.dead_letter, filters)
        now = self._host.now()
        record.subscriptions = [Subscribed(one, now) for one in dict.fromkeys(filters)]
        record.next = now
        endpoint = self.open(record)
        endpoint.store()
        return endpoint

    def drop(self, name: str) -> None:
        """Drops an endpoint. REQUIRES: there is one of this name."""
        self._by_name[name].drop()
        del self._by_name[name]

    def fail_all(self, error: ReplayError) -> None:
        """Fails all replays that run."""
        for endpoint in self._by_name.values():
            endpoint.fail_replay(error)

    def trimmed(self, first: Place) -> None:
        """Tells all endpoints that the log will be trimmed before ``first``."""
        for endpoint in self._by_name.values():
            endpoint.trimmed(first)

    def any_replayed(self) -> bool:
        """Returns whether a replay runs on an endpoint."""
        return any(endpoint.state.runs for endpoint in self._by_name.values())

    def hold_from(self, first: Place) -> Place:
        """Returns the place before which no endpoint needs anything; at most ``first``."""
        return min([first, *(endpoint.holds_from() for endpoint in self._by_name.values())])

    def end(self) -> None:
        """Stores and closes all endpoints. Calling it again does nothing."""
        for endpoint in list(self._by_name.values()):
            endpoint.end()


def new_record(
    name: str,
    kind: Kind,
    *,
    exclusive: bool,
    durable: bool,
    rights: tuple[str | None, Access],
    room: tuple[int, int],
    asked: Asked,
) -> EndpointRecord:
    """Returns the record of an endpoint that may have to be made, without subscriptions.

    ``rights``: the options ``owner`` and ``others``; ``room``: ``spool`` and ``spool_bytes``, of
    ``ReplayLog.queue``; ``asked``: the options that an endpoint which exists must have as well.
    Raises ValueError, TopicError or ImportError if one of them is wrong.
    """
    selector_of(asked.selector)
    check_dead_letter(asked.dead_letter, ())
    check_expired(asked.expired or "give")
    owner, others = rights
    if others not in ("none", "read", "consume"):
        raise ValueError(f"others: expected none, read or consume, got {others!r}")
    for what, value in zip(("spool", "spool_bytes"), room, strict=True):
        check_count(what, value)
    record = EndpointRecord(name, kind, exclusive, [], Place(0, 0), durable)
    record.owner, record.others = owner, others
    record.spool, record.spool_bytes = room
    record.selector, record.dead_letter = asked.selector, asked.dead_letter
    record.expired = asked.expired or "give"
    return record


def _check_same(known: Endpoint, record: EndpointRecord, filters: Sequence[str] | None) -> None:
    made = known.record
    wanted = made.kind, made.exclusive, made.durable
    if (record.kind, record.exclusive, record.durable) != wanted:
        raise ValueError(
            f"endpoint {made.name!r} was made as {'an exclusive' if made.exclusive else 'a shared'}"
            f" {'durable' if made.durable else 'temporary'} {made.kind}"
        )
    if filters is not None and set(filters) != set(known.subscriptions):
        raise ValueError(
            f"filter: endpoint {made.name!r} has the subscriptions {known.subscriptions}, got "
            f"{filters}; see Endpoint.subscribe and Endpoint.change"
        )


def _check_asked(known: Endpoint, asked: Asked) -> None:
    for option, wanted in asked._asdict().items():
        found = getattr(known.record, option)
        if wanted is not None and wanted != found:
            how = "change" if option == "selector" else "set_dead_letter"
            raise ValueError(f"{option}: endpoint {known.name!r} has {found!r}; see Endpoint.{how}")
