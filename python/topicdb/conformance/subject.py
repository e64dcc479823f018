"""What the suite is told of an engine: how to open it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TypeAlias, cast

from topicdb.engine import AppendQueue, Engine
from topicdb.engines.appends import AppendThread

Opened: TypeAlias = "Engine | AbstractContextManager[Engine]"
"""An engine; or a context manager that gives it, where more than the engine has to be closed."""
Open: TypeAlias = "Callable[[str], Opened]"
"""Opens the engine whose data is at a path, and makes it first where nothing is."""


@dataclass(frozen=True)
class Subject:
    """An engine that is to be checked.

    - ``name``: for reports.
    - ``open``: opens it for reading and writing. The suite gives each promise a path of its own. An
      engine that does not persist may ignore the path.
    - ``open_to_read``: opens what is at a path for reading alone, also while ``open`` has it open.
      None: the engine has no such mode.
    - ``open_without``: opens what is at a path as if this shard had been lost; when that is closed,
      the shard is back. None: the engine does not open without a shard.
    - ``appends``: makes the queue of an engine for appends and commits for which nobody waits; that
      of ``Database.over``, if the engine has none of its own.
    """

    name: str
    open: Open
    open_to_read: Open | None = None
    open_without: Callable[[str, int], Opened] | None = None
    appends: Callable[[Engine], AppendQueue] = AppendThread

    @staticmethod
    def named(reference: str) -> Subject:
        """Returns the subject ``module:name``, where the name is of a Subject or of an ``Open``.

        Raises ValueError if it is neither, and ModuleNotFoundError if there is no such module.
        """
        module, colon, name = reference.partition(":")
        if not colon or not module or not name:
            raise ValueError(
                f"expected module:name of a function that opens an engine, got {reference!r}"
            )
        found: object = import_module(module)
        for part in name.split("."):
            if not hasattr(found, part):
                raise ValueError(f"{reference}: {module} has no {name}")
            found = getattr(found, part)
        if isinstance(found, Subject):
            return found
        if not callable(found):
            raise ValueError(f"{reference}: expected a function that opens an engine, or a Subject")
        return Subject(reference, cast(Open, found))

    @property
    def reference(self) -> str | None:
        """Where another process finds ``open``, as ``module:name``; None if it cannot."""
        module = getattr(self.open, "__module__", None)
        name = getattr(self.open, "__qualname__", "<")
        if module in (None, "__main__") or "<" in name:
            return None
        return f"{module}:{name}"

    @contextmanager
    def opened(
        self, path: str, *, to_read: bool = False, without: int | None = None
    ) -> Iterator[Engine]:
        """Opens the engine, and closes it at the end of the block.

        ``without``: the shard that is lost meanwhile.
        """
        if without is not None:
            assert self.open_without is not None, "the engine does not open without a shard"
            given = self.open_without(path, without)
        else:
            open = self.open_to_read if to_read else self.open
            assert open is not None, "the engine cannot be opened to read"
            given = open(path)
        if isinstance(given, AbstractContextManager):
            with given as engine, _closing(engine):
                yield engine
        else:
            with _closing(given):
                yield given


@contextmanager
def _closing(engine: Engine) -> Iterator[None]:
    try:
        yield
    finally:
        engine.close()


def environment() -> dict[str, str]:
    """Returns the environment in which a child process finds the same modules."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
