"""Makes help texts of the docstrings of commands."""

from __future__ import annotations

import inspect

import typer

_AS_IT_IS = "\b"  # begins a paragraph whose line ends count


def fill_help(app: typer.Typer) -> None:
    """Lets the paragraphs of all help texts below ``app`` fill the width of the terminal.

    Otherwise typer keeps the line ends of a docstring, except in its first paragraph.
    """
    for command in app.registered_commands:
        if command.callback is not None:
            command.help = _filled(inspect.getdoc(command.callback) or "")
    for group in app.registered_groups:
        if group.typer_instance is not None:
            fill_help(group.typer_instance)


def _filled(text: str) -> str:
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        one if one.startswith(_AS_IT_IS) else " ".join(one.split()) for one in paragraphs
    )
