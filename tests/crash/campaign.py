"""Checks a number of states, shared among many programs, and reports."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from crash.recording import record
from crash.runner import Failure, Report, simulate
from crash.states import Plan

DEATHS = 0.4  # at most this part of a program's states are deaths of the process


def topicdb_programs() -> Sequence[str]:
    """Returns the names of all programs of TopicDB."""
    from crash.workloads import ALL  # only here: the simulator itself knows no TopicDB

    return ALL


class Campaign:
    """Shares a number of states among programs; None for ``programs`` means all of TopicDB's.

    ``reports`` and ``failures`` fill as it runs. It keeps the traces of failures in ``keep``.
    """

    def __init__(
        self,
        programs: Sequence[str] | None,
        *,
        states: int,
        seed: int,
        processes: int,
        keep: Path,
    ) -> None:
        self._programs = list(programs or topicdb_programs())
        self._states = states
        self._seed = seed
        self._processes = processes
        self._keep = keep
        self.reports: list[Report] = []

    @property
    def failures(self) -> list[Failure]:
        """All failures that were found so far."""
        return [failure for report in self.reports for failure in report.failures]

    def run(self) -> Iterator[str]:
        """Records and checks all programs; yields, after each, a text with its results."""
        for at, program in enumerate(self._programs):
            yield self._run(program, self._share(at))

    def _share(self, at: int) -> int:
        """Returns how many states the program gets: an equal share of those that are left."""
        done = sum(report.states for report in self.reports)
        left = len(self._programs) - at
        return -(-max(0, self._states - done) // left)

    def _run(self, program: str, states: int) -> str:
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as scratch:
            trace = Path(scratch) / "trace"
            operations = record(program, self._seed, trace)
            numbers = chosen(Plan(operations, self._seed), states)
            report = simulate(
                program, trace, operations, self._seed, numbers, processes=self._processes
            )
            self.reports.append(report)
            kept = self._keep_trace(program, trace) if report.failures else None
        seconds = time.monotonic() - started
        text = (
            f"{program}: {len(operations)} operations, {report.states} states, "
            f"{len(report.images)} of them different, {seconds:.0f} s"
        )
        for failure in report.failures:
            text += (
                f"\n{failure}\nmake it again: python -m crash state {program} {kept} "
                f"{failure.state.number} --seed {self._seed} --keep DIRECTORY"
            )
        return text

    def _keep_trace(self, program: str, trace: Path) -> Path:
        self._keep.mkdir(parents=True, exist_ok=True)
        kept = self._keep / f"{program.partition(':')[2]}-{self._seed}.trace"
        shutil.copyfile(trace, kept)
        return kept


def chosen(plan: Plan, states: int) -> list[int]:
    """Chooses the numbers of ``states`` states.

    At most ``DEATHS`` of them are deaths of the process, spread evenly over the trace: all deaths
    if there is room. The rest are the first states of the other kinds.
    """
    deaths = min(plan.deaths, max(1, round(states * DEATHS)))
    first = [at * plan.deaths // deaths for at in range(deaths)]
    return first + list(range(plan.deaths, plan.deaths + max(0, states - deaths)))


def table(reports: Sequence[Report]) -> str:
    """Returns a Markdown table of how many states of each kind each program had."""
    kinds = sorted({kind for report in reports for kind in report.kinds})
    lines = ["| program | " + " | ".join(kinds) + " | states | different | failed |"]
    lines.append("|---" + "|---:" * (len(kinds) + 3) + "|")
    total: Counter[str] = Counter()
    for report in reports:
        total += report.kinds
        cells = [str(report.kinds[kind]) for kind in kinds]
        cells += [str(report.states), str(len(report.images)), str(len(report.failures))]
        lines.append(f"| {report.program.partition(':')[2]} | " + " | ".join(cells) + " |")
    cells = [str(total[kind]) for kind in kinds]
    cells += [str(total.total()), str(sum(len(report.images) for report in reports))]
    cells.append(str(sum(len(report.failures) for report in reports)))
    lines.append("| all | " + " | ".join(cells) + " |")
    return "\n".join(lines)
