"""What the simulator must know of a program: how to run it, and how to check what a crash left."""

from __future__ import annotations

import importlib
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from crash.trace import Kind, Operation

Mark = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Crash:
    """What a check gets: the directory as the crash left it, and what had happened before.

    ``marks``: the first so many of the program's marks were made. ``is_power_cut``: what was not
    fsynced may be lost; else only the process died. ``chance`` is for checks of samples.
    """

    directory: Path
    marks: int
    is_power_cut: bool
    chance: random.Random


class Checker(Protocol):
    """Made once for a trace, and then asked about many states of it."""

    def check(self, crash: Crash) -> None:
        """Raises, with a message, if the directory breaks a promise. May change the directory."""
        ...


class Program(Protocol):
    """A program to simulate crashes of."""

    @property
    def ignore(self) -> Sequence[str]:
        """Patterns of the names of files that do not matter, and are not recorded."""
        ...

    @property
    def clock_ahead_s(self) -> int:
        """How far ahead of the checks its clock goes, to try clocks that step back."""
        ...

    def run(self, root: Path, seed: int, mark: Mark) -> None:
        """Works in ``root`` and says with marks what it begins, and what it was promised."""
        ...

    def checker(self, marks: list[dict[str, Any]]) -> Checker:
        """For a trace with these marks: of all of it, also of what comes after a crash."""
        ...


def load(name: str) -> Program:
    """The program "module:name"."""
    module, _, attribute = name.partition(":")
    found: Program = getattr(importlib.import_module(module), attribute)
    return found


def marks_of(operations: Sequence[Operation]) -> list[dict[str, Any]]:
    """The marks of a trace, in order."""
    return [json.loads(one.data) for one in operations if one.kind == Kind.MARK]
