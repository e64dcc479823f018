"""Subscriptions: messages with a window, and what was lost."""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import topicdb
from examples.memory_engine.given import Given
from examples.memory_engine.state import Shard, Stored, is_wanted
from topicdb.engine import RowPlace
from topicdb.engines import batch_of
from topicdb.results import Delivered

if TYPE_CHECKING:
    from examples.memory_engine.engine import MemoryEngine
    from topicdb._core import ReadyTokens

FIRST = (1, 0)


class MemorySubscription:
    """Implements ``topicdb.engine.SubscriptionCursor``. Thread-safe, by the lock of the engine."""

    def __init__(
        self,
        engine: MemoryEngine,
        filters: list[str] | None,
        places: Mapping[int, RowPlace] | None,
        start_us: int,
        window: tuple[int, int],
        part: tuple[int, int],
        counted: Mapping[int, int],
        before: Given,
    ) -> None:
        """``before``: what iterators have given, which it leaves out."""
        self._engine = engine
        self._filters = filters
        self._start_us = start_us
        self._window, self._window_bytes = window
        self._part = part
        self._before = before
        self._places: dict[int, RowPlace] = {}
        self._told: dict[int, int] = {}  # how many drops of a shard were looked at
        self._began = {shard.number: shard.serial for shard in engine.shards}
        for shard in engine.shards:
            begin = (shard.serial + 1, 0) if places is None else places.get(shard.number, FIRST)
            self._places[shard.number] = begin
            last = 0 if places is not None and begin > FIRST else shard.serial
            if begin[0] <= before.seen(shard.number):
                last = before.counted(shard.number)
            last = counted.get(shard.number, last)
            self._told[shard.number] = sum(drop.serial <= last for drop in shard.drops)
        self._given: list[int] = []  # the sizes of messages that are not acknowledged
        self._delivered = self._acknowledged = self._lost = 0
        self._paused = self._closed = False
        self._ready: list[tuple[ReadyTokens, int]] = []

    def next(self, timeout_us: int | None, rows_max: int, /) -> Delivered | None:
        end = None if timeout_us is None else time.monotonic() + timeout_us / 1e6
        with self._engine.changed:
            while True:
                if self._closed:
                    return None
                self._engine.check_open()
                if not self._paused and (found := self._take(rows_max)) is not None:
                    return found
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return None
                self._engine.changed.wait(left)

    def _take(self, rows_max: int) -> Delivered | None:
        for shard in self._engine.shards:
            if (found := self._loss(shard) or self._messages(shard, rows_max)) is not None:
                return found
        return None

    def _loss(self, shard: Shard) -> Delivered | None:
        """Returns the next drop of messages that it had not given, if there is one."""
        while self._told[shard.number] < len(shard.drops):
            drop = shard.drops[self._told[shard.number]]
            self._told[shard.number] += 1
            place = self._places[shard.number]
            lost = sum(
                stored.place >= place and self._is_due(shard, stored) for stored in drop.lost
            )
            if lost and self._before.may_lose(shard.number, drop):
                self._lost += lost
                loss = topicdb.Loss(shard.number, "#", drop.generation, drop.serial, lost)
                return self._delivery(shard, [], loss)
        return None

    def _messages(self, shard: Shard, rows_max: int) -> Delivered | None:
        some = self._at_hand(shard)[:rows_max]
        if not some:
            return None
        self._delivered += len(some)
        self._given += [stored.size for stored in some]
        last = some[-1]
        rest = shard.behind((last.serial, last.row + 1))
        in_commit = any(m.serial == last.serial and self._is_due(shard, m) for m in rest)
        behind = (last.serial, last.row + 1) if in_commit else (last.serial + 1, 0)
        self._places[shard.number] = behind
        return self._delivery(shard, some, None)

    def _at_hand(self, shard: Shard) -> list[Stored]:
        """Returns the next messages of a shard, as many as the window has room for."""
        room, size = self._window - len(self._given), sum(self._given)
        some: list[Stored] = []
        for stored in shard.behind(self._places[shard.number]):
            if not self._is_due(shard, stored):
                continue
            size += stored.size
            if len(some) >= room or (size > self._window_bytes and (some or self._given)):
                break
            some.append(stored)
        return some

    def _is_due(self, shard: Shard, stored: Stored) -> bool:
        return self._wants(stored) and not self._before.has(shard.number, stored)

    def _wants(self, stored: Stored) -> bool:
        number, count = self._part
        return (
            stored.timestamp >= self._start_us
            and is_wanted(self._filters, stored.topic)
            and zlib.crc32(b"part" + stored.topic.encode()) % count == number
        )

    def _delivery(self, shard: Shard, some: list[Stored], loss: topicdb.Loss | None) -> Delivered:
        serial, row = self._places[shard.number]
        return Delivered(
            batch=batch_of((stored[:3] for stored in some), [stored.serial for stored in some]),
            seqno=self._delivered,
            shard=shard.number,
            serial=serial,
            row=row,
            is_live=bool(some) and some[0].serial > self._began[shard.number],
            rows=np.array([stored.row for stored in some], dtype=np.uint32),
            loss=loss,
        )

    def acknowledge(self, seqno: int, /) -> None:
        with self._engine.changed:
            if seqno > self._delivered:
                raise ValueError(
                    f"ack: message {seqno} was not delivered: {self._delivered} is last"
                )
            if seqno <= self._acknowledged:
                raise ValueError(f"ack: message {seqno} is acknowledged already")
            del self._given[: seqno - self._acknowledged]
            self._acknowledged = seqno
            self._engine.tell()

    def on_ready(self, tokens: ReadyTokens, token: int, /) -> None:
        with self._engine.changed:
            self._ready.append((tokens, token))
            if self._has_any() or self._closed:
                tokens.give(token)

    def tell(self) -> None:
        """Gives the tokens, since something may have come. The engine calls it with its lock."""
        if self._ready and (self._closed or self._engine.closed or self._has_any()):
            for tokens, token in self._ready:
                tokens.give(token)

    def _has_any(self) -> bool:
        return not self._paused and any(
            self._at_hand(shard) or self._told[shard.number] < len(shard.drops)
            for shard in self._engine.shards
        )

    def info(self) -> dict[str, Any]:
        with self._engine.changed:
            some = [stored for shard in self._engine.shards for stored in self._at_hand(shard)]
            del some[max(0, self._window - len(self._given)) :]
            if self._closed:
                some = []
            return {
                "state": self._state(some),
                "delivered": self._delivered,
                "acknowledged": self._acknowledged,
                "waiting": len(some),
                "waiting_bytes": sum(stored.size for stored in some),
                "places": dict(self._places),
                "lost": self._lost,
            }

    def _state(self, some: list[Stored]) -> str:
        if self._closed:
            return "closed"
        if self._paused:
            return "paused"
        if len(self._given) >= self._window:
            return "full"
        return "catching up" if some else "live"

    def find(
        self, shard: int, places: Sequence[RowPlace], /
    ) -> tuple[topicdb.Batch, npt.NDArray[np.uint32]]:
        with self._engine.using():
            self._engine.check_shards([shard])
            messages = self._engine.shards[shard].messages
            found = [messages[place] for place in sorted(places) if place in messages]
            mine = [stored for stored in found if is_wanted(self._filters, stored.topic)]
        batch = batch_of((stored[:3] for stored in mine), [stored.serial for stored in mine])
        return batch, np.array([stored.row for stored in mine], dtype=np.uint32)

    def missing_shards(self) -> dict[int, str]:
        """Returns none: the shards of this engine are all there."""
        return {}

    def pause(self) -> None:
        with self._engine.using():
            self._paused = True

    def resume(self) -> None:
        with self._engine.using():
            self._paused = False
            self._engine.tell()

    def close(self) -> None:
        with self._engine.changed:
            self._closed = True
            if self in self._engine.subscriptions:
                self._engine.subscriptions.remove(self)
            self.tell()
            self._engine.changed.notify_all()

    @property
    def closed(self) -> bool:
        return self._closed or self._engine.closed
