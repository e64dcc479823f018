"""The errors that the core does not raise."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

from topicdb import _core

if TYPE_CHECKING:
    from topicdb.types import CommitKnown, Receipt


class AccessError(_core.Error, PermissionError):
    """A server does not let this token do what it asked for.

    The token is unknown or expired, or it has no right to do that. The text says what it may do.
    """

    __module__ = "topicdb"


class CommitTimeoutError(_core.Error, TimeoutError):
    """A commit of a transaction was not over within its timeout.

    Attributes:
        known: what is known. ``"not stored"``: the commit was withdrawn; nothing is stored, and
            nothing will be, so run it again. ``"unknown"``: it is being applied at this moment, and
            ``outcome`` tells how that ends. ``"stored"``: readers see it, but it is not as durable
            yet as it asks; ``outcome`` has its receipt once it is.
        outcome: a future with the receipt, or with the error that the commit would have raised;
            None if nothing is stored. ``close`` of the database waits for it.
    """

    __module__ = "topicdb"
    known: CommitKnown
    outcome: Future[Receipt] | None
