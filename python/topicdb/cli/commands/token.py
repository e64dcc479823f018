"""``topicdb token`` says who may use a database that is served."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated, Any

import typer

from topicdb.arguments.times import duration_us
from topicdb.cli.errors import Group, UserError
from topicdb.cli.options import JsonOption
from topicdb.cli.output import print_json

token_app = typer.Typer(
    cls=Group, no_args_is_help=True, help="Make and revoke tokens, which say who may do what."
)

TokensOption = Annotated[Path, typer.Option("--tokens", help="Use this file of tokens.")]
Filters = list[str] | None


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
