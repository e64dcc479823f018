"""Functions that write: rows are shuffled by shard, and each task writes one shard alone.

To a server they write as one job, without a shuffle, and exactly once (``topicdb.spark.staging``).
In a directory, rows are stored at least once: a task that Spark runs again appends its rows again.
In the layout ``skipstream`` a message with the same topic and timestamp replaces the earlier one,
so with given timestamps the result is the same; rows without a timestamp are stored twice.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

import topicdb
from topicdb import _core, jobs
from topicdb.closing import first_error
from topicdb.spark.columns import KEY, check_columns, in_batches, located
from topicdb.spark.place import Remote, place_of
from topicdb.spark.staging import run_job, stage_partition
from topicdb.types import Durability, Key, Keys

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame

KeyOf: TypeAlias = Callable[[Any], "Key | None"]
"""Returns the key of a row, or None if it has none."""
LOCK_PATIENCE_S = 10.0
"""How long a task waits for a shard: a killed task's process may hold it for some seconds."""
_FIRST_PAUSE_S = 0.05
_LAST_PAUSE_S = 1.0
_RESULT_SCHEMA = pa.schema(
    [("shard", pa.int32()), ("messages", pa.int64()), ("serial", pa.int64())]
)
_RESULT_DDL = "shard int, messages bigint, serial bigint"
_STAGED_SCHEMA = pa.schema(
    [
        ("file", pa.string()),
        ("messages", pa.int64()),
        ("bytes", pa.int64()),
        ("malformed", pa.int64()),
    ]
)
_STAGED_DDL = "file string, messages bigint, bytes bigint, malformed bigint"


