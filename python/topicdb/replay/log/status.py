"""Reports on the replay logs of a database, also with a handle that is open for reading only."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from topicdb.arguments.times import now_us
from topicdb.follow.positions import Place, lag_of
from topicdb.replay.records import EndpointRecord, LogRecord, stored

if TYPE_CHECKING:
    from topicdb.database.database import Database


class LogStatus(NamedTuple):
    """The rules of a replay log, and how its endpoints and their replays stand.

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
    first: Place
    endpoints: list[dict[str, Any]]


def statuses(database: Database) -> list[LogStatus]:
    """Returns the status of all logs, sorted by name, as the process that has them open stored it.

    That process stores it within a second.
    """
    found: dict[str, LogStatus] = {}
    records = sorted(stored(database._core), key=lambda one: one[:2])  # a log before its endpoints
    for log, endpoint, value in records:
        if endpoint == "":
            record = LogRecord.decode(value)
            era = record.eras[-1]
            found[log] = LogStatus(
                log,
                era.ingress,
                record.egress,
                list(era.include),
                list(era.exclude),
                record.quota_bytes,
                record.first,
                [],
            )
        elif log in found:
            found[log].endpoints.append(_endpoint(database, EndpointRecord.decode(value)))
    return list(found.values())


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


def to_json(found: list[LogStatus]) -> str:
    """Returns the statuses as one JSON array."""
    return json.dumps([one._asdict() for one in found], ensure_ascii=False)
