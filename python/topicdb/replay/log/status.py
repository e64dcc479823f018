"""Reports on the replay logs of a database, also with a handle that is open for reading only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from topicdb.arguments.times import now_us
from topicdb.follow.positions import Place, lag_of
from topicdb.replay.log.measuring import LogMeasure
from topicdb.replay.records import EndpointRecord, LogRecord, stored

if TYPE_CHECKING:
    from topicdb.database.database import Database


class LogStatus(NamedTuple):
    """The rules of a replay log, how large it is, and how its endpoints and their replays stand.

    ``bytes`` are those of topics and values in the log, and ``quota_used`` is that part of the
    quota; None without a quota. A log that has more than 0.9 of its quota is trimmed to 0.8 within
    a second.

    ``endpoints`` has a dictionary for each endpoint:

    - ``name``, ``kind``, ``subscriptions``.
    - ``state``: of the replay, as in ``State``.
    - ``replayed``: how many messages have come to the endpoint in the replay; ``per_s``: how many
      of them a second since it was started; ``rate``: the rate that was asked for. Each is None if
      no replay runs.
    - ``paused``: whether the replay pauses.
    - ``position``: the place that is read next, as text.
    - ``lag``: about how many messages the endpoint has still to read.
    - ``clients``: of each client its name, its ``window`` and how many messages in it are
      ``unacknowledged``.
    - ``last_start``, ``last_complete``, ``last_failure``: as in ``Endpoint.info``.
    """

    name: str
    ingress: bool
    egress: bool
    include: list[str]
    exclude: list[str]
    quota_bytes: int
    bytes: int
    quota_used: float | None
    first: Place
    endpoints: list[dict[str, Any]]


class LogStatuses:
    """Reports on the replay logs of one database, again and again.

    Each report costs what was committed since the one before, as the sizes of the logs are counted
    on. Whoever reports owns this object, and uses it with one thread at a time.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._measures: dict[str, LogMeasure] = {}

    def read(self) -> list[LogStatus]:
        """Returns the status of all logs, sorted by name.

        The process that has a log open stores its status within a second. The size is counted here.
        """
        core = self._database._core
        found: dict[str, LogStatus] = {}
        for log, endpoint, value in sorted(stored(core), key=lambda one: one[:2]):
            if endpoint == "":  # a log comes before its endpoints
                found[log] = self._log(log, LogRecord.decode(value))
            elif log in found:
                record = EndpointRecord.decode(value)
                found[log].endpoints.append(_endpoint(self._database, record))
        self._measures = {name: self._measures[name] for name in found}
        return list(found.values())

    def _log(self, name: str, record: LogRecord) -> LogStatus:
        measure = self._measures.setdefault(name, LogMeasure(self._database._core))
        measure.count(record)
        era, quota = record.eras[-1], record.quota_bytes
        return LogStatus(
            name,
            era.ingress,
            record.egress,
            list(era.include),
            list(era.exclude),
            quota,
            measure.bytes,
            measure.bytes / quota if quota > 0 else None,
            record.first,
            [],
        )


def _endpoint(database: Database, record: EndpointRecord) -> dict[str, Any]:
    filters = sorted({one.filter for one in record.subscriptions if one.until is None})
    run = record.run
    return {
        "name": record.name,
        "kind": record.kind,
        "state": record.state,
        "replayed": None if run is None else run.done,
        "per_s": None if run is None else _per_s(run.done, record.last_start),
        "rate": None if run is None else run.rate,
        "paused": run is not None and run.paused,
        "position": f"{record.next.serial}-{record.next.row}",
        "subscriptions": filters,
        "lag": lag_of(database._core, filters, 0, {0: record.next}) if filters else 0,
        "clients": [
            {"client": client, "window": window, "unacknowledged": unacknowledged}
            for client, window, unacknowledged in record.clients
        ],
        "last_start": record.last_start,
        "last_complete": record.last_complete,
        "last_failure": record.last_failure,
    }


def _per_s(done: int, last_start: list[Any] | None) -> float | None:
    passed_us = 0 if last_start is None else now_us() - last_start[0]
    return done / passed_us * 1e6 if passed_us > 0 else None
