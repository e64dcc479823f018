"""The methods of a Database about the life of its data."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Literal

from topicdb._core import Slab
from topicdb.engine import Engine
from topicdb.lifecycle import retention as lifecycle
from topicdb.lifecycle.retention import (
    Forecast,
    Maintained,
    Retention,
    RetentionLike,
    Trimmed,
    Usage,
)
from topicdb.times import TimeLike


class Lifecycle:
    """Methods of Database, for its engine (``_core``) and its quota (``_quota_bytes``)."""

    _core: Engine
    _quota_bytes: int

    @property
    def retention(self) -> dict[str, Retention]:
        """The retention classes, in the order they are tried."""
        return lifecycle.classes_of(self._core)

    def set_retention(
        self, retention: Mapping[str, RetentionLike], *, dry_run: bool = False
    ) -> Maintained:
        """Replaces the retention classes; see ``topicdb.open``. Holds at once, and for good.

        Returns what the next maintenance rotates and drops because of age, bytes or ``keep_last``,
        by the files as they are now: nothing has gone yet. With ``dry_run`` it changes nothing,
        and only says so. ``kept`` is 0: how many messages ``keep_last`` saves is not known before.

        Messages stay in the class in which they were stored, under its new limits. If that class
        is not among the new ones, they are kept as long as any class that their topics may belong
        to now.

        SchemaError for classes that cannot be, ReadOnlyError unless all shards are open for
        writing here.

        >>> db.set_retention({"#": "30d"}, dry_run=True).dropped    # doctest: +SKIP
        []
        """
        return lifecycle.set_classes(self._core, retention, dry_run=dry_run)

    def rotate(self, retention_class: str | None = None, *, reset_clock: bool = False) -> None:
        """Starts a new generation in every shard, of one retention class or of all.

        What was the current generation is read-only from then on.

        ``reset_clock``: timestamps that are assigned (None) go on from what the clock shows, even
        if later ones were assigned before, when the clock was wrong (``stats()``: ``clock_ahead``).
        Until then each is later than the one before. ValueError together with a class: a shard has
        one clock.
        """
        self._core.rotate(retention_class, reset_clock)

    def slabs(self) -> list[Slab]:
        """Every slab (shard, retention class, generation) with its times, sizes and counts."""
        return self._core.slabs()

    def drop_slab(self, slab: Slab) -> None:
        """Deletes a read-only slab at once. ValueError: it is the current one. NotFoundError."""
        self._core.drop_slab(slab.shard, slab.retention_class, slab.generation)

    def expire(self, now: TimeLike | None = None) -> list[Slab]:
        """Drops what is older than the age of its retention class; returns the slabs that went.

        A part of ``maintain``: a slab goes when its generation ended longer ago than that age; of a
        class with ``keep_last`` without its last messages.
        """
        return lifecycle.expire(self._core, now)

    def maintain(self, now: TimeLike | None = None) -> Maintained:
        """Does at once what happens every ``maintenance_interval``, as if it were ``now``.

        Starts new generations where one had its time, or an eighth of the bytes of its class or of
        the quota; then drops slabs that are older than their class keeps, and the oldest of a class
        with too many bytes, or of all while the files take more than ``quota_trim`` of the quota.
        Of a class with ``keep_last``, a new slab has the last messages of those that went. At last
        what was sealed again, or deleted, leaves the files that it still is in, unless a reader
        that began before sees it.
        """
        return lifecycle.maintain(self._core, now)

    def trim(
        self, older_than: TimeLike | timedelta, filter: str | None = None, *, dry_run: bool = True
    ) -> Trimmed:
        """Removes messages with earlier timestamps; or, as it is, says what would go.

        - ``older_than``: a time, or an age such as ``"7d"``. ValueError for a number that looks
          like seconds, milliseconds or nanoseconds; ``before`` of the result is what was
          understood.
        - ``filter``: only these topics. Without it, slabs of which all is older go as a whole, and
          of the others what ``#`` matches (not topics that begin with ``$``).

        Counting for ``dry_run`` reads what it counts.
        """
        return lifecycle.trim(self._core, older_than, filter, dry_run=dry_run)

    def usage(self, by: Literal["class", "generation", "structure"] = "class") -> list[Usage]:
        """What is stored, by class, its generations or its structures, over the open shards.

        By structure it reads the directories of all blocks, and a few pages of each.
        """
        return lifecycle.usage_of(self._core, by)

    def forecast(self, now: TimeLike | None = None) -> Forecast:
        """How fast the files grow, and when the quota will be reached."""
        return lifecycle.forecast(self._core, self._quota_bytes, now)
