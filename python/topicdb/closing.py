"""What is closed at the end of a ``with``."""

from __future__ import annotations

from collections.abc import Callable
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
        self.close()


def nothing() -> None:
    """For who has nothing to do."""


class Named(Closing):
    """What has a name for itself until it is closed."""

    _give_up: Callable[[], None] = staticmethod(nothing)

    def at_end(self, give_up: Callable[[], None]) -> None:
        """``give_up`` is called at the end; it may be repeated."""
        self._give_up = give_up
