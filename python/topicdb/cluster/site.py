"""A site of a cluster, which ``topicdb.Site`` is."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from topicdb import _core
from topicdb.arguments.times import duration_us
from topicdb.closing import Closing
from topicdb.creating import directories_for, settled_path
from topicdb.database.completions import Completer
from topicdb.database.database import Database
from topicdb.database.opening import core_options
from topicdb.replicas import (
    Cluster,
    ClusterStatus,
    ClusterVerification,
    ReplicaStatus,
    ReplicaVerification,
    SitesChange,
    SiteStatus,
)

PEERS_PORT = 8825


class Site(Closing):
    """This process's part in a database that outlives its machine. Thread-safe.

    Several sites keep a replica of the database each. What is written is acknowledged once a
    majority of them has it on disk. So nothing acknowledged is lost when fewer than half of the
    machines die, and reading and writing go on: with three sites one may die, with five sites two.

    Make one object of this class for a process, ``open`` the database, and close both, best by
    ``with``. Each site needs a directory of its own. A forked child must not use a site.
    """

    _shown = ("status",)

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        name: str,
        sites: Mapping[str, str] | None = None,
        convert: bool = False,
        join: str | Sequence[str] = (),
        address: str = "",
        listen: str | None = None,
        clients: str = "",
        tls_authority: str | os.PathLike[str] | None = None,
        tls_certificate: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
        heal: bool = True,
        election_timeout: str | timedelta = "500ms",
        commit_timeout: str | timedelta = "10s",
        join_timeout: str | timedelta = "10s",
    ) -> None:
        """Begins to take part in a cluster, which it founds with others, or which is there.

        A site that founds a cluster does not wait for the others. One that joins waits until the
        cluster has added it, at its first start.

        Arguments:
            path: the directory of the database at this site. It is made if it is not there.
            name: the name of this site: letters, digits, ``.``, ``_`` and ``-``.
            sites: the sites that found the cluster, this one included: name to ``host:port``, where
                other sites find it. The port is 8825 unless given. The names must be the same at
                all of them, for ever, whoever joins or leaves later; addresses may change from
                start to start. An empty one is not known yet: ``set_address`` tells it.
            convert: ``path`` is a local database, which becomes that of the cluster. The site is
                the only one in ``sites``, and others join it later. From then on only a site writes
                the database; a ``snapshot`` is a local one again. Without effect at later starts.
            join: instead of ``sites``, for a site that joins a cluster: addresses of sites that are
                in it. Any one that answers is enough.
            address: ``host:port`` where the others find a site that joins. It may change from start
                to start.
            listen: ``host:port`` to listen at. None: the address of this site. Port 0 takes any
                free port; ``port`` says which.
            clients: the URL at which ``topicdb.serve`` offers the database of this site, for
                clients of other sites; empty if it does not.
            tls_authority: PEM file of the certificate authority that vouches for all sites. Needed,
                together with the next two, unless all sites are on this machine.
            tls_certificate: PEM file of the certificate of this site.
            tls_key: PEM file of the private key of that certificate.
            heal: fill a shard anew from another site if its data is damaged. The damaged files are
                kept in the directory ``quarantine``. If this is false, the replica fails instead.
            election_timeout: when nothing was heard of the leader of a shard for this long (or up
                to twice that), another one is elected. Let it be some ten times the time that a
                message takes between sites.
            commit_timeout: how long a call that writes waits for a leader and for a majority.
            join_timeout: how long to wait until the cluster has added a site that joins.

        Raises:
            ValueError: an option is wrong, or the directory is that of another site, of a site with
                other sites, or of a database that is not replicated.
            ClusterError: the cluster has a site of that name or address already, or as many as it
                may have; or this one has joined before, and has left.
            NoQuorumError: no site of the cluster answers in time, or no majority of them is up.
            LockedError: another process has the directory open.
            NotFoundError: there is no database that could be converted.
            CorruptionError: the log of this site has lost something. Have the others forget the
                site, and start it with ``join`` in an empty directory.
            SchemaError: a later version of TopicDB has written the directory, or the cluster
                writes a format with which this one cannot work. Upgrade TopicDB at this site.
            StorageError: the file system failed, or nobody can listen at that address.

        Example:
            >>> sites = {"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3"}
            >>> with topicdb.Site("fleet.db", name="a", sites=sites) as site:  # doctest: +SKIP
            ...     with site.open() as db:
            ...         db.append([("metrics/h1/cpu", None, b"42")])
        """
        given = {one: place and _address(place, one) for one, place in (sites or {}).items()}
        joined = [join] if isinstance(join, str) else list(join)
        if sites is None and not joined:
            raise ValueError("sites: name those that found the cluster, or give join")
        tls = _tls_files(tls_authority, tls_certificate, tls_key)
        self._path = settled_path(path)
        self._name = name
        self._database: Database | None = None
        self._opening: _core.Database | None = None  # whose shards have not come yet
        with directories_for(self._path):
            self._core = _core.Site.start(
                self._path,
                name,
                given,
                convert,
                [_address(one, "join") for one in joined],
                address and _address(address, "address"),
                "" if listen is None else _address(listen, "listen"),
                clients,
                tls,
                heals=heal,
                election_timeout_us=duration_us(election_timeout, what="election_timeout"),
                commit_timeout_us=duration_us(commit_timeout, what="commit_timeout"),
                join_timeout_us=duration_us(join_timeout, what="join_timeout"),
            )

    def open(self, *, timeout: str | timedelta = "60s", **options: Any) -> Database:
        """Opens the database at this site. The first sites that come together create it.

        It is used as a local database is. Reads see what this site has, which may be a moment
        behind the others; after a write of its own a program sees what it has written. Writes go to
        the sites that lead, wherever they are, and ``durability`` is ``"quorum"``: a majority of
        the sites has fsynced what was acknowledged.

        Arguments:
            timeout: how long to wait for a majority of the sites, and until shards have come from
                the others: all of them at a site that joins, and those that are damaged.
            options: those of ``topicdb.open``, without ``mode``, ``only_shards``, ``on_damage``,
                ``durability`` and ``directory_mode``.

        Returns:
            The database. Close it before the site; closing the site closes it, too. A site opens
            its database once.

        Raises:
            NoQuorumError: no majority of the sites came together in time.
            UnknownOutcomeError: the same, while the database was being created.
            StaleError: shards have not come in time. Call this again with the same options: the
                site goes on meanwhile.
            CorruptionError: a shard is damaged, and ``heal`` is false, or there is no other site.
            ClusterError: this site has left the cluster.
            SchemaError: the options disagree with the schema that the cluster has, or the cluster
                writes a format with which this version of TopicDB cannot work.
            ClosedError: the site is closed, or has opened its database before.
            ValueError, TypeError: an option is wrong.
        """
        timeout_us = duration_us(timeout, what="timeout")
        if self._opening is None:
            self._opening = self._core.open_database(core_options(**options), timeout_us)
        self._core.await_shards(timeout_us)  # a shard that has not come would look empty
        core, self._opening = self._opening, None
        appends = Completer(core)
        database = SiteDatabase(core, appends, self)
        appends.retire_with(database)
        self._database = database
        return database

    def status(self) -> ClusterStatus:
        """Returns how the cluster stands, as this site knows it."""
        sites = [SiteStatus(*one) for one in self._core.sites()]
        names = {one.replica: one.name for one in sites}
        shards = [
            ReplicaStatus(one[0], one[1], names.get(one[2]), *one[3:8], one[8] or None)
            for one in self._core.replicas()
        ]
        left = self._core.left or None
        formats = self._core.format, self._core.newest_format
        return ClusterStatus(self._core.cluster().hex(), self._name, sites, shards, left, *formats)

    @property
    def cluster(self) -> Cluster:
        """The cluster that this site takes part in."""
        return Cluster(_Access(self))

    @staticmethod
    def others(path: str | os.PathLike[str]) -> list[str]:
        """Returns the names of the other sites of a cluster, as the directory of one says.

        The site need not be running.

        Arguments:
            path: the directory of the database at the site.

        Returns:
            Their names, in order; none if the site is the only one.

        Raises:
            NotFoundError: it is not the directory of a site.
            ClusterError: the site knows of no cluster yet, or has left it.
            CorruptionError, SchemaError: what the directory says cannot be read.

        Example:
            >>> topicdb.Site.others("fleet.db")  # doctest: +SKIP
            ['b', 'c']
        """
        own, names = _core.Site.load(settled_path(path))
        return [name for name in names if name != own]

    @staticmethod
    def forget_others(
        path: str | os.PathLike[str],
        *,
        tls_authority: str | os.PathLike[str] | None = None,
        tls_certificate: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
    ) -> list[str]:
        """Has a site go on as the only one of its cluster.

        This is for a cluster that has lost a majority of its sites for good. What the lost sites
        have acknowledged, and this one has not got, is lost. Call it at one site alone, which must
        not be running: the others join it later, each with an empty directory. Start the site with
        the same options as before. A call that was interrupted is repeated.

        Arguments:
            path: the directory of the database at the site.
            tls_authority: the file with which the site checks the others, which are asked whether
                they are up.
            tls_certificate: the certificate that it shows to them.
            tls_key: its private key. All three are given, or none.

        Returns:
            The names of the sites that are forgotten.

        Raises:
            ClusterError: a site is up, this one or another. Or the site has left the cluster, or
                knows of none.
            NotFoundError: ``path`` is not the directory of a site.
            ValueError: the site has not got all shards yet, or the sites cannot be asked without
                TLS. After an error nothing has changed.
            CorruptionError: the log of the site is damaged.
            StorageError: the file system failed, or another process has the log open.

        Example:
            >>> topicdb.Site.forget_others("fleet.db")  # doctest: +SKIP
            ['b', 'c']
        """
        tls = _tls_files(tls_authority, tls_certificate, tls_key)
        forgotten = Site.others(path)
        _core.Site.forget_others(settled_path(path), tls)
        return forgotten

    def set_address(self, name: str, address: str) -> None:
        """Says that another site has another address now.

        Arguments:
            name: the name of the other site.
            address: where it is found, ``host:port``.

        Raises:
            ValueError: there is no such site, or the address is wrong.
        """
        self._core.set_address(name, _address(address, name))

    def close(self) -> None:
        """Closes the database, and takes part no more. May be repeated.

        Where this site leads, another one takes over first, if it is up.
        """
        if self._database is not None:
            self._database.close()
        if self._opening is not None:
            self._opening.close()
        self._core.close()

    @property
    def name(self) -> str:
        """The name of this site."""
        return self._name

    @property
    def path(self) -> str:
        """The directory of the database at this site."""
        return self._path

    @property
    def port(self) -> int:
        """The port at which other sites find this one."""
        return self._core.port

    def __repr__(self) -> str:
        return f"<topicdb.Site {self._name!r} of {self._path!r}>"


class SiteDatabase(Database):
    """The database of a site; ``Site.open`` makes it."""

    def __init__(self, core: _core.Database, appends: Completer, site: Site) -> None:
        super().__init__(core, appends)
        self._site = site

    @property
    def cluster(self) -> Cluster:
        """The cluster that this database lives on."""
        return self._site.cluster

    def _nature(self) -> str:
        return f"{super()._nature()}, replicated"


class _Access:
    """What a cluster is asked by at one of its sites."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def status(self) -> ClusterStatus:
        return self._site.status()

    def change(self, change: SitesChange, name: str, timeout_us: int) -> int:
        core = self._site._core
        if change == "balance":
            return core.balance()
        if change == "upgrade":
            return core.upgrade(timeout_us)
        if change == "step_down":
            core.step_down(name)
        elif change == "leave":
            core.leave(name, timeout_us)
        elif change == "forget":
            core.forget(name, timeout_us)
        else:
            raise ValueError(f"a cluster has no change {change!r}")
        return 0

    def verify(self, timeout_us: int) -> ClusterVerification:
        return ClusterVerification(
            [
                ReplicaVerification(shard, site, outcome, parts, why or None)
                for shard, site, outcome, parts, why in self._site._core.verify(timeout_us)
            ]
        )

    def heal(self, name: str, shard: int) -> None:
        self._site._core.heal(name, shard)


def _tls_files(*paths: str | os.PathLike[str] | None) -> tuple[str, str, str]:
    """Returns the files of the authority, the certificate and the key, or three empty names."""
    given = [os.fspath(path) for path in paths if path is not None]
    if not given:
        return "", "", ""
    if len(given) < 3:
        raise ValueError("tls_authority, tls_certificate and tls_key: give all three, or none")
    return given[0], given[1], given[2]


def _address(text: str, what: str) -> str:
    """Returns an address with its port."""
    host, colon, port = text.rpartition(":")
    if not colon or "]" in port or (":" in host and not host.startswith("[")):  # no port
        host, port = text, str(PEERS_PORT)
        if ":" in host and not host.startswith("["):
            host = f"[{host}]"
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise ValueError(f"{what}: expected host:port, got {text!r}")
    return f"{host}:{port}"
