"""Typed stub of the C++ extension. Private: import these names from ``topicdb``.

The extension converts, releases the GIL, calls the core and maps errors; it has no policy. Times
here are always integers: microseconds since 1970-01-01 UTC. ``None`` means "no bound". Methods that
``topicdb.engine`` declares, too, are documented there, errors in docs/reference/errors.md.
"""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Iterator as _Iterator
from typing import Any, ClassVar, Literal, TypeAlias, final

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl

from topicdb._core_queue import Queue as Queue
from topicdb._core_queue import QueueBudget as QueueBudget
from topicdb._core_queue import QueueCursor as QueueCursor
from topicdb._core_queue import QueueInspector as QueueInspector
from topicdb._core_queue import repair_queue as repair_queue
from topicdb._core_site import ClusterError as ClusterError
from topicdb._core_site import Site as Site
from topicdb._core_site import StaleError as StaleError
from topicdb.arguments.forms import Form
from topicdb.database.repairing import Repair, RepairProgress
from topicdb.database.verifying import Verification
from topicdb.frames.converting import Values
from topicdb.jobs import Applied, Committed, Staged
from topicdb.mqtt.envelope import Envelope
from topicdb.results import (
    CommitSpan,
    Delivered,
    Dropped,
    Maintained,
    QuotaState,
    RetentionClass,
    ScanStep,
    SlabUsage,
    Snapshot,
    StructureUsage,
    TrimCount,
)
from topicdb.types import (
    CommitKnown,
    Keys,
    Message,
    MessageGroup,
    Page,
    Properties,
    PropertyMessage,
    Receipt,
    Slice,
)

_bytes: TypeAlias = bytes  # for classes that have a property of that name
# A shard of a scan in steps: number, last commit, and for each class number, next generation, the
# newest when the scan began, and the commit up to which those before the next have messages.
_ScanShard: TypeAlias = tuple[int, int, Sequence[tuple[int, int, int, int]]]

FORMAT_VERSION: int
REPLICATION_LACKS: str  # what sites would need; empty if they are there
ROCKSDB_VERSION: str

class Error(Exception):
    """Every error of TopicDB is one of these."""

class TopicError(Error, ValueError):
    """A topic or topic filter breaks MQTT's rules."""

class SchemaError(Error, ValueError):
    """Options disagree with the stored schema, or messages cannot go where they are to go."""

class NotFoundError(Error, KeyError):
    """There is no such database, slab, name or cursor."""

class LockedError(Error, OSError):
    """Another process or handle writes the database or the queue."""

class ReadOnlyError(Error, OSError):
    """The handle, shard or generation takes no writes."""

class CorruptionError(Error, OSError):
    """Data on disk or saved bytes are damaged."""

class StorageError(Error, OSError):
    """The file system failed."""

class ClosedError(Error, RuntimeError):
    """The handle or its database was closed."""

class ForkedError(Error, RuntimeError):
    """The process was forked since the handle was opened."""

class QuotaError(Error, OSError):
    """A limit of bytes is reached."""

class ExistsError(Error, FileExistsError):
    """Something is at the path already."""

class MissingShardError(Error, OSError):
    """A shard is missing that this call needs."""

class UnavailableError(Error, ConnectionError):
    """A server, or a majority of the sites of a cluster, is not there.

    If a call was on its way when the connection broke, it may or may not have been carried out.
    """

class NoQuorumError(UnavailableError):
    """No site has come to lead in time: a majority must be up. Nothing was done."""

class UnknownOutcomeError(UnavailableError):
    """The site that leads was lost meanwhile: what was asked for may be done, now or later."""

class ConflictError(Error, RuntimeError):
    """Another commit has changed what a transaction read, or somebody else owns a name now.

    Attributes:
        conflicts: (filter, start, end, serial of the commit that changed it) for each conflict; a
            serial of 0 means that it is too long ago to know.
    """

    conflicts: Sequence[tuple[str, int | None, int | None, int]]

class PreconditionError(Error, RuntimeError):
    """Something that a transaction requires is not so.

    Attributes:
        failures: (topic, timestamp, expected, found) for each; None: no message, True: any one.
    """

    failures: Sequence[tuple[str, int, bytes | Literal[True] | None, bytes | None]]

def configure(
    message_type: type[Message],
    property_message_type: type[PropertyMessage],
    properties_type: type[Properties],
    time_us: Callable[..., int],
    /,
) -> None:
    """Tells the extension which tuple types to build, and which function converts times."""

