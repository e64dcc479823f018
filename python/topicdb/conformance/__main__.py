"""``python -m topicdb.conformance module:name``: which promises does this engine keep?"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from topicdb.conformance.lab import PATIENCE_S
from topicdb.conformance.promises import promises
from topicdb.conformance.run import Outcome, run
from topicdb.conformance.subject import Subject

KEPT, BROKEN, MISUSED = 0, 1, 2
"""Exit codes."""

_MARKS = {"kept": "ok     ", "broken": "BROKEN ", "not checked": "-      "}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command, and returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m topicdb.conformance",
        description="Checks whether an engine keeps the promises of topicdb.engine.Engine. Prints "
        "what came of each, and exits with 1 if one is broken.",
    )
    parser.add_argument(
        "subject",
        metavar="MODULE:NAME",
        help="a function that opens the engine at a path, or a topicdb.conformance.Subject",
    )
    parser.add_argument(
        "-k", metavar="TEXT", default="", help="only promises with this in their name"
    )
    parser.add_argument("--directory", type=Path, help="put the data there, and leave it there")
    parser.add_argument(
        "--patience",
        type=float,
        default=PATIENCE_S,
        metavar="SECONDS",
        help="how long to wait for what must come (%(default)g)",
    )
    parser.add_argument("--list", action="store_true", help="print the promises, and check nothing")
    parser.add_argument("--quiet", action="store_true", help="print only what is broken")
    given = parser.parse_args(arguments)
    chosen = [promise for promise in promises() if given.k in promise.name]
    if given.list:
        for promise in chosen:
            print(f"{promise.name}: {promise.text}")
        return KEPT
    try:
        subject = Subject.named(given.subject)
    except (ValueError, ImportError) as error:
        print(error, file=sys.stderr)
        return MISUSED
    if not chosen:
        print(f"no promise has {given.k!r} in its name", file=sys.stderr)
        return MISUSED
    counts: Counter[str] = Counter()
    for outcome in run(subject, chosen, directory=given.directory, patience_s=given.patience):
        counts[outcome.verdict] += 1
        if outcome.verdict == "broken" or not given.quiet:
            _print(outcome)
    parts = [f"{counts[verdict]} {verdict}" for verdict in _MARKS]
    print(f"{subject.name}: {', '.join(parts)}")
    if not counts["kept"]:
        print("no promise was kept", file=sys.stderr)
    return KEPT if counts["kept"] and not counts["broken"] else BROKEN


def _print(outcome: Outcome) -> None:
    more = f" ({outcome.text})" if outcome.verdict == "not checked" else ""
    print(
        f"{_MARKS[outcome.verdict]}{outcome.promise.name}: {outcome.promise.text}{more}", flush=True
    )
    if outcome.verdict == "broken":
        for line in [outcome.text, *outcome.trace.splitlines()]:
            print(f"         {line}")


if __name__ == "__main__":
    sys.exit(main())
