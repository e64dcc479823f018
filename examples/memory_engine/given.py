"""What iterators have given, for readers of the log that leave it out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import topicdb
from examples.memory_engine.state import Drop, Shard, Stored, is_wanted

if TYPE_CHECKING:
    from examples.memory_engine.engine import MemoryEngine


class Given:
    """What iterators have given or passed over, and how far the shards were when it was made.

    A tail or a subscription makes it when it begins. It never changes.
    """

    def __init__(self, engine: MemoryEngine, iterators: Sequence[topicdb.Iterator]) -> None:
        self._reads: dict[int, list[topicdb.Iterator]] = {}
        self._began = {shard.number: shard.serial for shard in engine.shards}
        for one in iterators:
            if one.database != engine.database:
                raise topicdb.NotFoundError("an iterator of `given` is of another database")
            if one.shard not in self._began:
                raise topicdb.NotFoundError(f"an iterator of `given` is of shard {one.shard}")
            if one.seen > self._began[one.shard]:
                raise ValueError(f"an iterator has seen commit {one.seen}, which is not here")
            self._reads.setdefault(one.shard, []).append(one)

    def has(self, shard: int, stored: Stored) -> bool:
        """Returns whether one of the iterators has given a message of a shard."""
        return any(
            is_wanted([read.filter], stored.topic)
            and (stored.generation < self._oldest(shard) or _has_passed(read, stored))
            for read in self._reads.get(shard, ())
        )

    def seen(self, shard: int) -> int:
        """Returns the last commit of which the iterators of a shard have given something."""
        return max((read.seen for read in self._reads.get(shard, ())), default=0)

    def counted(self, shard: int) -> int:
        """Returns the commit up to which all iterators of a shard knew which drops there were."""
        return min((read.seen for read in self._reads.get(shard, ())), default=0)

    def may_lose(self, shard: int, drop: Drop) -> bool:
        """Returns whether a drop is one that a reader is told of.

        A generation before those of the iterators that was gone at the beginning is none.
        """
        return drop.serial > self._began[shard] or drop.generation >= self._oldest(shard)

    def check_not_lost(self, shard: Shard, filters: list[str] | None) -> None:
        """Raises NotFoundError if a generation is gone of which an iterator had still to give."""
        reads = self._reads.get(shard.number, ())
        for drop in shard.drops:
            is_of_one = any(read.generation == drop.generation for read in reads)
            if drop.serial <= self.counted(shard.number) or not is_of_one:
                continue
            lost = [
                stored
                for stored in drop.lost
                if is_wanted(filters, stored.topic) and not self.has(shard.number, stored)
            ]
            if lost:
                raise topicdb.NotFoundError(
                    f"generation {drop.generation} in shard {shard.number} is gone with "
                    f"{len(lost)} messages that the iterators had still to give"
                )

    def _oldest(self, shard: int) -> int:
        """Returns the oldest generation in which an iterator stands, or 0 if there is none."""
        return min((read.generation for read in self._reads.get(shard, ())), default=0)


def _has_passed(read: topicdb.Iterator, stored: Stored) -> bool:
    """Returns whether a message stands before an iterator, and was there when it was read last."""
    is_of_stream = (stored.generation, stored.topic) == (read.generation, read.structure)
    if not is_of_stream or stored.serial > read.seen:
        return False
    if read.place is None:
        return stored.timestamp < read.timestamp
    return stored.rank <= (read.timestamp, *read.place)
