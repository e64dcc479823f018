"""Measures how large a replay log is."""

from __future__ import annotations

from topicdb.engine import Engine
from topicdb.follow.positions import Place
from topicdb.replay.records import SHARD, LogRecord

ALL = (1 << 63) - 1


class LogMeasure:
    """Counts the bytes of topics and values in one replay log, as its filters of now include them.

    A further count looks only at what was committed since the last one, unless the log was trimmed
    or has other filters: then everything is counted anew. Whoever counts owns this object, and uses
    it with one thread at a time.
    """

    def __init__(self, core: Engine) -> None:
        self._core = core
        self._counted: tuple[Place, tuple[str, ...]] | None = None  # from where on, and by what
        self.until = 0  # up to and including this commit,
        self.bytes = 0  # there are so many bytes

    def count(self, record: LogRecord) -> bool:
        """Counts on, and returns whether it had to count anew."""
        filters = record.eras[-1].include
        is_anew = self._counted != (record.first, filters)
        if is_anew:
            self._counted = record.first, filters
            self.until, self.bytes = record.first.serial - 1, 0
        span = self._core.measure_log(SHARD, list(filters), self.until, None, None, ALL, ALL)
        self.until = max(self.until, span.until)
        self.bytes += span.bytes
        return is_anew
