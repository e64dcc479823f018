"""The contract between a database and what it is built on.

``_core.Database`` keeps it in this process, ``remote.database.RemoteCore`` by calls of a server.
All times are microseconds since 1970-01-01 UTC; None means "no bound".
"""

from __future__ import annotations

from typing import Protocol

from topicdb._core import Batch
from topicdb._types import ArrowArray
from topicdb.forms import Form


class ScanCursor(Protocol):
    """A running read. Belongs to who opened it, who closes it. One thread at a time."""

    def next_batch(
        self, rows_max: int, bytes_max: int, with_serials: bool = False, /
    ) -> Batch | None:
        """The next messages as they are stored, or None at the end.

        ``with_serials``: the batch has the serial of each message's commit.
        """

    def next_arrow(
        self, rows_max: int, bytes_max: int, form: Form = "stored", /
    ) -> ArrowArray | None:
        """The next messages in a form, or None at the end."""

    def arrow_stream(self, rows_max: int, bytes_max: int, form: Form = "stored", /) -> object:
        """The rest as a PyCapsule "arrow_array_stream", which takes over this cursor."""

    def close(self) -> None:
        """Frees what it holds. May be repeated."""
