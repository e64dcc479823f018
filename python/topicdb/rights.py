"""The rights that clients of a server need for the methods of ``topicdb.engine.Engine``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeVar

Method = TypeVar("Method", bound=Callable[..., object])


class Right(NamedTuple):
    """The right that a client of a server needs to call a method.

    ``argument``: the number of the argument whose topic filters it must cover; None: there is none.
    """

    kind: Literal["any", "read", "delete", "admin"]
    argument: int | None = None


ANYBODY = Right("any")
ADMIN = Right("admin")


def served(right: Right) -> Callable[[Method], Method]:
    """Marks a method that a server passes on unchanged for clients that have this right."""

    def mark(method: Method) -> Method:
        _rights[method.__name__] = right
        return method

    return mark


_rights: dict[str, Right] = {}


def served_methods() -> dict[str, Right]:
    """Returns the methods that a server passes on unchanged, with the right for each."""
    return dict(_rights)
