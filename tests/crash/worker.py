"""A process that makes and checks states. If it dies or hangs, its output tells in which state.

Arguments: program, trace, seed, scratch directory. Its input is a line of numbers in JSON. For each
state it prints a line in JSON when it begins, and another when it is done.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import shutil
import sys
import traceback
from pathlib import Path
from typing import Any

from crash.programs import Crash, load, marks_of
from crash.states import Plan, Stage
from crash.trace import read_trace


def digest(directory: Path) -> str:
    """Returns a digest of the names and contents below a directory."""
    found = hashlib.blake2b(digest_size=12)
    for path in sorted(directory.rglob("*")):
        found.update(str(path.relative_to(directory)).encode() + b"\0")
        if path.is_symlink():
            found.update(bytes(path.readlink()))
        elif path.is_file():
            found.update(path.read_bytes())
    return found.hexdigest()


def main(program: str, trace: Path, seed: int, scratch: Path) -> None:
    """Makes and checks the states whose numbers stand in the input."""
    operations = read_trace(trace)
    plan, checker = Plan(operations, seed), load(program).checker(marks_of(operations))
    stage = Stage(plan)
    directory = scratch / "state"
    states = sorted((plan.state(n) for n in json.loads(sys.stdin.readline())), key=_place)
    passed: set[tuple[str, bool]] = set()
    for state in states:
        say(begun=state.number)
        stage.make(state, directory)
        is_power_cut = state.kind.is_power_cut
        image = f"{digest(directory)}/{state.marks}"
        error = None
        if (image, is_power_cut) not in passed:  # otherwise an equal state has passed before
            try:
                checker.check(Crash(directory, state.marks, is_power_cut, plan.chance(state)))
                passed.add((image, is_power_cut))
            except Exception:
                error = traceback.format_exc()
        say(done=state.number, kind=str(state.kind), image=image, error=error)
        shutil.rmtree(directory)


def _place(state: Any) -> tuple[int, int]:
    return state.operations, state.number


def say(**content: object) -> None:
    """Prints a line for the process that reads."""
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    faulthandler.enable()
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
