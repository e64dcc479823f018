"""Keeps a replay log within its quota."""

from __future__ import annotations

from contextlib import suppress

from topicdb import _core
from topicdb.engine import Engine
from topicdb.follow.positions import Place
from topicdb.replay.log.endpoints import Endpoints
from topicdb.replay.log.trimming import Trimmer, eras_from, oldest_generations
from topicdb.replay.records import SHARD, LogRecord, Records


class LogUpkeep:
    """Trims one replay log, and drops generations that neither the log nor an endpoint needs.

    It stores the record of the log whenever it has changed it. The log owns this object, and holds
    its lock for every call.
    """

    def __init__(
        self, core: Engine, record: LogRecord, records: Records, endpoints: Endpoints
    ) -> None:
        self._core = core
        self._record = record
        self._records = records
        self._endpoints = endpoints
        self._trimmer = Trimmer(core, record)
        self._oldest = oldest_generations(core)

    def nbytes(self) -> int:
        """Returns the bytes of topics and values in the log that its filters of now include."""
        return self._trimmer.nbytes()

    def classes(self) -> list[str]:
        """Returns the retention classes of which generations may be dropped, sorted."""
        return self._trimmer.classes()

    def trim(self, before_us: int) -> int:
        """Lets the log begin with its first message of this time or later.

        Returns how many generations were dropped.
        """
        self._trimmer.seal()  # first, so that trimmed messages are in generations that ended
        self._trim(self._trimmer.cut_at(before_us))
        return self._reclaim()

    def run(self) -> None:
        """Trims the log if it has more than its quota, and drops what nobody needs."""
        self._notice_lost()
        if (cut := self._trimmer.cut()) is not None:
            self._trim(cut)
            self._trimmer.nbytes()
        if self._trimmer.should_seal():
            self._trimmer.seal()
            self._records.save_log(self._record)
        self._reclaim()

    def _trim(self, first: Place) -> None:
        if first <= self._record.first:
            return
        self._endpoints.trimmed(first)
        self._record.first = first
        self._record.eras = eras_from(self._record.eras, first)
        self._records.save_log(self._record)

    def _reclaim(self) -> int:
        needed_from = self._endpoints.hold_from(self._record.first)
        dropped = self._trimmer.reclaim(needed_from, is_replayed=self._endpoints.any_replayed())
        if dropped:
            self._records.save_log(self._record)
        self._oldest = oldest_generations(self._core)
        return dropped

    def _notice_lost(self) -> None:
        """Lets the log begin behind what the database's retention or quota, or a user, has dropped.

        The readers of endpoints find out themselves what they have lost by that.
        """
        slabs = oldest_generations(self._core)
        if any(slabs.get(name, 0) != oldest for name, oldest in self._oldest.items()):
            included = list(self._record.eras[-1].include)
            # Where the next generation keeps no log, readers find out themselves.
            with suppress(_core.SchemaError):
                oldest = Place(*self._core.places_at(included, 0)[SHARD])
                self._record.first = max(self._record.first, oldest)
                self._records.save_log(self._record)
        self._oldest = slabs


def checked_quota(value: int) -> int:
    """Returns the quota. Raises ValueError if it is negative."""
    if value < 0:
        raise ValueError(f"quota_bytes: {value} is negative; 0 sets no limit")
    return value
