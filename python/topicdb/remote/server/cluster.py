"""What a server answers about the cluster of its database."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from topicdb.database.database import Database
from topicdb.remote.server.handles import Caller
from topicdb.replicas import Cluster


class ClusterCalls:
    """Answers calls about the cluster of a database. Made for a ``Service``. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def calls(self) -> dict[str, Callable[..., Any]]:
        """Returns the calls, by name."""
        return {"cluster": self._status, "cluster.change": self._change}

    def _status(self, caller: Caller) -> tuple[Any, ...]:
        """Returns the fields of ``topicdb.cluster.ClusterStatus``."""
        caller.access.check_any()
        status = self._cluster().status()
        return status.id, status.site, list(status.sites), list(status.shards), status.left

    def _change(self, caller: Caller, change: str, site: str, timeout_us: int) -> int:
        """Makes a change of ``topicdb.replicas.SitesChange``."""
        caller.access.check_admin()
        cluster, timeout = self._cluster(), timedelta(microseconds=timeout_us)
        if change == "balance":
            return cluster.balance()
        if change == "step_down":
            cluster.step_down(site)
        elif change == "leave":
            cluster.leave(site, timeout=timeout)
        elif change == "forget":
            cluster.forget(site, timeout=timeout)
        else:
            raise ValueError(f"a cluster has no change {change!r}")
        return 0

    def _cluster(self) -> Cluster:
        cluster = self._database.cluster
        if cluster is None:
            raise ValueError(f"{self._database.path} is no replicated database: it has no sites")
        return cluster
