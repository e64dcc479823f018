"""``topicdb serve`` offers a database to other processes; ``topicdb token`` says who may use it."""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal

import topicdb
from topicdb.arguments.times import duration_us
from topicdb.cli import report
from topicdb.cli.confirming import YesOption, confirm
from topicdb.cli.errors import Group, UserError, message_of
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

token_app = typer.Typer(
    cls=Group, no_args_is_help=True, help="Make and revoke tokens, which say who may do what."
)

LOCAL = "127.0.0.1"
NONE = "none"
TokensOption = Annotated[Path, typer.Option("--tokens", help="Use this file of tokens.")]
PathArgument = Annotated[
    str,
    directory_argument(
        "it offers a database that it opens itself; run it on the machine of the database"
    ),
]
Filters = list[str] | None


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
    as_json: JsonOption = False,
) -> None:
    """Offer a database to other processes, until SIGTERM or Ctrl-C.

    The command makes the database if there is none.

    \b
    Example:
      topicdb serve fleet.db --listen 0.0.0.0:8815 --tls-cert c.pem --tls-key k.pem --tokens t.json
    """
    host, port = _address(listen, "--listen")
    limits = _limits(memory, token_memory, append_max)
    addresses.check_address(host, port)  # before a database is created
    if metrics is not None:
        addresses.check_address(*_address(metrics, "--metrics"))
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # else gRPC writes about each failed handshake
    with stopped_by_signals() as stopped, ExitStack() as stack:
        database = stack.enter_context(
            topicdb.open(
                path,
                durability=durability.value,
                quota_bytes=quota,
                on_damage=on_damage.value,
                **creating(shards, shard_by, structure),
            )
        )
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
        stopped.wait()
        ended = server.shutdown(grace)
    if not ended:
        # Nothing else ends calls that a client holds up. The database is closed.
        print("topicdb: some calls did not end in time", file=sys.stderr, flush=True)
        os._exit(1)


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


@token_app.command("new")
def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Give a name for the one who gets the token.")
    ],
    tokens: TokensOption,
    read: Annotated[
        Filters, typer.Option(help="Let it read topics that match this filter. You may repeat it.")
    ] = None,
    write: Annotated[
        Filters, typer.Option(help="Let it write topics that match this filter. You may repeat it.")
    ] = None,
    admin: Annotated[
        Filters,
        typer.Option(
            help="Let it delete messages of topics that match this filter; '#' lets it "
            "administer the whole database."
        ),
    ] = None,
    own: Annotated[
        Filters,
        typer.Option(
            help="Let it use consumer/NAME, group/NAME, session/NAME, map/NAME or "
            "endpoint/LOG/NAME, with + for any name. You may repeat it."
        ),
    ] = None,
    replay: Annotated[
        Filters,
        typer.Option(
            metavar="LOG/ENDPOINT",
            help="Let it have replays on this endpoint, and change it, with + for any "
            "name. You may repeat it.",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--everything", help="Let it do everything.")] = False,
    expires: Annotated[
        str | None,
        typer.Option(help="Let it end after this time: 30d, 12h. By default it does not end."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a token and print it.

    The token is shown only once, because the file has only a hash of it.

    \b
    Example:
      topicdb token new press --tokens tokens.json --read 'site/#' --expires 30d
    """
    from topicdb.remote.server.tokens import add

    entry: dict[str, Any] = {"name": name}
    given = {"read": read, "write": write, "admin": admin, "names": own, "replay": replay}
    for field, values in given.items():
        if values:
            entry[field] = values
    if everything:
        entry["everything"] = True
    if len(entry) == 1:
        raise UserError("this token may do nothing: give --read, --write, --admin or --everything")
    if expires is not None:
        entry["expires"] = _end_of(expires)
    token = add(tokens, entry)
    if as_json:
        print_json({"name": name, "token": token, "expires": entry.get("expires")})
    else:
        print(token)


def _end_of(expires: str) -> str:
    """Returns the time, as ISO 8601, at which a token ends that is made now."""
    valid = timedelta(microseconds=duration_us(expires, what="--expires"))
    try:
        until = datetime.now(timezone.utc) + valid
    except OverflowError:
        raise UserError(
            f"--expires: {expires} from now is after the year 9999: leave it out for ever"
        ) from None
    return until.isoformat(timespec="seconds")


@token_app.command("list")
def show(tokens: TokensOption, as_json: JsonOption = False) -> None:
    """List the tokens and what they may do.

    \b
    Example:
      topicdb token list --tokens tokens.json
    """
    from topicdb.remote.server.tokens import load

    found = sorted(load(tokens).values(), key=lambda access: access.name)
    if as_json:
        print_json({"tokens": [_token_json(access) for access in found]})
        return
    for access in found:
        print(_line(access))


def _token_json(access: Any) -> dict[str, Any]:
    fields = ("name", "everything", "read", "write", "admin", "names", "replay", "expires_us")
    values = ((name, getattr(access, name)) for name in fields)
    return {
        name: list(value) if isinstance(value, (tuple, list, set, frozenset)) else value
        for name, value in values
    }


def _line(access: Any) -> str:
    parts = [access.name]
    if access.everything:
        parts.append("everything")
    for field in ("read", "write", "admin", "names", "replay"):
        if values := getattr(access, field):
            parts.append(f"{field} {' '.join(values)}")
    if access.expires_us is not None:
        until = datetime.fromtimestamp(access.expires_us // 1_000_000, timezone.utc)
        parts.append(f"until {until.isoformat()}")
    return "; ".join(parts)


@token_app.command("revoke")
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Give the name of the token.")],
    tokens: TokensOption,
    as_json: JsonOption = False,
) -> None:
    """Revoke a token. Servers notice within a second.

    \b
    Example:
      topicdb token revoke press --tokens tokens.json
    """
    from topicdb.remote.server.tokens import remove

    remove(tokens, name)
    if as_json:
        print_json({"revoked": name})
    else:
        print(f"revoked {name}")
