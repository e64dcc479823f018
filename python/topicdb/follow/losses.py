"""Losses: messages that were dropped with their generation before a reader had them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

from topicdb import _core
from topicdb.engine import Engine

_logger = logging.getLogger(__name__)


class Loss(NamedTuple):
    """A generation that was dropped with messages that a reader had not been given.

    Retention, the quota or ``drop_slab`` dropped it. What ``delete`` removes, and what
    ``keep_last`` leaves out, is no loss. ``on_loss`` of a reader decides what happens.

    Attributes:
        shard: the shard of the generation.
        retention_class: the topic filter of its class.
        generation: its number.
        serial: the commit that dropped it.
        messages: how many messages the reader has lost, at most.

    Example:
        >>> losses = []
        >>> with db.consumer("etl", "site/#", on_loss=losses.append) as consumer:
        ...     consumer.lost, losses
        (0, [])
    """

    shard: int
    retention_class: str
    generation: int
    serial: int
    messages: int


OnLoss: TypeAlias = "Literal['report', 'raise'] | Callable[[Loss], object]"
"""What a reader does when it comes to a loss; see ``Database.consumer``."""


class LossError(_core.Error, RuntimeError):
    """Messages were dropped before a reader was given them.

    Attributes:
        loss: the generation that was dropped.
        iterator: where a scan continues behind them, if ``Database.next`` raised this; else None.
    """

    __module__ = "topicdb"
    loss: Loss
    iterator: _core.ScanIterator | None = None


class Reporter:
    """Reports the losses of one reader in the way that the user asked for."""

    def __init__(self, reader: str, on_loss: OnLoss = "report") -> None:
        """``reader`` names the reader in texts.

        Raises:
            ValueError: for an unknown ``on_loss``.
        """
        if on_loss not in ("report", "raise") and not callable(on_loss):
            raise ValueError(
                f"on_loss: expected 'report', 'raise' or something to call, got {on_loss!r}"
            )
        self._reader = reader
        self._on_loss = on_loss

    def __call__(self, loss: Loss) -> None:
        """Reports a loss. Raises LossError if that was asked for, or what the callback raises."""
        text = (
            f"{self._reader} has lost up to {loss.messages:,} messages: generation "
            f"{loss.generation} of class {loss.retention_class!r} in shard {loss.shard} was "
            f"dropped (commit {loss.serial}) before they were read"
        )
        if callable(self._on_loss):
            self._on_loss(loss)
        elif self._on_loss == "raise":
            error = LossError(
                f"{text}. Read on to go on behind them, and give the retention class more time or "
                "bytes, or read faster, so that it does not happen again"
            )
            error.loss = loss
            raise error
        else:
            _logger.warning("%s", text)


class LossCount:
    """Counts what one reader has lost, by shard. Not thread-safe.

    ``messages``: how many were lost. ``counted``: losses by drops up to this commit are in it.
    """

    def __init__(
        self, counted: dict[int, int] | None = None, messages: dict[int, int] | None = None
    ) -> None:
        self.counted = counted or {}
        self.messages = messages or {}
        self._before = dict(self.counted)  # drops up to here were counted before, or are no losses
        self._known: dict[tuple[int, int], int] = {}

    @property
    def total(self) -> int:
        """How many messages were lost, at most."""
        return sum(self.messages.values())

    def start(self, shard: int) -> int:
        """Returns the commit behind which drops are to be reported."""
        return self._before.get(shard, 0)

    def restarted(self, serials: dict[int, int]) -> LossCount:
        """Returns a count that goes on from this one, without what was dropped up to these."""
        return LossCount({**self.counted, **serials}, dict(self.messages))

    def restart(self, serials: dict[int, int]) -> None:
        """Counts nothing more that was dropped up to these commits."""
        self.counted = {**self.counted, **serials}
        self._before = dict(self.counted)
        self._known.clear()

    def add(self, loss: Loss) -> int:
        """Counts a loss, and returns how many of its messages were not counted yet.

        Several parts of a group report the same drop.
        """
        if loss.serial <= self._before.get(loss.shard, 0):
            return 0
        key = loss.shard, loss.serial
        more = max(0, loss.messages - self._known.get(key, 0))
        self._known[key] = self._known.get(key, 0) + more
        self.messages[loss.shard] = self.messages.get(loss.shard, 0) + more
        self.counted[loss.shard] = max(self.counted.get(loss.shard, 0), loss.serial)
        return more

    def start_all(self, shards: int) -> dict[int, int]:
        """Returns ``start`` of each shard, for ``Engine.subscribe``."""
        return {shard: self.start(shard) for shard in range(shards)}

    def as_json(self) -> dict[str, Any]:
        """Returns what is to be stored."""
        shards = sorted({*self.counted, *self.messages})
        return {
            str(shard): [self.counted.get(shard, 0), self.messages.get(shard, 0)]
            for shard in shards
        }

    @classmethod
    def of_json(cls, stored: Any) -> LossCount:
        """Returns the count that ``as_json`` gave.

        None stands for a reader that was stored by a version without such counts.
        """
        items = {int(shard): pair for shard, pair in (stored or {}).items()}
        return cls(
            {shard: counted for shard, (counted, _) in items.items()},
            {shard: messages for shard, (_, messages) in items.items() if messages},
        )


def serials_now(core: Engine, filters: list[str] | None) -> dict[int, int]:
    """Returns the last commit of each shard, also for a client that may only read these filters."""
    everything = (1 << 63) - 1
    return {shard: serial - 1 for shard, (serial, _) in core.places_at(filters, everything).items()}
