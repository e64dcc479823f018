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

        Messages stay in the class in which they were stored, under its new limits. If that class is
        not among the new ones, it keeps its messages as long as any class that their topics may
        belong to now. A class that names a ``layout`` begins a generation of that layout at once,
        unless its current one has it.

        Returns what the next maintenance will rotate and drop because of age, bytes or
        ``keep_last``, judged by the files as they are now: nothing has been dropped yet.
        ``dry_run`` only returns this, and changes nothing. ``kept`` is 0, since it is not known
        before how many messages ``keep_last`` saves.

        Raises SchemaError for classes that contradict each other or are malformed; ReadOnlyError
        unless this handle has all shards open for writing.

        >>> db.set_retention({"#": "30d"}, dry_run=True).dropped    # doctest: +SKIP
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

        - ``quota_bytes``: a number, or ``"30GB"``; None: no limit.
        - ``quota_trim``: the part of it from which on the oldest generations are dropped; None:
          they never are.
        - ``dry_run``: only returns what the quota would be, and changes nothing.

        A quota is a setting of the process that writes: it is not stored, and holds until the
        handle is closed. Through ``topicdb.connect`` it is that of the server.

        Returns the quota, and how the database stands to it. If it has more on disk than the new
        quota already, ``is_full`` is true: calls that add data raise QuotaError, as in any full
        database, until ``delete``, ``drop_slab`` or a higher quota has made room. ``dropped`` are
        the slabs that the next maintenance drops to come below ``quota_trim``; ``maintain`` does
        that at once.

        Raises ValueError or TypeError for a bad quota; ReadOnlyError for a handle that only reads.

        >>> db.set_quota("30GB", dry_run=True).dropped              # doctest: +SKIP
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
        """Starts a new generation in every shard, of one retention class or of all (None).

        The generation that was current is read-only from then on.

        ``layout``: how the new generation is stored, ``"columnar"`` or ``"skipstream"``. Older
        generations keep theirs, and are read as before. None: what ``Retention.layout`` of the
        class says, or else as the generation before. Raises SchemaError for a layout that the
        database cannot have: with ``timestamp_bytes=0`` that is ``"columnar"``.

        ``reset_clock``: timestamps that are assigned (None) continue from what the clock shows,
        even if later ones were assigned before, when the clock was wrong (``stats()``:
        ``clock_ahead``). Otherwise each timestamp stays later than the one before. Raises
        ValueError together with a class, since a shard has one clock for all classes.
        """
        if layout is not None and not isinstance(layout, str):
            raise wrong_type("layout", "str", layout)
        self._core.rotate(retention_class, reset_clock, layout)

    def slabs(self) -> list[Slab]:
        """Returns every slab (shard, class, generation) with its times, sizes and counts."""
        return Listing(self._core.slabs())

    def drop_slab(self, slab: Slab) -> None:
        """Deletes a read-only slab at once.

        Raises ValueError if it is of the current generation, NotFoundError if it is gone.
        """
        if not isinstance(slab, Slab):
            raise wrong_type("slab", "Slab", slab)
        self._core.drop_slab(slab.shard, slab.retention_class, slab.generation)

    def expire(self, now: TimeLike | None = None) -> list[Slab]:
        """Drops slabs that are older than the age of their class, and returns them.

        This is a part of ``maintain``. A slab is dropped when its generation ended longer ago than
        that age; in a class with ``keep_last`` the last messages of its topics are kept. ``now``:
        acts as if it were that time.
        """
        return lifecycle.expire(self._core, now)

    def maintain(self, now: TimeLike | None = None) -> Maintained:
        """Does at once what happens every ``maintenance_interval``, as if it were ``now``.

        It starts a new generation where one has taken messages for its time, or an eighth of the
        bytes of its class or of the quota. Then it drops slabs that are older than their class
        keeps, the oldest of a class with too many bytes, and the oldest of all while the files take
        more than ``quota_trim`` of the quota. In a class with ``keep_last``, a new slab takes the
        last messages of the dropped ones. Last, it frees space in files: messages that were sealed
        again or deleted leave the files that they still are in, unless a reader that began before
        can see them.

        Returns what it did.
        """
        return lifecycle.maintain(self._core, now)

    def trim(
        self, older_than: TimeLike | timedelta, filter: str | None = None, *, dry_run: bool = True
    ) -> Trimmed:
        """Removes messages with earlier timestamps; by default it only says what it would remove.

        - ``older_than``: a time, or an age such as ``"7d"``. ValueError for a number that looks
          like seconds, milliseconds or nanoseconds. ``before`` of the result is what was
          understood.
        - ``filter``: only these topics. Without it, slabs in which every message is older are
          removed as a whole, and in the others the messages that ``#`` matches (not topics that
          begin with ``$``).
        - ``dry_run``: False removes. True counts, for which it reads the messages that it counts.

        >>> db.trim("30d").messages                                 # doctest: +SKIP
        0
        >>> db.trim("30d", dry_run=False)                           # doctest: +SKIP
        """
        return lifecycle.trim(self._core, older_than, filter, dry_run=dry_run)

    def usage(self, by: Literal["class", "generation", "structure"] = "class") -> list[Usage]:
        """Returns what is stored in the open shards, by class, by generation or by structure.

        By structure it reads the directories of all blocks, and a few pages of each.
        """
        return Listing(lifecycle.usage_of(self._core, by))

    def forecast(self, now: TimeLike | None = None) -> Forecast:
        """Returns how fast the files grow, and when the quota will be reached."""
        return lifecycle.forecast(self._core, now)
