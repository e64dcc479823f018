"""The settings of a replay log: what it logs, and whether there can be replays."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from topicdb.arguments.filters import Filters, filter_list
from topicdb.follow.subscription import check_log
from topicdb.replay.errors import LogModifiedError, ReplayDisabledError
from topicdb.replay.log.endpoint_host import EndpointHost
from topicdb.replay.log.endpoints import Endpoints
from topicdb.replay.log.log_rules import Change, LogRules
from topicdb.replay.records import LogRecord, Records
from topicdb.replay.rules import Era, Promotion, checked_promotions, filters_of


class LogSettings:
    """Methods of ReplayLog for its settings. They use its objects, under its lock."""

    _name: str
    _record: LogRecord
    _records: Records
    _lock: threading.RLock
    _rules: LogRules
    _host: EndpointHost
    _endpoints: Endpoints

    def _check_open(self) -> None:
        raise NotImplementedError

    @property
    def ingress(self) -> bool:
        """Whether messages that are appended are logged.

        It can be set, which counts from the next commit on. Messages that are not logged still come
        to endpoints, but are not replayed.
        """
        return self._rules.era.ingress

    @ingress.setter
    def ingress(self, value: bool) -> None:
        with self._lock:
            self._begin(self._rules.ingress_era(bool(value), self._host.now()))

    @property
    def egress(self) -> bool:
        """Whether there can be replays.

        It can be set. Replays that run when it becomes False fail with ReplayDisabledError.
        """
        return self._rules.egress

    @egress.setter
    def egress(self, value: bool) -> None:
        with self._lock:
            self._check_open()
            self._rules.egress = bool(value)
            self._records.save_log(self._record)
            if not value:
                self._endpoints.fail_all(
                    ReplayDisabledError(f"the egress of replay log {self._name!r} was switched off")
                )

    @property
    def temporary_replays(self) -> bool:
        """Whether a client of a temporary endpoint may start a replay when it binds.

        It can be set. Replays that run go on.
        """
        return self._record.temporary_replays

    @temporary_replays.setter
    def temporary_replays(self, value: bool) -> None:
        with self._lock:
            self._check_open()
            self._record.temporary_replays = bool(value)
            self._records.save_log(self._record)

    @property
    def include(self) -> tuple[str, ...]:
        """The topic filters of what is logged now."""
        return self._rules.era.include

    @property
    def exclude(self) -> tuple[str, ...]:
        """The topic filters of what is not logged now, although ``include`` matches it."""
        return self._rules.era.exclude

    def set_filters(self, include: Filters = "#", exclude: Filters = ()) -> None:
        """Changes which topics are logged from now on.

        If that differs from the filters of now, replays that run fail with LogModifiedError.

        Arguments:
            include: the filters of what is logged, at least one.
            exclude: the filters of what is not logged, although ``include`` matches it.

        Raises:
            TopicError: a bad filter.
            ValueError: ``include`` has no filter.
            SchemaError: what ``include`` matches goes to a generation that keeps no log.
            ClosedError: the log is closed.
        """
        included, excluded = filters_of(include, "include"), filter_list(exclude) or []
        with self._lock:
            check_log(self._host.core, included, None)
            self._begin(self._rules.filters_era(included, excluded, self._host.now()))

    def set_promotion(self, promote: Sequence[Promotion | str]) -> None:
        """Changes which direct messages ``publish(qos=0)`` logs from now on.

        Arguments:
            promote: the rules. A topic filter alone stands for a ``Promotion`` without limits.

        Raises:
            TopicError: a bad filter.
            ValueError: a limit is not positive.
            ClosedError: the log is closed.
        """
        rules = checked_promotions(promote)
        with self._lock:
            self._check_open()
            self._rules.set_promotion(rules)
            self._records.save_log(self._record)

    def _begin(self, era: Era) -> None:
        self._check_open()
        change = self._rules.begin(era)
        if change is Change.NOTHING:
            return
        self._records.save_log(self._record)
        if change is Change.FILTERS:
            self._endpoints.fail_all(
                LogModifiedError(f"the filters of replay log {self._name!r} changed")
            )
