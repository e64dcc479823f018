"""Tails: messages in the order of the commit log."""

from __future__ import annotations

from collections.abc import Iterator as _Iterator

from topicdb import _core
from topicdb.arguments.forms import Form
from topicdb.closing import Closing
from topicdb.cursor.contract import TailCursor
from topicdb.cursor.scan import BATCH_BYTES_MAX, BATCH_ROWS, check_batch_limits
from topicdb.types import Message


class Tail(Closing):
    """Messages in the order in which they were committed; made by ``Database.tail``.

    Each message that matches comes exactly once: first those that are stored, then those that are
    committed while it runs, whatever their timestamps. There is an order within each shard, and
    none among shards. Messages that are deleted or dropped before the tail comes to them are left
    out.

    ``serials`` says how far it has come. Store that, and pass it to ``Database.tail(after=…)`` to
    continue there. Use the tail in ``with``, or close it.

    Not thread-safe: one thread at a time reads; another may close it. Iteration raises ClosedError
    when the database is closed.

    Example:
        >>> with db.tail("metrics/#", timeout=0) as tail:
        ...     print([len(batch) for batch in tail.batches()], tail.serials)
        [1] {0: 1}
    """

    def __init__(self, core: TailCursor, timeout_us: int | None, form: Form = "payload") -> None:
        self._core = core
        self._form = form
        self._timeout_us = timeout_us
        self._serials = core.serials()

    @property
    def serials(self) -> dict[int, int]:
        """For each shard, the last commit of which you have had every message and done the batch.

        You are done with a batch when you ask for the next one, or when iteration has ended after
        it.
        """
        return dict(self._serials)

    @property
    def missing_shards(self) -> dict[int, str]:
        """The missing shards that it leaves out, by number, and why each is missing.

        Only a tail that was made with ``partial=True`` leaves any out, those that were missing when
        it began. ``serials`` does not name them, unless ``after`` did. When they are back, a tail
        that begins there reads what this one has left out.
        """
        return self._core.missing_shards()

    def __iter__(self) -> _Iterator[Message]:
        """Gives each message in turn; ends when none comes for ``timeout``."""
        for batch in self.batches():
            yield from batch

    def batches(
        self, rows: int = BATCH_ROWS, *, bytes_max: int = BATCH_BYTES_MAX, serials: bool = False
    ) -> _Iterator[_core.Batch]:
        """Gives batches of whole commits.

        Arguments:
            rows: about how many messages a batch has; more if one commit has more.
            bytes_max: about how many bytes of topics and values a batch has (default 8 MiB).
            serials: ``Batch.serials`` then has the commit of each message.

        Returns:
            An iterator of batches.

        Raises:
            ValueError: a limit is less than 1.
        """
        check_batch_limits(rows, bytes_max)
        while True:
            self._serials = self._core.serials()
            batch = self._core.next_batch(rows, bytes_max, self._timeout_us, serials)
            if batch is None:
                self._serials = self._core.serials()
                return
            yield batch.read_as(self._form)

    def __repr__(self) -> str:
        return f"<topicdb.Tail behind commits {self._serials}>"

    def close(self) -> None:
        """Frees what the tail holds. May be repeated."""
        self._core.close()
