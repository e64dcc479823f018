"""The ``topicdb`` command. Needs the extra ``topicdb[cli]`` (typer and rich)."""

import sys

_EXTRA = ("typer", "rich")


def main() -> int:
    """Entry point of the command line. Returns the exit code, or raises SystemExit with it."""
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
