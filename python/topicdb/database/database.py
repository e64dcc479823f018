"""The database handle: one directory of messages."""

from __future__ import annotations

from typing import Any

from topicdb.closing import Closing
from topicdb.database.facade.copying import Copying
from topicdb.database.facade.files import ParquetFiles
from topicdb.database.facade.following import Following
from topicdb.database.facade.lifecycle import Lifecycle
from topicdb.database.facade.reading import Reading
from topicdb.database.facade.writing import Writing
from topicdb.engine import AppendQueue, Engine
from topicdb.follow.readers import OpenReaders


class Database(Writing, Reading, Following, Lifecycle, Copying, ParquetFiles, Closing):
    """An open database. Made by ``topicdb.open``; safe to use from many threads."""

    # The base classes keep nothing and know nothing of each other: they declare methods in groups
    # and hand them on to what is made here.

    def __init__(
        self,
        core: Engine,
        appends: AppendQueue,
        quota_bytes: int = 0,
        readers: OpenReaders | None = None,
    ) -> None:
        self._core = core
        self._appends = appends
        self._quota_bytes = quota_bytes
        self._readers = readers or OpenReaders(core)

    def stats(self) -> dict[str, Any]:
        """Counts and sizes: messages, bytes, streams, and each shard's serial, clock and memory.

        Of a shard, ``clock`` is the last timestamp that was assigned, and ``clock_ahead`` how far
        that is ahead of the clock (µs), which has stepped back then. ``clock_held`` is by how much
        the clock leapt ahead without being believed yet.

        ``subscriptions``: how many there are, and what was read for them: ``live_reads`` of what
        was just committed, ``catch_up_reads`` of history, ``shared_reads``, those that others had
        done; ``page_bytes``, of what is kept.
        """
        return {**self._core.stats(), "subscriptions": self._core.subscription_stats()}

    def refresh(self) -> None:
        """In a read-only handle: sees what was written since. Elsewhere it does nothing."""
        self._core.refresh()

    def flush(self) -> None:
        """Moves everything written so far to files and fsyncs it."""
        self._core.flush()

    def close(self) -> None:
        """Waits for calls in flight, flushes, releases the locks. May be repeated.

        Running scans, transactions and maps end; queued appends are finished before.
        """
        self._appends.close_engine()

    @property
    def path(self) -> str:
        """Directory of the database."""
        return self._core.path

    @property
    def schema(self) -> dict[str, Any]:
        """The schema as stored: the options of ``open`` that are part of it."""
        return self._core.schema

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._core.closed

    def __repr__(self) -> str:
        return f"<topicdb.Database {self.path!r}{' closed' if self.closed else ''}>"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a Database cannot be pickled: send its path and open it there (in Spark: in the task)"
        )
