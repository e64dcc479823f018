"""How a cluster stands; also for programs that have no replication themselves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, Protocol, TypeAlias

from topicdb.arguments.times import duration_us

ReplicaState: TypeAlias = Literal[
    "following", "taking over", "leading", "giving up", "failed", "healing"
]
ReplicaOutcome: TypeAlias = Literal["same", "differs", "damaged", "not compared"]
SiteState: TypeAlias = Literal["member", "joining", "leaving"]
SitesChange: TypeAlias = Literal["leave", "forget", "step_down", "balance", "upgrade"]


@dataclass(frozen=True, slots=True)
class SiteStatus:
    """A site of a cluster. Made by ``Cluster.status``.

    Attributes:
        name: its name.
        replica: its number in the consensus.
        peers: where other sites find it, ``host:port``.
        clients: where clients find it, a URL; empty if it serves none.
        state: ``"joining"`` until it has all shards, and ``"leaving"`` until no shard needs it.
    """

    name: str
    replica: int
    peers: str
    clients: str
    state: SiteState = "member"


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """The replica of one shard at the site that was asked. Made by ``Cluster.status``.

    Attributes:
        shard: the number of the shard.
        state: what the replica does. A ``"failed"`` one takes part no more; start its site anew. A
            ``"healing"`` one is damaged, and fills itself from another site.
        leader: the name of the site that leads the shard; None if none is known.
        term: counts the elections of the shard.
        committed: the last entry of the log that a majority of the sites has.
        applied: the last entry whose messages readers see here.
        first: the oldest entry that the log still has.
        last: the newest one.
        failure: why the replica has failed, or is being healed; None if all is well.
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
        left: why the site that was asked is no member of the cluster any more; None while it is.
        format: the format that is in force: no site writes what came with a later one.
        newest_format: the newest one with which the site that was asked can work. Once all sites
            can work with a later one than ``format``, ``Cluster.upgrade`` puts it in force.
    """

    id: str
    site: str
    sites: list[SiteStatus]
    shards: list[ReplicaStatus]
    left: str | None = None
    format: int = 1
    newest_format: int = 1

    def leader_of(self, shard: int) -> SiteStatus | None:
        """Returns the site that leads a shard.

        Arguments:
            shard: its number.

        Returns:
            The site, or None if this site knows of none.
        """
        names = {one.shard: one.leader for one in self.shards}
        return next((one for one in self.sites if one.name == names.get(shard)), None)


@dataclass(frozen=True, slots=True)
class ReplicaVerification:
    """What a comparison says of the replica of one shard. Made by ``Cluster.verify``.

    Attributes:
        shard: the number of the shard.
        site: the name of the site that has the replica.
        outcome: ``"same"`` if it has what more than half of those have that were read;
            ``"differs"``; ``"damaged"`` if it cannot be read; ``"not compared"`` if its site did
            not answer, say.
        parts: what differs, such as ``"the blocks of class '#', generation 3"``.
        why: why it is damaged or was not compared; or that no majority of the replicas has the
            same, so that nobody knows which are right. None otherwise.
    """

    shard: int
    site: str
    outcome: ReplicaOutcome
    parts: list[str]
    why: str | None


@dataclass(frozen=True, slots=True)
class ClusterVerification:
    """Whether all sites have the same. Made by ``Cluster.verify``.

    Attributes:
        replicas: each replica, by shard and site.
    """

    replicas: list[ReplicaVerification]

    @property
    def ok(self) -> bool:
        """Whether all replicas were compared, and have the same."""
        return all(one.outcome == "same" for one in self.replicas)


class ClusterAccess(Protocol):
    """What a cluster is asked by: a site of this process, or a server."""

    def status(self) -> ClusterStatus:
        """Returns how the cluster stands, as one of its sites knows it."""
        ...

    def change(self, change: SitesChange, name: str, timeout_us: int) -> int:
        """Makes a change.

        Returns how many shards were handed over, of ``balance``, and the format in force, of
        ``upgrade``.
        """
        ...

    def verify(self, timeout_us: int) -> ClusterVerification:
        """Has all sites compare their replicas."""
        ...

    def heal(self, name: str, shard: int) -> None:
        """Has a site fill its replica of a shard anew."""
        ...


class Cluster:
    """The cluster of a replicated database. Made by ``Database.cluster``. Thread-safe.

    A client of a server needs a token that may administer ``#`` to change it.

    Example:
        >>> cluster = db.cluster  # doctest: +SKIP
        >>> [site.name for site in cluster.status().sites]  # doctest: +SKIP
        ['a', 'b', 'c']
        >>> cluster.forget("c")  # its disk is lost  # doctest: +SKIP
    """

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access

    def status(self) -> ClusterStatus:
        """Returns how the cluster stands, as the site knows it that this database is open at.

        Example:
            >>> [one.leader for one in db.cluster.status().shards]  # doctest: +SKIP
            ['a', 'a', 'c', 'b']
        """
        return self._access.status()

    def leave(self, site: str, *, timeout: str | timedelta = "60s") -> None:
        """Has a site leave the cluster, and waits until the others go on without it.

        Its directory stays as it is, and is of no use to a cluster any more. The site may be any
        one, also that at which this is called.

        Arguments:
            site: its name.
            timeout: how long to wait.

        Raises:
            ClusterError: there is no such site, or no other one has all shards. Nothing was done.
            NoQuorumError: no majority of the sites is up. Nothing was done.
            UnknownOutcomeError: the site has not left in time. It goes on leaving, as ``status``
                shows.

        Example:
            >>> db.cluster.leave("c")  # doctest: +SKIP
        """
        self._access.change("leave", site, duration_us(timeout, what="timeout"))

    def forget(self, site: str, *, timeout: str | timedelta = "60s") -> None:
        """Has the others go on without a site whose machine or disk is gone for good.

        A new site may join under its name. If the site comes back, it is no member any more.

        Arguments:
            site: its name.
            timeout: how long to wait.

        Raises:
            ClusterError: there is no such site, or it is up: have it ``leave``. Nothing was done.
            NoQuorumError: no majority of the sites is up, the lost one included. Nothing was done.
            UnknownOutcomeError: not done in time. It goes on, as ``status`` shows.

        Example:
            >>> db.cluster.forget("c")  # doctest: +SKIP
        """
        self._access.change("forget", site, duration_us(timeout, what="timeout"))

    def step_down(self, site: str) -> None:
        """Has a site hand over all shards that it leads, such as before its machine is restarted.

        The site stays a member. It may lead again later, when another one is lost.

        Arguments:
            site: its name.

        Raises:
            ClusterError: there is no such site.
            NoQuorumError: the site does not answer, or no other one is up that could lead.
            UnknownOutcomeError: some shards may still be handed over.

        Example:
            >>> db.cluster.step_down("a")  # doctest: +SKIP
        """
        self._access.change("step_down", site, 0)

    def balance(self) -> int:
        """Has sites hand over shards until each of those that are up leads about as many.

        Returns:
            How many shards were handed over.

        Raises:
            NoQuorumError: a site leads a shard no more that it was to hand over. Try again.
            UnknownOutcomeError: a shard may still be handed over.

        Example:
            >>> db.cluster.balance()  # doctest: +SKIP
            2
        """
        return self._access.change("balance", "", 0)

    def upgrade(self, *, timeout: str | timedelta = "10s") -> int:
        """Puts the newest format in force with which all sites can work.

        Sites are upgraded one by one: until all of them run the new version of TopicDB, they go on
        in the format in force. What a later format brings works after this call. There is no way
        back to a version that does not know the format.

        Arguments:
            timeout: how long to wait for a majority of the sites.

        Returns:
            The format that is in force now.

        Raises:
            ClusterError: some sites cannot work with a later format than the one in force, or do
                not answer, and the message names them; or a site has joined meanwhile. Nothing was
                done.
            NoQuorumError: no majority of the sites is up. Nothing was done.
            UnknownOutcomeError: it may still be done, as ``status`` shows.

        Example:
            >>> db.cluster.upgrade()  # doctest: +SKIP
            2
        """
        return self._access.change("upgrade", "", duration_us(timeout, what="timeout"))

    def verify(self, *, timeout: str | timedelta = "1h") -> ClusterVerification:
        """Has all sites read their replicas, and compares what they have.

        Each site reads all of a shard as it is after the same entry of the log of that shard, one
        shard after the other, and at a low priority. Appends go on meanwhile. A replica that cannot
        be read heals itself, unless its site was told not to.

        Arguments:
            timeout: how long to wait for the sites. What was not compared by then is said to be so.

        Returns:
            What each replica has. Of three replicas the one that differs is named; of two nobody
            knows which one is right.

        Example:
            >>> found = db.cluster.verify()  # doctest: +SKIP
            >>> [one for one in found.replicas if one.outcome != "same"]  # doctest: +SKIP
            []
        """
        return self._access.verify(duration_us(timeout, what="timeout"))

    def heal(self, site: str, shard: int) -> None:
        """Has a site fill its replica of a shard anew from another site.

        Use it for a replica that ``verify`` has found to differ. The call does not wait until that
        is done: meanwhile ``status`` of that site says ``"healing"``, and reads there see what the
        replica had. Its files are kept in the directory ``quarantine`` of the site.

        Arguments:
            site: its name.
            shard: the number of the shard.

        Raises:
            ClusterError: there is no such site, or no other one has a replica of the shard.
            NoQuorumError: the site does not answer, or has no such shard open.
            UnknownOutcomeError: the site may still do it.

        Example:
            >>> db.cluster.heal("c", 2)  # doctest: +SKIP
        """
        self._access.heal(site, shard)

    def __repr__(self) -> str:
        return "<topicdb.cluster.Cluster>"
