"""Prints what part of the lines the tests run, by folder, and the files with little coverage.

``coverage_tables.py CPP.json PYTHON.json`` takes a summary of gcovr and a report of coverage.py. It
does not fail if the coverage is low.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

LITTLE_PERCENT = 70.0  # it lists files with less


class Lines(NamedTuple):
    total: int
    covered: int

    @property
    def percent(self) -> float:
        return 100.0 * self.covered / self.total if self.total else 100.0


def cpp_lines(report: Path) -> dict[str, Lines]:
    files = json.loads(report.read_text())["files"]
    return {file["filename"]: Lines(file["line_total"], file["line_covered"]) for file in files}


def python_lines(report: Path) -> dict[str, Lines]:
    files = json.loads(report.read_text())["files"]
    sums = {name: file["summary"] for name, file in files.items()}
    return {name: Lines(of["num_statements"], of["covered_lines"]) for name, of in sums.items()}


def added(lines: list[Lines]) -> Lines:
    return Lines(sum(one.total for one in lines), sum(one.covered for one in lines))


def print_table(title: str, rows: dict[str, Lines]) -> None:
    width = max(map(len, [title, *rows]))
    print(f"\n{title:{width}}  {'lines':>6}  covered")
    for name, lines in rows.items():
        print(f"{name:{width}}  {lines.total:6}  {lines.percent:5.1f} %")


def print_tables(language: str, files: dict[str, Lines]) -> None:
    rooms = defaultdict(list)
    for name, lines in files.items():
        if lines.total > 0:
            rooms[str(Path(name).parent)].append(lines)
    table = {room: added(rooms[room]) for room in sorted(rooms)}
    table["all"] = added(list(files.values()))
    print_table(language, table)
    little = {name: files[name] for name in sorted(files) if files[name].percent < LITTLE_PERCENT}
    if little:
        print_table(f"{language}: files under {LITTLE_PERCENT:.0f} %", little)


def main() -> None:
    cpp, python = map(Path, sys.argv[1:])
    print_tables("C++", cpp_lines(cpp))
    print_tables("Python", python_lines(python))


if __name__ == "__main__":
    main()
