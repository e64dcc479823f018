"""Turns a failure into one line on stderr and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from typing import Any

import typer
from typer.core import TyperGroup

import topicdb

EXIT_ERROR = 1
EXIT_LOCKED = 3
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it


class UserError(Exception):
    """A mistake in the arguments or the data; its text is one line."""


def message_of(error: BaseException) -> str:
    """Returns one line that says what happened.

    ``str`` alone would put the text of a KeyError in quotes.
    """
    if isinstance(error, OSError) and error.strerror is not None:
        name = f": {os.fsdecode(error.filename)}" if error.filename is not None else ""
        text = f"{error.strerror}{name}"
    elif len(error.args) == 1 and isinstance(error.args[0], str):
        text = error.args[0]
    else:
        text = str(error)
    return "; ".join(text.splitlines()) or type(error).__name__


class ErrorGroup(TyperGroup):
    """The group of all commands, which reports their errors."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the chosen command; raises ``typer.Exit`` with the exit code of an error."""
        debug = bool(ctx.params.get("debug"))
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # so that a closed pipe is noticed here, not at exit
            return result
        except BrokenPipeError:
            _discard_output()  # the reader (`| head`) has read all that it needs
            raise typer.Exit(0) from None
        except KeyboardInterrupt as error:
            _report(str(error) or "interrupted", debug)
            raise typer.Exit(EXIT_INTERRUPTED) from None
        except topicdb.LockedError as error:
            _report(f"error: {message_of(error)}", debug)
            raise typer.Exit(EXIT_LOCKED) from None
        except (topicdb.Error, UserError, OSError, ValueError, ModuleNotFoundError) as error:
            _report(f"error: {message_of(error)}", debug)
            raise typer.Exit(EXIT_ERROR) from None


def _report(text: str, debug: bool) -> None:
    try:
        sys.stdout.flush()
    except OSError:
        _discard_output()
    if debug:
        traceback.print_exc()
    print(f"topicdb: {text}", file=sys.stderr)


def _discard_output() -> None:
    """Sends what is still buffered to the null device: a flush at exit would fail a second time."""
    with suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
