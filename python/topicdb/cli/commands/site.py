"""A site of a cluster, which ``topicdb serve`` can be."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import topicdb
from topicdb.cli.errors import UserError
from topicdb.cli.stopping import Stopping

SiteOption = Annotated[
    str | None,
    typer.Option(
        "--site",
        metavar="NAME",
        help="Be this site of a cluster, whose sites have a replica of the database each.",
    ),
]
SitesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--sites",
        metavar="NAME=HOST:PORT",
        help="Name a site of the cluster and where other sites find it; give all of them, "
        "separated by commas, the same at each site.",
    ),
]
ConvertOption = Annotated[
    bool,
    typer.Option(
        "--convert",
        help="Make the local database at PATH that of a cluster, which has this site alone until "
        "others join.",
    ),
]
JoinOption = Annotated[
    str | None,
    typer.Option(
        "--join",
        metavar="HOST:PORT",
        help="Join a cluster instead of founding one: give where other sites find some of its "
        "sites, separated by commas.",
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="With --join: tell the other sites that they find this one here.",
    ),
]
PeersListenOption = Annotated[
    str | None,
    typer.Option(
        "--peers-listen",
        metavar="HOST:PORT",
        help="Listen for other sites at this address. By default it is that of --sites.",
    ),
]
PeersCaOption = Annotated[
    Path | None,
    typer.Option(
        "--peers-ca",
        help="Talk to other sites with TLS: with the certificate of --tls-cert, and with sites "
        "that an authority of this PEM file vouches for.",
    ),
]
AdvertiseOption = Annotated[
    str | None,
    typer.Option(
        "--advertise",
        metavar="URL",
        help="Tell the cluster that clients find this site here. By default it is the address "
        "of --listen.",
    ),
]
NoHealOption = Annotated[
    bool,
    typer.Option(
        "--no-heal",
        help="Have a shard fail whose data is damaged, instead of filling it anew from another "
        "site.",
    ),
]
ElectionOption = Annotated[
    str,
    typer.Option(
        "--election-timeout",
        metavar="AGE",
        help="Let another site lead when the one that leads was silent for this long.",
    ),
]
_WAIT = "1s"
_JOIN = "60s"


@dataclass(frozen=True)
class SiteArguments:
    """What ``topicdb serve`` was told about its part in a cluster."""

    name: str
    sites: list[str] | None
    convert: bool
    join: str | None
    address: str | None
    listen: str | None
    authority: Path | None
    certificate: Path | None
    key: Path | None
    clients: str
    heal: bool
    election_timeout: str

    def open(
        self, path: str, options: Mapping[str, Any], stopped: Stopping, stack: ExitStack
    ) -> topicdb.Database | None:
        """Starts the site, and opens its database once a majority is there.

        ``stack`` closes the site. Returns None if the command is to end before.

        Raises UserError for options that do not go together, and what ``topicdb.Site`` raises.
        """
        if (self.authority is None) != (self.certificate is None) and self.authority is not None:
            raise UserError("--peers-ca goes with --tls-cert and --tls-key")
        has_tls = self.authority is not None
        site = stack.enter_context(
            topicdb.Site(
                path,
                name=self.name,
                sites=None if self.join else _addresses(self.sites or []),
                convert=self.convert,
                join=[] if self.join is None else [one.strip() for one in self.join.split(",")],
                address=self.address or "",
                join_timeout=_JOIN,
                listen=self.listen,
                clients=self.clients,
                tls_authority=self.authority,
                tls_certificate=self.certificate if has_tls else None,
                tls_key=self.key if has_tls else None,
                heal=self.heal,
                election_timeout=self.election_timeout,
            )
        )
        return _opened(site, options, stopped)


def watch_membership(database: topicdb.Database, stopped: Stopping) -> None:
    """Waits until the command is stopped, or its site is no member of the cluster any more.

    Raises UserError then: a server that is none of the sites has nothing to serve.
    """
    cluster = database.cluster
    while not stopped.wait(None if cluster is None else 1.0):
        left = None if cluster is None else cluster.status().left
        if left is not None:
            raise UserError(f"{left}. This server ends")


def _opened(
    site: topicdb.Site, options: Mapping[str, Any], stopped: Stopping
) -> topicdb.Database | None:
    said: set[str] = set()
    while not stopped.is_set():
        try:
            return site.open(timeout=_WAIT, **options)
        except topicdb.StaleError:
            wait = "waiting for its shards, which come from the others"
        except (topicdb.NoQuorumError, topicdb.UnknownOutcomeError):
            wait = "waiting for a majority of the sites"
        if wait not in said:
            print(f"site {site.name}: {wait}", file=sys.stderr, flush=True)
        said.add(wait)
    return None


def _addresses(texts: list[str]) -> dict[str, str]:
    sites: dict[str, str] = {}
    for text in (one for given in texts for one in given.split(",")):
        name, equals, address = text.strip().partition("=")
        if not equals or not name or not address:
            raise typer.BadParameter(f"expected NAME=HOST:PORT, got {text!r}", param_hint="--sites")
        if name in sites:
            raise typer.BadParameter(f"site {name!r} is there twice", param_hint="--sites")
        sites[name] = address
    return sites
