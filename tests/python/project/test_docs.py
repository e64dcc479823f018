"""Runs the Python examples of README.md and docs/, each page from top to bottom.

Blocks fenced as ```python are run; those fenced as ```python no-run are not. test_howto.py follows
the pages of docs/start and docs/howto, whose shell commands run as well.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import run_child

ROOT = Path(__file__).resolve().parents[3]
FENCE = re.compile(r"^```python *\n(.*?)^```", re.MULTILINE | re.DOTALL)
FOLLOWED = {"start", "howto"}
RUN = """
    import sys
    page = sys.argv[1]
    exec(compile(open("example.py", encoding="utf-8").read(), page, "exec"),
         {"__name__": "__main__"})
"""


def example_of(page: str) -> str:
    """Returns the code of a page, at the line numbers that it has in the page."""
    lines: list[str] = []
    for block in FENCE.finditer(page):
        first = page.count("\n", 0, block.start(1))
        lines += [""] * (first - len(lines))
        lines += block[1].splitlines()
    return "\n".join(lines) + "\n" if lines else ""


PAGES = {
    str(path.relative_to(ROOT)): example
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if path.exists()
    and path.parent.name not in FOLLOWED
    and (example := example_of(path.read_text(encoding="utf-8")))
}


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page: str, tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(PAGES[page], encoding="utf-8")
    run_child(RUN, page, directory=tmp_path)


def test_blocks_are_found_where_they_are() -> None:
    page = "# Title\n\n```python\na = 1\n```\n\n```python no-run\nb\n```\n```python\nc = a\n```\n"
    assert example_of(page) == "\n\n\na = 1\n\n\n\n\n\n\nc = a\n"


def test_a_page_has_examples() -> None:
    assert PAGES, "README.md shows at least one example that runs"
