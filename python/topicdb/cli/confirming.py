"""Asks before a command drops data."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from topicdb.cli.errors import UserError

YesOption = Annotated[
    bool, typer.Option("--yes", help="Do it without asking; needed where nobody can be asked.")
]


def can_ask() -> bool:
    """Returns whether there is a person at a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(loss: str, *, yes: bool) -> None:
    """Returns if the loss may happen: with --yes, or if the person at the terminal agrees.

    ``loss`` is a sentence that says what goes. Raises UserError, which says that nothing was
    changed, if the person does not agree or there is no terminal.
    """
    if yes:
        return
    if can_ask():
        if typer.confirm(f"{loss}. Do it?", err=True):
            return
        raise UserError("nothing was changed")
    raise UserError(f"{loss}: nothing was changed; --yes does it")
