"""The ``topicdb`` command, which needs the extra ``topicdb[cli]`` (typer and rich)."""

import sys

_EXTRA = ("typer", "rich")


def main() -> int:
    """Runs the command line, and returns the exit code or raises SystemExit with it."""
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
