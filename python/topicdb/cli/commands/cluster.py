"""A site of a cluster for ``topicdb serve``, and ``topicdb cluster``, which shows the sites."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group as Stack
from rich.live import Live
from rich.table import Table

import topicdb
from topicdb.cli.errors import Group, UserError
from topicdb.cli.options import JsonOption
from topicdb.cli.output import print_json, printable
from topicdb.cli.places import Place, at_place
from topicdb.cli.report import console, table
from topicdb.cli.stopping import Stopping, stopped_by_signals
from topicdb.replicas import ClusterStatus, SiteStatus

cluster_app = typer.Typer(
    cls=Group, no_args_is_help=True, help="Show the sites of a replicated database."
)

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
ElectionOption = Annotated[
    str,
    typer.Option(
        "--election-timeout",
        metavar="AGE",
        help="Let another site lead when the one that leads was silent for this long.",
    ),
]
_WAIT = "1s"


@dataclass(frozen=True)
class SiteArguments:
    """What ``topicdb serve`` was told about its part in a cluster."""

    name: str
    sites: list[str] | None
    listen: str | None
    authority: Path | None
    certificate: Path | None
    key: Path | None
    clients: str
    election_timeout: str

    def open(
        self, path: str, options: Mapping[str, Any], stopped: Stopping, stack: ExitStack
    ) -> topicdb.Database | None:
        """Starts the site, and opens its database once a majority is there.

        ``stack`` closes the site. Returns None if the command is to end before.

        Raises UserError for options that do not go together, and what ``topicdb.Site`` raises.
        """
        sites = _addresses(self.sites or [])
        if (self.authority is None) != (self.certificate is None) and self.authority is not None:
            raise UserError("--peers-ca goes with --tls-cert and --tls-key")
        has_tls = self.authority is not None
        site = stack.enter_context(
            topicdb.Site(
                path,
                name=self.name,
                sites=sites,
                listen=self.listen,
                clients=self.clients,
                tls_authority=self.authority,
                tls_certificate=self.certificate if has_tls else None,
                tls_key=self.key if has_tls else None,
                election_timeout=self.election_timeout,
            )
        )
        return _opened(site, options, stopped)


def _opened(
    site: topicdb.Site, options: Mapping[str, Any], stopped: Stopping
) -> topicdb.Database | None:
    said = False
    while not stopped.is_set():
        try:
            return site.open(timeout=_WAIT, **options)
        except (topicdb.NoQuorumError, topicdb.UnknownOutcomeError):
            if not said:
                print(
                    f"site {site.name}: waiting for a majority of the sites",
                    file=sys.stderr,
                    flush=True,
                )
            said = True
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


@cluster_app.command("status")
@at_place
def status(
    place: Place,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it again each second, until Ctrl-C.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the sites of a cluster, and which of them lead the shards.

    URL is the address of one site. It is asked for the others, and each of them tells of its
    replicas itself.

    \b
    Example:
      topicdb cluster status grpc+tls://plant:8815
    """
    if not place.is_url:
        raise UserError(f"{place.where} is a directory: give the URL of a site that is served")
    with stopped_by_signals() as stopped, place.read() as database:
        out = console()
        is_live = watch and out.is_terminal and not as_json
        live = Live(console=out, auto_refresh=False) if is_live else None
        with live or nullcontext():
            while True:
                found = _ask_all(place, database)
                if as_json:
                    print_json(_json_of(found))
                elif live is not None:
                    live.update(_shown(found), refresh=True)
                else:
                    out.print(_shown(found))
                if not watch or stopped.wait(1.0):
                    return


@dataclass(frozen=True)
class _Found:
    """What one site says of the cluster, and what each site says of itself."""

    cluster: ClusterStatus
    by_site: dict[str, ClusterStatus]  # those that have answered
    reasons: dict[str, str]  # why others have not

    def state_of(self, site: SiteStatus) -> str:
        if site.name in self.by_site:
            return "up"
        return self.reasons.get(site.name, "unknown: it serves no clients")


def _ask_all(place: Place, database: topicdb.Database) -> _Found:
    cluster = database.cluster
    if cluster is None:
        raise UserError(f"{place.where} serves a database that is not replicated")
    first = cluster.status()
    found = _Found(first, {first.site: first}, {})
    for site in first.sites:
        if site.name == first.site or not site.clients:
            continue
        try:
            with Place(site.clients, place.token, place.token_file, place.ca).read() as other:
                if other.cluster is not None:
                    found.by_site[site.name] = other.cluster.status()
        except topicdb.UnavailableError:
            found.reasons[site.name] = "down"
        except topicdb.Error as error:
            found.reasons[site.name] = f"unknown: {error}"
    return found


def _shown(found: _Found) -> Stack:
    return Stack(f"cluster {found.cluster.id}", "", _site_table(found), "", _shard_table(found))


def _site_table(found: _Found) -> Table:
    rows = table("site", "state", "leads>", "peers", "clients")
    for site in found.cluster.sites:
        leads = sum(
            one.state == "leading"
            for told in [found.by_site.get(site.name)]
            if told is not None
            for one in told.shards
        )
        state, clients = printable(found.state_of(site)), printable(site.clients or "-")
        rows.add_row(printable(site.name), state, str(leads), printable(site.peers), clients)
    return rows


def _shard_table(found: _Found) -> Table:
    rows = table("shard>", "leader", "term>", "committed>", "behind by entries")
    for shard in found.cluster.shards:
        behind, failures = [], []
        for name, told in sorted(found.by_site.items()):
            for one in told.shards:
                if one.shard == shard.shard:
                    behind.append(f"{name}: {max(0, shard.committed - one.applied):,}")
                    if one.failure is not None:
                        failures.append(f"{name}: {one.failure}")
        rows.add_row(
            str(shard.shard),
            printable(shard.leader or "-"),
            str(shard.term),
            f"{shard.committed:,}",
            printable(", ".join(behind + failures)),
        )
    return rows


def _json_of(found: _Found) -> dict[str, Any]:
    return {
        "id": found.cluster.id,
        "asked": found.cluster.site,
        "sites": [
            {
                **asdict(site),
                "state": found.state_of(site),
                "shards": [asdict(one) for one in found.by_site[site.name].shards]
                if site.name in found.by_site
                else None,
            }
            for site in found.cluster.sites
        ],
    }
