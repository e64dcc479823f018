"""Where the reads of a test find its database: its directory, or a server that offers it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from served import serving

import topicdb
from topicdb.spark import Remote

both = pytest.mark.usefixtures("place")
"""Marks a test whose reads go over a directory, and once more over a server."""


class Places:
    """Gives the options of reads, by directory or by server. A test's fixture owns it.

    A server reads the directory as another process would, so a test may open it for writing.
    """

    def __init__(self) -> None:
        self._servers: dict[str, str] = {}
        self._open = ExitStack()

    def address(self, path: str) -> str:
        """Returns the address of the server of a database."""
        if path not in self._servers:
            database = self._open.enter_context(topicdb.open(path, mode="r"))
            self._servers[path] = self._open.enter_context(serving(database)).url
        return self._servers[path]

    def close(self) -> None:
        """Closes all servers."""
        self._open.close()


_places: list[Places] = []


def places(kind: str) -> Iterator[None]:
    """Lets reads go over servers while it is suspended, if ``kind`` is "remote"."""
    if kind == "local":
        yield
        return
    _places.append(Places())
    try:
        yield
    finally:
        _places.pop().close()


def options_of(path: str) -> dict[str, str]:
    """Returns the options that name the database of a read."""
    return {"remote": _places[-1].address(path)} if _places else {"path": path}


def arguments_of(path: str) -> dict[str, Any]:
    """Returns the arguments of functions that name the database of a read."""
    return {"remote": Remote(_places[-1].address(path))} if _places else {"path": path}
