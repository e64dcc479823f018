"""The part of a replay log that says what is logged, and whether there are replays."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from topicdb.filters import Filters, filter_list
from topicdb.follow.positions import Place
from topicdb.replay.errors import LogModifiedError, ReplayDisabledError, ReplayError
from topicdb.replay.log.trimming import Trimmer
from topicdb.replay.records import LogRecord, Records
from topicdb.replay.rules import Era, Promoter, Promotion, checked_promotions, filters_of

if TYPE_CHECKING:
    from topicdb.replay.endpoint.endpoint import Endpoint


class LogRules:
    """The part of a replay log that says what is logged."""

    _lock: threading.RLock
    _name: str
    _record: LogRecord
    _records: Records
    _promoter: Promoter
    _trimmer: Trimmer
    _endpoints: dict[str, Endpoint]

    def now(self) -> Place:
        """Behind everything that is committed."""
        raise NotImplementedError

    def _check_open(self) -> None:
        raise NotImplementedError

    @property
    def ingress(self) -> bool:
        """Whether what is appended is logged; a change holds from the next commit on."""
        return self._record.eras[-1].ingress

    @ingress.setter
    def ingress(self, value: bool) -> None:
        with self._lock:
            era = self._record.eras[-1]
            self._begin_era(Era(self.now(), bool(value), era.include, era.exclude))

    @property
    def egress(self) -> bool:
        """Whether there can be replays; those that run when it is switched off fail."""
        return self._record.egress

    @egress.setter
    def egress(self, value: bool) -> None:
        with self._lock:
            self._check_open()
            self._record.egress = bool(value)
            self._records.save_log(self._record)
            if not value:
                self._fail_all(
                    ReplayDisabledError(f"the egress of replay log {self._name!r} was switched off")
                )

    @property
    def include(self) -> tuple[str, ...]:
        """Filters of what is logged."""
        return self._record.eras[-1].include

    @property
    def exclude(self) -> tuple[str, ...]:
        """Filters of what is not, though it is included."""
        return self._record.eras[-1].exclude

    def set_filters(self, include: Filters = "#", exclude: Filters = ()) -> None:
        """What is logged from now on. Fails the replays that run. TopicError, ValueError."""
        included, excluded = filters_of(include, "include"), filter_list(exclude) or []
        with self._lock:
            self._begin_era(Era(self.now(), self.ingress, included, excluded))

    def set_promotion(self, promote: Sequence[Promotion | str]) -> None:
        """Which direct messages are logged; see ``Promotion``. TopicError, ValueError."""
        rules = checked_promotions(promote)
        with self._lock:
            self._check_open()
            counts = self._promoter.counts
            self._promoter = Promoter(rules)
            self._promoter.counts = counts
            self._record.promote = rules
            self._records.save_log(self._record)

    def _begin_era(self, era: Era) -> None:
        self._check_open()
        last = self._record.eras[-1]
        if era.rules == last.rules:
            return
        self._record.eras = [*self._record.eras, era]
        self._trimmer.forget()
        self._records.save_log(self._record)
        if (era.include, era.exclude) != (last.include, last.exclude):
            self._fail_all(LogModifiedError(f"the filters of replay log {self._name!r} changed"))

    def _fail_all(self, error: ReplayError) -> None:
        for endpoint in self._endpoints.values():
            endpoint.fail_replay(error)
