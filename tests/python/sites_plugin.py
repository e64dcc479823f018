"""Runs tests against databases on three sites: ``pytest -p sites_plugin [--sites connected]``.

``topicdb.open`` then starts three sites of one cluster in this process. It returns the database of
the site that has the path itself and leads all shards; or with ``connected`` a client of all three.
The first site of a client is another one each time, so that it seldom leads.

The tests that ``sites_local.txt`` lists are left out: they are about one process and its files.
"""

from __future__ import annotations

import itertools
import os
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sites import NAMES, at_once, introduce

import topicdb
from topicdb.cluster.site import SiteDatabase
from topicdb.remote.client.database import RemoteDatabase

HERE = Path(__file__).parent
LIST = HERE / "sites_local.txt"
EMBEDDED, CONNECTED = "embedded", "connected"
# What a database of one process takes, and a site does not.
_LOCAL = ("durability", "directory_mode", "on_damage", "only_shards")

_open = topicdb.open
_turn = itertools.count()
_kind = EMBEDDED


def left_out(kind: str) -> dict[str, str]:
    """Returns the names of the tests that are not for three sites, and why each is not.

    A name is that of a folder, file, class or function: all below it are left out. Lines that begin
    with "#" give the reason of those that follow, and lines that begin with "## connected" one for
    tests that only a client is not for.
    """
    found: dict[str, str] = {}
    reason, is_for_all = "", True
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            is_for_all = not line.startswith("## connected")
            reason = line.lstrip("# ").removeprefix("connected").strip(": ")
        elif line and (is_for_all or kind == CONNECTED):
            found[line] = reason
    return found


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sites",
        choices=(EMBEDDED, CONNECTED),
        default=EMBEDDED,
        help="what topicdb.open returns: the database of a site, or a client of all",
    )


def pytest_configure(config: pytest.Config) -> None:
    global _kind
    _kind = config.getoption("--sites")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the tests that are listed."""
    listed = left_out(_kind).keys()
    left: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        (others if listed.isdisjoint(_names_of(item)) else left).append(item)
    items[:] = others
    config.hook.pytest_deselected(items=left)


def _names_of(item: pytest.Item) -> list[str]:
    """Returns the names of a test and of all that it is in, as ``LIST`` has them."""
    file = item.path.relative_to(HERE).with_suffix("")
    parts = [*file.parts, *item.nodeid.partition("[")[0].split("::")[1:]]
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]


class _Sites:
    """Three sites, their databases, and servers of these. A database that is returned owns it."""

    def __init__(self, path: str, options: dict[str, Any]) -> None:
        self.sites = {
            name: topicdb.Site(
                path if name == "a" else f"{path}.site-{name}",
                name=name,
                sites=dict.fromkeys(NAMES, ""),
                listen="127.0.0.1:0",
                election_timeout="500ms",
            )
            for name in NAMES
        }
        introduce(self.sites.values())
        self.servers: list[Any] = []
        self._is_closing = False
        try:
            self.databases = at_once(
                {
                    name: (lambda site=site: site.open(timeout="120s", **options))  # type: ignore[misc]
                    for name, site in self.sites.items()
                }
            )
        except BaseException:
            for site in self.sites.values():
                site.close()
            raise

    def have_it_lead(self, name: str) -> None:
        """Lets a site lead all shards: maintenance and sealing are done where a shard is led."""
        asked = self.sites[name]
        while True:
            leaders = {shard.leader for shard in asked.status().shards}
            if leaders == {name}:
                return
            for leader in leaders - {name, None}:
                with suppress(topicdb.UnavailableError):  # it leads no more, or nobody can yet
                    asked.cluster.step_down(str(leader))
            time.sleep(0.01)

    def close(self) -> None:
        """Closes all of them. Sites close their databases, which call this again."""
        if self._is_closing:
            return
        self._is_closing = True
        for server in self.servers:
            server.close()
        for database in self.databases.values():  # the sites still hear each other
            database.close()
        for site in self.sites.values():
            site.close()


class _Embedded(SiteDatabase):
    """The database of a site that also closes the other sites."""

    all: _Sites

    def close(self) -> None:
        super().close()
        self.all.close()


class _Connected(RemoteDatabase):
    """A client that also closes the servers and the sites behind it."""

    all: _Sites

    def close(self) -> None:
        super().close()
        self.all.close()


def _open_on_sites(path: Any, *, mode: str = "rw", **options: Any) -> topicdb.Database:
    if mode != "rw" or not isinstance(path, (str, os.PathLike)):
        return _open(path, mode=mode, **options)  # type: ignore[arg-type]
    given = {name: value for name, value in options.items() if name not in _LOCAL}
    sites = _Sites(os.fspath(path), given)
    if _kind == EMBEDDED:
        sites.have_it_lead("a")
        found: Any = sites.databases["a"]
        found.__class__ = _Embedded
    else:
        sites.servers = [topicdb.serve(database) for database in sites.databases.values()]
        urls = deque(server.url for server in sites.servers)
        urls.rotate(next(_turn))
        found = topicdb.connect(list(urls))
        found.__class__ = _Connected
    found.all = sites
    opened: topicdb.Database = found
    return opened


topicdb.open = _open_on_sites
