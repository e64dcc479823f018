"""What a server answers about the cluster of its database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from topicdb.database.database import Database
from topicdb.remote.server.handles import Caller
from topicdb.replicas import Cluster, SitesChange


class ClusterCalls:
    """Answers calls about the cluster of a database. Made for a ``Service``. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def calls(self) -> dict[str, Callable[..., Any]]:
        """Returns the calls, by name."""
        return {
            "cluster": self._status,
            "cluster.change": self._change,
            "cluster.heal": self._heal,
            "cluster.verify": self._verify,
        }

    def _status(self, caller: Caller) -> tuple[Any, ...]:
        """Returns the fields of ``topicdb.cluster.ClusterStatus``."""
        caller.access.check_any()
        status = self._cluster().status()
        formats = status.format, status.newest_format
        return (
            status.id,
            status.site,
            list(status.sites),
            list(status.shards),
            status.left,
            *formats,
        )

    def _change(self, caller: Caller, change: SitesChange, site: str, timeout_us: int) -> int:
        """Makes a change of ``topicdb.replicas.SitesChange``."""
        caller.access.check_admin()
        return self._cluster()._access.change(change, site, timeout_us)

    def _verify(self, caller: Caller, timeout_us: int) -> list[Any]:
        """Returns the replicas of ``topicdb.cluster.ClusterVerification``."""
        caller.access.check_admin()
        return list(self._cluster()._access.verify(timeout_us).replicas)

    def _heal(self, caller: Caller, site: str, shard: int) -> None:
        caller.access.check_admin()
        self._cluster()._access.heal(site, shard)

    def _cluster(self) -> Cluster:
        cluster = self._database.cluster
        if cluster is None:
            raise ValueError(f"{self._database.path} is no replicated database: it has no sites")
        return cluster
