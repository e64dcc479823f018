"""TopicDB: embedded, durable storage and replay of MQTT messages.

>>> import topicdb
>>> with topicdb.open("fleet.db") as db:                              # doctest: +SKIP
...     db.append([("metrics/h1/cpu", None, b"42")])
...     for message in db.scan("metrics/+/cpu", start="-24h"):
...         print(message.topic, message.timestamp, message.value)
"""

from importlib import import_module
from typing import TYPE_CHECKING

from topicdb import _core
from topicdb._core import (
    Batch,
    ClosedError,
    ClusterError,
    ConflictError,
    CorruptionError,
    Error,
    ExistsError,
    ForkedError,
    Iterator,
    LockedError,
    MissingShardError,
    NoQuorumError,
    NotFoundError,
    PreconditionError,
    QueueBudget,
    QuotaError,
    ReadOnlyError,
    ScanIterator,
    SchemaError,
    Slab,
    StaleError,
    StorageError,
    Stream,
    TopicError,
    UnavailableError,
    UnknownOutcomeError,
)
from topicdb.cursor.scan import Scan
from topicdb.cursor.stream_watch import StreamWatch
from topicdb.cursor.tail import Tail
from topicdb.database.database import Database
from topicdb.database.extension import configure
from topicdb.database.on_disk import DroppedDatabase, databases, drop, exists
from topicdb.database.opening import open
from topicdb.database.repairing import Repair, repair
from topicdb.database.snapshots import Snapshot, restore
from topicdb.database.verifying import Problem, Verification, verify
from topicdb.errors import AccessError, CommitTimeoutError
from topicdb.follow.consumer import Consumer
from topicdb.follow.group import Group
from topicdb.follow.losses import Loss, LossError
from topicdb.follow.member import Member
from topicdb.follow.packets import Packet
from topicdb.follow.positions import Place
from topicdb.follow.readers import Reader
from topicdb.follow.session import Session
from topicdb.follow.subscription import Delivery, Subscription
from topicdb.lifecycle.quota import Quota
from topicdb.lifecycle.retention import Retention
from topicdb.map import Map
from topicdb.queue.codecs import CodecError
from topicdb.queue.consumer import Cursor
from topicdb.queue.queue import Queue
from topicdb.queue.records import Drop, QueueReceipt
from topicdb.remote.connecting import connect, serve
from topicdb.transaction import SERIAL, Transaction
from topicdb.types import (
    AtLeast,
    Message,
    MessageGroup,
    Page,
    Properties,
    PropertyMessage,
    Receipt,
    ScanPage,
    Slice,
)

if TYPE_CHECKING:
    from topicdb.cluster.site import Site
    from topicdb.forward.forwarder import Forwarder
    from topicdb.publisher.publisher import Publisher
    from topicdb.replay.errors import ReplayError

configure()
shard_of = _core.shard_of
shard_of_key = _core.shard_of_key
topic_matches = _core.topic_matches
# Few programs need these names, and importing their modules takes as long as all the rest. Each
# process of a pipeline imports this package, so ``__getattr__`` imports them on first use.
_LATER = {
    "Forwarder": "topicdb.forward.forwarder",
    "Publisher": "topicdb.publisher.publisher",
    "ReplayError": "topicdb.replay.errors",
    "Site": "topicdb.cluster",
}
_MODULES = ("duckdb", "polars")  # of this package: topicdb.polars.scan

__version__ = "0.1.0"

__all__ = [
    "SERIAL",
    "AccessError",
    "AtLeast",
    "Batch",
    "ClosedError",
    "ClusterError",
    "CodecError",
    "CommitTimeoutError",
    "ConflictError",
    "Consumer",
    "CorruptionError",
    "Cursor",
    "Database",
    "Delivery",
    "Drop",
    "DroppedDatabase",
    "Error",
    "ExistsError",
    "ForkedError",
    "Forwarder",
    "Group",
    "Iterator",
    "LockedError",
    "Loss",
    "LossError",
    "Map",
    "Member",
    "Message",
    "MessageGroup",
    "MissingShardError",
    "NoQuorumError",
    "NotFoundError",
    "Packet",
    "Page",
    "Place",
    "PreconditionError",
    "Problem",
    "Properties",
    "PropertyMessage",
    "Publisher",
    "Queue",
    "QueueBudget",
    "QueueReceipt",
    "Quota",
    "QuotaError",
    "ReadOnlyError",
    "Reader",
    "Receipt",
    "Repair",
    "ReplayError",
    "Retention",
    "Scan",
    "ScanIterator",
    "ScanPage",
    "SchemaError",
    "Session",
    "Site",
    "Slab",
    "Slice",
    "Snapshot",
    "StaleError",
    "StorageError",
    "Stream",
    "StreamWatch",
    "Subscription",
    "Tail",
    "TopicError",
    "Transaction",
    "UnavailableError",
    "UnknownOutcomeError",
    "Verification",
    "connect",
    "databases",
    "drop",
    "exists",
    "open",
    "repair",
    "restore",
    "serve",
    "shard_of",
    "shard_of_key",
    "topic_matches",
    "verify",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_LATER[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_MODULES})
