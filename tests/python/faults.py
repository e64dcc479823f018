"""Engines that are broken on purpose, each in one way, and the check that they are caught."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conforming import ROOT  # noqa: F401 - it lets the example be found

from examples.memory_engine.engine import MemoryEngine
from examples.memory_engine.journal import JournalEngine
from topicdb.conformance import BrokenPromiseError, Subject, promises

PATIENCE_S = 2.0
"""Only broken engines are checked here, and those that wait for ever would do so for long."""


class Fault(NamedTuple):
    """How to break the example: an attribute of a class; and the promise that catches it."""

    kind: type
    name: str
    make: Callable[[Any], Any]
    """Makes the broken attribute of the right one."""
    promise: str


class Faults:
    """Faults, by what is wrong. A module of tests has one, adds its own to it, and checks each."""

    def __init__(self) -> None:
        self._known: dict[str, Fault] = {}

    def __call__(
        self, what: str, kind: type, name: str, promise: str
    ) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
        """Adds the function that makes a broken attribute of the right one."""

        def register(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
            assert what not in self._known
            self._known[what] = Fault(kind, name, make, promise)
            return make

        return register

    def __iter__(self) -> Iterator[str]:
        """Gives what is wrong."""
        return iter(self._known)

    def check(self, what: str, path: Path, patches: pytest.MonkeyPatch) -> None:
        """Breaks the example, and checks that the promise catches it."""
        kind, name, make, catching = self._known[what]
        patches.setattr(kind, name, make(getattr(kind, name)))
        opened = JournalEngine if issubclass(kind, JournalEngine) else MemoryEngine
        subject = Subject("broken", lambda path: opened(path, 2))
        (promise,) = [one for one in promises() if one.name == catching]
        with pytest.raises(BrokenPromiseError):
            promise.check(subject, path, patience_s=PATIENCE_S)
