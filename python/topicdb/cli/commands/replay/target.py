"""Finds the replay log that a command is to govern, wherever it is open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import topicdb
from topicdb import replay
from topicdb.cli.commands.lifecycle import writing
from topicdb.cli.errors import UserError
from topicdb.replay.distant.attaching import attach
from topicdb.replay.log.opening import names

TOKEN_VARIABLE = "TOPICDB_TOKEN"

TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="TARGET", help="Directory of the database, or URL of its server: grpc+tls://host."
    ),
]
RATE = "1x (as it was), 10x, 0.5x, 500/s, or max."
EndpointArgument = Annotated[str, typer.Argument(help="Name of the endpoint.")]
LogOption = Annotated[str, typer.Option("--log", help="Name of the replay log.")]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        help=f"File with the token for a server. By default the variable {TOKEN_VARIABLE}."
    ),
]
CaOption = Annotated[
    Path | None,
    typer.Option(help="File of certificates to trust, PEM, for a server. By default well-known."),
]


@dataclass(frozen=True)
class Target:
    """The log that a command is to govern, by the options of the command."""

    place: str
    log: str
    token_file: Path | None
    ca: Path | None

    @property
    def is_url(self) -> bool:
        """Whether it is at a server, and not in a directory of this machine."""
        return "://" in self.place

    @contextmanager
    def opened(self) -> Iterator[replay.ReplayLog]:
        """Yields the log, where it is open or, if nobody has it open, open here for the block.

        Raises NotFoundError if there is no such log, and LockedError if another process has the
        database open for writing, but not this log.
        """
        with ExitStack() as stack:
            if self.is_url:
                yield stack.enter_context(self._at_server(stack))
                return
            if self.token_file is not None or self.ca is not None:
                raise UserError("--token-file and --ca are for the URL of a server")
            attached = attach(self.place, self.log)
            yield stack.enter_context(attached or self._here(stack))

    def _at_server(self, stack: ExitStack) -> replay.ReplayLog:
        token = os.environ.get(TOKEN_VARIABLE) or None
        if self.token_file is not None:
            token = self.token_file.read_text(encoding="utf-8").strip()
        database = stack.enter_context(
            topicdb.connect(self.place, token=token, tls_root_certs=self.ca)
        )
        return replay.open(database, self.log)

    def _here(self, stack: ExitStack) -> replay.ReplayLog:
        try:
            database = stack.enter_context(writing(self.place))
        except topicdb.LockedError as error:
            attached = attach(self.place, self.log)  # it may just have been opened
            if attached is not None:
                return attached
            raise topicdb.LockedError(
                f"{error.args[0]}; replay log {self.log!r} is not open there, so nobody takes this "
                "order"
            ) from None
        if self.log not in names(database):
            raise topicdb.NotFoundError(
                f"there is no replay log {self.log!r} in {self.place}; it has "
                f"{', '.join(names(database)) or 'none'} (--log)"
            )
        return replay.open(database, self.log)
