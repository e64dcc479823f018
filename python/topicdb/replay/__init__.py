"""Replays stored messages to queues, topic endpoints and MQTT brokers.

docs/concepts/replay.md and docs/reference/replay_broker.md explain it.

>>> from topicdb import replay
>>> log = replay.open(db)                                               # doctest: +SKIP
>>> queue = log.queue("orders", "shop/+/order")                         # doctest: +SKIP
>>> queue.replay("-24h")                                                # doctest: +SKIP
>>> with queue.bind() as flow:                                          # doctest: +SKIP
...     for message in flow:
...         print(message.topic, message.value)
"""

from topicdb.mqtt.envelope import Envelope
from topicdb.replay.broker.broker import BrokerReplay
from topicdb.replay.broker.remap import Remap
from topicdb.replay.endpoint.endpoint import Endpoint
from topicdb.replay.endpoint.flow import Browser, Flow
from topicdb.replay.endpoint.received import ReplayBatch, ReplayMessage
from topicdb.replay.errors import (
    BrowserError,
    EndpointDroppedError,
    EndpointModifiedError,
    IdsNotComparableError,
    InactiveFlowError,
    LogModifiedError,
    MessageUnavailableError,
    NonExclusiveError,
    OutOfResourcesError,
    RejectedMessageError,
    ReplayCancelledError,
    ReplayDisabledError,
    ReplayError,
    ReplayStartedError,
    StalledError,
    StartMessageUnavailableError,
    StartTimeUnavailableError,
    TemporaryEndpointError,
)
from topicdb.replay.ids import MessageId
from topicdb.replay.log.log import ReplayLog
from topicdb.replay.log.opening import drop, open
from topicdb.replay.rules import Promotion
from topicdb.replay.selector.selector import Selector
from topicdb.replay.states import Event, Progress, State

__all__ = [
    "BrokerReplay",
    "Browser",
    "BrowserError",
    "Endpoint",
    "EndpointDroppedError",
    "EndpointModifiedError",
    "Envelope",
    "Event",
    "Flow",
    "IdsNotComparableError",
    "InactiveFlowError",
    "LogModifiedError",
    "MessageId",
    "MessageUnavailableError",
    "NonExclusiveError",
    "OutOfResourcesError",
    "Progress",
    "Promotion",
    "RejectedMessageError",
    "Remap",
    "ReplayBatch",
    "ReplayCancelledError",
    "ReplayDisabledError",
    "ReplayError",
    "ReplayLog",
    "ReplayMessage",
    "ReplayStartedError",
    "Selector",
    "StalledError",
    "StartMessageUnavailableError",
    "StartTimeUnavailableError",
    "State",
    "TemporaryEndpointError",
    "drop",
    "open",
]
