"""The subscriptions and the selector of an endpoint, which say what it wants."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from topicdb.follow.positions import Place
from topicdb.replay.endpoint.admission import Admission
from topicdb.replay.records import EndpointRecord, Subscribed
from topicdb.replay.rules import Era, Matcher
from topicdb.replay.selector.properties import MessageSelector, selector_of
from topicdb.types import Message

_NOTHING = "$topicdb/nothing"  # for a queue without subscriptions, as no filter would mean all


class Interest:
    """The subscriptions and the selector of one endpoint, in the endpoint's record.

    A subscription that was removed stays in the record as long as messages that it brought may be
    at the endpoint. The endpoint's ``Parts`` own this object, and their lock is held for every
    call. This class uses no database.
    """

    def __init__(self, record: EndpointRecord) -> None:
        self._record = record
        self._accepts = selector_of(record.selector)
        self._matches = Matcher(())

    @property
    def subscriptions(self) -> list[str]:
        """The topic filters that count from now on."""
        return [one.filter for one in self._record.subscriptions if one.until is None]

    @property
    def filters(self) -> list[str]:
        """The topic filters of all that may come, including those of removed subscriptions."""
        return sorted({one.filter for one in self._record.subscriptions}) or [_NOTHING]

    def wants(self, message: Message) -> bool:
        """Returns whether a message is wanted that comes now, by its topic and the selector."""
        subscriptions = tuple(self.subscriptions)
        if self._matches.filters != subscriptions:
            self._matches = Matcher(subscriptions)
        if not self._matches(message.topic):
            return False
        return self._accepts is None or self._accepts(message)

    def add(self, filter: str, since: Place) -> None:
        """Adds a subscription, to messages of ``filter`` from ``since`` on."""
        self._record.subscriptions.append(Subscribed(filter, since))

    def remove(self, filter: str, until: Place) -> None:
        """Ends the subscription to ``filter`` at ``until``. REQUIRES: there is one."""
        for one in self._record.subscriptions:
            if one.filter == filter and one.until is None:
                one.until = until
                return

    def replace(
        self, filter: str, selector: str | None, accepts: MessageSelector | None, since: Place
    ) -> None:
        """Replaces all subscriptions and the selector.

        From ``since`` on, only messages of ``filter`` are wanted for which the selector is true.
        ``accepts``: the selector, compiled.
        """
        self._record.subscriptions[:] = [Subscribed(filter, since)]
        self._record.selector, self._accepts = selector, accepts

    def forget_removed(self, oldest: Place | None = None) -> None:
        """Forgets subscriptions that were removed: those that ended by ``oldest``, or all."""
        self._record.subscriptions[:] = [
            one
            for one in self._record.subscriptions
            if one.until is None or (oldest is not None and one.until > oldest)
        ]

    def admission(self, eras: Callable[[], Sequence[Era]]) -> Admission:
        """Returns an Admission for one reader, for the subscriptions and the replay of now."""
        return Admission(self._record, eras, self._accepts)
