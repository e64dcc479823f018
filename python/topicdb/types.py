"""Small public types of values: what calls take and what they return."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from topicdb._core import Batch, Iterator, ScanIterator

if TYPE_CHECKING:
    from topicdb.arguments.times import TimeLike

# A commit survives closing the database, ``kill -9``, or loss of power.
Durability: TypeAlias = Literal["none", "os", "disk"]
# What is known of a commit for whose end nobody has waited; see ``topicdb.CommitTimeoutError``.
CommitKnown: TypeAlias = Literal["not stored", "unknown", "stored"]
BytesLike: TypeAlias = "bytes | bytearray | memoryview"
# Text or bytes that decide the shard of a message, in a database that shards by key. Text stands
# for its UTF-8.
Key: TypeAlias = "str | bytes"
# One key for all messages of a call, or one for each of them (None: it has none).
Keys: TypeAlias = "Key | Iterable[Key | None]"
# A message to be stored: topic, timestamp (None: assigned at commit) and value.
Row: TypeAlias = "tuple[str, TimeLike | None, BytesLike]"


class ArrowStream(Protocol):
    """Any object with an Arrow C stream: pyarrow.Table, RecordBatchReader, polars.DataFrame, …"""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    """Any object with an Arrow C array: pyarrow.RecordBatch, topicdb.Batch, …"""

    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...


class Message(NamedTuple):
    """One stored message: a topic, a timestamp and a value.

    ``timestamp`` is in microseconds since 1970-01-01 UTC. ``value`` is opaque bytes: the payload
    that was published.
    """

    topic: str
    timestamp: int
    value: bytes


class Properties(NamedTuple):
    """How a message was published, and its MQTT 5 properties; docs/concepts/properties.md.

    A field is None or empty if its value is not known. A message that was stored without properties
    has none of them.

    - ``qos``, ``retain``: as the message was published.
    - ``client_id``: of the publisher, if a bridge was told.
    - ``payload_format``, ``content_type``, ``response_topic``, ``correlation_data``: those of MQTT
      5.
    - ``message_expiry_s``: how many seconds the message had left to live when it was received.
    - ``user_properties``: (name, value) pairs in their order; a name may occur more than once.
    - ``subscription_ids``: MQTT's subscription identifiers.
    - ``received``: when the message was received, in µs since 1970. It equals the timestamp, unless
      that is the device's own.
    """

    qos: int | None = None
    retain: bool | None = None
    client_id: str | None = None
    payload_format: int | None = None
    message_expiry_s: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    user_properties: tuple[tuple[str, str], ...] = ()
    subscription_ids: tuple[int, ...] = ()
    received: int | None = None


class PropertyMessage(NamedTuple):
    """A stored message with its properties, as reads with ``properties=True`` give it."""

    topic: str
    timestamp: int
    value: bytes
    properties: Properties


class Slice(NamedTuple):
    """A part of a read, made by ``Database.slices`` and read by ``Database.scan_slices``.

    It stands for messages of one slab (``shard``, ``retention_class``, ``generation``): those of
    commits behind ``after`` up to ``until``, with ``start`` <= timestamp < ``end``. ``messages``
    and ``bytes`` say about how much that is. ``layout`` is that of the slab. Can be pickled.
    """

    shard: int
    retention_class: str
    generation: int
    after: int
    until: int
    start: int | None
    end: int | None
    messages: int
    bytes: int
    layout: str = "columnar"


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of an append, a delete or another commit.

    - ``serials``: for each shard that was written, the serial of its commit.
    - ``count``: the number of messages.
    - ``durability``: the level that was reached: ``"none"``, ``"os"`` or ``"disk"``.
    - ``repeated``: an earlier append with the same ``id`` had stored all of it. The serials are
      those of that append.
    """

    serials: dict[int, int]
    count: int
    durability: str
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """The result of ``Database.next``: the messages, and the iterator behind them.

    ``end_of_stream`` is true only when a read-only generation has been read to its end. An empty
    batch without it means "nothing yet".
    """

    iterator: Iterator
    batch: Batch
    end_of_stream: bool


@dataclass(frozen=True, slots=True)
class ScanPage:
    """The result of ``Database.next`` for a scan: messages of one shard, and the iterator behind.

    ``end_of_scan``: everything was read. Otherwise the batch is empty only where messages were
    dropped before the scan came to them.
    """

    iterator: ScanIterator
    batch: Batch
    end_of_scan: bool
