"""``python -m crash`` records a program and checks states of it, or makes one state again."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from crash.campaign import Campaign, table
from crash.programs import Crash, load, marks_of
from crash.states import Plan, Stage
from crash.trace import read_trace


def main() -> int:
    """Runs the command; returns 0 if it found no broken promise."""
    parser = argparse.ArgumentParser(prog="python -m crash", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="record programs and check states")
    run.add_argument("programs", nargs="*", help="module:name; all of TopicDB's if none is given")
    run.add_argument("--states", type=int, default=10_000, help="in all (%(default)s)")
    run.add_argument("--seed", type=int, default=1)
    run.add_argument("--processes", type=int, default=2)
    run.add_argument("--keep", type=Path, help="where traces of failures go")
    state = commands.add_parser("state", help="make one state of a trace, and check it")
    state.add_argument("program")
    state.add_argument("trace", type=Path)
    state.add_argument("number", type=int)
    state.add_argument("--seed", type=int, default=1)
    state.add_argument("--keep", type=Path, help="a new directory that the state is left in")
    arguments = parser.parse_args()
    if arguments.command == "run":
        return _run(arguments)
    return _state(arguments)


def _run(arguments: argparse.Namespace) -> int:
    campaign = Campaign(
        arguments.programs or None,
        states=arguments.states,
        seed=arguments.seed,
        processes=arguments.processes,
        keep=arguments.keep or Path(tempfile.gettempdir()) / "crash-failures",
    )
    for line in campaign.run():
        print(line, flush=True)
    print(table(campaign.reports))
    return 1 if campaign.failures else 0


def _state(arguments: argparse.Namespace) -> int:
    operations = read_trace(arguments.trace)
    plan = Plan(operations, arguments.seed)
    state = plan.state(arguments.number)
    directory = arguments.keep or Path(tempfile.mkdtemp()) / "state"
    Stage(plan).make(state, directory)
    print(f"state {state.number}: {state.kind}, after {state.operations} operations, {directory}")
    checked = directory
    if arguments.keep:  # a check changes the files, so it gets a copy
        checked = Path(tempfile.mkdtemp()) / "state"
        shutil.copytree(directory, checked)
    checker = load(arguments.program).checker(marks_of(operations))
    checker.check(Crash(checked, state.marks, state.kind.is_power_cut, plan.chance(state)))
    print("it keeps its promises")
    return 0


if __name__ == "__main__":
    sys.exit(main())
