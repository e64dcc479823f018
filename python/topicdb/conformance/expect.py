"""Checks that say what was expected and what was found. They work under ``python -O``, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TEXT_MAX = 600


class BrokenPromiseError(AssertionError):
    """An engine does not keep a promise; the text says what was expected and what was found."""


class NotCheckedError(Exception):
    """A promise was not checked; the text says why."""


def equal(found: Any, wanted: Any, what: str) -> None:
    """Raises BrokenPromiseError unless ``found == wanted``."""
    if found != wanted:
        raise BrokenPromiseError(
            f"{what}: expected {_short(wanted)}, found {_short(found)}{_hint(found, wanted)}"
        )


def true(holds: object, what: str) -> None:
    """Raises BrokenPromiseError unless ``holds`` is true; ``what`` says what should be."""
    if not holds:
        raise BrokenPromiseError(f"{what}: this is not so")


def is_a(found: object, kind: type | tuple[type, ...], what: str) -> None:
    """Raises BrokenPromiseError unless ``found`` is of this class, or of one of these."""
    if not isinstance(found, kind):
        wanted = " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
        raise BrokenPromiseError(f"{what}: expected {wanted}, found {type(found).__name__}")


class Caught:
    """The error that ``raises`` has caught; it is there after the block."""

    error: Any = None


Kinds = type[BaseException] | tuple[type[BaseException], ...]
"""A class of errors, or several of which one is meant."""


@contextmanager
def raises(kind: Kinds, what: str) -> Iterator[Caught]:
    """Raises BrokenPromiseError unless the block raises an error of this kind."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    names = " or ".join(one.__name__ for one in kinds)
    caught = Caught()
    try:
        yield caught
    except (BrokenPromiseError, NotCheckedError):
        raise
    except kinds as error:
        caught.error = error
        return
    except Exception as error:
        raise BrokenPromiseError(
            f"{what}: expected {names}, found {type(error).__name__}: {_short(error)}"
        ) from error
    raise BrokenPromiseError(f"{what}: expected {names}, found no error")


def _short(value: object) -> str:
    text = str(value) if isinstance(value, BaseException) else repr(value)
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}… ({len(text)} characters)"


def _hint(found: Any, wanted: Any) -> str:
    """Says where two lists begin to differ, since their texts may be cut before that."""
    if not (isinstance(found, list) and isinstance(wanted, list)):
        return ""
    same = next(
        (number for number, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b),
        min(len(found), len(wanted)),
    )
    there = _short(found[same]) if same < len(found) else "nothing"
    due = _short(wanted[same]) if same < len(wanted) else "nothing"
    sizes = f"of {len(wanted)} and {len(found)} items"
    return f"; {sizes}, number {same} is the first that differs: {due} and {there}"
