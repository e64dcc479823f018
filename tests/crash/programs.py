"""What the simulator needs of a program: how to run it, and how to check what a crash has left."""

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

    The program had made its first ``marks`` marks. If ``is_power_cut`` is set, everything that was
    not fsynced may be lost; otherwise only the process died. ``chance`` is for checks of samples.
    """

    directory: Path
    marks: int
    is_power_cut: bool
    chance: random.Random


class Checker(Protocol):
    """Checks states. It is made once for a trace, and then checks many states of it."""

    def check(self, crash: Crash) -> None:
        """Raises an error with a message if a promise is broken. May change the directory."""
        ...


class Program(Protocol):
    """A program to simulate crashes of."""

    @property
    def ignore(self) -> Sequence[str]:
        """Patterns of names of files that do not matter, so that the shim does not record them."""
        ...

    @property
    def clock_ahead_s(self) -> int:
        """How many seconds its clock is ahead of that of the checks, which see it step back."""
        ...

    def run(self, root: Path, seed: int, mark: Mark) -> None:
        """Works in ``root``, and tells by marks what it begins and what it was promised."""
        ...

    def checker(self, marks: list[dict[str, Any]]) -> Checker:
        """Makes a checker of a trace with these marks: all marks, also those after a crash."""
        ...


def load(name: str) -> Program:
    """Imports the program "module:name"."""
    module, _, attribute = name.partition(":")
    found: Program = getattr(importlib.import_module(module), attribute)
    return found


def marks_of(operations: Sequence[Operation]) -> list[dict[str, Any]]:
    """Returns the marks of a trace, in order."""
    return [json.loads(one.data) for one in operations if one.kind == Kind.MARK]
