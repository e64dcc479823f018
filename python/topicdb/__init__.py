"""TopicDB: embedded, durable storage and replay of MQTT messages.

>>> import topicdb
>>> with topicdb.open("fleet.db") as db:                              # doctest: +SKIP
...     db.append([("metrics/h1/cpu", None, b"42")])
...     for message in db.scan("metrics/+/cpu", start="-24h"):
...         print(message.topic, message.timestamp, message.value)
"""

from topicdb import _core
from topicdb._core import (
    Batch,
    ClosedError,
    CorruptionError,
    Error,
    ForkedError,
    Iterator,
    LockedError,
    NotFoundError,
    ReadOnlyError,
    SchemaError,
    Slab,
    StorageError,
    Stream,
    TopicError,
    shard_of,
    topic_matches,
)
from topicdb._types import Message, Page, Receipt
from topicdb.database import Database, open
from topicdb.scan import Scan
from topicdb.times import time_us

_core.configure(Message, time_us)

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "ClosedError",
    "CorruptionError",
    "Database",
    "Error",
    "ForkedError",
    "Iterator",
    "LockedError",
    "Message",
    "NotFoundError",
    "Page",
    "ReadOnlyError",
    "Receipt",
    "Scan",
    "SchemaError",
    "Slab",
    "StorageError",
    "Stream",
    "TopicError",
    "open",
    "shard_of",
    "topic_matches",
]