def configure_results(*types: type[Any]) -> None:
    """Tells the extension the classes of its results, by their names.

    Raises TypeError if one is missing, unknown, or has other fields than the extension gives.
    """

ENVELOPE_MAGIC: bytes
"""What the values begin with that may be envelopes."""

def decode_envelope(value: bytes, /) -> Envelope | None:
    """Returns the envelope; None for a value that is none, or one without properties."""

def encode_envelope(
    payload: bytes,
    qos: int,
    retain: bool,
    client_id: str,
    payload_format: int | None,
    message_expiry_s: int | None,
    content_type: str | None,
    response_topic: str | None,
    correlation_data: bytes | None,
    user_properties: Sequence[tuple[str, str]],
    subscription_ids: Sequence[int],
    received: int | None,
    /,
) -> bytes: ...
def payload_of(value: bytes, /) -> bytes:
    """Returns what readers see of a stored value."""

def escaped_value(value: bytes, /) -> bytes:
    """Returns the value to store so that readers see this one."""

def empty_batch() -> Batch: ...
def batch_of_rows(
    rows: Iterable[Any], escapes: bool = False, serials: npt.NDArray[np.uint64] | None = None
) -> Batch:
    """Copies rows, as ``Database.append_rows`` takes them; a timestamp of None becomes -1."""

def batch_of_arrow(
    source: object, serials: npt.NDArray[np.uint64] | None = None, escapes: bool = False
) -> Batch:
    """Copies Arrow data, as ``Database.append_arrow`` takes it."""

def batch_of_batches(batches: Sequence[Batch], /) -> Batch:
    """Copies the messages of batches into one, without serials."""

def arrow_schema(form: Form = "stored", columns: Sequence[str] | None = None) -> ArrowSchema: ...
def check_topic(topic: str, /) -> None: ...
def check_filter(filter: str, /) -> None: ...
def topic_matches(filter: str, topic: str, /) -> bool:
    """Returns whether a topic matches a topic filter, by the rules of MQTT 5, section 4.7.

    Arguments:
        filter: a topic filter.
        topic: a topic.

    Returns:
        True if it matches.

    Raises:
        TopicError: one of the two is malformed.

    Example:
        >>> topicdb.topic_matches("site/+/pump/#", "site/north/pump/1")
        True
    """

def shard_of(topic: str, shards: int, /) -> int:
    """Returns the shard of a topic: ``crc32(topic) % shards``.

    Arguments:
        topic: a topic, which need not be stored.
        shards: how many shards the database has.

    Returns:
        The number of the shard, from 0.

    Example:
        >>> from zlib import crc32
        >>> topicdb.shard_of("site/north/pump/1", 16) == crc32(b"site/north/pump/1") % 16
        True
    """

def shard_of_key(key: str | bytes, shards: int, /) -> int:
    """Returns the shard of a key: ``crc32(key) % shards``.

    Arguments:
        key: text or bytes.
        shards: how many shards the database has.

    Returns:
        The number of the shard, from 0.

    Example:
        >>> topicdb.shard_of_key("client-7", 16) == topicdb.shard_of_key(b"client-7", 16)
        True
    """

def key_column(key: Keys, messages: int) -> list[bytes | None]: ...

@final
class ArrowSchema:
    def __arrow_c_schema__(self) -> object: ...

