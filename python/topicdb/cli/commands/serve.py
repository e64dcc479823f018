"""``topicdb serve`` offers a database to other processes; ``topicdb quota`` changes its quota."""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal

import topicdb
from topicdb.cli import report
from topicdb.cli.commands.site import (
    AddressOption,
    AdvertiseOption,
    ConvertOption,
    ElectionOption,
    JoinOption,
    NoHealOption,
    PeersCaOption,
    PeersListenOption,
    SiteArguments,
    SiteOption,
    SitesOption,
    watch_membership,
)
from topicdb.cli.confirming import YesOption, confirm
from topicdb.cli.errors import UserError, message_of
from topicdb.cli.options import (
    DurabilityChoice,
    JsonOption,
    OnDamage,
    ShardByOption,
    ShardsOption,
    StructureOption,
    creating,
    directory_argument,
)
from topicdb.cli.output import print_json, printable
from topicdb.cli.places import Place, at_place
from topicdb.cli.stopping import stopped_by_signals
from topicdb.lifecycle.planning import size_bytes
from topicdb.lifecycle.quota import TrimPart
from topicdb.remote import addresses
from topicdb.remote.connecting import DEFAULT_PORT

if TYPE_CHECKING:
    from topicdb.remote.server.handles import Limits
    from topicdb.remote.server.server import Server

LOCAL = "127.0.0.1"
NONE = "none"
PathArgument = Annotated[
    str,
    directory_argument(
        "it offers a database that it opens itself; run it on the machine of the database"
    ),
]


