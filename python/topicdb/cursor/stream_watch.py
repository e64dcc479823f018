"""Notice of streams as they come to be."""

from __future__ import annotations

from collections.abc import Iterator as _Iterator

from topicdb._core import Stream
from topicdb.closing import Closing
from topicdb.cursor.contract import StreamCursor


class StreamWatch(Closing):
    """Streams that may hold topics of a filter, each once; made by ``Database.watch_streams``.

    A stream is given when its first message is committed and can be read. A new generation has
    streams of its own, and so has a slab of messages that ``keep_last`` has kept of earlier ones.
    In one shard and class, streams of an older generation come first.

    Iteration ends when no stream comes for ``timeout``, and raises ClosedError when the database is
    closed. One thread at a time may read it; another may close it.
    """

    def __init__(self, core: StreamCursor, timeout_us: int | None) -> None:
        self._core = core
        self._timeout_us = timeout_us

    def __iter__(self) -> _Iterator[Stream]:
        """Gives each stream in turn."""
        while streams := self.next_streams():
            yield from streams

    def next_streams(self) -> list[Stream]:
        """Returns all new streams; waits for the first. Empty if none comes for ``timeout``."""
        return self._core.next_streams(self._timeout_us)

    def close(self) -> None:
        """Frees what it holds, and ends a call that waits. May be repeated."""
        self._core.close()