@final
class Batch:
    """Messages as columns. Immutable, thread-safe; outlives the database that it came from.

    Iterate it for messages, index it, or hand it to pyarrow or polars as an Arrow array.

    Example:
        >>> batch = next(db.scan("site/#").batches())
        >>> len(batch), batch.topics[0], batch.values
        (2, 'site/north/pump/1', [b'on', b'off'])
    """

    @property
    def topics(self) -> list[str]:
        """The topic of each message."""
    @property
    def timestamps(self) -> npt.NDArray[np.int64]:
        """The timestamp of each message, in µs since 1970-01-01 UTC; a read-only array, no copy."""
    @property
    def serials(self) -> npt.NDArray[np.uint64] | None:
        """The serial of each message's commit; None unless the read asked for serials."""
    @property
    def values(self) -> list[bytes]:
        """The value of each message."""
    @property
    def properties(self) -> list[Properties] | None:
        """The MQTT properties of each message; None unless the read asked for them."""
    def read_as(self, form: Form, /) -> Batch:
        """Returns the same messages in another form. REQUIRES: the batch is as it is stored.

        Arguments:
            form: "payload", "properties" or "stored".

        Returns:
            The batch.
        """
    def select(self, columns: Sequence[str], /) -> Batch:
        """Returns a batch that has only these columns as Arrow data, and else empty values.

        Arguments:
            columns: names of columns. Those of properties do not count in a batch without them.

        Returns:
            The batch. Without ``value`` and properties, it keeps no values in memory.

        Raises:
            ValueError: no column has this name.
        """
    @property
    def nbytes(self) -> int:
        """The bytes of all columns."""
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Message: ...
    def __iter__(self) -> _Iterator[Message]: ...
    def to_list(self) -> list[Message]:
        """Returns the messages as a list."""
    def to_pylist(self, *, values: Values = "bytes") -> list[dict[str, Any]]:
        """Returns the messages as a list of dicts.

        Arguments:
            values: as of ``Scan.to_pylist``.

        Returns:
            A dict for each message, by the names of the columns.
        """
    def to_pandas(self, *, values: Values = "bytes") -> pd.DataFrame:
        """Returns the messages as a DataFrame of pandas.

        Arguments:
            values: as of ``Scan.to_pandas``.

        Returns:
            A row for each message.
        """
    def to_polars(self, *, values: Values = "bytes") -> pl.DataFrame:
        """Returns the messages as a DataFrame of polars.

        Arguments:
            values: as of ``Scan.to_polars``.

        Returns:
            A row for each message.
        """
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...

@final
class Stream:
    """The topics of one structure in one slab; made by ``Database.streams``.

    Store its ``bytes()`` to use it after a restart. Immutable.
    """

    def __init__(
        self,
        *,
        database: bytes,
        shard: int,
        class_id: int,
        retention_class: str,
        generation: int,
        structure: str,
        id: int,
    ) -> None: ...
    @property
    def database(self) -> bytes:
        """16 bytes that identify the database."""
    @property
    def shard(self) -> int:
        """The number of the shard."""
    @property
    def class_id(self) -> int:
        """The number of the retention class, which never changes."""
    @property
    def retention_class(self) -> str:
        """The topic filter of the retention class."""
    @property
    def generation(self) -> int:
        """The number of the generation, from 1."""
    @property
    def structure(self) -> str:
        """The structure, such as ``metrics/+/cpu``."""
    @property
    def id(self) -> int:
        """The number of the stream in its slab."""
    def __bytes__(self) -> bytes: ...
    @staticmethod
    def from_bytes(data: bytes, /) -> Stream:
        """Returns the stream that has these bytes.

        Arguments:
            data: ``bytes()`` of a stream.

        Returns:
            The stream.

        Raises:
            CorruptionError: they are no bytes of a stream.
        """
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __getstate__(self) -> bytes: ...
    def __setstate__(self, data: bytes, /) -> None: ...

@final
class Iterator:
    """Where ``Database.next`` continues in a stream; made by ``Database.iterator``.

    Store its ``bytes()`` to continue after a restart. Immutable.
    """

    def __init__(
        self, stream: Stream, filter: str, start: int | None, end: int | None, seen: int = 0
    ) -> None: ...
    def after(self, timestamp: int, serial: int, row: int) -> Iterator:
        """Returns the iterator that continues behind a message.

        Arguments:
            timestamp: of the message, in µs since 1970.
            serial: of its commit.
            row: its index in the commit.

        Returns:
            The iterator.
        """
    def with_seen(self, seen: int, exhausted: bool) -> Iterator:
        """Returns the iterator as after a read that has seen some commits.

        Arguments:
            seen: the last commit that the read has seen.
            exhausted: whether nothing that it has seen and wants is behind the position.

        Returns:
            The iterator.
        """
    @property
    def database(self) -> bytes:
        """16 bytes that identify the database."""
    @property
    def class_id(self) -> int:
        """The number of the retention class."""
    @property
    def stream_id(self) -> int:
        """The number of the stream in its slab."""
    @property
    def place(self) -> tuple[int, int] | None:
        """(serial, row) of the message behind which it is; None at the start."""
    @property
    def end(self) -> int | None:
        """The timestamp behind the last one, in µs since 1970; None: no bound."""
    @property
    def seen(self) -> int:
        """The last commit that the last read has seen; 0: not known."""
    @property
    def exhausted(self) -> bool:
        """Whether nothing that it has seen and wants is behind the position."""
    @property
    def structure(self) -> str:
        """The structure of the stream; "" if ``seen`` is not known."""
    @property
    def shard(self) -> int:
        """The number of the shard."""
    @property
    def generation(self) -> int:
        """The number of the generation."""
    @property
    def filter(self) -> str:
        """The topic filter of the messages."""
    @property
    def timestamp(self) -> int:
        """The timestamp where it continues, in µs since 1970."""
    def __bytes__(self) -> bytes: ...
    @staticmethod
    def from_bytes(data: bytes, /) -> Iterator:
        """Returns the iterator that has these bytes.

        Arguments:
            data: ``bytes()`` of an iterator.

        Returns:
            The iterator.

        Raises:
            CorruptionError: they are no bytes of an iterator.
        """
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __getstate__(self) -> bytes: ...
    def __setstate__(self, data: bytes, /) -> None: ...

