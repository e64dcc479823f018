"""The ``topicdb`` command, which needs the extra ``topicdb[cli]`` (typer and rich)."""

import os
import sys

_EXTRA = ("typer", "rich")
_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def main() -> int:
    """Runs the command line, and returns the exit code or raises SystemExit with it."""
    _open_closed_streams()
    try:
        from topicdb.cli.app import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        print(
            f"topicdb: error: the command line needs {error.name}, which is not installed; "
            'run: pip install "topicdb[cli]"',
            file=sys.stderr,
        )
        return 1
    return run()


def _open_closed_streams() -> None:
    """Opens those of stdin, stdout and stderr that whoever started the command has closed.

    They become the null device. Else the first files that the command opens, such as those of a
    database, would have their numbers, and get what is written to them.
    """
    for name, mode in _STREAMS:
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)  # it gets the lowest number that is free
            setattr(sys, name, open(null, mode, encoding="utf-8"))  # noqa: SIM115 - to the end
