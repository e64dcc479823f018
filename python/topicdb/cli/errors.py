"""Turns a failure into one line on stderr and an exit code."""

from __future__ import annotations

import difflib
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import typer
from typer.core import TyperGroup

import topicdb
from topicdb.cli.mistakes import explain_usage, unknown_command

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


class Group(TyperGroup):
    """A group of commands, which says what to type instead of a mistyped one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Returns the command that the first of the arguments names, with its name and the rest."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            ctx.fail(unknown_command(name, self.list_commands(ctx), ctx.command_path))
        return super().resolve_command(ctx, args)


class DefaultGroup(Group):
    """A group with a command ``list``, which runs if no command is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Takes the options of the group out of the arguments; puts ``list`` in if it is meant."""
        known = self.list_commands(ctx)
        if args and args[0] not in (*known, "-h", "--help"):
            is_path = os.sep in args[0] or args[0].startswith("-") or os.path.exists(args[0])
            if is_path or not difflib.get_close_matches(args[0], known, n=1):
                args = ["list", *args]
        return super().parse_args(ctx, args)


class ErrorGroup(Group):
    """The group of all commands, which reports their errors."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Takes the options before the command out of the arguments."""
        with _explained():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Runs the chosen command; raises ``typer.Exit`` with the exit code of an error."""
        debug = bool(ctx.params.get("debug"))
        try:
            with _explained():
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


@contextmanager
def _explained() -> Iterator[None]:
    """Lets usage errors in the block say what to type instead."""
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message") and hasattr(error, "ctx"):  # a usage error of click
            explain_usage(error)
        raise


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
