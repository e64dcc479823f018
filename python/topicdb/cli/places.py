"""Where a database is: a directory of this machine, or the URL of a server."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import topicdb
from topicdb import _core
from topicdb.cli.errors import UserError
from topicdb.cli.mistakes import databases_in, no_database
from topicdb.types import Durability

TOKEN_VARIABLE = "TOPICDB_TOKEN"

PlaceArgument = Annotated[
    str,
    typer.Argument(
        metavar="PATH|URL",
        help="Give the directory of the database, or the URL of its server, such as "
        "grpc+tls://host:8815.",
    ),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN",
        help="Show the server this token. By default the one in the variable "
        f"{TOKEN_VARIABLE} is shown.",
    ),
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file", metavar="FILE", help="Read the token for the server from this file."
    ),
]
CaOption = Annotated[
    Path | None,
    typer.Option(
        "--ca",
        metavar="FILE",
        help="Trust the certificates of this PEM file for the server. By default the "
        "well-known authorities are trusted.",
    ),
]
# A directory with one of these files is a database, or was one.
_DESCRIPTORS = ("TOPICDB", "CREATING", "DROPPING")
# The options of ``topicdb.open`` for a new database, as the commands have them.
_CREATING = {"shards": "--shards", "shard_by": "--shard-by", "structures": "--structure"}
# What messages of the API call the options.
_OPTION_NAMES = (("tls_root_certs", "--ca"), ("topicdb.connect", "the commands"))


@dataclass(frozen=True)
class Place:
    """Where the database of a command is, by the arguments of the command."""

    where: str
    token: str | None = None
    token_file: Path | None = None
    ca: Path | None = None

    @property
    def is_url(self) -> bool:
        """Whether it is at a server, and not in a directory of this machine."""
        return "://" in self.where

    def read(self, *, partial: bool = False, quota_bytes: int | None = None) -> topicdb.Database:
        """Opens the database to read; with ``partial``, without shards that are damaged or gone.

        ``quota_bytes`` is the quota of a directory to reckon with; a server has its own.

        Raises UserError if options for a server are given with a directory, and what
        ``topicdb.open`` and ``topicdb.connect`` raise.
        """
        if self.is_url:
            return self._connected()
        self._check_options()
        try:
            return topicdb.open(
                self.where,
                mode="r",
                on_damage="skip" if partial else "raise",
                quota_bytes=quota_bytes,
            )
        except (topicdb.NotFoundError, topicdb.CorruptionError) as error:
            raise self._not_found(error) from None

    def write(self) -> topicdb.Database:
        """Opens a database that exists, without maintenance, to change something of it.

        Raises NotFoundError if there is none, LockedError if another process has it open for
        writing, and what ``read`` raises.
        """
        if self.is_url:
            return self._connected()
        self._check_options()
        try:
            _core.read_schema(self.where)  # raises NotFoundError: ``open`` would create it
        except (topicdb.NotFoundError, topicdb.CorruptionError) as error:
            raise self._not_found(error) from None
        try:
            return topicdb.open(self.where, maintenance_interval=None)
        except topicdb.LockedError as error:
            raise topicdb.LockedError(self._locked(str(error))) from None

    def make(self, durability: Durability | None, schema: dict[str, Any]) -> topicdb.Database:
        """Opens a database to write to it, with maintenance, and makes it if there is none.

        ``schema`` has the options of ``topicdb.open`` for a database that is perhaps new, and
        ``durability`` is of appends that say no other; None: ``"os"``.

        Raises UserError if options of a new database are given with the URL of a server, and what
        ``topicdb.open`` and ``topicdb.connect`` raise.
        """
        if self.is_url:
            given = [_CREATING[name] for name, value in schema.items() if value is not None]
            if given:
                raise UserError(
                    f"{self.where} is a server, which has its database already: leave out "
                    f"{' and '.join(given)}, which are for a new one"
                )
            return self._connected()
        self._check_options()
        return topicdb.open(self.where, durability=durability or "os", **schema)

    def directory(self) -> str:
        """Returns the directory of a place that is no URL.

        Raises UserError if options for a server are given with it.
        """
        self._check_options()
        return self.where

    def _locked(self, text: str) -> str:
        """Returns the text of the error for a database that another process writes."""
        found = re.search(r"locked by .*?(pid \d+)", text)
        if found is None:
            return text
        return (
            f"{self.where} is open for writing in another process ({found[1]}): close it there, or "
            "let that process offer it (topicdb serve, topicdb.serve) and give its URL here "
            "instead of the directory"
        )

    def _not_found(self, error: topicdb.Error) -> topicdb.Error:
        """Returns the error, or one that says which databases there are nearby."""
        kept = (Path(self.where, name) for name in _DESCRIPTORS)
        if any(file.exists() for file in kept):
            return error
        if isinstance(error, topicdb.CorruptionError) and not databases_in(Path(self.where)):
            return error  # a database whose descriptor is gone, or no database at all
        return topicdb.NotFoundError(no_database(self.where))

    def _check_options(self) -> None:
        if self.token is not None or self.token_file is not None or self.ca is not None:
            raise UserError(
                f"--token, --token-file and --ca are for the URL of a server, and {self.where} is "
                "a directory"
            )

    def _connected(self) -> topicdb.Database:
        if self.token is not None and self.token_file is not None:
            raise UserError("give --token or --token-file, not both")
        token = self.token or os.environ.get(TOKEN_VARIABLE) or None
        if self.token_file is not None:
            token = self.token_file.read_text(encoding="utf-8").strip()
        # Else gRPC writes about a failed handshake, beside the error that says what it means.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        try:
            return topicdb.connect(self.where, token=token, tls_root_certs=self.ca)
        except (topicdb.UnavailableError, ValueError) as error:
            text = str(error)
            for name, option in _OPTION_NAMES:
                text = text.replace(name, option)
            raise type(error)(text.removeprefix("url: ")) from None


def at_place(command: Callable[..., None]) -> Callable[..., None]:
    """Makes a command of a function whose first argument is a Place.

    The command has an argument PATH|URL instead, and behind its own options those for a server.
    """
    return with_parameters(
        command,
        {"path": PlaceArgument},
        {"token": TokenOption, "token_file": TokenFileOption, "ca": CaOption},
        Place,
    )


def with_parameters(
    command: Callable[..., None],
    first: dict[str, Any],
    last: dict[str, Any],
    make: Callable[..., Any],
) -> Callable[..., None]:
    """Replaces the first parameter of a command by others, from which ``make`` makes its value.

    ``first`` are those that come before the parameters of the command, ``last`` those that come
    behind them, by their names. The latter are options with the default None.
    """
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        *(inspect.Parameter(name, keyword, annotation=kind) for name, kind in first.items()),
        *(one.replace(kind=keyword) for one in own),
        *(
            inspect.Parameter(name, keyword, annotation=kind, default=None)
            for name, kind in last.items()
        ),
    ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        made = make(*(given.pop(name) for name in (*first, *last)))
        command(made, **given)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run
