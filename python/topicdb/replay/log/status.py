"""How the replay logs of a database stand, as stored: also for who only reads it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from topicdb.follow.positions import Place, lag_of
from topicdb.replay.records import EndpointRecord, LogRecord, stored
from topicdb.times import now_us

if TYPE_CHECKING:
    from topicdb.database.database import Database


class LogStatus(NamedTuple):
    """A replay log. Of each endpoint: ``name``, ``kind``, ``state`` of the replay, how many
    messages were ``replayed`` (None: none runs), how many of them a second since it was started
    (``per_s``), at which ``rate`` it may go and whether it is ``paused``; the ``position``;
    ``subscriptions``; ``lag`` (messages that it has still to read); ``clients``, each with its
    ``window`` and how much of it is ``unacknowledged``; ``last_start``, ``last_complete``,
    ``last_failure``."""

    name: str
    ingress: bool
    egress: bool
    include: list[str]
    exclude: list[str]
    quota_bytes: int
    first: Place
    endpoints: list[dict[str, Any]]


def statuses(database: Database) -> list[LogStatus]:
    """Of all logs, by name; at most a second old."""
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
    """One JSON array."""
    return json.dumps([one._asdict() for one in found], ensure_ascii=False)