@final
class ScanIterator:
    """Where ``Database.next`` continues in a scan in steps; made by ``Database.scan_iterator``.

    Store its ``bytes()`` to continue after a restart, or in another process. Immutable.
    """

    def __init__(
        self,
        *,
        database: bytes,
        filters: Sequence[str] | None,
        start: int,
        end: int | None,
        shards: Sequence[_ScanShard],
        in_shard: int = 0,
        counted: int = 0,
        place: tuple[int, int, int, int, int] | None = None,
    ) -> None: ...
    @property
    def database(self) -> bytes:
        """16 bytes that identify the database."""
    @property
    def filters(self) -> list[str] | None:
        """The topic filters of the scan; None: every topic, also those that begin with "$"."""
    @property
    def start(self) -> int:
        """The first timestamp of the scan, in µs since 1970."""
    @property
    def end(self) -> int | None:
        """The timestamp behind the last one; None: no bound."""
    @property
    def shards(self) -> list[_ScanShard]:
        """For each shard: number, last commit, and how far each class is."""
    @property
    def in_shard(self) -> int:
        """The index of the shard that is read; as many as there are at the end."""
    @property
    def counted(self) -> int:
        """Drops in this shard up to this commit were told, or are none."""
    @property
    def place(self) -> tuple[int, int, int, int, int] | None:
        """The message behind which it is: index of its class, stream or 0, timestamp, serial, row.

        None at the start.
        """
    @property
    def serials(self) -> dict[int, int]:
        """By shard, the last commit that is part of the scan."""
    @property
    def at_end(self) -> bool:
        """Whether everything was read."""
    def __bytes__(self) -> bytes: ...
    @staticmethod
    def from_bytes(data: bytes, /) -> ScanIterator:
        """Returns the iterator that has these bytes.

        Arguments:
            data: ``bytes()`` of an iterator.

        Returns:
            The iterator.

        Raises:
            CorruptionError: they are no bytes of an iterator.
        """
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __getstate__(self) -> bytes: ...
    def __setstate__(self, data: bytes, /) -> None: ...

