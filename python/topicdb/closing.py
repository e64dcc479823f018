"""Handles that are closed at the end of a ``with``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TypeVar

from topicdb.frames.shown import Shown

Handle = TypeVar("Handle", bound="Closing")


class Closing(Shown):
    """A base class of handles: the end of a ``with`` closes them, however it ends."""

    def close(self) -> None:
        """Frees what the handle holds. May be repeated."""
        raise NotImplementedError

    def __enter__(self: Handle) -> Handle:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with first_error(error):
            self.close()


@contextmanager
def first_error(error: BaseException | None) -> Iterator[None]:
    """Keeps ``error``, which has ended a ``with``, from being hidden by an error of closing.

    The error of closing becomes a note of ``error``; before Python 3.11, its context if it has
    none. If ``error`` is None, the error of closing is raised.
    """
    try:
        yield
    except Exception as late:
        if error is None:
            raise
        if sys.version_info >= (3, 11):
            error.add_note(f"closing failed, too: {late}")
        elif error.__context__ is None:
            error.__context__ = late


def nothing() -> None:
    """Does nothing: a callback for callers that need none."""


class Named(Closing):
    """A handle that owns a name until it is closed."""

    _give_up: Callable[[], None] = staticmethod(nothing)

    def at_end(self, give_up: Callable[[], None]) -> None:
        """Sets the function that gives up the name.

        Arguments:
            give_up: is called when the handle is closed. It may be called more than once.
        """
        self._give_up = give_up
