"""What is closed at the end of a ``with``."""

from __future__ import annotations

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