@final
class Slab:
    """One generation of one retention class in one shard; made by ``Database.slabs``. Immutable."""

    def __init__(
        self,
        *,
        shard: int,
        class_id: int,
        retention_class: str,
        generation: int,
        layout: str,
        read_only: bool,
        created_at: int,
        sealed_at: int | None = None,
        messages: int = 0,
        bytes: int = 0,
        streams: int = 0,
        first_timestamp: int | None = None,
        last_timestamp: int | None = None,
        keep_last: int = 0,
    ) -> None: ...
    @property
    def shard(self) -> int:
        """The number of the shard."""
    @property
    def retention_class(self) -> str:
        """The topic filter of the retention class."""
    @property
    def generation(self) -> int:
        """The number of the generation, from 1."""
    @property
    def layout(self) -> str:
        """``"columnar"`` or ``"skipstream"``."""
    @property
    def read_only(self) -> bool:
        """Whether it is not of the current generation."""
    @property
    def created_at(self) -> int:
        """When it was made, in µs since 1970."""
    @property
    def sealed_at(self) -> int | None:
        """When it became read-only, in µs since 1970, or None."""
    @property
    def messages(self) -> int:
        """How many messages were written; one that was overwritten counts each time."""
    @property
    def bytes(self) -> int:
        """The bytes of their topics and values."""
    @property
    def streams(self) -> int:
        """How many streams it has."""
    @property
    def first_timestamp(self) -> int | None:
        """The smallest timestamp that was written, in µs since 1970, or None."""
    @property
    def last_timestamp(self) -> int | None:
        """The greatest timestamp that was written, in µs since 1970, or None."""
    @property
    def keep_last(self) -> int:
        """How many messages of each topic it keeps of earlier generations; 0: it keeps none."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __getstate__(self) -> tuple[Any, ...]: ...
    def __setstate__(self, state: tuple[Any, ...], /) -> None: ...

@final
class Scan:
    def next_batch(
        self, rows_max: int, bytes_max: int, with_serials: bool = False
    ) -> Batch | None: ...
    def next_arrow(self, rows_max: int, bytes_max: int, form: Form = "stored") -> Batch | None: ...
    def arrow_stream(self, rows_max: int, bytes_max: int, form: Form = "stored") -> object:
        """Returns a PyCapsule "arrow_array_stream" that takes over this scan."""
    def next_parcel(self, bytes_max: int) -> Parcel | None: ...
    def missing_shards(self) -> dict[int, str]: ...
    def close(self) -> None: ...

@final
class Parcel:
    @property
    def messages(self) -> int: ...
    @staticmethod
    def unpack(data: bytes, with_values: bool) -> list[Batch]:
        """Returns the messages of a parcel, with their serials."""

@final
class StagedWriter:
    @staticmethod
    def open(
        path: str, job: str, *, memory_bytes_max: int, drop_malformed: bool
    ) -> StagedWriter: ...
    def append_rows(
        self, rows: Iterable[Any], escapes: bool = False, key: Keys | None = None
    ) -> None: ...
    def append_arrow(
        self, stream: object, escapes: bool = False, key: Keys | None = None
    ) -> None: ...
    def finish(self) -> Staged: ...

def commit_job(
    path: str,
    job: str,
    files: list[str],
    *,
    sequence: str,
    number: int,
    malformed: int,
    timeout_us: int,
) -> Committed: ...
def abort_job(path: str, job: str) -> None: ...

@final
class Tail:
    def next_batch(
        self, rows_max: int, bytes_max: int, timeout_us: int | None, with_serials: bool = False
    ) -> Batch | None: ...
    def serials(self) -> dict[int, int]: ...
    def shards(self) -> list[int]: ...
    def missing_shards(self) -> dict[int, str]: ...
    def close(self) -> None: ...

@final
class StreamWatch:
    def next_streams(self, timeout_us: int | None) -> list[Stream]: ...
    def close(self) -> None: ...

@final
class ReadyTokens:
    def __init__(self) -> None: ...
    def give(self, token: int, /) -> None: ...
    def take(self, timeout_us: int | None = None) -> list[int]:
        """Waits for tokens of subscriptions that have something; empty when closed."""
    def close(self) -> None: ...

@final
class Subscription:
    def next(self, timeout_us: int | None, rows_max: int) -> Delivered | None: ...
    def acknowledge(self, seqno: int) -> None: ...
    def on_ready(self, tokens: ReadyTokens, token: int) -> None: ...
    def info(self) -> dict[str, Any]: ...
    def find(
        self, shard: int, places: Sequence[tuple[int, int]]
    ) -> tuple[Batch, npt.NDArray[np.uint32]]: ...
    def missing_shards(self) -> dict[int, str]: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...

@final
class Transaction:
    def write(
        self,
        topic: str,
        timestamp: int | None,
        value: object | None,
        reserved: bool = False,
        escapes: bool = False,
    ) -> None: ...
    def delete(
        self, filter: str, start: int | None, end: int | None, reserved: bool = False
    ) -> None: ...
    def get(self, topic: str, timestamp: int) -> bytes | None: ...
    def scan(self, filter: str, start: int | None, end: int | None) -> Scan: ...
    def require(self, topic: str, timestamp: int, value: object | None) -> None: ...
    def require_present(self, topic: str, timestamp: int) -> None: ...
    def commit(self) -> Receipt: ...
    def commit_async(
        self, completions: Completions, token: int, urgent: bool, room_us: int | None
    ) -> bool:
        """Begins to commit; False: the queue was full for ``room_us``, and nothing is stored."""
    def give_up(self) -> CommitKnown: ...
    def rollback(self) -> None: ...
    @property
    def open(self) -> bool: ...
    @property
    def shard(self) -> int: ...

@final
class Completions:
    def __init__(self) -> None: ...
    def take(self) -> list[tuple[int, Receipt | BaseException]]:
        """Waits for outcomes: (token, receipt or error); empty when closed."""
    def close(self) -> None: ...

def restore(source: str, path: str, replace: bool, base: str | None, copy: bool) -> Snapshot: ...
def verify(
    path: str, deep: bool, progress: Callable[[int, int], object] | None
) -> Verification: ...
def repair(path: str, progress: RepairProgress, replace_missing: bool = False) -> Repair: ...
def look_at(path: str) -> str: ...  # "nothing", "creating", "database" or "dropping"
def databases_in(directory: str) -> list[tuple[str, str]]: ...  # path, as of look_at
def drop(path: str, dry_run: bool) -> tuple[int, int]: ...  # files, bytes
def database_id(path: str) -> bytes: ...
def encode_upload(
    database: bytes, number: int, made_at_us: int, files: list[tuple[str, str, int, int]]
) -> bytes: ...  # files: path, object, bytes, CRC-32
def decode_upload(
    data: bytes, name: str
) -> tuple[bytes, int, int, list[tuple[str, str, int, int]]]: ...
def read_schema(path: str) -> dict[str, Any]:
    """Returns the stored schema without opening a shard."""

@final
class OpenOptions:
    """The options of ``topicdb.open``. Attributes can be set, not read. What is not set has the
    default of the core; a part of the schema is as stored, or the default of a new database."""

    def __init__(self) -> None: ...
    shards: int
    shard_by: str
    layout: str
    timestamp_bytes: int
    structures: Sequence[str]
    thresholds: Sequence[int]
    retention: Sequence[RetentionClass]
    read_only: bool
    only_shards: Sequence[int]
    on_damage: str
    durability: str
    cache_bytes: int
    write_buffer_bytes: int
    seal_bytes: int
    learning: str
    streams_max: int
    flush_interval_us: int
    idle_flush_interval_us: int
    conflict_window_us: int
    max_pending: int
    max_pending_bytes: int
    quota_bytes: int
    quota_trim: float
    maintenance_interval_us: int

@final
class Database:
    parcels: ClassVar[tuple[int, ...]]
    reads_columns: ClassVar[tuple[str, ...]]
    @staticmethod
    def open(path: str, options: OpenOptions) -> Database: ...
    @property
    def path(self) -> str: ...
    @property
    def schema(self) -> dict[str, Any]: ...
    @property
    def closed(self) -> bool: ...
    @property
    def clock_ahead_us(self) -> int: ...
    def append_rows(
        self,
        rows: Iterable[Any],
        durability: str | None,
        escapes: bool = False,
        id: str | None = None,
        key: Keys | None = None,
    ) -> Receipt: ...
    def append_arrow(
        self,
        stream: object,
        durability: str | None,
        escapes: bool = False,
        id: str | None = None,
        key: Keys | None = None,
    ) -> Receipt: ...
    def find_append(self, id: str) -> Receipt | None: ...
    def append_rows_async(
        self,
        rows: Iterable[Any],
        durability: str | None,
        completions: Completions,
        token: int,
        escapes: bool = False,
        id: str | None = None,
        key: Keys | None = None,
    ) -> None: ...
    def append_arrow_async(
        self,
        stream: object,
        durability: str | None,
        completions: Completions,
        token: int,
        escapes: bool = False,
        id: str | None = None,
        key: Keys | None = None,
    ) -> None: ...
    def delete(
        self, filter: str, start: int | None, end: int | None, durability: str | None
    ) -> Receipt: ...
    def begin(self, shard: int, generation: int | None, durability: str | None) -> Transaction: ...
    def scan(
        self,
        filter: str | Sequence[str] | None,
        start: int | None,
        end: int | None,
        order: str,
        streams: Sequence[Stream] | None,
        columns: Sequence[str] | None = None,
    ) -> Scan: ...
    def last(
        self, filter: str | Sequence[str] | None, start: int | None, end: int | None
    ) -> Scan: ...
    def streams(
        self,
        filter: str | Sequence[str] | None,
        start: int | None,
        end: int | None,
        generation_min: int | None,
    ) -> list[Stream]: ...
    def iterator(
        self, stream: Stream, filter: str, start: int | None, end: int | None
    ) -> Iterator: ...
    def tail(
        self,
        filters: Sequence[str] | None,
        after: dict[int, int],
        until: dict[int, int],
        given: Sequence[Iterator] = ...,
    ) -> Tail: ...
    def watch_streams(self, filter: str, existing: bool) -> StreamWatch: ...
    def subscribe(
        self,
        filters: Sequence[str] | None,
        places: dict[int, tuple[int, int]] | None,
        start_us: int,
        window: int,
        window_bytes: int,
        part: tuple[int, int] = (0, 1),
        counted: dict[int, int] = ...,
        given: Sequence[Iterator] = ...,
    ) -> Subscription: ...
    def count_dropped(
        self,
        shard: int,
        filters: Sequence[str] | None,
        start_us: int,
        place: tuple[int, int],
        counted: int,
    ) -> int: ...
    def check_log(
        self,
        filters: Sequence[str] | None,
        places: dict[int, tuple[int, int]] | None,
        start_us: int,
        given: Sequence[Iterator] = ...,
    ) -> None: ...
    def places_at(
        self, filters: Sequence[str] | None, start_us: int
    ) -> dict[int, tuple[int, int]]: ...
    def subscription_stats(self) -> dict[str, int]: ...
    def slices(
        self,
        filters: Sequence[str] | None,
        start: int | None,
        end: int | None,
        after: dict[int, int],
        until: dict[int, int],
        bytes_max: int,
    ) -> list[Slice]: ...
    def scan_slices(
        self,
        filters: Sequence[str] | None,
        slices: Sequence[Slice],
        columns: Sequence[str] | None = None,
    ) -> Scan: ...
    def measure_log(
        self,
        shard: int,
        filters: Sequence[str] | None,
        after: int,
        until: int | None,
        start: int | None,
        rows_max: int,
        bytes_max: int,
        whole_blocks: bool = False,
    ) -> CommitSpan: ...
    def explain(
        self, filter: str | Sequence[str] | None, start: int | None, end: int | None
    ) -> dict[str, int]: ...
    def summarize(
        self,
        filter: str | Sequence[str] | None,
        start: int | None,
        end: int | None,
        topic_levels: int | None,
        span: int | None,
        origin: int,
    ) -> list[MessageGroup]: ...
    def next(self, iterator: Iterator, rows_max: int, bytes_max: int) -> Page: ...
    def scan_iterator(
        self, filter: str | Sequence[str] | None, start: int | None, end: int | None
    ) -> ScanIterator: ...
    def next_of_scan(self, iterator: ScanIterator, rows_max: int, bytes_max: int) -> ScanStep: ...
    def retention(self) -> list[RetentionClass]: ...
    def set_retention(
        self, classes: Sequence[RetentionClass], dry_run: bool = False
    ) -> Maintained: ...
    def quota(self) -> QuotaState: ...
    def set_quota(
        self, quota_bytes: int | None, quota_trim: float | None, dry_run: bool = False
    ) -> list[Dropped]: ...
    def rotate(
        self, retention_class: str | None, resets_clock: bool = False, layout: str | None = None
    ) -> None: ...
    def jobs(self) -> list[Applied]: ...
    @property
    def is_replicated(self) -> bool: ...
    def share_staged(self, job: str, file: str) -> None: ...
    def commit_job(
        self,
        job: str,
        files: list[str],
        *,
        sequence: str,
        number: int,
        malformed: int,
        timeout_us: int,
    ) -> Committed: ...
    def abort_job(self, job: str) -> None: ...
    def slabs(self) -> list[Slab]: ...
    def drop_slab(self, shard: int, retention_class: str, generation: int) -> None: ...
    def expire(self, as_if_us: int | None) -> list[Slab]: ...
    def usage_by_structure(self) -> list[StructureUsage]: ...
    def usage(self) -> list[SlabUsage]: ...
    def maintain(self, as_if_us: int | None) -> Maintained: ...
    def trim(self, before_us: int, filter: str | None, dry_run: bool) -> TrimCount: ...
    def snapshot(self, path: str, base: str | None, copy: bool) -> Snapshot: ...
    def missing_shards(self, filters: str | Sequence[str] | None) -> dict[int, str]: ...
    def partial(self) -> Database: ...
    def seeing(self, serials: dict[int, int] | None, timeout_us: int) -> Database: ...
    def stats(self) -> dict[str, Any]: ...
    def refresh(self) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...
