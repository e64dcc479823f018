"""Says what a mistyped command, option or path was understood as, and what to type instead."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from topicdb import _core

# What people try who know other programs.
_COMMANDS = {
    "backup": "snapshot",
    "cat": "scan",
    "check": "verify",
    "fix": "repair",
    "follow": "tail",
    "fsck": "verify",
    "get": "last",
    "groups": "consumers",
    "list": "ls",
    "load": "import",
    "pub": "publish",
    "put": "publish",
    "query": "sql",
    "readers": "consumers",
    "remove": "delete",
    "rm": "delete",
    "select": "sql",
    "sub": "tail",
    "subscribe": "tail",
    "watch": "tail",
}
_OPTIONS = {
    "--after": "--start",
    "--before": "--end",
    "--name": "--client-id",
    "--older-than": "--before",
    "--rows": "--limit",
    "--cafile": "--ca",
    "--count": "--limit",
    "--dry": "--dry-run",
    "--follow": "tail",
    "--force": "--yes",
    "--from": "--start",
    "--interval": "--every",
    "--since": "--start",
    "--time": "--timestamp",
    "--timezone": "--tz",
    "--tls-root-certs": "--ca",
    "--to": "--end",
    "--topic": "--filter",
    "--until": "--end",
    "--zone": "--tz",
    "-f": "--format",
    "-n": "--last",
    "-y": "--yes",
}
_CHOICE = re.compile(r"'(?P<typed>[^']*)' is not one of (?P<choices>.*)\.$")
_EXTRA = re.compile(r"unexpected extra arguments?(?:\(s\))? \((?P<extra>.*)\)")


def unknown_command(name: str, names: Iterable[str], group: str) -> str:
    """Returns a sentence about a command that ``group`` does not have."""
    known = sorted(names)
    meant = difflib.get_close_matches(name, known, n=1) or [_COMMANDS.get(name, "")]
    told = f"there is no command {name!r}"
    if meant[0] in known:
        return f"{told}; did you mean {meant[0]!r}?"
    return f"{told} of {group}; it has: {', '.join(known)}"


def explain_usage(error: Any) -> None:
    """Rewrites the message of a usage error of click, if there is more to say."""
    if type(error).__name__ == "NoSuchOption":
        error.message = _unknown_option(error.option_name, error.ctx)
        error.possibilities = None
        return
    message = str(getattr(error, "message", "") or "")
    choice = _CHOICE.search(message)
    extra = _EXTRA.search(message)
    if choice is not None:
        choices = re.findall(r"'([^']*)'", choice["choices"])
        meant = difflib.get_close_matches(choice["typed"].lower(), choices, n=1)
        hint = f"; did you mean {meant[0]!r}?" if meant else ""
        error.message = f"{choice['typed']!r} is not one of {', '.join(choices)}{hint}"
    elif extra is not None:
        error.message = f"{extra['extra']!r} is one argument too many{_quotes(extra['extra'])}"
    elif "valid integer" in message:
        error.message = "expected a whole number, such as 10"
    elif "valid number" in message or "valid float" in message:
        error.message = "expected a number, such as 2.5"


def _quotes(extra: str) -> str:
    if re.match(r"\d{1,2}:\d{2}", extra):
        return "; put a time with a space in quotes: 'yesterday 14:02'"
    if "/" in extra:
        return "; put a topic filter in quotes: 'site/+/pump'"
    return ""


def _unknown_option(name: str, context: Any) -> str:
    parameters = getattr(getattr(context, "command", None), "params", ())
    names = (name for one in parameters for name in (*one.opts, *one.secondary_opts))
    options = [name for name in names if name.startswith("-")]
    told = f"there is no option {name!r}"
    if context is not None:
        told += f" of {context.command_path}"
    meant = _OPTIONS.get(name, "")
    if meant not in options:
        meant = next(iter(difflib.get_close_matches(name, options, n=1)), "")
    if meant:
        return f"{told}; did you mean {meant!r}?"
    return f"{told}; --help lists those that there are"


def no_database(path: str) -> str:
    """Returns a sentence that says there is no database at ``path``, and which there are nearby."""
    told = f"there is no database at {path}"
    place = Path(path)
    inside = databases_in(place)
    if inside:
        return f"{told}, but there are some in it: {', '.join(inside[:5])}"
    beside = databases_in(place.parent)
    meant = difflib.get_close_matches(place.name, [Path(one).name for one in beside], n=1)
    if meant:
        return f"{told}; did you mean {place.with_name(meant[0])}?"
    if beside:
        return f"{told}; beside it there are: {', '.join(beside[:5])}"
    return told


def databases_in(directory: Path) -> list[str]:
    """Returns the paths of the databases right below a directory; none if it cannot be read."""
    try:
        return [path for path, state in _core.databases_in(str(directory)) if state == "database"]
    except (OSError, _core.Error):
        return []
