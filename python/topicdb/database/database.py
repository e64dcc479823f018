"""The database handle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from topicdb.closing import Closing
from topicdb.cooperating import Extent, Staging
from topicdb.database.facade.copying import Copying
from topicdb.database.facade.counting import Counting
from topicdb.database.facade.files import ParquetFiles
from topicdb.database.facade.following import Following
from topicdb.database.facade.lifecycle import Lifecycle
from topicdb.database.facade.reading import Reading
from topicdb.database.facade.stepping import Stepping
from topicdb.database.facade.writing import Writing
from topicdb.engine import AppendQueue, Engine
from topicdb.engines.appends import AppendThread
from topicdb.engines.base import check_engine
from topicdb.engines.staging import staging_of
from topicdb.follow.readers import OpenReaders
from topicdb.frames.shown import never
from topicdb.frames.text import size_text, table
from topicdb.replicas import Cluster


class Database(
    Writing, Reading, Counting, Stepping, Following, Lifecycle, Copying, ParquetFiles, Closing
):
    """An open database: a directory of messages. Made by ``topicdb.open`` or ``topicdb.connect``.

    ``over`` makes one of an engine that somebody else has written (docs/internals/engines.md).

    Thread-safe. A forked child must not use it, and opens its own. Close the handle that you open,
    best by ``with``. After that its methods raise ClosedError, and so do its scans, tails,
    subscriptions and transactions.
    """

    # The base classes hold no state and do not know each other. Each declares a group of methods,
    # which call the objects that are made here.

    def __init__(
        self,
        core: Engine,
        appends: AppendQueue,
        readers: OpenReaders | None = None,
    ) -> None:
        self._core = core
        self._appends = appends
        self._readers = readers or OpenReaders(core)

    @staticmethod
    def over(engine: Engine, *, appends: AppendQueue | None = None) -> Database:
        """Puts this API over an engine that is open, which the database closes.

        Methods that the engine lacks raise NotImplementedError.

        Arguments:
            engine: fulfils ``topicdb.engine.Engine``; docs/internals/engines.md says what that
                means, and ``python -m topicdb.conformance`` checks it.
            appends: stores the appends and commits for which nobody waits. None: a thread, which
                calls the engine for one after the other.

        Returns:
            The database.

        Raises:
            TypeError: ``engine`` has not even what every engine needs.

        Example:
            >>> db = topicdb.Database.over(MemoryEngine())  # doctest: +SKIP
        """
        check_engine(engine)
        return Database(engine, appends or AppendThread(engine))

    @property
    def engine(self) -> Engine:
        """The engine under this database. You need it for ``over`` of an engine that wraps it."""
        return self._core

    def stats(self) -> dict[str, Any]:
        """Returns counts and sizes of messages and streams, and how each shard stands.

        Each shard has its serial, clock and memory. ``clock`` is the last timestamp that was
        assigned (µs since 1970). ``clock_ahead`` (µs) says how far that is ahead of the system's
        clock, which must have stepped back then. ``clock_held`` (µs) says how far the clock has
        leapt ahead without being believed yet.

        ``subscriptions`` says how many there are, and what was read for them: ``live_reads`` of
        what was just committed, ``catch_up_reads`` of history, and ``shared_reads`` that another
        subscription had done. ``page_bytes`` is the size of the pages that are kept for them.

        Example:
            >>> db.stats()["messages"]
            3
        """
        return {**self._core.stats(), "subscriptions": self._core.subscription_stats()}

    def _extent(self, filters: Sequence[str] | None) -> Extent:
        """Returns how far the database reaches now; without its id, which only servers give.

        ``filters`` are those of the reads to come: a server asks whether the token may read them.
        """
        slabs = self._core.slabs()
        return Extent(
            "",
            {shard["shard"]: shard["serial"] for shard in self._core.stats()["shards"]},
            [(one.shard, one.retention_class, one.generation) for one in slabs],
            [
                (one.shard, one.retention_class, one.generation)
                for one in slabs
                if not one.read_only
            ],
        )

    def _staging(self) -> Staging:
        """Returns what stages messages for this database, for ``topicdb.jobs``."""
        return staging_of(self._core)

    def refresh(self) -> None:
        """In a read-only handle, shows what was written since. Otherwise does nothing."""
        self._core.refresh()

    def flush(self) -> None:
        """Moves everything that was written so far to files, and fsyncs them."""
        self._core.flush()

    def close(self) -> None:
        """Waits for calls in flight, flushes, and releases the locks. May be repeated.

        Queued appends are finished first. Running scans, transactions and maps end.
        """
        self._appends.close_engine()

    @property
    def path(self) -> str:
        """The directory of the database; of one from ``topicdb.connect``, the server's address."""
        return self._core.path

    @property
    def schema(self) -> dict[str, Any]:
        """The stored schema: those options of ``topicdb.open`` that are part of it."""
        return self._core.schema

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._core.closed

    @property
    def cluster(self) -> Cluster | None:
        """The cluster on whose sites the database lives; None if it has no replicas."""
        return None

    def __repr__(self) -> str:
        return f"<topicdb.Database {self.path!r}{' closed' if self.closed else self._nature()}>"

    def _nature(self) -> str:
        """Returns how many shards an open database has, and its layout, for ``repr``."""
        schema = self._core.schema
        shards = schema["shards"]
        return f", {shards} shard{'' if shards == 1 else 's'}, {schema['layout']}"

    def _repr_html_(self) -> str:
        """Shows the path and the sizes; they are counts that the engine has at hand."""
        return never(lambda: table(repr(self), (), self._facts().items()), lambda: repr(self))

    def _facts(self) -> dict[str, Any]:
        if self.closed:
            return {}
        stats = self._core.stats()
        sizes = {"bytes": "topics and values", "disk_bytes": "on disk"}
        counts: dict[str, Any] = {
            name: stats[name] for name in ("messages", "streams") if name in stats
        }
        return {
            **counts,
            **{text: size_text(stats[name]) for name, text in sizes.items() if name in stats},
            "missing shards": ", ".join(map(str, self.missing_shards)) or None,
        }

    def __reduce__(self) -> Any:
        raise TypeError(
            "a Database cannot be pickled: send its path and open it there (in Spark: in the task)"
        )
