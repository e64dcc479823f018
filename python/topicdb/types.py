"""Small public value types, and what calls take and give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from topicdb._core import Batch, Iterator

if TYPE_CHECKING:
    from topicdb.times import TimeLike

Durability: TypeAlias = Literal["none", "os", "disk"]
BytesLike: TypeAlias = "bytes | bytearray | memoryview"
Row: TypeAlias = "tuple[str, TimeLike | None, BytesLike]"


class ArrowStream(Protocol):
    """Anything with an Arrow C stream: pyarrow.Table, RecordBatchReader, polars.DataFrame, …"""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    """Anything with an Arrow C array: pyarrow.RecordBatch, topicdb.Batch, …"""

    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...


class Message(NamedTuple):
    """One stored message (a topic-time-value triple).

    ``timestamp`` is in microseconds since 1970-01-01 UTC, ``value`` is opaque bytes: the payload of
    what was published.
    """

    topic: str
    timestamp: int
    value: bytes


class Properties(NamedTuple):
    """How a message was published, and its MQTT 5 properties; docs/properties.md.

    None or empty is what is not known. Of a message that was stored without properties nothing is.
    ``client_id``: of the publisher, where a bridge was told. ``message_expiry_s``: seconds that the
    message had to live when it was received. ``user_properties``: (name, value), in their order; a
    name may be there more than once. ``received``: when it was received, µs since 1970; it is the
    timestamp, unless that is the device's own.
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
    """A stored message with its properties: what is read with ``properties=True``."""

    topic: str
    timestamp: int
    value: bytes
    properties: Properties


class Slice(NamedTuple):
    """A part of what ``Database.slices`` was asked for, to be read by ``Database.scan_slices``.

    Messages of one slab (``shard``, ``retention_class``, ``generation``), of its commits behind
    ``after`` up to ``until``, ``start`` <= timestamp < ``end``. ``messages`` and ``bytes`` are
    about what there is of them. Can be pickled.
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


@dataclass(frozen=True, slots=True)
class Receipt:
    """What an append reached.

    ``serials`` maps each shard that was written to the serial of its commit, ``count`` is the
    number of messages, ``durability`` the level that was reached: ``"none"``, ``"os"`` or
    ``"disk"``. ``repeated``: all of it was stored before, by an append with the same ``id``; the
    serials are those of that.
    """

    serials: dict[int, int]
    count: int
    durability: str
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """One answer of ``Database.next``: where to go on, what was read, and whether that was all.

    ``end_of_stream`` is true only when a read-only generation has been read to its end. An empty
    batch without it means "nothing yet".
    """

    iterator: Iterator
    batch: Batch
    end_of_stream: bool
