"""Runs tests against databases on three sites: ``pytest -p sites_plugin``.

``topicdb.open`` then starts three sites of one cluster in this process, serves each of them, and
returns a client of all three. Its first site is another one each time, so that it is seldom the one
that leads.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from typing import Any

from sites import NAMES, at_once, introduce

import topicdb
from topicdb.remote.client.database import RemoteDatabase

# What a database of one process takes, and a site does not.
_LOCAL = ("durability", "directory_mode", "on_damage", "only_shards")

_open = topicdb.open
_turn = itertools.count()


class _OnSites(RemoteDatabase):
    """A client that also closes the servers and the sites behind it."""

    sites: dict[str, topicdb.Site]
    servers: list[Any]

    def close(self) -> None:
        super().close()
        for server in self.servers:
            server.close()
        databases = [site._database for site in self.sites.values()]
        for database in databases:  # the sites still hear each other
            if database is not None:
                database.close()
        for site in self.sites.values():
            site.close()


def _start(path: str) -> dict[str, topicdb.Site]:
    """Starts the sites; the first has the path itself, and the others have directories beside."""
    sites = {
        name: topicdb.Site(
            path if name == "a" else f"{path}.site-{name}",
            name=name,
            sites=dict.fromkeys(NAMES, ""),
            listen="127.0.0.1:0",
            election_timeout="300ms",
        )
        for name in NAMES
    }
    introduce(sites.values())
    return sites


def _open_on_sites(path: Any, *, mode: str = "rw", **options: Any) -> topicdb.Database:
    if mode != "rw":
        return _open(path, mode=mode, **options)  # type: ignore[arg-type]
    given = {name: value for name, value in options.items() if name not in _LOCAL}
    sites = _start(os.fspath(path))
    try:
        databases = at_once(
            {
                name: (lambda site=site: site.open(timeout="120s", **given))  # type: ignore[misc]
                for name, site in sites.items()
            }
        )
    except BaseException:
        for site in sites.values():
            site.close()
        raise
    servers = [topicdb.serve(database) for database in databases.values()]
    urls = deque(server.url for server in servers)
    urls.rotate(next(_turn))
    client = topicdb.connect(list(urls))
    client.__class__ = _OnSites
    client.sites, client.servers = sites, servers  # type: ignore[attr-defined]
    return client


topicdb.open = _open_on_sites
