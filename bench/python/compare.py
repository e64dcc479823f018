"""Compares two builds of TopicDB: is one of them slower than the other, and at what?

python bench/python/compare.py BEFORE AFTER [--rounds 15] [--rows 100000] [--json FILE]

BEFORE and AFTER are Python interpreters with one build each, such as ``.venv/bin/python`` of two
clones. Both run the same operations, each in a process of its own. The two take turns with each
operation, so that a slow second of the machine hits both, and every round has two new processes.
The table has the median of the ratios of the rounds, and their quartiles. A ratio above 1 says that
AFTER took more.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from compare_operations import measure_all

ROWS = 100_000
ROUNDS = 15


def main(arguments: list[str]) -> None:
    options = parse(arguments)
    if options.measure:
        with tempfile.TemporaryDirectory() as directory:
            measure_all(Path(directory), options.rows, take_turn)
        return
    results = []
    for number in range(options.rounds):
        builds = [options.before, options.after]
        results.append(one_round(builds, options.rows, first=number % 2))
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    check_same(results)
    report(results)
    if options.json is not None:
        options.json.write_text(json.dumps(results))


def take_turn(result: dict[str, Any]) -> None:
    """Hands in a result, and waits for the next turn. Ends the process if there is none."""
    print(json.dumps(result), flush=True)
    if not sys.stdin.readline():
        raise SystemExit


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before", nargs="?", help="an interpreter with one build")
    parser.add_argument("after", nargs="?", help="an interpreter with the other build")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--json", type=Path, help="writes all times to this file")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not options.measure and options.after is None:
        parser.error("two interpreters are needed")
    return options


def one_round(builds: list[str], rows: int, first: int) -> list[dict[str, Any]]:
    """Returns what each build has measured, by operation. Build ``first`` begins."""
    found: list[dict[str, Any]] = [{}, {}]
    with ExitStack() as stack:
        processes = [stack.enter_context(started(build, rows)) for build in builds]
        running = [first, 1 - first]
        for index in running:
            result_of(processes[index])  # it is ready for its first operation
        while running:
            for index in list(running):
                result = next_result(processes[index])
                if result is None:
                    running.remove(index)
                else:
                    found[index][result.pop("name")] = result
    return found


def started(python: str, rows: int) -> subprocess.Popen[str]:
    """Starts a process of this interpreter that measures an operation whenever it gets a line."""
    command = [python, __file__, "--measure", "--rows", str(rows)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def next_result(process: subprocess.Popen[str]) -> dict[str, Any] | None:
    """Lets the process run its next operation. Returns None if it has none left."""
    assert process.stdin is not None
    try:
        process.stdin.write("\n")
        process.stdin.flush()
    except BrokenPipeError:
        return None
    return result_of(process)


def result_of(process: subprocess.Popen[str]) -> dict[str, Any] | None:
    assert process.stdout is not None
    line = process.stdout.readline()
    if line:
        result: dict[str, Any] = json.loads(line)
        return result
    if process.wait() != 0:
        raise SystemExit("the process of one build has failed; its error stands above")
    return None


def check_same(results: list[list[dict[str, Any]]]) -> None:
    """Stops the program if the builds have read different messages: their times mean nothing."""
    for name in results[0][0]:
        digests = {one[name]["digest"] for of_round in results for one in of_round}
        if len(digests) != 1:
            raise SystemExit(f"{name}: the builds have different results: {sorted(digests)}")


def report(results: list[list[dict[str, Any]]]) -> None:
    print(f"{'operation':<34} {'before':>10} {'after':>10}  {'CPU time':<24} wall time")
    for name in results[0][0]:
        before = statistics.median(of_round[0][name]["cpu_s"] for of_round in results)
        after = statistics.median(of_round[1][name]["cpu_s"] for of_round in results)
        ratios = [spread(results, name, clock) for clock in ("cpu_s", "wall_s")]
        print(f"{name:<34} {before * 1e3:>7.1f} ms {after * 1e3:>7.1f} ms  {'  '.join(ratios)}")
    print("\nDigests of what each operation has read or written:")
    for name, found in results[0][0].items():
        print(f"  {found['digest']}  {name}")


def spread(results: list[list[dict[str, Any]]], name: str, clock: str) -> str:
    """Returns the median ratio of the rounds with its quartiles."""
    ratios = [after[name][clock] / before[name][clock] for before, after in results]
    if len(ratios) < 2:
        return f"{ratios[0]:.3f}"
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


if __name__ == "__main__":
    main(sys.argv[1:])
