"""The rules of a replay log: what it logs, and whether there can be replays."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from topicdb.follow.positions import Place
from topicdb.replay.records import LogRecord
from topicdb.replay.rules import Era, Promoter, Promotion


class Change(Enum):
    """The difference between a new era and the one before."""

    NOTHING = "nothing"
    INGRESS = "ingress"
    FILTERS = "filters"


class LogRules:
    """The rules of one replay log, in the log's record: the eras, the egress and the promotion.

    The log owns this object. The log holds its lock for every change, and stores the record then;
    reading needs no lock. This class uses no database.
    """

    def __init__(self, record: LogRecord) -> None:
        self._record = record
        self._promoter = Promoter(record.promote)

    @property
    def era(self) -> Era:
        """The rules that hold now."""
        return self._record.eras[-1]

    @property
    def egress(self) -> bool:
        """Whether there can be replays."""
        return self._record.egress

    @egress.setter
    def egress(self, value: bool) -> None:
        self._record.egress = value

    def ingress_era(self, value: bool, since: Place) -> Era:
        """Returns an era like that of now, but with this ingress."""
        return Era(since, value, self.era.include, self.era.exclude)

    def filters_era(self, include: Sequence[str], exclude: Sequence[str], since: Place) -> Era:
        """Returns an era like that of now, but with these filters."""
        return Era(since, self.era.ingress, include, exclude)

    def begin(self, era: Era) -> Change:
        """Begins the era, unless it has the rules of now. Returns what it changes."""
        last = self.era
        if era.rules == last.rules:
            return Change.NOTHING
        self._record.eras = [*self._record.eras, era]
        same_filters = (era.include, era.exclude) == (last.include, last.exclude)
        return Change.INGRESS if same_filters else Change.FILTERS

    def promotes(self, topic: str, value: bytes) -> bool:
        """Returns whether a direct message is to be logged, and counts it. Thread-safe."""
        return self._promoter.promotes(topic, value)

    @property
    def direct(self) -> dict[str, int]:
        """Counts direct messages by what became of them. Thread-safe."""
        return dict(self._promoter.counts)

    def set_promotion(self, rules: list[Promotion]) -> None:
        """Replaces the rules about direct messages; the counts go on."""
        self._promoter.set_rules(rules)
        self._record.promote = rules
