"""The cluster of a database that a server offers."""

from __future__ import annotations

from topicdb.remote.client.connection import Connection
from topicdb.remote.records import record_of
from topicdb.replicas import (
    ClusterStatus,
    ClusterVerification,
    ReplicaStatus,
    ReplicaVerification,
    SitesChange,
    SiteStatus,
)


class ServedCluster:
    """Asks a server about the cluster of its database. Thread-safe."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def status(self) -> ClusterStatus:
        """Returns how the cluster stands, as the site of the server knows it."""
        # A site of an earlier version says nothing of formats.
        id, site, sites, shards, left, *formats = self._connection.call("cluster")
        return ClusterStatus(
            id,
            site,
            [record_of(SiteStatus, one) for one in sites],
            [record_of(ReplicaStatus, one) for one in shards],
            left,
            *formats,
        )

    def change(self, change: SitesChange, name: str, timeout_us: int) -> int:
        """Makes a change, as ``ClusterAccess.change`` says."""
        number: int = self._connection.call("cluster.change", change, name, timeout_us)
        return number

    def verify(self, timeout_us: int) -> ClusterVerification:
        """Has all sites compare their replicas."""
        replicas = self._connection.call("cluster.verify", timeout_us)
        return ClusterVerification([record_of(ReplicaVerification, one) for one in replicas])

    def heal(self, name: str, shard: int) -> None:
        """Has a site fill its replica of a shard anew."""
        self._connection.call("cluster.heal", name, shard)
