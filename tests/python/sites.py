"""Sites of one cluster for tests: in this process, or in processes that can be killed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from brokers import free_port
from served import Process

import topicdb

NAMES = ("a", "b", "c")
# Elections come late enough for a machine that is busy with other tests.
ELECTION = "1s"
Made = TypeVar("Made")


def at_once(calls: Mapping[str, Callable[[], Made]]) -> dict[str, Made]:
    """Makes all calls at the same time, and returns their results."""
    with ThreadPoolExecutor(len(calls)) as threads:
        futures = {name: threads.submit(call) for name, call in calls.items()}
        return {name: future.result() for name, future in futures.items()}


def introduce(sites: Collection[topicdb.Site]) -> None:
    """Tells each site where the others are."""
    for site in sites:
        for other in sites:
            if other is not site:
                site.set_address(other.name, f"127.0.0.1:{other.port}")


class Sites:
    """Three sites in this process, each with its database. Close it."""

    def __init__(
        self, directory: Path, tls: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        self.directory = directory
        self.tls = tls or {}
        self.options = options
        self.sites: dict[str, topicdb.Site] = {}
        self.databases: dict[str, topicdb.Database] = {}
        for name in NAMES:
            self.start(name)
        self.open(*NAMES)

    def start(self, name: str, **options: Any) -> topicdb.Site:
        """Starts a site, and has all that run find each other."""
        self.sites[name] = topicdb.Site(
            self.directory / name,
            name=name,
            sites=dict.fromkeys(NAMES, ""),
            listen="127.0.0.1:0",
            election_timeout=ELECTION,
            **{**self.tls, **options},
        )
        introduce(self.sites.values())
        return self.sites[name]

    def join(self, name: str) -> topicdb.Database:
        """Has a new site join those that run, and opens the database there."""
        self.sites[name] = topicdb.Site(
            self.directory / name,
            name=name,
            join=[f"127.0.0.1:{site.port}" for site in self.sites.values()],
            address=f"127.0.0.1:{free_port()}",
            election_timeout=ELECTION,
            join_timeout="250s",
            **self.tls,
        )
        self.open(name)
        return self.databases[name]

    def open(self, *names: str) -> None:
        """Opens the database at these sites at the same time."""
        calls = {name: self.opener(name) for name in names}
        self.databases.update(at_once(calls))

    def opener(self, name: str) -> Callable[[], topicdb.Database]:
        return lambda: self.sites[name].open(timeout="250s", **self.options)

    def stop(self, name: str) -> None:
        """Closes a site."""
        self.sites.pop(name).close()
        self.databases.pop(name, None)

    def close(self) -> None:
        for database in self.databases.values():  # the sites still hear each other
            database.close()
        for site in self.sites.values():
            site.close()


@contextmanager
def sites(directory: Path, tls: Mapping[str, Any] | None = None, **options: Any) -> Iterator[Sites]:
    found = Sites(directory, tls, **options)
    try:
        yield found
    finally:
        found.close()


class Servers:
    """Three sites in processes of their own, ``topicdb serve --site``; they can be killed."""

    def __init__(self, directory: Path, *arguments: object) -> None:
        self.directory = directory
        self.arguments = arguments
        self.peers = {name: f"127.0.0.1:{free_port()}" for name in NAMES}
        self.listen = {name: f"127.0.0.1:{free_port()}" for name in NAMES}
        self.processes: dict[str, Process] = {}
        self.start(*NAMES)

    @property
    def urls(self) -> list[str]:
        return [f"grpc://{self.listen[name]}" for name in NAMES]

    def url(self, name: str) -> str:
        return f"grpc://{self.listen[name]}"

    def start(self, *names: str) -> None:
        """Starts sites, and waits until they serve."""
        self.processes.update(at_once({name: self._starter(name) for name in names}))

    def _starter(self, name: str) -> Callable[[], Process]:
        all_sites = ",".join(f"{one}={address}" for one, address in self.peers.items())
        given = ("--site", name, "--sites", all_sites, "--listen", self.listen[name])
        more = ("--election-timeout", ELECTION, *self.arguments)
        return lambda: Process(self.directory / name, *given, *more)

    def join(self, name: str) -> None:
        """Has a new site join, and waits until it serves."""
        join = ",".join(self.peers.values())
        self.peers[name], self.listen[name] = (f"127.0.0.1:{free_port()}" for _ in range(2))
        given = ("--site", name, "--join", join, "--address", self.peers[name])
        more = ("--listen", self.listen[name], "--election-timeout", ELECTION)
        self.processes[name] = Process(self.directory / name, *given, *more)

    def kill(self, name: str) -> None:
        self.processes.pop(name).kill()

    def kill_all(self) -> None:
        for name in list(self.processes):
            self.kill(name)

    def leader(self, shard: int = 0) -> str:
        """Returns the site that leads a shard; waits until one does."""
        while True:
            for name in self.processes:
                with topicdb.connect(self.url(name)) as database:
                    assert database.cluster is not None
                    found = database.cluster.status().leader_of(shard)
                    if found is not None and found.name in self.processes:
                        return found.name


@contextmanager
def servers(directory: Path, *arguments: object) -> Iterator[Servers]:
    found = Servers(directory, *arguments)
    try:
        yield found
    finally:
        found.kill_all()
