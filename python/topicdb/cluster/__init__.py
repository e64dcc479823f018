"""A database that lives on several machines: its sites, and how they stand.

Importing this raises ModuleNotFoundError, which says why, if this TopicDB was built without
replication.
"""

from topicdb import _core

if _core.REPLICATION_LACKS:
    raise ModuleNotFoundError(
        f"this TopicDB has no replication: {_core.REPLICATION_LACKS}", name=__name__
    )

from topicdb.cluster.site import Site
from topicdb.replicas import (
    Cluster,
    ClusterStatus,
    ClusterVerification,
    ReplicaStatus,
    ReplicaVerification,
    SiteStatus,
)

__all__ = [
    "Cluster",
    "ClusterStatus",
    "ClusterVerification",
    "ReplicaStatus",
    "ReplicaVerification",
    "Site",
    "SiteStatus",
]