def serve(
    path: PathArgument,
    listen: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT", help="Listen at this address; port 0 takes any free port."
        ),
    ] = f"{LOCAL}:{DEFAULT_PORT}",
    tls_cert: Annotated[
        Path | None,
        typer.Option(help="Show clients the certificate of this PEM file, with its chain."),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(help="Read the private key of the certificate from this PEM file."),
    ] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(
            help="Let in only clients with a certificate from an authority of this PEM file."
        ),
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(
            help="Let in the tokens of this file, which `topicdb token` makes. Without "
            "it everybody may do everything."
        ),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let other machines connect without TLS and tokens.")
    ] = False,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Offer metrics for Prometheus over HTTP at this address."
        ),
    ] = None,
    snapshots: Annotated[
        Path | None, typer.Option(help="Let clients have snapshots made in this folder.")
    ] = None,
    grace: Annotated[
        float,
        typer.Option(
            min=0, help="Give running calls this many seconds to end after SIGTERM or Ctrl-C."
        ),
    ] = 10.0,
    memory: Annotated[
        str,
        typer.Option(metavar="SIZE", help="Let the calls of all clients hold this much memory."),
    ] = "1GiB",
    token_memory: Annotated[
        str,
        typer.Option(
            metavar="SIZE", help="Let the calls of the clients of one token hold this much memory."
        ),
    ] = "512MiB",
    append_max: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="Take at most this many bytes in an append, or in the writes of a transaction.",
        ),
    ] = "64MiB",
    durability: Annotated[
        DurabilityChoice,
        typer.Option(
            help="Choose what stored messages survive, unless a client asks for more or "
            "less: none (a close), os (kill -9) or disk (a power cut)."
        ),
    ] = DurabilityChoice.OS,
    quota: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Let the database have this much on disk; see `topicdb quota`."
        ),
    ] = None,
    on_damage: Annotated[
        OnDamage,
        typer.Option(
            help="Choose what happens at a shard that is damaged or gone: raise an "
            "error, or skip the shard."
        ),
    ] = OnDamage.RAISE,
    shards: ShardsOption = None,
    shard_by: ShardByOption = None,
    structure: StructureOption = None,
    site: SiteOption = None,
    sites: SitesOption = None,
    convert: ConvertOption = False,
    join: JoinOption = None,
    address: AddressOption = None,
    peers_listen: PeersListenOption = None,
    peers_ca: PeersCaOption = None,
    advertise: AdvertiseOption = None,
    no_heal: NoHealOption = False,
    election_timeout: ElectionOption = "500ms",
    as_json: JsonOption = False,
) -> None:
    """Offer a database to other processes, until SIGTERM or Ctrl-C.

    The command makes the database if there is none. With --site and --sites the database is
    replicated: each site of a cluster runs this command, and what is stored at any of them is safe
    once a majority has it on disk. With --site and --join the site joins a cluster that is there.

    \b
    Example:
      topicdb serve fleet.db --listen 0.0.0.0:8815 --tls-cert c.pem --tls-key k.pem --tokens t.json
      topicdb serve a.db --site a --sites a=127.0.0.1:8825,b=127.0.0.1:8826,c=127.0.0.1:8827
      topicdb serve d.db --site d --join 127.0.0.1:8825,127.0.0.1:8826 --address 127.0.0.1:8828
    """
    host, port = _address(listen, "--listen")
    limits = _limits(memory, token_memory, append_max)
    addresses.check_address(host, port)  # before a database is created
    if metrics is not None:
        addresses.check_address(*_address(metrics, "--metrics"))
    scheme = "grpc" if tls_cert is None else "grpc+tls"
    clients = advertise or (f"{scheme}://{host}:{port}" if port != 0 else "")
    place = SiteArguments(
        site or "",
        sites,
        convert,
        join,
        address,
        peers_listen,
        peers_ca,
        tls_cert,
        tls_key,
        clients,
        not no_heal,
        election_timeout,
    )
    _check_site(place, durability, on_damage)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # else gRPC writes about each failed handshake
    with stopped_by_signals() as stopped, ExitStack() as stack:
        options = {"quota_bytes": quota, **creating(shards, shard_by, structure)}
        if site is None:
            database: topicdb.Database | None = topicdb.open(
                path, durability=durability.value, on_damage=on_damage.value, **options
            )
        else:
            database = place.open(path, options, stopped, stack)
        if database is None:
            return
        stack.enter_context(database)
        server = topicdb.serve(
            database,
            host=host,
            port=port,
            tls_certificate=tls_cert,
            tls_key=tls_key,
            tls_client_ca=tls_client_ca,
            tokens=tokens,
            insecure=insecure,
            limits=limits,
            snapshots=snapshots,
        )
        stack.callback(server.close)
        server.service.replays.open_stored()
        shown = _Shown(path, server.url, dict(sorted(database.missing_shards.items())))
        if metrics is not None:
            shown.metrics = _serve_metrics(database, server, metrics, stack)
        shown.show(as_json)
        watch_membership(database, stopped)
        ended = server.shutdown(grace)
    if not ended:
        # Nothing else ends calls that a client holds up. The database is closed.
        print("topicdb: some calls did not end in time", file=sys.stderr, flush=True)
        os._exit(1)


def _check_site(place: SiteArguments, durability: DurabilityChoice, on_damage: OnDamage) -> None:
    """Raises UserError for options that do not go together."""
    if not place.name:
        given = (place.sites, place.convert, place.join, place.address, place.listen)
        if any(given) or place.authority or not place.heal:
            raise UserError(
                "--sites, --convert, --join, --address, --peers-listen, --peers-ca and --no-heal "
                "go with --site"
            )
        return
    if bool(place.sites) == bool(place.join):
        raise UserError(
            "--site: name all sites of the cluster with --sites, this one included, or with --join "
            "some sites of a cluster that is there"
        )
    if bool(place.join) != bool(place.address):
        raise UserError(
            "--address says where the others find a site that joins: give it with --join"
        )
    if durability is not DurabilityChoice.OS or on_damage is not OnDamage.RAISE:
        raise UserError(
            "--durability and --on-damage are for a database of one process: at a site a majority "
            "of the sites has on disk what was acknowledged, and a damaged shard comes from another"
        )


