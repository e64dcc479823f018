"""Small public types of values: what calls take and what they return."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
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

    Attributes:
        topic: the topic.
        timestamp: µs since 1970-01-01 UTC.
        value: the payload that was published, as bytes. TopicDB does not look into it.

    Example:
        >>> message = db.scan("metrics/#").to_list()[0]
        >>> message.topic, message.value
        ('metrics/h1/cpu', b'42')
    """

    topic: str
    timestamp: int
    value: bytes


class Properties(NamedTuple):
    """How a message was published, and its MQTT 5 properties; docs/concepts/properties.md.

    A field is None or empty if its value is not known. A message that was stored without properties
    has none of them.

    Attributes:
        qos: the QoS with which the message was published, 0 to 2.
        retain: whether it was published with the retain flag.
        client_id: the client that published it, if a bridge was told.
        payload_format: MQTT 5's payload format indicator: 0 bytes, 1 UTF-8 text.
        message_expiry_s: how many seconds the message had left to live when it was received.
        content_type: MQTT 5's content type.
        response_topic: MQTT 5's response topic.
        correlation_data: MQTT 5's correlation data.
        user_properties: (name, value) pairs in their order; a name may occur more than once.
        subscription_ids: MQTT 5's subscription identifiers.
        received: when the message was received, in µs since 1970. It equals the timestamp, unless
            that is the device's own.

    Example:
        >>> db.scan("metrics/#", properties=True).to_list()[0].properties.qos is None
        True
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
    """A stored message with its properties, as reads with ``properties=True`` give it.

    Attributes:
        topic: the topic.
        timestamp: µs since 1970-01-01 UTC.
        value: the payload that was published.
        properties: how it was published.

    Example:
        >>> db.scan("metrics/#", properties=True).to_list()[0].value
        b'42'
    """

    topic: str
    timestamp: int
    value: bytes
    properties: Properties


class Slice(NamedTuple):
    """A part of a read; made by ``Database.slices`` and read by ``Database.scan_slices``.

    It stands for messages of one slab. It can be pickled.

    Attributes:
        shard: the shard of the slab.
        retention_class: the topic filter of the slab's class.
        generation: the generation of the slab.
        after: only commits behind this serial.
        until: only commits up to this serial.
        start: only timestamps from this one on, in µs since 1970; None: no bound.
        end: only timestamps before this one; None: no bound.
        messages: about how many messages it has.
        bytes: about how many bytes of topics and values it has.
        layout: the layout of the slab.
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
class MessageGroup:
    """The count of some messages; made by ``Database.summarize``. There is at least one message.

    Attributes:
        topic: the levels of the topics by which the messages were grouped; ``""``: topics did not
            matter.
        span_start: when the span of time begins by which they were grouped, in µs since 1970; None:
            time did not matter.
        messages: how many messages there are.
        first_timestamp: the smallest timestamp, in µs since 1970.
        last_timestamp: the greatest timestamp, in µs since 1970.

    Example:
        >>> db.summarize("site/#")[0].messages
        2
    """

    topic: str
    span_start: int | None
    messages: int
    first_timestamp: int
    last_timestamp: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of an append, a delete or another commit; made by ``Database.append``.

    Attributes:
        serials: for each shard that was written, the serial of its commit.
        count: the number of messages.
        durability: the level that was reached: ``"none"``, ``"os"`` or ``"disk"``; of a database
            that has replicas ``"quorum"``, which means that a majority of its sites has it on disk.
        repeated: an earlier append with the same ``id`` had stored all of it. The serials are those
            of that append.
    """

    serials: dict[int, int]
    count: int
    durability: str
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class AtLeast:
    """What a read must see, and for how long it waits until it does; given as ``at_least``.

    Attributes:
        seen: a ``Receipt``, or {shard: serial} as in ``Receipt.serials``: these commits.
            ``"acknowledged"``: everything that was acknowledged at any site before the read begins,
            and everything that another read has given before.
        timeout: how long the read waits, in seconds. Then it raises StaleError or NoQuorumError.

    Example:
        >>> receipt = db.append([("metrics/h1/cpu", None, b"42")])
        >>> soon = topicdb.AtLeast(receipt, timeout=2.0)
        >>> [message.value for message in db.last("metrics/h1/cpu", at_least=soon)]
        [b'42']
    """

    seen: Receipt | Mapping[int, int] | Literal["acknowledged"]
    timeout: float | timedelta = 10.0


# What the reads of a database take as ``at_least``.
AtLeastLike: TypeAlias = "AtLeast | Receipt | Mapping[int, int] | Literal['acknowledged']"


@dataclass(frozen=True, slots=True)
class Page:
    """A step through a stream: the messages, and where it continues; made by ``Database.next``.

    Attributes:
        iterator: where the stream continues.
        batch: the messages.
        end_of_stream: true only when a read-only generation has been read to its end. An empty
            batch without it means "nothing yet".
    """

    iterator: Iterator
    batch: Batch
    end_of_stream: bool


@dataclass(frozen=True, slots=True)
class ScanPage:
    """A step of a scan: messages of one shard, and where it continues; made by ``Database.next``.

    Attributes:
        iterator: where the scan continues.
        batch: the messages. It is empty at the end, and where messages were dropped before the scan
            came to them.
        end_of_scan: whether everything was read.
    """

    iterator: ScanIterator
    batch: Batch
    end_of_scan: bool
