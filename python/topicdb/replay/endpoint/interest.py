"""What an endpoint wants: its subscriptions and its selector."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from topicdb.follow.positions import Place
from topicdb.replay.endpoint.admission import Admission
from topicdb.replay.records import EndpointRecord, Subscribed
from topicdb.replay.rules import Era
from topicdb.replay.selector.properties import MessageSelector, selector_of

_NOTHING = "$topicdb/nothing"  # for a queue without subscriptions: no filters would be all topics


class Interest:
    """The subscriptions and the selector of one endpoint, in the endpoint's record.

    A subscription that was removed stays in the record as long as messages that it brought may be
    at the endpoint. The endpoint's ``Parts`` own this object and lock it; it uses no database.
    """

    def __init__(self, record: EndpointRecord) -> None:
        self._record = record
        self._accepts = selector_of(record.selector)

    @property
    def subscriptions(self) -> list[str]:
        """The topic filters that count from now on."""
        return [one.filter for one in self._record.subscriptions if one.until is None]

    @property
    def filters(self) -> list[str]:
        """The topic filters of all that may come, including subscriptions that were removed."""
        return sorted({one.filter for one in self._record.subscriptions}) or [_NOTHING]

    def add(self, filter: str, since: Place) -> None:
        """Wants messages of ``filter`` from ``since`` on, too."""
        self._record.subscriptions.append(Subscribed(filter, since))

    def remove(self, filter: str, until: Place) -> None:
        """Wants nothing more of ``filter`` from ``until`` on. REQUIRES: it is subscribed."""
        for one in self._record.subscriptions:
            if one.filter == filter and one.until is None:
                one.until = until
                return

    def replace(
        self, filter: str, selector: str | None, accepts: MessageSelector | None, since: Place
    ) -> None:
        """Wants only messages of ``filter`` from ``since`` on that the selector is true of."""
        self._record.subscriptions[:] = [Subscribed(filter, since)]
        self._record.selector, self._accepts = selector, accepts

    def forget_removed(self, oldest: Place | None = None) -> None:
        """Forgets subscriptions that were removed before ``oldest``, or all that were removed."""
        self._record.subscriptions[:] = [
            one
            for one in self._record.subscriptions
            if one.until is None or (oldest is not None and one.until > oldest)
        ]

    def admission(self, eras: Callable[[], Sequence[Era]]) -> Admission:
        """The filter for one reader: it holds for the subscriptions and the replay of now."""
        return Admission(self._record, eras, self._accepts)
