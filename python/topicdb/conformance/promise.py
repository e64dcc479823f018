"""A promise of the contract, with the function that checks it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from topicdb.conformance.expect import BrokenPromiseError, NotCheckedError
from topicdb.conformance.lab import PATIENCE_S, Lab
from topicdb.conformance.subject import Subject
from topicdb.engines.features import Feature

Check: TypeAlias = "Callable[[Lab], None]"
CHECK_S_MAX = 600.0
"""How long a check may take, unless less patience is asked for."""


@dataclass(frozen=True)
class Promise:
    """What every engine does that has some features.

    - ``name``: such as ``"appending.rows_come_back"``.
    - ``text``: the promise, as a sentence.
    - ``needs``: the features without which it is not checked.
    """

    name: str
    text: str
    needs: frozenset[Feature]
    function: Check

    def check(self, subject: Subject, directory: Path, *, patience_s: float = PATIENCE_S) -> None:
        """Checks the promise with an engine of its own, whose data is in the empty ``directory``.

        ``patience_s``: how long to wait for what must come, in seconds.

        Raises BrokenPromiseError if the engine does not keep it; NotCheckedError if it lacks what
        the promise needs; any other error that the engine raises where it should raise none.
        """
        errors: list[BaseException] = []
        thread = threading.Thread(
            target=self._run, args=(subject, directory, patience_s, errors), daemon=True
        )
        thread.start()
        thread.join(min(CHECK_S_MAX, 20 * patience_s))
        if thread.is_alive():
            raise BrokenPromiseError("a call of the engine has not returned: it waits for ever")
        if errors:
            raise errors[0]

    def _run(
        self, subject: Subject, directory: Path, patience_s: float, errors: list[BaseException]
    ) -> None:
        try:
            with Lab(subject, directory, patience_s) as lab:
                lab.need(self.needs)
                self.function(lab)
        except BaseException as error:
            errors.append(error)

    def __str__(self) -> str:
        return self.name


_known: dict[str, Promise] = {}


def promise(*needs: Feature) -> Callable[[Check], Check]:
    """Makes a function of the package ``promises`` the check of a promise: its docstring's."""

    def register(function: Check) -> Check:
        room = function.__module__.rpartition(".")[2]
        name = f"{room}.{function.__name__}"
        assert name not in _known, f"two promises are named {name}"
        text = (function.__doc__ or "").strip()
        assert text, f"{name} says nothing"
        _known[name] = Promise(name, " ".join(text.split()), frozenset(needs), function)
        return function

    return register


def registered() -> list[Promise]:
    """Returns the promises of the modules that were imported, in their order."""
    return list(_known.values())


__all__ = ["BrokenPromiseError", "NotCheckedError", "Promise", "promise", "registered"]
