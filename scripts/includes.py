"""What sources of C++ include of this project; for the checks beside it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


@cache
def text_of(file: Path) -> str:
    """Of a source, as it was when it was first asked for."""
    return file.read_text()


def included_names(file: Path) -> list[str]:
    """As they stand between quotes."""
    return _INCLUDE.findall(text_of(file))
