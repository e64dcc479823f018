"""What a token may do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from topicdb import _core
from topicdb.arguments.filters import Filters, covers
from topicdb.errors import AccessError
from topicdb.map import escape

KINDS = ("consumer", "group", "map", "session")
_TOPICS_KNOWN_MAX = 100_000


def topics_of_name(name: str) -> list[str]:
    """Returns filters of the topics that store what a name such as ``consumer/etl`` stands for.

    A ``+`` in the place of the name, as in ``map/+``, stands for any name of the kind. Raises
    ValueError if ``name`` is of no such form.
    """
    kind, slash, label = name.partition("/")
    if kind not in KINDS or not slash or not label:
        raise ValueError(
            f"names: expected a kind ({', '.join(KINDS)}), '/', and a name or '+', got {name!r}"
        )
    level = label if label == "+" else escape(label)
    filters = [f"$topicdb/{kind}/{level}/#"]
    return [*filters, f"$topicdb/owner/{level}"] if kind == "map" else filters


@dataclass(frozen=True)
class Access:
    """What one token may do. Thread-safe.

    ``read``, ``write`` and ``admin`` are topic filters that the token may read, write and
    administer. ``names`` are the consumers, groups, maps and sessions that are its own, as
    ``consumer/etl`` or ``map/+``. ``everything`` permits all of that, for every topic and name.
    ``expires_us`` is the end of the token, in microseconds since 1970-01-01 UTC; None: it has no
    end.
    """

    name: str
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    admin: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    everything: bool = False
    expires_us: int | None = None
    _own: tuple[str, ...] = ()
    _writable: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for text in (*self.read, *self.write, *self.admin):
            _core.check_filter(text)
        own = [one for name in self.names for one in topics_of_name(name)]
        object.__setattr__(self, "_own", tuple(own))

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

    def check_any(self) -> None:
        """Raises AccessError if the token may do nothing at all."""
        if not (self.everything or self.read or self.write or self.admin or self._own):
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


def _listed(filters: Filters) -> Sequence[str]:
    return [filters] if isinstance(filters, str) else list(filters or ())


ANYBODY = Access("anonymous", everything=True)
"""The access of every client at a server without tokens."""
