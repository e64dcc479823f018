"""Trims a replay log: finds its size and its new beginning, and drops generations."""

from __future__ import annotations

from collections.abc import Sequence

from topicdb.arguments.filters import covers, overlap
from topicdb.engine import Engine
from topicdb.follow.positions import Place
from topicdb.replay.log.measuring import ALL, LogMeasure
from topicdb.replay.records import SHARD, LogRecord
from topicdb.replay.rules import Era

QUOTA_TRIM = 0.9  # a log that has more than this part of its quota is trimmed
QUOTA_LEFT = 0.8  # to this part
SEAL_PART = 20  # generations end when the log has grown by the quota divided by this


class Trimmer:
    """Decides where one replay log begins, by its size, and drops what nobody needs.

    The log owns this object, and holds its lock for every call. The log stores the record when
    ``seal`` or ``reclaim`` has changed it.
    """

    def __init__(self, core: Engine, record: LogRecord) -> None:
        self._core = core
        self._record = record
        self._measure = LogMeasure(core)
        self._sealed_bytes = 0  # how many bytes the log had when generations were last ended

    def nbytes(self) -> int:
        """Returns the bytes of topics and values in the log that its filters of now include."""
        if self._measure.count(self._record):
            self._sealed_bytes = 0
        return self._measure.bytes

    def cut(self) -> Place | None:
        """Returns where the log has to begin to meet its quota, or None if it does so already."""
        record = self._record
        if record.quota_bytes == 0 or self.nbytes() <= QUOTA_TRIM * record.quota_bytes:
            return None
        too_many = int(self._measure.bytes - QUOTA_LEFT * record.quota_bytes)
        filters = list(record.eras[-1].include)
        after, until = record.first.serial - 1, self._measure.until
        span = self._core.measure_log(SHARD, filters, after, until, None, ALL, max(too_many, 1))
        return Place(span.until + 1, 0)

    def cut_at(self, before_us: int) -> Place:
        """Returns the place of the log's first message of this time or later.

        If there is none, that is the place after everything that is stored.
        """
        found = self._core.places_at(list(self._record.eras[-1].include), before_us)
        return max(Place(*found[SHARD]), self._record.first)

    def should_seal(self) -> bool:
        """Returns whether the log has grown enough since ``seal`` to end generations again."""
        quota = self._record.quota_bytes
        return quota > 0 and self._measure.bytes - self._sealed_bytes >= quota / SEAL_PART

    def seal(self) -> None:
        """Ends the generations of the log's classes, so that they can be dropped later."""
        for name in self.classes():
            if any(
                slab.retention_class == name and not slab.read_only and slab.messages > 0
                for slab in self._core.slabs()
            ):
                self._core.rotate(name)
        current = {
            slab.retention_class: slab.generation
            for slab in self._core.slabs()
            if not slab.read_only
        }
        serial = self._core.places_at(None, ALL)[SHARD][0] - 1
        self._record.seals.append((serial, current))
        self._sealed_bytes = self._measure.bytes

    def reclaim(self, needed_from: Place, *, is_replayed: bool) -> int:
        """Drops generations whose messages are all before this place. Returns how many.

        ``is_replayed``: whether a replay runs, which may come to where the messages were.
        """
        if not is_replayed:
            self._record.dropped = []
        done = [seal for seal in self._record.seals if seal[0] < needed_from.serial]
        if not done:
            return 0
        current = done[-1][1]
        classes = set(self.classes())
        dropped = 0
        for slab in self._core.slabs():
            name = slab.retention_class
            if name in classes and slab.read_only and slab.generation < current.get(name, 0):
                if is_replayed:  # first, as the replay may come to it at once
                    self._record.dropped = [*self._record.dropped, (name, slab.generation)]
                self._core.drop_slab(slab.shard, slab.retention_class, slab.generation)
                dropped += 1
        self._record.seals[:] = [seal for seal in self._record.seals if seal not in done]
        return dropped

    def classes(self) -> list[str]:
        """Returns the retention classes of which generations may be dropped, sorted.

        These are the classes whose topics are all logged, by the filters of now, and which keep no
        last messages (``keep_last``).
        """
        kept = {one.filter for one in self._core.retention() if one.keep_last > 0}
        names = {slab.retention_class for slab in self._core.slabs()}
        era = self._record.eras[-1]
        return sorted(name for name in names - kept if _is_logged(name, era))


def _is_logged(retention_class: str, era: Era) -> bool:
    if retention_class.startswith("$topicdb/"):
        return False
    if not any(covers(one, retention_class) for one in era.include):
        return False
    return not any(overlap(one, retention_class) for one in era.exclude)


def oldest_generations(core: Engine) -> dict[str, int]:
    """Returns the oldest generation of each retention class; it grows when one is dropped."""
    found: dict[str, int] = {}
    for slab in core.slabs():
        known = found.get(slab.retention_class, slab.generation)
        found[slab.retention_class] = min(known, slab.generation)
    return found


def eras_from(eras: Sequence[Era], first: Place) -> list[Era]:
    """Returns the eras that a log which begins at ``first`` still needs."""
    following = [*eras[1:], None]
    return [
        era for era, then in zip(eras, following, strict=True) if then is None or then.since > first
    ]
