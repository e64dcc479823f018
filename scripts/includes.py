"""Finds the headers of this project that C++ sources include; the checks beside it use this."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


@cache
def text_of(file: Path) -> str:
    """Returns the text of a file; it reads a file only once."""
    return file.read_text()


def included_names(file: Path) -> list[str]:
    """Returns the names that the file includes, as they stand between quotes."""
    return _INCLUDE.findall(text_of(file))