@dataclass(frozen=True, slots=True)
class ShardWritten:
    """The result of one task; made by ``write_partition``.

    Attributes:
        shard: the shard that it wrote.
        messages: how many messages it stored.
        serial: the serial of its last commit.

    Example:
        >>> rdd.mapPartitions(lambda rows: write_partition(rows, "fleet.db", 0))  # doctest: +SKIP
    """

    shard: int
    messages: int
    serial: int


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of a job; made by ``write_dataframe``.

    Attributes:
        messages: how many messages were stored.
        serials: the last serial of each shard.
    """

    messages: int
    serials: dict[int, int]


class PartitionWriter:
    """Appends to one shard; a context manager for use inside a task. Not thread-safe.

    It opens the shard for itself (``only_shards``), waits up to 10 s for its lock, and closes it at
    the end of ``with``, also after an error.

    Arguments:
        path: the directory of the database.
        shard: the number of the shard, to which all messages must belong.
        durability: as in ``Database.append``.

    Raises:
        LockedError: another process keeps the shard.

    Example:
        >>> topicdb.open("task.db").close()
        >>> from topicdb.spark import PartitionWriter
        >>> with PartitionWriter("task.db", 0) as writer:
        ...     writer.append([("site/north/pump/1", None, b"on")])
    """

    def __init__(self, path: str, shard: int, *, durability: Durability = "os") -> None:
        self._path = path
        self._durability = durability
        self.written = ShardWritten(shard, 0, 0)

    def __enter__(self) -> PartitionWriter:
        self._database = _open_shard(self._path, self.written.shard, self._durability)
        return self

    def append(self, messages: Any, *, key: Keys | None = None) -> None:
        """Appends as ``Database.append`` does; errors name the rows of the partition.

        Arguments:
            messages: as in ``Database.append``.
            key: as in ``Database.append``.
        """
        done = self.written
        try:
            receipt = self._database.append(messages, key=key)
        except (ValueError, TypeError) as error:
            where = f"shard {done.shard}, rows from {done.messages} of its partition"
            raise located(error, where) from None
        serial = receipt.serials.get(done.shard, done.serial)
        self.written = ShardWritten(done.shard, done.messages + receipt.count, serial)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with first_error(error):
            self._database.close()


def write_partition(
    messages: Iterable[Any],
    path: str,
    shard: int,
    *,
    key: KeyOf | None = None,
    durability: Durability = "os",
) -> Iterator[ShardWritten]:
    """Writes one partition, for ``mapPartitions``.

    Arguments:
        messages: (topic, µs, value) tuples, or Arrow record batches with these columns and perhaps
            ``key``. All of them must belong to ``shard``.
        path: the directory of the database.
        shard: the number of the shard.
        key: is called with each tuple, and returns its key or None, if the database shards by key.
        durability: as in ``Database.append``.

    Returns:
        An iterator of one ``ShardWritten``, or of none if there are no messages.

    Raises:
        ReadOnlyError: a topic does not belong to the shard; the text names it.

    Example:
        >>> topicdb.open("task.db").close()
        >>> rows = [("site/north/pump/1", None, b"on")]
        >>> list(topicdb.spark.write_partition(rows, "task.db", 0))[0].messages
        1
    """
    batches = in_batches(iter(messages))
    first = next(batches, None)
    if first is None:
        return
    with PartitionWriter(path, shard, durability=durability) as writer:
        for batch in itertools.chain([first], batches):
            keys = None
            if key is not None and isinstance(batch, list):
                keys = [key(row) for row in batch]
            writer.append(batch, key=keys)
    yield writer.written


def write_dataframe(
    dataframe: DataFrame,
    path: str | None = None,
    *,
    durability: Durability = "os",
    remote: str | Remote | None = None,
) -> WriteResult:
    """Runs a job that stores the rows of a DataFrame in the database at ``path``, or at a server.

    The database must exist. In a directory, no process may be writing it, and rows are stored at
    least once. A server has it open for writing, and rows are stored exactly once: tasks stage in a
    temporary folder, and the driver commits.

    Arguments:
        dataframe: with the columns ``topic`` string; ``timestamp`` timestamp or bigint µs, null if
            TopicDB is to assign it; ``value`` binary or string; and if the database shards by key,
            perhaps ``key`` string or binary, null where the topic decides.
        path: the directory of the database, which the workers can write. None: ``remote`` has it.
        durability: as in ``Database.append``. What a server has stored is always on its disk.
        remote: the server: its address as text, or with a token or TLS a ``Remote``. The token
            needs ``--everything``.

    Returns:
        How many messages were stored, and the last serial of each shard.

    Raises:
        ValueError, SchemaError: a column is wrong, which the text names; no job has started.
        NotFoundError: there is no database.
        LockedError: a process is writing the directory.
        UnavailableError: the server does not answer.
        AccessError: the token may not write.

    Example:
        >>> topicdb.spark.write_dataframe(frame, "fleet.db").messages  # doctest: +SKIP
    """
    from pyspark.sql import functions as F  # noqa: N812 - the name Spark users know

    place = place_of(path, remote)
    check_columns(dict(dataframe.dtypes), needs_timestamp=True, place=place)
    rows = dataframe.select(
        "topic",
        "timestamp",
        F.col("value").cast("binary").alias("value"),
        *([F.col(KEY).cast("binary").alias(KEY)] if KEY in dataframe.columns else []),
    )
    if isinstance(place, Remote):
        return _as_job(place, partial(_staged_rows, rows, place))
    shards = _shards_of(place)
    decides = "cast(topic as binary)"
    if KEY in dataframe.columns:
        decides = f"coalesce({KEY}, {decides})"
    shard = F.expr(f"cast(pmod(crc32({decides}), {shards}) as int)")

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for done in write_partition(batches, place, context.partitionId(), durability=durability):
            yield pa.RecordBatch.from_pylist([_as_row(done)], schema=_RESULT_SCHEMA)

    written = rows.repartitionById(shards, shard).mapInArrow(write, _RESULT_DDL).collect()
    return _total(ShardWritten(row.shard, row.messages, row.serial) for row in written)


def write_rdd(
    rdd: RDD[tuple[str, int | None, bytes]],
    path: str | None = None,
    *,
    key: KeyOf | None = None,
    durability: Durability = "os",
    remote: str | Remote | None = None,
) -> WriteResult:
    """Stores an RDD of (topic, µs or None, value), otherwise like ``write_dataframe``.

    Arguments:
        rdd: the messages.
        path: as in ``write_dataframe``.
        key: is called with each row, and returns its key or None, if the database shards by key.
        durability: as in ``write_dataframe``.
        remote: as in ``write_dataframe``.

    Returns:
        How many messages were stored, and the last serial of each shard.
    """
    place = place_of(path, remote)
    if isinstance(place, Remote):
        return _as_job(
            place,
            lambda job: rdd.mapPartitions(
                lambda rows: stage_partition(rows, job, key=key, remote=place)
            ).collect(),
        )
    shards = _shards_of(place)

    def write(shard: int, rows: Iterable[Any]) -> Iterator[ShardWritten]:
        messages = (row for _, row in rows)
        return write_partition(messages, place, shard, key=key, durability=durability)

    def shard_of(row: Any) -> int:
        found = None if key is None else key(row)
        if found is None:
            return topicdb.shard_of(row[0], shards)
        return topicdb.shard_of_key(found, shards)

    keyed = rdd.map(lambda row: (shard_of(row), row))
    return _total(
        keyed.partitionBy(shards, lambda shard: shard).mapPartitionsWithIndex(write).collect()
    )


def _staged_rows(rows: DataFrame, place: Remote, job: str) -> list[jobs.Staged]:
    """Stages rows for a job, and returns the results of the tasks."""

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for done in stage_partition(batches, job, remote=place):
            yield pa.RecordBatch.from_pylist([asdict(done)], schema=_STAGED_SCHEMA)

    return [jobs.Staged(*row) for row in rows.mapInArrow(stage, _STAGED_DDL).collect()]


def _as_job(place: Remote, stage: Callable[[str], list[jobs.Staged]]) -> WriteResult:
    committed = run_job(place, stage)
    return WriteResult(committed.messages, committed.serials)


def _shards_of(path: str) -> int:
    shards: int = _core.read_schema(path)["shards"]
    return shards


def _open_shard(path: str, shard: int, durability: Durability) -> topicdb.Database:
    deadline = time.monotonic() + LOCK_PATIENCE_S
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return topicdb.open(path, only_shards=[shard], durability=durability)
        except topicdb.LockedError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LAST_PAUSE_S)


def _as_row(written: ShardWritten) -> dict[str, int]:
    return {"shard": written.shard, "messages": written.messages, "serial": written.serial}


def _total(parts: Iterable[ShardWritten]) -> WriteResult:
    done = list(parts)
    return WriteResult(
        sum(part.messages for part in done), {part.shard: part.serial for part in done}
    )
