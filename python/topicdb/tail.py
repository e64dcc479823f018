"""Following the commit log."""

from __future__ import annotations

from collections.abc import Iterator as _Iterator

from topicdb import _core
from topicdb.closing import Closing
from topicdb.engine import TailCursor
from topicdb.forms import Form
from topicdb.scan import BATCH_BYTES_MAX, BATCH_ROWS, check_batch_limits
from topicdb.types import Message


class Tail(Closing):
    """Messages in the order in which they were committed; made by ``Database.tail``.

    Each message that matches comes exactly once: first those that are stored, then those that are
    committed while it runs, whatever their timestamps. There is an order within each shard, none
    among shards. Messages that are deleted or dropped before the tail comes to them are left out.

    ``serials`` says how far it has come: store it, and give it to ``Database.tail(after=…)`` to go
    on there. To be used by one thread at a time; ends when the database is closed (ClosedError).
    """

    def __init__(self, core: TailCursor, timeout_us: int | None, form: Form = "payload") -> None:
        self._core = core
        self._form = form
        self._timeout_us = timeout_us
        self._serials = core.serials()

    @property
    def serials(self) -> dict[int, int]:
        """By shard: every message up to this commit was given, and its batch is done with.

        A batch is done with when the next one is asked for, or the last has ended the iteration.
        """
        return dict(self._serials)

    def __iter__(self) -> _Iterator[Message]:
        """Each message in turn; ends when none comes for ``timeout``."""
        for batch in self.batches():
            yield from batch

    def batches(
        self, rows: int = BATCH_ROWS, *, bytes_max: int = BATCH_BYTES_MAX, serials: bool = False
    ) -> _Iterator[_core.Batch]:
        """Batches of whole commits: some ``rows`` messages, more if a commit has more.

        ``serials``: whether ``Batch.serials`` has the commit of each message.
        """
        check_batch_limits(rows, bytes_max)
        while True:
            self._serials = self._core.serials()
            batch = self._core.next_batch(rows, bytes_max, self._timeout_us, serials)
            if batch is None:
                self._serials = self._core.serials()
                return
            yield batch.read_as(self._form)

    def close(self) -> None:
        """Frees what it holds. May be repeated."""
        self._core.close()
