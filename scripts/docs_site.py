"""Fits the pages of docs/ to the site that MkDocs makes; mkdocs.yml names this file as a hook.

The pages are also read as plain files of the repository, and tests run their examples. So they have
two things that MkDocs does not know:

- Links to files outside docs/, such as examples. The site gets each linked file as a page below
  ``repository/``, and the links lead there.
- Notes behind the language of fenced code, such as ``python no-run``, which tell the tests what to
  do with it. The site leaves them out.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = "docs/"
OUTSIDE = "repository/"  # where the site has the files outside docs/
LANGUAGES = {".py": "python", ".sh": "sh", ".yml": "yaml", ".toml": "toml", ".json": "json"}

FENCED = re.compile(r"^```.*?^``` *$", re.MULTILINE | re.DOTALL)
FENCE_NOTE = re.compile(r"^(```\w+) [\w -]+$", re.MULTILINE)
LINK = re.compile(r"(\]\()([^()\s#:]+)((?:#[^()\s]*)?\))")


def site_path(path: str) -> str:
    """Returns where the site has a file of the repository, as MkDocs names the sources of pages."""
    if path.startswith(DOCS):
        return path.removeprefix(DOCS)
    is_page = path.endswith(".md")
    return OUTSIDE + path + ("" if is_page else ".md")


def repository_path(site: str) -> str:
    """Returns the file of the repository that the site has at this place."""
    if not site.startswith(OUTSIDE):
        return DOCS + site
    path = site.removeprefix(OUTSIDE)
    shorter = path.removesuffix(".md")
    return shorter if "." in posixpath.basename(shorter) else path


def target_of(link: str, page: str) -> str:
    """Returns the path in the repository that a relative link on a page leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def _outside_fences(text: str) -> Iterator[tuple[str, bool]]:
    """Yields the parts of a page, and whether each is prose rather than fenced code."""
    end = 0
    for fence in FENCED.finditer(text):
        yield text[end : fence.start()], True
        yield fence[0], False
        end = fence.end()
    yield text[end:], True


def files_outside(text: str, page: str) -> set[str]:
    """Returns the files outside docs/ that a page of the repository links to."""
    targets = {
        target_of(link[2], page)
        for part, is_prose in _outside_fences(text)
        if is_prose
        for link in LINK.finditer(part)
    }
    return {path for path in targets if not path.startswith(DOCS) and (ROOT / path).is_file()}


def fitted(text: str, page: str) -> str:
    """Returns the Markdown of a page of the repository as the site needs it."""

    def moved(link: re.Match[str]) -> str:
        target = target_of(link[2], page)
        if not (ROOT / target).is_file():
            return link[0]  # MkDocs says that it leads nowhere
        place = posixpath.relpath(site_path(target), posixpath.dirname(site_path(page)) or ".")
        return f"{link[1]}{place}{link[3]}"

    return "".join(
        LINK.sub(moved, part) if is_prose else FENCE_NOTE.sub(r"\1", part)
        for part, is_prose in _outside_fences(text)
    )


def as_page(path: str) -> str:
    """Returns a file outside docs/ as Markdown: a page as it is, other files as code."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    language = LANGUAGES.get(Path(path).suffix, "text")
    return f"# {Path(path).name}\n\n`{path}`\n\n````{language}\n{text}````\n"


def on_files(files: Any, config: Any) -> Any:
    """Adds the linked files outside docs/ to the site, and those that they link to."""
    from mkdocs.structure.files import File, InclusionLevel

    pages = [DOCS + file.src_uri for file in files.documentation_pages()]
    waiting = [*pages, *(repository_path(site) for site in sorted(_in_nav(config["nav"])))]
    added: set[str] = set(pages)
    while waiting:
        page = waiting.pop()
        if page not in added:
            added.add(page)
            site = File.generated(
                config, site_path(page), content=as_page(page), inclusion=InclusionLevel.NOT_IN_NAV
            )
            files.append(site)
        if page.endswith(".md") and (ROOT / page).is_file():
            text = (ROOT / page).read_text(encoding="utf-8")
            waiting += sorted(files_outside(text, page) - added)
    return files


def _in_nav(nav: Any) -> set[str]:
    """Returns the pages below ``repository/`` that the nav has."""
    if isinstance(nav, str):
        return {nav} if nav.startswith(OUTSIDE) else set()
    parts = nav.values() if isinstance(nav, dict) else nav or ()
    return {page for part in parts for page in _in_nav(part)}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fits the links and fences of a page."""
    return fitted(markdown, repository_path(page.file.src_uri))
