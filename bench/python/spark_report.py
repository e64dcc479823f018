"""The table of `make bench-spark`: its lines, and digests of what both sides gave."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from measure import Timing

OURS, PARQUET = "TopicDB", "Parquet"
HEAD = ("", "what", "TopicDB", "Parquet", "ratio", "CPU s/M", "Parquet", "ratio", "target", "met")
WIDTHS = (2, 42, 16, 16, 6, 8, 8, 6, 24, 3)


@dataclass(frozen=True)
class Line:
    part: str
    what: str
    ours: str
    theirs: str = ""
    ratio: float | None = None
    cpu: float | None = None  # seconds for a million messages
    their_cpu: float | None = None
    target: str = ""
    met: bool | None = None

    def cells(self) -> list[str]:
        cpu_ratio = self.cpu / self.their_cpu if self.cpu and self.their_cpu else None
        met = "" if self.met is None else "yes" if self.met else "NO"
        numbers = [self.cpu, self.their_cpu, cpu_ratio]
        return [
            self.part,
            self.what,
            self.ours,
            self.theirs,
            _number(self.ratio),
            *map(_number, numbers),
            self.target,
            met,
        ]


class Report:
    """Prints lines as they come, and keeps them for --json."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.digests: dict[str, str] = {}

    def print_head(self) -> None:
        _print(list(HEAD))

    def add(self, line: Line) -> None:
        self.lines.append(line)
        _print(line.cells())

    def add_rates(
        self,
        part: str,
        what: str,
        rows: int,
        timings: dict[str, Timing],
        *,
        faster: float = 0,
        cpu_max: float = 0,
        rate: float = 0,
    ) -> None:
        """Adds the line of two sides, TopicDB's first, with messages per second.

        Targets: ``faster`` is at least this many times the other side's rate, ``cpu_max`` at most
        this many times its CPU time, ``rate`` at least this many messages per second. A target of 0
        is none.
        """
        ours, theirs = timings.values()
        ratio, cpu_ratio = theirs.wall / ours.wall, ours.cpu / max(theirs.cpu, 1e-9)
        targets = [
            (faster, f">= {faster:g} x", ratio >= faster),
            (cpu_max, f"CPU <= {cpu_max:g} x", cpu_ratio <= cpu_max),
            (rate, f">= {rate / 1e6:g} M rows/s", rows / ours.wall >= rate),
        ]
        targets = [target for target in targets if target[0]]
        self.add(
            Line(
                part,
                what,
                f"{rows / ours.wall:,.0f} /s",
                f"{rows / theirs.wall:,.0f} /s",
                ratio,
                ours.cpu / rows * 1e6,
                theirs.cpu / rows * 1e6,
                ", ".join(text for _, text, _ in targets),
                all(met for *_, met in targets) if targets else None,
            )
        )

    def add_times(
        self, part: str, what: str, rows: int, timings: dict[str, Timing], *, faster: float
    ) -> None:
        """Adds a line like ``add_rates``, but in ms, for a read of a few of ``rows`` messages."""
        ours, theirs = timings.values()
        ratio = theirs.wall / ours.wall
        self.add(
            Line(
                part,
                what,
                f"{ours.wall * 1e3:,.0f} ms",
                f"{theirs.wall * 1e3:,.0f} ms",
                ratio,
                ours.cpu / rows * 1e6,
                theirs.cpu / rows * 1e6,
                f">= {faster:g} x",
                ratio >= faster,
            )
        )

    def add_most(self, part: str, what: str, ours: float, unit: str, most: float = 0) -> None:
        """Adds a line of one figure, which should be at most ``most``; 0 is no target."""
        target = f"<= {most:g} {unit}" if most else ""
        met = ours <= most if most else None
        self.add(Line(part, what, f"{ours:,.1f} {unit}", target=target, met=met))

    def same(self, what: str, expected: str, found: str) -> None:
        """Stops the program if two sides gave different messages: their times mean nothing."""
        if expected != found:
            raise SystemExit(f"{what}: digest {found}, expected {expected}: not the same messages")
        self.digests[what] = found

    def print_end(self) -> None:
        judged = [line.met for line in self.lines if line.met is not None]
        print(f"\n{sum(judged)} of {len(judged)} targets are met.")
        print("\nDigests, count and checksum, the same on both sides:")
        for what, value in self.digests.items():
            print(f"  {value:<28} {what}")

    def document(self) -> dict[str, Any]:
        return {"digests": self.digests, "results": [asdict(line) for line in self.lines]}


def _number(number: float | None) -> str:
    return "" if number is None else f"{number:.2f}"


def _print(cells: list[str]) -> None:
    left = (0, 1, 8, 9)
    texts = [
        f"{cell:<{width}}" if i in left else f"{cell:>{width}}"
        for i, (cell, width) in enumerate(zip(cells, WIDTHS, strict=True))
    ]
    print("  ".join(texts).rstrip(), flush=True)
