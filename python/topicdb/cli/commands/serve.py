"""``topicdb serve`` offers a database to other processes; ``topicdb token`` says who may use it."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import topicdb
from topicdb.arguments.times import duration_us
from topicdb.cli.errors import UserError, message_of
from topicdb.cli.options import (
    DurabilityChoice,
    PathArgument,
    ShardsOption,
    StructureOption,
)
from topicdb.cli.stopping import stopped_by_signals
from topicdb.lifecycle.planning import size_bytes
from topicdb.remote import addresses
from topicdb.remote.connecting import DEFAULT_PORT

if TYPE_CHECKING:
    from topicdb.remote.server.handles import Limits
    from topicdb.remote.server.server import Server

token_app = typer.Typer(no_args_is_help=True, help="Tokens: who may do what at `topicdb serve`.")

LOCAL = "127.0.0.1"
TokensOption = Annotated[Path, typer.Option("--tokens", help="The file of tokens.")]
Filters = list[str] | None


def serve(
    path: PathArgument,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address to listen on; port 0 is any free one.")
    ] = f"{LOCAL}:{DEFAULT_PORT}",
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate with its chain, PEM.")] = None,
    tls_key: Annotated[
        Path | None, typer.Option(help="Private key of the certificate, PEM.")
    ] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(
            help="CA certificates, PEM: only clients with a certificate of these are let in."
        ),
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(
            help="File that `topicdb token` has made. Without it everybody may do everything."
        ),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let other machines connect without TLS and tokens.")
    ] = False,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Address for Prometheus metrics, over HTTP."),
    ] = None,
    snapshots: Annotated[
        Path | None, typer.Option(help="Folder in which clients may have snapshots made.")
    ] = None,
    grace: Annotated[
        float,
        typer.Option(min=0, help="Seconds that running calls have to end after SIGTERM or Ctrl-C."),
    ] = 10.0,
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Memory that the calls of all clients may hold.")
    ] = "1GiB",
    token_memory: Annotated[
        str,
        typer.Option(
            metavar="SIZE", help="Memory that the calls of the clients of one token may hold."
        ),
    ] = "512MiB",
    append_max: Annotated[
        str,
        typer.Option(
            metavar="SIZE", help="Most bytes of one append, and of the writes of a transaction."
        ),
    ] = "64MiB",
    durability: Annotated[
        DurabilityChoice, typer.Option(help="Durability, unless a client asks for another.")
    ] = DurabilityChoice.OS,
    shards: ShardsOption = None,
    structure: StructureOption = None,
) -> None:
    """Offer a database to other processes, until SIGTERM or Ctrl-C.

    Creates the database if there is none.
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
                path, durability=durability.value, shards=shards, structures=structure or None
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
        lines = [f"{path} at {server.url}"]
        if metrics is not None:
            lines.append(_serve_metrics(database, server, metrics, stack))
        print("\n".join(lines), flush=True)
        stopped.wait()
        ended = server.shutdown(grace)
    if not ended:
        # Nothing else ends calls that a client holds up. The database is closed.
        print("topicdb: some calls did not end in time", file=sys.stderr, flush=True)
        os._exit(1)


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
    return f"metrics at http://{host}:{http.server_port}/metrics"


def _address(text: str, option: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise typer.BadParameter(f"expected HOST:PORT, got {text!r}", param_hint=option)
    return host.removeprefix("[").removesuffix("]") or LOCAL, int(port)


@token_app.command("new")
def new(
    name: Annotated[str, typer.Argument(help="Name of the token: whom it is for.")],
    tokens: TokensOption,
    read: Annotated[
        Filters, typer.Option(help="Topic filter of what it may read; may be repeated.")
    ] = None,
    write: Annotated[
        Filters, typer.Option(help="Topic filter of what it may write; may be repeated.")
    ] = None,
    admin: Annotated[
        Filters,
        typer.Option(help="Topic filter of what it may delete; '#' lets it administer everything."),
    ] = None,
    own: Annotated[
        Filters,
        typer.Option(
            help="consumer/NAME, group/NAME, session/NAME, map/NAME or endpoint/LOG/NAME; + for "
            "any name."
        ),
    ] = None,
    replay: Annotated[
        Filters,
        typer.Option(
            metavar="LOG/ENDPOINT",
            help="Endpoint on which it may have replays, and which it may change; + for any.",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--everything", help="Let it do everything.")] = False,
    expires: Annotated[
        str | None, typer.Option(help="How long it is valid: 30d, 12h. By default for ever.")
    ] = None,
) -> None:
    """Make a token and print it.

    It is shown only once: the file has a hash of it.
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
    print(add(tokens, entry))


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
def show(tokens: TokensOption) -> None:
    """List the tokens and what they may do."""
    from topicdb.remote.server.tokens import load

    for access in sorted(load(tokens).values(), key=lambda access: access.name):
        print(_line(access))


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
    name: Annotated[str, typer.Argument(help="Name of the token.")], tokens: TokensOption
) -> None:
    """Revoke a token; servers notice within a second."""
    from topicdb.remote.server.tokens import remove

    remove(tokens, name)
    print(f"revoked {name}")
