"""Publishes messages to a replay log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from topicdb import _core
from topicdb.arguments.wrong_types import has_arrow
from topicdb.replay.log.log_rules import LogRules
from topicdb.types import Receipt

if TYPE_CHECKING:
    from topicdb.database.database import Database
    from topicdb.types import ArrowArray, ArrowStream, Durability, Row


class Publisher:
    """Appends what is published to one log; of direct messages, what the log's rules promote.

    The log owns this object, which lives as long as the log. Thread-safe.
    """

    def __init__(self, database: Database, rules: LogRules) -> None:
        self._database = database
        self._rules = rules

    def publish(
        self,
        messages: Iterable[Row] | ArrowStream | ArrowArray,
        qos: Literal[0, 1, 2],
        durability: Durability | None,
        *,
        raw: bool,
    ) -> Receipt:
        """Publishes messages as ``ReplayLog.publish`` says."""
        if qos not in (0, 1, 2):
            raise ValueError(f"qos: expected 0, 1 or 2, got {qos!r}")
        if qos > 0:
            return self._database.append(messages, durability=durability, raw=raw)
        promotes = self._rules.promotes
        rows: list[Row] = [
            (topic, None if timestamp < 0 else timestamp, value)
            for topic, timestamp, value in _batch_of(messages)
            if promotes(topic, value)
        ]
        return self._database.append(rows, durability=durability, raw=raw)


def _batch_of(messages: Any) -> _core.Batch:
    if has_arrow(messages):
        return _core.batch_of_arrow(messages)
    return _core.batch_of_rows(messages)
