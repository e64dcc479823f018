"""What is closed at the end of a ``with``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TypeVar

Handle = TypeVar("Handle", bound="Closing")


class Closing:
    """Makes ``close`` the end of a ``with``, however it ends."""

    def close(self) -> None:
        """Frees what it holds. May be repeated."""
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
    """If ``error`` has ended a ``with``, what fails when it is closed does not hide it.

    It becomes a note of ``error``; before Python 3.11, its context if it has none.
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
    """For who has nothing to do."""


class Named(Closing):
    """What has a name for itself until it is closed."""

    _give_up: Callable[[], None] = staticmethod(nothing)

    def at_end(self, give_up: Callable[[], None]) -> None:
        """``give_up`` is called at the end; it may be repeated."""
        self._give_up = give_up
