"""Scans in steps: all that a scan has to know is in its iterator."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import topicdb
from examples.memory_engine.state import Shard, Stored, is_wanted, limited
from topicdb.engine import Filters
from topicdb.engines import batch_of, checked_filters
from topicdb.results import ScanStep

_PARTS = ("database", "filters", "start", "end", "shards", "in_shard", "counted", "place")
_FIRST = 1
"""The generation with which each scan begins, also if it was dropped."""


class Steps:
    """Methods of MemoryEngine. What they use of it is declared here."""

    database: bytes
    shards: list[Shard]
    using: Callable[[], AbstractContextManager[None]]

    def scan_iterator(
        self, filter: Filters, start: int | None, end: int | None, /
    ) -> topicdb.ScanIterator:
        wanted = checked_filters(filter)
        if wanted == []:
            raise ValueError("filter: at least one filter is needed")
        with self.using():
            return topicdb.ScanIterator(
                database=self.database,
                filters=wanted,
                start=start or 0,
                end=end,
                shards=[
                    (shard.number, shard.serial, [(0, _FIRST, shard.generation, 0)])
                    for shard in self.shards
                ],
                counted=self.shards[0].serial,
            )

    def next_of_scan(
        self, iterator: topicdb.ScanIterator, rows_max: int, bytes_max: int, /
    ) -> ScanStep:
        at = iterator
        with self.using():
            if at.database != self.database:
                raise topicdb.NotFoundError("this scan is of another database")
            while not at.at_end:
                shard = self._shard_of(at)
                at, loss = _look_for_loss(at, shard)
                if loss is not None:
                    return ScanStep(at, batch_of([]), False, loss)
                left = sorted(
                    (s for s in shard.find(at.filters, at.start, at.end) if _is_left(at, s)),
                    key=_key,
                )
                if some := limited(left, rows_max, bytes_max):
                    return ScanStep(
                        _behind(at, some[-1]), batch_of(stored[:3] for stored in some), False, None
                    )
                at = _next_shard(at)
            return ScanStep(at, batch_of([]), True, None)

    def _shard_of(self, at: topicdb.ScanIterator) -> Shard:
        """Returns the shard that is read. Raises ValueError if it is behind the scan."""
        number, until, _ = at.shards[at.in_shard]
        if number >= len(self.shards):
            raise topicdb.NotFoundError(f"shard {number} is not open here")
        shard = self.shards[number]
        if shard.serial < until:
            raise ValueError(
                f"shard {number} is seen up to commit {shard.serial} here, not {until}"
            )
        return shard


def _look_for_loss(
    at: topicdb.ScanIterator, shard: Shard
) -> tuple[topicdb.ScanIterator, topicdb.Loss | None]:
    """Returns the next drop of messages that the scan had still to give, and where it goes on."""
    for drop in shard.drops:
        if drop.serial <= at.counted:
            continue
        lost = sum(
            _is_left(at, stored)
            and is_wanted(at.filters, stored.topic)
            and at.start <= stored.timestamp
            and (at.end is None or stored.timestamp < at.end)
            for stored in drop.lost
        )
        at = made(at, counted=drop.serial)
        if lost:
            return at, topicdb.Loss(shard.number, "#", drop.generation, drop.serial, lost)
    return at, None


def _key(stored: Stored) -> tuple[int, ...]:
    """Orders the messages of a shard."""
    return stored.generation, *stored.rank


def _is_left(at: topicdb.ScanIterator, stored: Stored) -> bool:
    """Returns whether a message is part of the scan and behind its position."""
    _, until, [(_, generation, _, _)] = at.shards[at.in_shard]
    behind = (generation,) if at.place is None else (generation, *at.place[2:])
    return stored.serial <= until and _key(stored) > behind


def _behind(at: topicdb.ScanIterator, stored: Stored) -> topicdb.ScanIterator:
    """Returns the iterator behind a message."""
    shards = list(at.shards)
    number, until, [(class_id, _, last, read)] = shards[at.in_shard]
    shards[at.in_shard] = number, until, [(class_id, stored.generation, last, read)]
    return made(at, shards=shards, place=(0, 0, *stored.rank))


def _next_shard(at: topicdb.ScanIterator) -> topicdb.ScanIterator:
    """Returns the iterator at the beginning of the next shard, or at the end."""
    number = at.in_shard + 1
    counted = at.shards[number][1] if number < len(at.shards) else 0
    return made(at, in_shard=number, counted=counted, place=None)


def made(at: topicdb.ScanIterator, **changed: Any) -> topicdb.ScanIterator:
    """Returns an iterator of the same parts but these."""
    return topicdb.ScanIterator(**{**{part: getattr(at, part) for part in _PARTS}, **changed})
