"""The outcomes of what a server begins for clients, and how they travel."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from topicdb.remote.errors import packed
from topicdb.types import Receipt


def outcome_of(begun: Future[Receipt] | Exception) -> Receipt | BaseException:
    """Waits for what was begun, and returns the error or the receipt."""
    if isinstance(begun, Exception):
        return begun
    error = begun.exception()
    return begun.result() if error is None else error


def told(number: int, outcome: Receipt | BaseException) -> tuple[int, bool, Any]:
    """Returns what travels of an outcome: its number, whether it is an error, and the outcome."""
    if isinstance(outcome, BaseException):
        return number, True, packed(outcome)
    return number, False, outcome
