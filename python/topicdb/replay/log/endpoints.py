"""The endpoints of a replay log."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from topicdb.follow.positions import Place
from topicdb.replay.endpoint.endpoint import Endpoint
from topicdb.replay.errors import ReplayError
from topicdb.replay.host import Host
from topicdb.replay.records import Access, EndpointRecord, Kind, Subscribed


class Endpoints:
    """The endpoints of one log, by name.

    The log owns this object and locks it for all but ``find``. ``opened`` is called with the name
    of each that comes.
    """

    def __init__(
        self, host: Host, store_interval_s: float, opened: Callable[[str], object]
    ) -> None:
        self._host = host
        self._store_interval_s = store_interval_s
        self._opened = opened
        self._by_name: dict[str, Endpoint] = {}

    def find(self, name: str) -> Endpoint | None:
        """The one of this name. Thread-safe."""
        return self._by_name.get(name)

    def sorted(self) -> list[Endpoint]:
        """All, by name."""
        return [endpoint for _, endpoint in sorted(self._by_name.items())]

    def open(self, record: EndpointRecord) -> Endpoint:
        """As it is stored."""
        endpoint = Endpoint(self._host, record, self._store_interval_s)
        self._by_name[record.name] = endpoint
        self._opened(record.name)
        return endpoint

    def found_or_made(self, record: EndpointRecord, filters: list[str] | None) -> Endpoint:
        """The one of this name, or a new one that is stored. ValueError: it was made otherwise."""
        known = self.find(record.name)
        if known is not None:
            _check_same(known, record, filters)
            return known
        if not filters:
            raise ValueError(f"filter: a new endpoint {record.name!r} needs a topic filter")
        now = self._host.now()
        record.subscriptions = [Subscribed(one, now) for one in dict.fromkeys(filters)]
        record.next = now
        endpoint = self.open(record)
        endpoint.store()
        return endpoint

    def drop(self, name: str) -> None:
        """REQUIRES: it is there."""
        self._by_name[name].drop()
        del self._by_name[name]

    def fail_all(self, error: ReplayError) -> None:
        """Fails the replays that run."""
        for endpoint in self._by_name.values():
            endpoint.fail_replay(error)

    def trimmed(self, first: Place) -> None:
        """Before ``first`` the log is to be trimmed."""
        for endpoint in self._by_name.values():
            endpoint.trimmed(first)

    def lost_before(self, oldest: Place) -> None:
        """What was before was dropped by retention."""
        for endpoint in self._by_name.values():
            endpoint.lost_before(oldest)

    def hold_from(self, first: Place) -> Place:
        """What is before this place, and before ``first``, none of them needs."""
        return min([first, *(endpoint.holds_from() for endpoint in self._by_name.values())])

    def end(self) -> None:
        """Stores all for the last time. May be repeated."""
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
) -> EndpointRecord:
    """Of an endpoint that may have to be made. ``rights``: of whom it is, and what others may do;
    ``room``: messages, and their bytes, that sit at it. ValueError."""
    owner, others = rights
    if others not in ("none", "read", "consume"):
        raise ValueError(f"others: expected none, read or consume, got {others!r}")
    for what, value in zip(("spool", "spool_bytes"), room, strict=True):
        if value < 1:
            raise ValueError(f"{what}: at least 1 is needed, got {value}")
    record = EndpointRecord(name, kind, exclusive, [], Place(0, 0), durable)
    record.owner, record.others = owner, others
    record.spool, record.spool_bytes = room
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
    if record.selector is not None and record.selector != made.selector:
        raise ValueError(
            f"selector: endpoint {made.name!r} has {made.selector!r}; see Endpoint.change"
        )
