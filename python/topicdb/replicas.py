"""How a cluster stands; also for programs that have no replication themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

ReplicaState: TypeAlias = Literal["following", "taking over", "leading", "giving up", "failed"]


@dataclass(frozen=True, slots=True)
class SiteStatus:
    """A site of a cluster. Made by ``Cluster.status``.

    Attributes:
        name: its name.
        replica: its number in the consensus.
        peers: where other sites find it, ``host:port``.
        clients: where clients find it, a URL; empty if it serves none.
    """

    name: str
    replica: int
    peers: str
    clients: str


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """The replica of one shard at the site that was asked. Made by ``Cluster.status``.

    Attributes:
        shard: the number of the shard.
        state: what the replica does. A ``"failed"`` one takes part no more; start its site anew.
        leader: the name of the site that leads the shard; None if none is known.
        term: counts the elections of the shard.
        committed: the last entry of the log that a majority of the sites has.
        applied: the last entry whose messages readers see here.
        first: the oldest entry that the log still has.
        last: the newest one.
        failure: why the replica has failed; None if it has not.
    """

    shard: int
    state: ReplicaState
    leader: str | None
    term: int
    committed: int
    applied: int
    first: int
    last: int
    failure: str | None

    @property
    def lag(self) -> int:
        """How many entries are committed that readers do not see here yet."""
        return max(0, self.committed - self.applied)


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """How a cluster stands, as one of its sites knows it. Made by ``Cluster.status``.

    Attributes:
        id: names the cluster: 32 hexadecimal digits; empty until a majority has met.
        site: the name of the site that was asked.
        sites: all sites of the cluster, by name.
        shards: the replicas of this site, by shard.
    """

    id: str
    site: str
    sites: list[SiteStatus]
    shards: list[ReplicaStatus]

    def leader_of(self, shard: int) -> SiteStatus | None:
        """Returns the site that leads a shard.

        Arguments:
            shard: its number.

        Returns:
            The site, or None if this site knows of none.
        """
        names = {one.shard: one.leader for one in self.shards}
        return next((one for one in self.sites if one.name == names.get(shard)), None)


class Cluster:
    """The cluster of a replicated database. Made by ``Database.cluster``. Thread-safe.

    Example:
        >>> cluster = db.cluster  # doctest: +SKIP
        >>> [site.name for site in cluster.status().sites]  # doctest: +SKIP
        ['a', 'b', 'c']
    """

    def __init__(self, ask: Callable[[], ClusterStatus]) -> None:
        self._ask = ask

    def status(self) -> ClusterStatus:
        """Returns how the cluster stands, as the site knows it that this database is open at.

        Example:
            >>> [one.leader for one in db.cluster.status().shards]  # doctest: +SKIP
            ['a', 'a', 'c', 'b']
        """
        return self._ask()

    def __repr__(self) -> str:
        return "<topicdb.cluster.Cluster>"
