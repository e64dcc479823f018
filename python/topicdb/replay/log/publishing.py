"""Publishes messages to a replay log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from topicdb import _core
from topicdb.arguments.times import now_us
from topicdb.arguments.wrong_types import has_arrow
from topicdb.follow.positions import Place
from topicdb.replay.endpoint.direct import DirectMessage
from topicdb.replay.host import Host
from topicdb.replay.log.endpoints import Endpoints
from topicdb.replay.log.log_rules import LogRules
from topicdb.replay.records import SHARD
from topicdb.types import Message, Receipt

if TYPE_CHECKING:
    from topicdb.database.database import Database
    from topicdb.types import ArrowArray, ArrowStream, Durability, Row

_OWN = "$topicdb"


class Publisher:
    """Appends what is published to one log; of direct messages, what the log's rules promote.

    It gives the other direct messages to the clients of endpoints. The log owns this object, which
    lives as long as the log. Thread-safe; it is called without the lock of the log.
    """

    def __init__(
        self, database: Database, rules: LogRules, host: Host, endpoints: Endpoints
    ) -> None:
        self._database = database
        self._rules = rules
        self._host = host
        self._endpoints = endpoints

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
        rows: list[Row] = []  # those that are logged
        direct: list[_Direct] = []
        for topic, timestamp, value in _batch_of(messages, escapes=not raw):
            time_us = None if timestamp < 0 else timestamp
            if self._rules.promotes(topic, value):
                rows.append((topic, time_us, value))
            else:
                _check_topic(topic)
                direct.append(_Direct(len(rows), topic, time_us, value))
        receipt = self._database.append(rows, durability=durability, raw=True)
        if direct:
            self._give(direct, receipt)
        return receipt

    def _give(self, direct: list[_Direct], receipt: Receipt) -> None:
        """Gives direct messages to clients, each behind what was logged before it."""
        serial = receipt.serials.get(SHARD)
        here, now = self._host.now(), now_us()
        self._endpoints.give_direct(
            [
                DirectMessage(
                    here if serial is None else Place(serial, one.row),
                    Message(one.topic, now if one.time_us is None else one.time_us, one.value),
                )
                for one in direct
            ]
        )


class _Direct(NamedTuple):
    """A direct message that is not logged; ``row``: how many of its call were before it."""

    row: int
    topic: str
    time_us: int | None
    value: bytes


def _batch_of(messages: Any, *, escapes: bool) -> _core.Batch:
    if has_arrow(messages):
        return _core.batch_of_arrow(messages, None, escapes)
    return _core.batch_of_rows(messages, escapes)


def _check_topic(topic: str) -> None:
    """Raises TopicError unless this is the topic of a message that users may publish."""
    _core.check_topic(topic)
    if topic.split("/", 1)[0] == _OWN:
        raise _core.TopicError(f"topic {topic!r}: topics below {_OWN!r} are TopicDB's own")