@at_place
def quota(
    place: Place,
    set: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Set this quota, such as 30GB, or none.")
    ] = None,
    quota_trim: Annotated[
        str | None,
        typer.Option(
            "--quota-trim",
            metavar="PART",
            help="Let the oldest generations go from this part of the quota on: 0.9, or none.",
        ),
    ] = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the quota of a database that is served, or change it with --set and --quota-trim.

    The new quota holds until the server ends. If generations go for it, the command says how many
    messages these have, and asks. A token needs --admin '#' to change it.

    \b
    Example:
      topicdb quota grpc+tls://plant:8815 --set 30GB --quota-trim 0.9
    """
    if not place.is_url:
        raise UserError(
            f"{place.where} is a directory: give the URL of the server that has it open. A program "
            "that opens a database says its quota itself, as quota_bytes"
        )
    part = _part(quota_trim)
    with place.read() as database:
        found = database.quota
        if set is not None or quota_trim is not None:
            size = found.bytes if set is None else None if set == NONE else set
            foreseen = database.set_quota(size, quota_trim=part, dry_run=True)
            _confirm_dropped(foreseen, yes=yes)
            found = database.set_quota(size, quota_trim=part)
    if as_json:
        dropped = sum(one.slab.messages for one in found.dropped)
        facts = {"quota_bytes": found.bytes, "quota_trim": found.trim}
        facts |= {"disk_bytes": found.disk_bytes, "full": found.is_full, "to_drop": dropped}
        print(json.dumps(facts, indent=2))
        return
    report.console().print(report.facts_table(_facts_of(found)))


def _part(text: str | None) -> TrimPart:
    if text is None:
        return "unchanged"
    if text == NONE:
        return None
    try:
        return float(text)
    except ValueError:
        raise UserError(
            f"--quota-trim: expected a part such as 0.9, or none, got {text!r}"
        ) from None


def _confirm_dropped(foreseen: topicdb.Quota, *, yes: bool) -> None:
    if foreseen.dropped:
        messages = sum(one.slab.messages for one in foreseen.dropped)
        size = decimal(sum(one.disk_bytes for one in foreseen.dropped))
        confirm(f"for this quota up to {messages:,} messages ({size}) go at once", yes=yes)


def _facts_of(found: topicdb.Quota) -> dict[str, str]:
    facts = {
        "quota": "none" if found.bytes is None else decimal(found.bytes),
        "on disk": decimal(found.disk_bytes),
        "oldest generations go": (
            "never" if found.trim is None or found.bytes is None else f"from {found.trim:.0%} on"
        ),
    }
    if found.is_full:
        facts["full"] = "appends are refused"
    return facts


def _limits(memory: str, token_memory: str, append_max: str) -> Limits:
    from topicdb.remote.server.handles import Limits

    return Limits(
        memory_bytes_max=_limit(memory, "--memory"),
        token_memory_bytes_max=_limit(token_memory, "--token-memory"),
        append_bytes_max=_limit(append_max, "--append-max"),
    )


def _limit(text: str, option: str) -> int:
    size = size_bytes(text, what=option)
    if size < 1:
        raise ValueError(f"{option}: expected at least 1B, got {text!r}")
    return size


@dataclass
class _Shown:
    """What ``serve`` says when it begins."""

    path: str
    url: str
    missing_shards: dict[int, str]
    metrics: str | None = None

    def show(self, as_json: bool) -> None:
        if as_json:
            print_json(asdict(self))
            return
        lines = [f"{self.path} at {self.url}"]
        for shard, reason in self.missing_shards.items():
            lines.append(f"missing: shard {shard} ({printable(reason)})")
        if self.metrics is not None:
            lines.append(f"metrics at {self.metrics}")
        print("\n".join(lines), flush=True)


def _serve_metrics(
    database: topicdb.Database, server: Server, address: str, stack: ExitStack
) -> str:
    from topicdb.metrics import Collector, serve_metrics

    host, port = _address(address, "--metrics")
    try:
        http, thread = serve_metrics(Collector(database, server), host, port)
    except OSError as error:
        raise UserError(f"--metrics: cannot listen at {address}: {message_of(error)}") from None
    stack.callback(thread.join)
    stack.callback(http.server_close)
    stack.callback(http.shutdown)
    return f"http://{host}:{http.server_port}/metrics"


def _address(text: str, option: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise typer.BadParameter(f"expected HOST:PORT, got {text!r}", param_hint=option)
    return host.removeprefix("[").removesuffix("]") or LOCAL, int(port)
