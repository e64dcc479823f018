"""``topicdb cluster``, which shows and changes the sites of a replicated database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group as Stack
from rich.live import Live
from rich.table import Table

import topicdb
from topicdb.cli.confirming import YesOption, confirm
from topicdb.cli.errors import Group, UserError
from topicdb.cli.options import JsonOption
from topicdb.cli.output import print_json, printable
from topicdb.cli.places import Place, at_place
from topicdb.cli.progress import Waiting
from topicdb.cli.report import console, table
from topicdb.cli.stopping import stopped_by_signals
from topicdb.replicas import Cluster, ClusterStatus, ClusterVerification, SiteStatus

cluster_app = typer.Typer(
    cls=Group, no_args_is_help=True, help="Show and change the sites of a replicated database."
)

_SiteArgument = Annotated[str, typer.Argument(metavar="SITE", help="The name of the site.")]


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
    with stopped_by_signals() as stopped, _cluster_at(place) as cluster:
        out = console()
        is_live = watch and out.is_terminal and not as_json
        live = Live(console=out, auto_refresh=False) if is_live else None
        with live or nullcontext():
            while True:
                found = _ask_all(place, cluster)
                if as_json:
                    print_json(_json_of(found))
                elif live is not None:
                    live.update(_shown(found), refresh=True)
                else:
                    out.print(_shown(found))
                if not watch or stopped.wait(1.0):
                    return


@cluster_app.command("leave")
@at_place
def leave(
    place: Place, site: _SiteArgument, yes: YesOption = False, as_json: JsonOption = False
) -> None:
    """Have a site leave, so that the others go on without it.

    The command waits until no shard needs the site. Its server ends then, and its directory is of
    no use to the cluster any more.

    \b
    Example:
      topicdb cluster leave grpc+tls://plant:8815 c
    """
    with _cluster_at(place) as cluster:
        _take_out(cluster, site, cluster.leave, ("leaves", "has left"), yes=yes, as_json=as_json)


@cluster_app.command("forget")
@at_place
def forget(
    place: Place, site: _SiteArgument, yes: YesOption = False, as_json: JsonOption = False
) -> None:
    """Have the others go on without a site whose machine or disk is gone for good.

    A new site may join under its name. The command refuses a site that is up.

    \b
    Example:
      topicdb cluster forget grpc+tls://plant:8815 c
    """
    with _cluster_at(place) as cluster:
        words = ("is forgotten", "is forgotten")
        _take_out(cluster, site, cluster.forget, words, yes=yes, as_json=as_json)


@cluster_app.command("forget-others")
def forget_others(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The directory of the site.")],
    tls_cert: Annotated[
        Path | None, typer.Option(help="The certificate of the site, as of topicdb serve.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key.")] = None,
    peers_ca: Annotated[
        Path | None, typer.Option(help="The authority that vouches for the other sites.")
    ] = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Have a site go on as the only one, when a majority of its cluster is lost for good.

    What the lost sites have acknowledged, and this one has not got, is lost. Run it at one site,
    whose server is stopped, and start that as before. Others then join it with empty directories.
    The command refuses if it reaches a site that is up.

    \b
    Example:
      topicdb cluster forget-others fleet.db
    """
    lost = topicdb.Site.others(path)
    named = f"sites {', '.join(lost)} are" if len(lost) > 1 else f"site {', '.join(lost)} is"
    if lost:
        confirm(f"{named} forgotten, with all that only they have acknowledged", yes=yes)
    forgotten = topicdb.Site.forget_others(
        path, tls_authority=peers_ca, tls_certificate=tls_cert, tls_key=tls_key
    )
    if as_json:
        print_json({"path": str(path), "forgotten": forgotten})
    elif forgotten:
        print(f"{named} forgotten: start the server of {path} as before, and have others join it")
    else:
        print(f"the site of {path} is the only one already")


@cluster_app.command("step-down")
@at_place
def step_down(place: Place, site: _SiteArgument, as_json: JsonOption = False) -> None:
    """Have a site hand over all shards that it leads, such as before its machine is restarted.

    \b
    Example:
      topicdb cluster step-down grpc+tls://plant:8815 a
    """
    with _cluster_at(place) as cluster:
        cluster.step_down(site)
    if as_json:
        print_json({"site": site})
    else:
        print(f"site {site} leads nothing now")


@cluster_app.command("balance")
@at_place
def balance(place: Place, as_json: JsonOption = False) -> None:
    """Have sites hand over shards until each of those that are up leads about as many.

    \b
    Example:
      topicdb cluster balance grpc+tls://plant:8815
    """
    with _cluster_at(place) as cluster:
        moved = cluster.balance()
    if as_json:
        print_json({"handed_over": moved})
    else:
        print(f"{moved} shards were handed over")


