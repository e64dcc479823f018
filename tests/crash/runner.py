"""Checks many states of a trace in worker processes, and reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crash.recording import build_shim, scratch_directory
from crash.states import Plan, State
from crash.trace import Operation

STATE_TIMEOUT_S = 120
CHUNK = 500  # states that one process checks: its start takes as long as some twenty states
FAILURES_MAX = 5  # after this many failures the rest of a program's states is not checked
NEARBY = 12  # operations that a failure shows on each side of the crash


@dataclass(frozen=True)
class Failure:
    """A state that broke a promise."""

    program: str
    seed: int
    state: State
    error: str
    nearby: list[str]

    def __str__(self) -> str:
        return (
            f"{self.program}, seed {self.seed}, state {self.state.number} ({self.state.kind}), "
            f"after {self.state.operations} operations and {self.state.marks} marks:\n"
            f"{self.error.rstrip()}\noperations near it:\n" + "\n".join(self.nearby)
        )


@dataclass
class Report:
    """How many states of each kind were checked, which files they had, and what failed.

    ``images`` has a digest for each different state.
    """

    program: str
    kinds: Counter[str] = field(default_factory=Counter)
    images: set[str] = field(default_factory=set)
    failures: list[Failure] = field(default_factory=list)

    @property
    def states(self) -> int:
        """How many states were checked."""
        return self.kinds.total()


class _Run:
    """One call of ``simulate``. ``chunk`` is thread-safe: several threads call it at once."""

    def __init__(
        self,
        program: str,
        trace: Path,
        operations: Sequence[Operation],
        seed: int,
        failures_max: int,
    ) -> None:
        self._program = program
        self._trace = trace
        self._operations = operations
        self._seed = seed
        self._failures_max = failures_max
        self._plan = Plan(operations, seed)
        self._lock = threading.Lock()
        self.report = Report(program)

    def chunk(self, numbers: list[int]) -> None:
        """Checks some states.

        If a state kills its worker process, a new process checks the states after it.
        """
        left = numbers
        while left and not self._has_enough:
            left = self._start(left)

    @property
    def _has_enough(self) -> bool:
        return len(self.report.failures) >= self._failures_max

    def _start(self, numbers: list[int]) -> list[int]:
        """Checks states in one process; returns those that it did not come to."""
        states = {number: self._plan.state(number) for number in numbers}
        begun: int | None = None
        with (
            tempfile.TemporaryDirectory(dir=scratch_directory(), prefix="crash-") as scratch,
            tempfile.TemporaryFile("w+") as errors,
        ):
            command = [sys.executable, "-m", "crash.worker", self._program, str(self._trace)]
            worker = subprocess.Popen(
                [*command, str(self._seed), scratch],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=worker_environment(),
            )
            for line in _lines(worker, json.dumps(numbers)):
                if "begun" in line:
                    begun = line["begun"]
                    continue
                begun = None
                self._take(states.pop(line["done"]), line)
                if self._has_enough:
                    worker.kill()
                    return []
            if worker.returncode == 0:
                return []
            errors.seek(0)
            end = f"the worker ended with {worker.returncode}:\n{errors.read()[-4000:]}"
        if begun is None:
            raise RuntimeError(f"{self._program}: {end}")
        self._fail(states.pop(begun), end)
        return list(states)

    def _take(self, state: State, line: dict[str, Any]) -> None:
        with self._lock:
            self.report.kinds[line["kind"]] += 1
            self.report.images.add(line["image"])
        if line["error"] is not None:
            self._fail(state, line["error"])

    def _fail(self, state: State, error: str) -> None:
        first = max(0, state.operations - NEARBY)
        nearby = [
            f"{'   ' if first + i < state.operations else '-> '}{first + i}: {operation}"
            for i, operation in enumerate(self._operations[first : state.operations + NEARBY])
        ]
        with self._lock:
            self.report.failures.append(Failure(self._program, self._seed, state, error, nearby))


def _lines(worker: subprocess.Popen[str], sent: str) -> Iterator[dict[str, Any]]:
    """Yields the worker's lines until it ends; kills it if no line comes in STATE_TIMEOUT_S."""
    assert worker.stdin is not None and worker.stdout is not None
    with worker.stdin, worker.stdout:
        worker.stdin.write(sent + "\n")
        worker.stdin.close()
        while True:
            timer = threading.Timer(STATE_TIMEOUT_S, worker.kill)
            timer.start()
            try:
                line = worker.stdout.readline()
            finally:
                timer.cancel()
            if not line.endswith("\n"):
                break
            yield json.loads(line)
    worker.wait()


def worker_environment() -> dict[str, str]:
    """Returns the environment of a worker: it imports from where this process does.

    The shim is preloaded too: it keeps files in memory from reserving space.
    """
    here = str(Path(__file__).resolve().parents[1])
    path = os.pathsep.join([here, *sys.path])
    return {**os.environ, "PYTHONPATH": path, "LD_PRELOAD": str(build_shim())}


def simulate(
    program: str,
    trace: Path,
    operations: Sequence[Operation],
    seed: int,
    numbers: Sequence[int],
    *,
    processes: int = 2,
    failures_max: int = FAILURES_MAX,
) -> Report:
    """Checks the states with these numbers in ``processes`` processes; returns the report.

    Stops early after ``failures_max`` failures.
    """
    run = _Run(program, trace, operations, seed, failures_max)
    plan = Plan(operations, seed)
    # States that are near each other go to one process, which makes each from the one before.
    ordered = sorted(numbers, key=lambda number: (plan.state(number).operations, number))
    chunks = [list(ordered[at : at + CHUNK]) for at in range(0, len(ordered), CHUNK)]
    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(run.chunk, chunks))
    return run.report
