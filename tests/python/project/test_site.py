"""The site of the documentation has every page, and ``scripts/docs_site.py`` fits the pages to it.

``make docs`` builds the site, and checks its links.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
CONFIG = ROOT / "mkdocs.yml"
NAV_ENTRY = re.compile(r"^ +- (?:[^#\n]+: )?(\S+\.md)$", re.MULTILINE)
OUTSIDE = "repository/"  # where the site has files outside docs/

pytestmark = pytest.mark.skipif(not CONFIG.exists(), reason="the tests run without the repository")


def nav_entries() -> list[str]:
    """Returns the pages that the nav of the site has, in its order."""
    _, nav = CONFIG.read_text(encoding="utf-8").split("\nnav:\n")
    return NAV_ENTRY.findall(nav)


@pytest.fixture(scope="module")
def site() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / "scripts" / "docs_site.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_in_the_nav_once() -> None:
    docs = ROOT / "docs"
    pages = sorted(path.relative_to(docs).as_posix() for path in docs.rglob("*.md"))
    listed = sorted(entry for entry in nav_entries() if not entry.startswith(OUTSIDE))
    assert listed == pages


def test_files_outside_docs_that_the_nav_has_exist() -> None:
    outside = [entry.removeprefix(OUTSIDE) for entry in nav_entries() if entry.startswith(OUTSIDE)]
    assert "CONTRIBUTING.md" in outside
    assert [path for path in outside if not (ROOT / path).is_file()] == []


def test_make_lists_docs() -> None:
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.search(r"^make docs +\S", listed.stdout, re.MULTILINE)


def test_links_out_of_docs_lead_to_pages_of_the_site(site: ModuleType) -> None:
    page = "docs/reference/spark.md"
    text = (
        "[a](../../examples/flights.py) [b](../../CONTRIBUTING.md#style) [c](cli.md) [d](gone.md)"
    )
    assert site.fitted(text, page) == (
        "[a](../repository/examples/flights.py.md) [b](../repository/CONTRIBUTING.md#style)"
        " [c](cli.md) [d](gone.md)"
    )
    assert site.files_outside(text, page) == {"examples/flights.py", "CONTRIBUTING.md"}


def test_links_from_outside_lead_into_docs(site: ModuleType) -> None:
    text = "[words](docs/concepts/words.md) [crash](tests/crash/README.md)"
    assert site.fitted(text, "CONTRIBUTING.md") == (
        "[words](../concepts/words.md) [crash](tests/crash/README.md)"
    )


@pytest.mark.parametrize("path", ["docs/index.md", "CONTRIBUTING.md", "examples/flights.py"])
def test_a_file_is_found_by_its_place_in_the_site(site: ModuleType, path: str) -> None:
    assert site.repository_path(site.site_path(path)) == path


def test_notes_for_the_tests_are_left_out_and_code_stays(site: ModuleType) -> None:
    text = "```python no-run\nx = a[0](CONTRIBUTING.md)\n```\n\n```sh\nls\n```\n"
    assert site.fitted(text, "README.md") == text.replace(" no-run", "")


def test_a_program_is_shown_as_code(site: ModuleType) -> None:
    shown = site.as_page("examples/flights.py")
    assert shown.startswith('# flights.py\n\n`examples/flights.py`\n\n````python\n"""A year')
    assert shown.endswith("````\n")
