"""Finds the replay log that a command is to govern, wherever it is open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import topicdb
from topicdb import replay
from topicdb.cli.places import (
    CaOption,
    Place,
    PlaceArgument,
    TokenFileOption,
    TokenOption,
    with_parameters,
)
from topicdb.replay.distant.attaching import attach
from topicdb.replay.log.opening import names

DEFAULT_LOG = "default"
RATE = "Publish messages at this rate: 1x (as they came), 10x, 0.5x, 500/s, or max."
EndpointArgument = Annotated[
    str, typer.Argument(metavar="ENDPOINT", help="Give the name of the endpoint.")
]
LogOption = Annotated[
    str | None,
    typer.Option(
        "--log",
        metavar="NAME",
        help=f"Take the replay log of this name. By default it is {DEFAULT_LOG!r}.",
    ),
]


@dataclass(frozen=True)
class Target:
    """The log that a command is to govern, by the arguments of the command."""

    place: Place
    log: str

    @contextmanager
    def opened(self) -> Iterator[replay.ReplayLog]:
        """Yields the log, where it is open or, if nobody has it open, open here for the block.

        Raises NotFoundError if there is no such log, and LockedError if another process has the
        database open for writing, but not this log.
        """
        with ExitStack() as stack:
            if self.place.is_url:
                database = stack.enter_context(self.place.read())
                yield stack.enter_context(replay.open(database, self.log))
                return
            attached = attach(self.place.directory(), self.log)
            yield stack.enter_context(attached or self._here(stack))

    def _here(self, stack: ExitStack) -> replay.ReplayLog:
        path = self.place.where
        try:
            database = stack.enter_context(self.place.write())
        except topicdb.LockedError as error:
            attached = attach(path, self.log)  # it may just have been opened
            if attached is not None:
                return attached
            raise topicdb.LockedError(
                f"{error.args[0]}; replay log {self.log!r} is not open there, so nobody takes this "
                "order"
            ) from None
        if self.log not in names(database):
            raise topicdb.NotFoundError(
                f"there is no replay log {self.log!r} in {path}; it has "
                f"{', '.join(names(database)) or 'none'} (--log)"
            )
        return replay.open(database, self.log)


def at_log(command: Callable[..., None]) -> Callable[..., None]:
    """Makes a command of a function whose first argument is a Target.

    The command has an argument PATH|URL instead, and behind its own options --log and those for a
    server.
    """
    return with_parameters(
        command,
        {"path": PlaceArgument},
        {"log": LogOption, "token": TokenOption, "token_file": TokenFileOption, "ca": CaOption},
        _target,
    )


def _target(
    path: str, log: str | None, token: str | None, token_file: Path | None, ca: Path | None
) -> Target:
    return Target(Place(path, token, token_file, ca), log or DEFAULT_LOG)
