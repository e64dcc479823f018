"""What a token may do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from topicdb import _core
from topicdb.arguments.filters import Filters, covers
from topicdb.errors import AccessError
from topicdb.map import escape

KINDS = ("consumer", "group", "map", "session")
ENDPOINT = "endpoint"  # a kind of names, too, which has a log and an endpoint behind it
_TOPICS_KNOWN_MAX = 100_000


def topics_of_name(name: str) -> list[str]:
    """Returns filters of the topics that store what a name such as ``consumer/etl`` stands for.

    A ``+`` in the place of the name, as in ``map/+``, stands for any name of the kind. Raises
    ValueError if ``name`` is of no such form.
    """
    kind, slash, label = name.partition("/")
    if kind not in KINDS or not slash or not label:
        kinds = ", ".join((*KINDS, ENDPOINT))
        raise ValueError(f"names: expected a kind ({kinds}), '/', and a name or '+', got {name!r}")
    level = label if label == "+" else escape(label)
    filters = [f"$topicdb/{kind}/{level}/#"]
    return [*filters, f"$topicdb/owner/{level}"] if kind == "map" else filters


@dataclass(frozen=True)
class Access:
    """What one token may do. Thread-safe.

    ``read``, ``write`` and ``admin`` are topic filters that the token may read, write and
    administer. ``names`` are the consumers, groups, maps and sessions that are its own, as
    ``consumer/etl`` or ``map/+``, and the endpoints of which it may be a client, as
    ``endpoint/default/orders``. ``replay`` are the endpoints on which it may have replays, as
    ``default/orders`` or ``default/+``. ``everything`` permits all of that, for every topic and
    name. ``expires_us`` is the end of the token, in microseconds since 1970-01-01 UTC; None: it has
    no end.
    """

    name: str
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    admin: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    replay: tuple[str, ...] = ()
    everything: bool = False
    expires_us: int | None = None
    _own: tuple[str, ...] = ()
    _endpoints: tuple[tuple[str, str], ...] = ()
    _replay: tuple[tuple[str, str], ...] = ()
    _writable: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for text in (*self.read, *self.write, *self.admin):
            _core.check_filter(text)
        prefix = f"{ENDPOINT}/"
        endpoints = [name.removeprefix(prefix) for name in self.names if name.startswith(prefix)]
        names = [name for name in self.names if not name.startswith(prefix)]
        own = [one for name in names for one in topics_of_name(name)]
        object.__setattr__(self, "_own", tuple(own))
        object.__setattr__(self, "_endpoints", tuple(map(_log_and_endpoint, endpoints)))
        object.__setattr__(self, "_replay", tuple(map(_log_and_endpoint, self.replay)))

    def check_read(self, filters: Filters) -> None:
        """Raises AccessError unless the token may read all that ``filters`` match.

        None stands for every topic, including those that begin with ``$``.
        """
        if filters is None and not self.everything:
            raise self._refused("read", "every topic, those that begin with '$', too", self.read)
        if not self.may_read_any():
            raise self._refused("read", "anything", ())
        self._check(_listed(filters), (*self.read, *self._own), "read")

    def check_write(self, topic: str) -> None:
        """Raises AccessError unless the token may write this topic."""
        if not self.everything and not self._may_write(topic):
            raise self._refused("write", repr(topic), self.write)

    def check_topics(self, topics: Iterable[str]) -> None:
        """Raises AccessError unless the token may write all of these topics."""
        if self.everything:
            return
        for topic in topics:
            self.check_write(topic)

    def may_read_any(self) -> bool:
        """Returns whether there is anything that the token may read."""
        return self.everything or bool(self.read or self._own)

    def check_write_any(self) -> None:
        """Raises AccessError unless there is anything that the token may write."""
        if not self.everything and not self.write and not self._own:
            raise self._refused("write", "anything", ())

    def check_own_any(self) -> None:
        """Raises AccessError unless a consumer, group, map or session is the token's own."""
        if not self.everything and not self._own:
            raise self._refused("use", "any name", ())

    def check_everything(self) -> None:
        """Raises AccessError unless the token may do everything."""
        if not self.everything:
            raise self._refused("bring staged files of", "a job", ())

    def check_any(self) -> None:
        """Raises AccessError if the token may do nothing at all."""
        rights = self.read, self.write, self.admin, self._own, self._endpoints, self._replay
        if not self.everything and not any(rights):
            raise self._refused("do", "anything", ())

    def _may_write(self, topic: str) -> bool:
        known = self._writable.get(topic)
        if known is None:
            if len(self._writable) >= _TOPICS_KNOWN_MAX:
                self._writable.clear()
            known = any(covers(one, topic) for one in (*self.write, *self._own))
            self._writable[topic] = known
        return known

    def check_delete(self, filter: str) -> None:
        """Raises AccessError unless the token may administer all topics that match ``filter``."""
        self._check((filter,), (*self.admin, *self._own), "administer")

    def check_admin(self) -> None:
        """Raises AccessError unless the token may administer the database as a whole."""
        self._check(("#",), self.admin, "administer", wanted="the database as a whole")

    def check_name(self, kind: str, name: str) -> None:
        """Raises AccessError unless this consumer, group, map or session is the token's own."""
        self._check(
            (f"$topicdb/{kind}/{escape(name)}/#",), self._own, "use", wanted=f"{kind}/{name}"
        )

    def check_client(self, log: str, endpoint: str) -> None:
        """Raises AccessError unless the token may be a client of this endpoint."""
        self._check_endpoint(self._endpoints, "be a client of", log, endpoint)

    def check_replay(self, log: str, endpoint: str) -> None:
        """Raises AccessError unless the token may have replays on this endpoint, and change it."""
        self._check_endpoint(self._replay, "have replays on", log, endpoint)

    def check_look(self, log: str, endpoint: str) -> None:
        """Raises AccessError unless the token may do one of both at this endpoint."""
        self._check_endpoint((*self._replay, *self._endpoints), "look at", log, endpoint)

    def check_watch(self, log: str) -> None:
        """Raises AccessError unless the token may have replays on all endpoints of the log.

        Who may administer the database may see the log as well.
        """
        if not self._may_administer():
            self._check_endpoint(self._replay, "see all of", log, "+")

    def check_log(self, log: str) -> None:
        """Raises AccessError unless the token may do anything with an endpoint of this log."""
        if self._may_administer():
            return
        if not any(one[0] in ("+", log) for one in (*self._replay, *self._endpoints)):
            raise self._refused("use", f"replay log {log!r}", self._logs())

    def check_open_log(self, log: str) -> None:
        """Raises AccessError unless the token may publish, or do anything with this log."""
        if not self.write:
            self.check_log(log)

    def check_logs_any(self) -> None:
        """Raises AccessError unless the token may do something with replay logs."""
        if not (self._replay or self._endpoints or self.write or self._may_administer()):
            raise self._refused("use", "any replay log", ())

    def _check_endpoint(
        self, permitted: Iterable[tuple[str, str]], verb: str, log: str, endpoint: str
    ) -> None:
        permitted = list(permitted)
        if self.everything or any(
            one[0] in ("+", log) and one[1] in ("+", endpoint) for one in permitted
        ):
            return
        raise self._refused(
            verb, f"endpoint {log}/{endpoint}", ["/".join(one) for one in permitted]
        )

    def _logs(self) -> list[str]:
        return sorted({one[0] for one in (*self._replay, *self._endpoints)})

    def _may_administer(self) -> bool:
        return self.everything or any(covers(one, "#") for one in self.admin)

    def _check(
        self, filters: Iterable[str], permitted: Sequence[str], verb: str, wanted: str | None = None
    ) -> None:
        for text in filters:
            _core.check_filter(text)
            if not self.everything and not any(covers(one, text) for one in permitted):
                raise self._refused(verb, wanted or repr(text), permitted)

    def _refused(self, verb: str, wanted: str, permitted: Sequence[str]) -> AccessError:
        allowed = ", ".join(repr(one) for one in permitted) or "nothing"
        return AccessError(f"token {self.name!r} may not {verb} {wanted}; it may {verb} {allowed}")


def _log_and_endpoint(text: str) -> tuple[str, str]:
    """Returns the names of a log and of its endpoint; the name of the log ends at the first '/'.

    Raises ValueError if the text is of no such form.
    """
    log, slash, endpoint = text.partition("/")
    if not log or not slash or not endpoint:
        raise ValueError(f"expected a log, '/', and an endpoint, each a name or '+', got {text!r}")
    return log, endpoint


def _listed(filters: Filters) -> Sequence[str]:
    return [filters] if isinstance(filters, str) else list(filters or ())


ANYBODY = Access("anonymous", everything=True)
"""The access of every client at a server without tokens."""
