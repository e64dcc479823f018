"""Forwarding: items of a queue are delivered to a sink, at least once and in their order.

>>> import topicdb
>>> from topicdb.forward import MqttSink
>>> with topicdb.Queue.open("outbox") as queue:                       # doctest: +SKIP
...     sink = MqttSink("broker.example", topic="plant/events")
...     with topicdb.Forwarder(queue, sink):
...         queue.append([b"started"])
"""

from topicdb.forward.database import DatabaseSink
from topicdb.forward.forwarder import Forwarder
from topicdb.forward.kafka import KafkaSink
from topicdb.forward.mqtt import MqttSink
from topicdb.forward.sink import AsyncSink, CallableSink, PermanentError, PolledSink, Sink
from topicdb.forward.status import Health, Metrics

__all__ = [
    "AsyncSink",
    "CallableSink",
    "DatabaseSink",
    "Forwarder",
    "Health",
    "KafkaSink",
    "Metrics",
    "MqttSink",
    "PermanentError",
    "PolledSink",
    "Sink",
]
