"""Lets Griffe, which reads the docstrings for the site, know the section ``Example:``.

Griffe knows ``Examples:`` only, and takes the other one for a note, in which code is prose.
mkdocs.yml names this file as an extension of Griffe.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^( *)Example:$", re.MULTILINE)


class Examples(griffe.Extension):
    """Renames the sections of all docstrings before anybody parses them."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(r"\1Examples:", obj.docstring.value)
