"""Makes the short table of figures in the README of the rows of the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

BEGIN, END = "<!-- figures -->\n", "<!-- /figures -->"


def short(micros: float, ratio: float, *, ours: bool) -> str:
    """Returns the text of a cell: TopicDB's time, or how many times as fast TopicDB is."""
    return f"{micros:.2f} \u00b5s" if ours else f"{ratio:.2f} \u00d7"


def replace_figures(readme: Path, facts: dict[str, Any], results: list[dict[str, Any]]) -> None:
    """Puts the table between the two marks of the file; stops the program if they are missing."""
    text = readme.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{readme}: there is no place between {BEGIN.strip()!r} and {END!r}")
    readme.write_text(before + begin + table(facts, results) + end + after)


def table(facts: dict[str, Any], results: list[dict[str, Any]]) -> str:
    """Returns the table: groups are rows, sides are columns. It omits results without a side."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    sides: dict[str, None] = {}  # an ordered set
    for result in results:
        if "side" in result:
            rows.setdefault((result["part"], result["group"]), {})[result["side"]] = result["short"]
            sides[result["side"]] = None
    lines = [
        _line(["", *sides]),
        _line(["---", *["---:"] * len(sides)]),
        *(
            _line([f"{part} {group}", *(cells.get(side, "") for side in sides)])
            for (part, group), cells in rows.items()
        ),
    ]
    return (
        "\n"
        + "\n".join(lines)
        + f"\n\n{facts['rows']:,} messages, {facts['cpus']} cores; medians of {facts['rounds']}. "
        "TopicDB: CPU time a message;\nothers: how many times as fast TopicDB is. "
        "P7: bytes on disk by raw bytes.\n"
    )


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
