"""Asking before data goes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from topicdb.cli.errors import UserError

YesOption = Annotated[
    bool, typer.Option("--yes", help="Do it without asking; needed where nobody can be asked.")
]


def can_ask() -> bool:
    """Whether there is a person at a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(loss: str, *, yes: bool) -> None:
    """Returns if what ``loss`` says may go: with --yes, or if the person at the terminal agrees.

    UserError otherwise, also where there is no terminal; then nothing was changed.
    """
    if yes:
        return
    if can_ask():
        if typer.confirm(f"{loss}. Do it?", err=True):
            return
        raise UserError("nothing was changed")
    raise UserError(f"{loss}: nothing was changed; --yes does it")
