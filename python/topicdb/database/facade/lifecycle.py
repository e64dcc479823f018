"""The methods of a Database about the life of its data."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Literal

from topicdb._core import Slab
from topicdb.arguments.sizes import Size
from topicdb.arguments.times import TimeLike
from topicdb.arguments.wrong_types import wrong_type
from topicdb.engine import Engine
from topicdb.frames.shown import Listing
from topicdb.lifecycle import quota as quotas
from topicdb.lifecycle import retention as lifecycle
from topicdb.lifecycle.quota import Quota, TrimPart
from topicdb.lifecycle.retention import (
    Forecast,
    LayoutName,
    Maintained,
    Retention,
    RetentionLike,
    Trimmed,
    Usage,
)


class Lifecycle:
    """Methods of Database that use its engine (``_core``)."""

    _core: Engine

    @property
    def retention(self) -> dict[str, Retention]:
        """The retention classes by topic filter, in the order in which they are tried."""
        return lifecycle.classes_of(self._core)

    def set_retention(
        self, retention: Mapping[str, RetentionLike], *, dry_run: bool = False
    ) -> Maintained:
        """Replaces the retention classes, at once and for good; see ``topicdb.open``.

        Messages stay in the class in which they were stored, under its new limits. A class that is
        not among the new ones keeps its messages as long as any class to which their topics may
        belong now. A class that names a ``layout`` begins a generation of that layout at once,
        unless its current generation has it.

        Arguments:
            retention: topic filter to age, ``Retention`` or None ("keep"), in the order in which
                they are tried; as in ``topicdb.open``.
            dry_run: changes nothing, and only returns the result.

        Returns:
            What the next maintenance will rotate and drop because of age, bytes or ``keep_last``,
            judged by the files as they are now. Nothing is dropped yet. ``kept`` is 0: how many
            messages ``keep_last`` saves is known only afterwards.

        Raises:
            SchemaError: classes contradict each other or are malformed.
            ReadOnlyError: this handle does not have all shards open for writing.
            NoQuorumError: the database is on several sites, and no majority of them is up. Nothing
                was changed.
            UnknownOutcomeError: the same, but the classes are changed or may come to be; they hold
                in each shard as soon as a site leads it.

        Example:
            >>> db.set_retention({"#": "30d"}, dry_run=True).dropped
            []
        """
        return lifecycle.set_classes(self._core, retention, dry_run=dry_run)

    @property
    def quota(self) -> Quota:
        """The quota of this handle, and how the database stands to it; see ``set_quota``."""
        return quotas.quota_of(self._core)

    def set_quota(
        self, quota_bytes: Size | None, *, quota_trim: TrimPart = "unchanged", dry_run: bool = False
    ) -> Quota:
        """Replaces the quota of this handle, at once; see ``topicdb.open``.

        A quota is a setting of the process that writes. It is not stored, and holds until the
        handle is closed. Through ``topicdb.connect`` it is the server's.

        Arguments:
            quota_bytes: a number of bytes, or ``"30GB"``; None: no limit.
            quota_trim: a part of the quota, from 0 to 1. Once the files take more, the oldest
                generations are dropped. None: they never are. By default it stays as it is.
            dry_run: changes nothing, and only returns the result.

        Returns:
            The quota, and how the database stands to it. ``is_full`` is true if more is on disk
            already: calls that add data raise QuotaError until ``delete``, ``drop_slab`` or a
            higher quota makes room. ``dropped`` are the slabs that the next maintenance drops to
            come below ``quota_trim``; ``maintain`` does that at once.

        Raises:
            ValueError, TypeError: a bad quota.
            ReadOnlyError: this handle only reads.

        Example:
            >>> db.set_quota("30GB", dry_run=True).dropped
            []
        """
        return quotas.set_quota(self._core, quota_bytes, quota_trim, dry_run=dry_run)

    def rotate(
        self,
        retention_class: str | None = None,
        *,
        layout: LayoutName | None = None,
        reset_clock: bool = False,
    ) -> None:
        """Starts a new generation in every shard; the one before takes no more messages.

        Arguments:
            retention_class: the topic filter of one class; None: all classes.
            layout: how the new generation is stored: ``"columnar"`` or ``"skipstream"``. Older
                generations keep their layout, and are read as before. None: what
                ``Retention.layout`` of the class says, or else as the generation before.
            reset_clock: timestamps that are assigned continue from what the clock shows, even if
                later ones were assigned while the clock was wrong (``stats()``: ``clock_ahead``).
                By default each timestamp stays later than the one before.

        Raises:
            SchemaError: the database cannot have the layout: ``"columnar"`` with
                ``timestamp_bytes=0``.
            ValueError: ``reset_clock`` together with a class: a shard has one clock for all
                classes.

        Example:
            >>> db.rotate()
            >>> max(slab.generation for slab in db.slabs())
            2
        """
        if layout is not None and not isinstance(layout, str):
            raise wrong_type("layout", "str", layout)
        self._core.rotate(retention_class, reset_clock, layout)

    def slabs(self) -> list[Slab]:
        """Returns every slab (shard, class, generation) with its times, sizes and counts.

        Example:
            >>> [(slab.shard, slab.retention_class, slab.messages) for slab in db.slabs()]
            [(0, '#', 3)]
        """
        return Listing(self._core.slabs())

    def drop_slab(self, slab: Slab) -> None:
        """Removes a read-only slab with all its messages, at once.

        Arguments:
            slab: one of ``slabs``.

        Raises:
            ValueError: the slab is of the current generation: ``rotate`` first.
            NotFoundError: the slab is gone.

        Example:
            >>> for slab in db.slabs():
            ...     if slab.read_only:
            ...         db.drop_slab(slab)
        """
        if not isinstance(slab, Slab):
            raise wrong_type("slab", "Slab", slab)
        self._core.drop_slab(slab.shard, slab.retention_class, slab.generation)

    def expire(self, now: TimeLike | None = None) -> list[Slab]:
        """Drops slabs that are older than the age of their class, and returns them.

        This is a part of ``maintain``. A slab is dropped when its generation ended longer ago than
        that age. In a class with ``keep_last`` the last messages of its topics are kept.

        Arguments:
            now: acts as if it were this time; None: the time of the clock.

        Returns:
            The slabs that were dropped.

        Example:
            >>> db.expire()
            []
        """
        return lifecycle.expire(self._core, now)

    def maintain(self, now: TimeLike | None = None) -> Maintained:
        """Does at once what happens every ``maintenance_interval``: rotates, drops, frees space.

        It starts a new generation where one has taken messages for its time, or an eighth of the
        bytes of its class or of the quota. Then it drops slabs that are older than their class
        keeps, the oldest slabs of a class with too many bytes, and the oldest of all while the
        files take more than ``quota_trim`` of the quota. In a class with ``keep_last``, a new slab
        takes the last messages of the dropped ones. Last, it frees space in files: of messages that
        were sealed again or deleted, unless a reader that began before can see them.

        Arguments:
            now: acts as if it were this time; None: the time of the clock.

        Returns:
            What it did.

        Example:
            >>> db.maintain().dropped
            []
        """
        return lifecycle.maintain(self._core, now)

    def trim(
        self, older_than: TimeLike | timedelta, filter: str | None = None, *, dry_run: bool = True
    ) -> Trimmed:
        """Removes messages with earlier timestamps; by default it only says what it would remove.

        Arguments:
            older_than: a time, or an age such as ``"7d"``.
            filter: only these topics. By default it removes slabs in which every message is older
                as a whole. In the other slabs it removes the messages that ``#`` matches, which
                leaves out topics that begin with ``$``.
            dry_run: False removes. True counts, and reads the messages that it counts.

        Returns:
            The slabs and the number of messages. ``before`` shows how ``older_than`` was
            understood.

        Raises:
            ValueError: ``older_than`` is a number that looks like seconds, milliseconds or
                nanoseconds.

        Example:
            >>> db.trim("30d").messages
            0
            >>> db.trim("30d", dry_run=False).slabs
            []
        """
        return lifecycle.trim(self._core, older_than, filter, dry_run=dry_run)

    def usage(self, by: Literal["class", "generation", "structure"] = "class") -> list[Usage]:
        """Returns what is stored in the open shards, by class, by generation or by structure.

        Arguments:
            by: ``"class"``, ``"generation"`` or ``"structure"``. By structure it reads the
                directories of all blocks, and a few pages of each.

        Returns:
            One ``Usage`` for each class, generation or structure.

        Example:
            >>> [(usage.retention_class, usage.messages) for usage in db.usage()]
            [('#', 3)]
        """
        return Listing(lifecycle.usage_of(self._core, by))

    def forecast(self, now: TimeLike | None = None) -> Forecast:
        """Returns how fast the files grow, and when the quota will be reached.

        Arguments:
            now: acts as if it were this time; None: the time of the clock.

        Returns:
            The size now, the growth per day, and the days that are left.

        Example:
            >>> db.forecast().days_left is None
            True
        """
        return lifecycle.forecast(self._core, now)