@cluster_app.command("upgrade")
@at_place
def upgrade(place: Place, yes: YesOption = False, as_json: JsonOption = False) -> None:
    """Put the newest format in force with which all sites can work.

    Run it once all sites have a new version of TopicDB. Until then they go on as before. If some
    sites are in the way, the command names them, and does nothing.

    \b
    Example:
      topicdb cluster upgrade grpc+tls://plant:8815
    """
    with _cluster_at(place) as cluster:
        before = cluster.status()
        if before.format < before.newest_format:
            question = f"format {before.newest_format} is in force then, and earlier versions of"
            confirm(f"{question} TopicDB cannot take part any more", yes=yes)
        now = cluster.upgrade()
    if as_json:
        print_json({"format": now})
    elif now == before.format:
        print(f"format {now} is in force already")
    else:
        print(f"format {now} is in force now; it was format {before.format}")


@cluster_app.command("verify")
@at_place
def verify(place: Place, as_json: JsonOption = False) -> None:
    """Have all sites read their replicas, and compare what they have.

    The exit code is 1 if a replica differs, is damaged, or was not compared, as at a site that is
    down.

    \b
    Example:
      topicdb cluster verify grpc+tls://plant:8815
    """
    with _cluster_at(place) as cluster, Waiting(f"comparing the sites of {place.where}"):
        found = cluster.verify()
    if as_json:
        print_json({"ok": found.ok, "replicas": [asdict(one) for one in found.replicas]})
    else:
        console().print(_verified(found))
    if not found.ok:
        raise typer.Exit(1)


@cluster_app.command("heal")
@at_place
def heal(
    place: Place,
    site: _SiteArgument,
    shard: Annotated[int, typer.Argument(metavar="SHARD", help="The number of the shard.")],
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Have a site fill its replica of a shard anew from another site.

    This is for a replica that topicdb cluster verify has found to differ. What the site had goes
    to its directory quarantine.

    \b
    Example:
      topicdb cluster heal grpc+tls://plant:8815 c 2
    """
    with _cluster_at(place) as cluster:
        confirm(f"site {site} gives up what it has of shard {shard}", yes=yes)
        cluster.heal(site, shard)
    if as_json:
        print_json({"site": site, "shard": shard})
    else:
        print(
            f"site {site} fills shard {shard} anew: topicdb cluster status shows whether it is done"
        )


@contextmanager
def _cluster_at(place: Place) -> Iterator[Cluster]:
    if not place.is_url:
        raise UserError(f"{place.where} is a directory: give the URL of a site that is served")
    with place.read() as database:
        cluster = database.cluster
        if cluster is None:
            raise UserError(f"{place.where} serves a database that is not replicated")
        yield cluster


def _take_out(
    cluster: Cluster,
    site: str,
    take_out: Callable[[str], None],
    words: tuple[str, str],
    *,
    yes: bool,
    as_json: bool,
) -> None:
    """Takes a site out of the cluster, after it has asked and said how many may be lost then.

    ``words`` say what the site does, before and afterwards.
    """
    left = [one.name for one in cluster.status().sites if one.name != site]
    spare = (len(left) - 1) // 2
    confirm(f"site {site} {words[0]}: of {len(left)} sites {spare} may be lost then", yes=yes)
    take_out(site)
    left = [one.name for one in cluster.status().sites if one.name != site]
    if as_json:
        print_json({"site": site, "sites": left})
    else:
        print(f"site {site} {words[1]}: {', '.join(left)} go on")


@dataclass(frozen=True)
class _Found:
    """What one site says of the cluster, and what each site says of itself."""

    cluster: ClusterStatus
    by_site: dict[str, ClusterStatus]  # those that have answered
    reasons: dict[str, str]  # why others have not

    def state_of(self, site: SiteStatus) -> str:
        if site.name in self.by_site:
            return "up" if site.state == "member" else f"up, {site.state}"
        return self.reasons.get(site.name, "unknown: it serves no clients")


def _ask_all(place: Place, cluster: Cluster) -> _Found:
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
    head = f"cluster {found.cluster.id}, format {found.cluster.format}"
    return Stack(head, "", _site_table(found), "", _shard_table(found))


def _verified(found: ClusterVerification) -> Table:
    rows = table("shard>", "site", "outcome", "where or why")
    for one in found.replicas:
        text = "; ".join([*one.parts, *([] if one.why is None else [one.why])])
        rows.add_row(str(one.shard), printable(one.site), one.outcome, printable(text))
    return rows


def _site_table(found: _Found) -> Table:
    rows = table("site", "state", "leads>", "up to format>", "peers", "clients")
    for site in found.cluster.sites:
        told_by_it = found.by_site.get(site.name)
        newest = "-" if told_by_it is None else str(told_by_it.newest_format)
        leads = sum(
            one.state == "leading"
            for told in [told_by_it]
            if told is not None
            for one in told.shards
        )
        state, clients = printable(found.state_of(site)), printable(site.clients or "-")
        peers = printable(site.peers)
        rows.add_row(printable(site.name), state, str(leads), newest, peers, clients)
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
        "format": found.cluster.format,
        "sites": [
            {
                **asdict(site),
                "membership": site.state,
                "state": found.state_of(site),
                "newest_format": found.by_site[site.name].newest_format
                if site.name in found.by_site
                else None,
                "shards": [asdict(one) for one in found.by_site[site.name].shards]
                if site.name in found.by_site
                else None,
            }
            for site in found.cluster.sites
        ],
    }
