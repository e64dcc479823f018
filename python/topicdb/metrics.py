"""Prometheus metrics of a database and its server. Needs ``topicdb[serve]``.

>>> from prometheus_client import REGISTRY
>>> REGISTRY.register(topicdb.metrics.Collector(db))                 # doctest: +SKIP
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

try:
    from prometheus_client import CollectorRegistry, start_http_server
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector as _Collector
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'metrics need prometheus_client; run: pip install "topicdb[serve]"', name=error.name
    ) from None

from topicdb import _core
from topicdb.follow import session_state
from topicdb.follow.positions import standings

if TYPE_CHECKING:
    from topicdb.database.database import Database
    from topicdb.remote.server.server import Server

_logger = logging.getLogger(__name__)

SESSIONS_INTERVAL_S = 60.0
"""Counting sessions reads them all: so long the last count holds."""

_SHARD_GAUGES = {
    "serial": "Serial of the last commit.",
    "messages": "Messages that were stored.",
    "bytes": "Bytes of their topics and values.",
    "streams": "Streams of the slabs that are there.",
    "slabs": "Slabs that are there.",
    "disk_bytes": "Bytes of files.",
    "memory_bytes": "Bytes of memory for what is not in files yet.",
    "fresh_bytes": "Bytes that wait to be sealed.",
    "clock_ahead": "Microseconds that the last assigned timestamp is ahead of the clock.",
    "clock_held": "Microseconds that the clock is ahead of what is believed.",
}
_SUBSCRIPTION_COUNTERS = {
    "live_reads": "Reads of what was just committed, for subscriptions.",
    "catch_up_reads": "Reads of history for subscriptions.",
    "shared_reads": "Reads that another subscription had done.",
}


_REPLICA_GAUGES = {
    "leads": "Whether this site leads the shard.",
    "term": "How many elections of the shard there were, at least.",
    "committed": "The last entry of the log that a majority of the sites has.",
    "applied": "The last entry that readers see here.",
    "lag": "Entries that are committed and not applied here.",
    "log_entries": "Entries that the log still has.",
    "failed": "Whether the replica takes part no more.",
    "healing": "Whether the replica is damaged, and fills itself from another site.",
}


class Collector(_Collector):
    """Metrics of a database, and of the server that offers it, as they are at each collection.

    An error of the database is a metric, too: then ``topicdb_up`` is 0. Thread-safe.
    """

    def __init__(self, database: Database, server: Server | None = None) -> None:
        self._database = database
        self._server = server
        self._lock = threading.Lock()
        self._sessions = 0
        self._count_sessions_at = time.monotonic()

    def collect(self) -> Iterator[Metric]:
        """Gives the metrics, for Prometheus."""
        found: list[Metric] = []
        up = 1
        try:
            stats = self._database.stats()
            found += _of_shards(stats)
            found += _of_replicas(self._database)
        except (_core.Error, ValueError):
            up = 0
        else:
            try:
                if not stats["missing_shards"]:  # what is stored of followers needs all shards
                    found += self._of_followers()
            except Exception as error:  # anybody may have stored anything there
                up = 0 if self._database.closed else 1
                _logger.error("no metrics of consumers, groups and sessions: %r", error)
        yield GaugeMetricFamily("topicdb_up", "Whether the database can be used.", value=up)
        yield from found
        if self._server is not None:
            yield from _of_server(self._server)

    def _of_followers(self) -> list[Metric]:
        core = self._database._core
        lag = GaugeMetricFamily(
            "topicdb_lag_messages",
            "Messages that are stored and not acknowledged, about.",
            labels=["kind", "name"],
        )
        lost = CounterMetricFamily(
            "topicdb_lost_messages",
            "Messages that were dropped before they could be read, so many at most.",
            labels=["kind", "name"],
        )
        for kind in ("consumer", "group"):
            for name, standing in standings(core, kind).items():
                lag.add_metric([kind, name], math.nan if standing is None else standing.lag)
                lost.add_metric([kind, name], math.nan if standing is None else standing.lost)
        sessions = GaugeMetricFamily(
            "topicdb_sessions", "MQTT sessions that are stored.", value=self._count_sessions()
        )
        members = GaugeMetricFamily(
            "topicdb_group_members", "Members of groups that are open.", labels=["name"]
        )
        for group in self._server.service.groups() if self._server is not None else ():
            members.add_metric([group.name], len(group.members()))
        return [lag, lost, sessions, members]

    def _count_sessions(self) -> int:
        with self._lock:
            if time.monotonic() >= self._count_sessions_at:
                self._sessions = sum(1 for _ in session_state.stored(self._database._core))
                self._count_sessions_at = time.monotonic() + SESSIONS_INTERVAL_S
            return self._sessions


def serve_metrics(collector: Collector, host: str, port: int) -> tuple[Any, threading.Thread]:
    """Serves ``http://host:port/metrics``; returns the HTTP server and its thread.

    ``shutdown`` of the server ends it.
    """
    registry = CollectorRegistry()
    registry.register(collector)
    server, thread = start_http_server(port, addr=host, registry=registry)
    return server, thread


def _of_replicas(database: Database) -> list[Metric]:
    if database.cluster is None:
        return []
    gauges = {
        name: GaugeMetricFamily(f"topicdb_replica_{name}", text, labels=["shard"])
        for name, text in _REPLICA_GAUGES.items()
    }
    for one in database.cluster.status().shards:
        values = {
            "leads": one.state == "leading",
            "term": one.term,
            "committed": one.committed,
            "applied": one.applied,
            "lag": one.lag,
            "log_entries": max(0, one.last - one.first + 1),
            "failed": one.state == "failed",
            "healing": one.state == "healing",
        }
        for name, value in values.items():
            gauges[name].add_metric([str(one.shard)], float(value))
    return list(gauges.values())


def _of_shards(stats: dict[str, Any]) -> list[Metric]:
    found: list[Metric] = []
    for key, text in _SHARD_GAUGES.items():
        gauge = GaugeMetricFamily(f"topicdb_shard_{key}", text, labels=["shard"])
        for shard in stats["shards"]:
            gauge.add_metric([str(shard["shard"])], shard[key])
        found.append(gauge)
    reads = CounterMetricFamily(
        "topicdb_reads", "What reading took: blocks, pages, rows, bytes.", labels=["shard", "what"]
    )
    for shard in stats["shards"]:
        for what, count in shard["reads"].items():
            reads.add_metric([str(shard["shard"]), what], count)
    found.append(reads)
    found.append(
        GaugeMetricFamily("topicdb_cache_bytes", "Bytes of memory.", value=stats["cache_bytes"])
    )
    found.append(
        GaugeMetricFamily(
            "topicdb_missing_shards",
            "Shards that the database was opened without.",
            value=len(stats["missing_shards"]),
        )
    )
    failing = bool(stats["maintenance"]["error"]) or any(
        shard["sealing_error"] for shard in stats["shards"]
    )
    found.append(
        GaugeMetricFamily(
            "topicdb_background_failing", "Whether sealing or maintenance fails.", value=failing
        )
    )
    return found + _of_subscriptions(stats["subscriptions"])


def _of_subscriptions(stats: dict[str, int]) -> list[Metric]:
    found: list[Metric] = [
        GaugeMetricFamily(
            "topicdb_subscriptions", "Subscriptions that are open.", value=stats["subscriptions"]
        ),
        GaugeMetricFamily(
            "topicdb_subscription_page_bytes",
            "Bytes of the log that are kept for them.",
            value=stats["page_bytes"],
        ),
    ]
    for key, text in _SUBSCRIPTION_COUNTERS.items():
        found.append(CounterMetricFamily(f"topicdb_subscription_{key}", text, value=stats[key]))
    return found


def _of_server(server: Server) -> Iterator[Metric]:
    told = server.meter.told()
    for name, text in (
        ("calls", "Calls that have ended."),
        ("errors", "Calls that have ended with an error."),
        ("seconds", "Time of calls, those that wait and those that last, too."),
    ):
        counter = CounterMetricFamily(f"topicdb_server_call_{name}", text, labels=["call"])
        for call, counts in told.by_call.items():
            counter.add_metric([call], getattr(counts, name))
        yield counter
    refused = CounterMetricFamily(
        "topicdb_server_refused", "Calls that were not let in.", labels=["error"]
    )
    for kind, count in told.refusals.items():
        refused.add_metric([kind], count)
    yield refused
    for way in ("received", "sent"):
        for what in ("messages", "bytes"):
            text = f"{what.capitalize()} that were {way}, of appends, scans and subscriptions."
            value = getattr(told, f"{what}_{way}")
            yield CounterMetricFamily(f"topicdb_server_{what}_{way}", text, value=value)
    yield from _of_memory(server)
    yield from _of_clients(server)


def _of_memory(server: Server) -> Iterator[Metric]:
    clients = server.service.clients
    memory = clients.memory
    yield GaugeMetricFamily(
        "topicdb_server_memory_bytes",
        "Bytes that calls and open transactions hold.",
        value=memory.used,
    )
    yield GaugeMetricFamily(
        "topicdb_server_memory_bytes_max", "How many they may.", value=memory.bytes_max
    )
    by_token = GaugeMetricFamily(
        "topicdb_server_token_memory_bytes", "The same of each token.", labels=["token"]
    )
    for token, used in clients.memory_by_token().items():
        by_token.add_metric([token], used)
    yield by_token
    yield CounterMetricFamily(
        "topicdb_server_memory_waits", "How often a call waited for memory.", value=memory.waits
    )


def _of_clients(server: Server) -> Iterator[Metric]:
    clients = server.service.clients.all()
    yield GaugeMetricFamily("topicdb_server_clients", "Connections.", value=len(clients))
    handles = GaugeMetricFamily(
        "topicdb_server_handles", "What clients have open.", labels=["kind"]
    )
    kinds: dict[str, int] = {}
    for client in clients:
        for handle in client.handles():
            kind = type(handle).__name__.lower()
            kinds[kind] = kinds.get(kind, 0) + 1
    for kind, count in kinds.items():
        handles.add_metric([kind], count)
    yield handles
