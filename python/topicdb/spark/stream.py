"""Stream reads: micro-batches of whole commits, in the order in which they were committed.

The messages of a task have that order, too. With ``commitOrder=false`` they come as they are
stored: tasks then read slices, as those of a batch read do.

An offset says by shard up to which commit messages were read, and by shard and retention class the
first generation that may have more. So it is noticed if a generation is dropped too early.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

import topicdb
from topicdb.results import CommitSpan
from topicdb.spark.batch import SlicesPartition
from topicdb.spark.columns import to_arrow
from topicdb.spark.options import (
    EARLIEST,
    LATEST,
    ReadOptions,
    Serials,
    StreamOptions,
    describe_missing,
    slabs_of,
)
from topicdb.spark.slices import TASK_BYTES_MIN, divide

VERSION = 1
FIRST_GENERATION = 1  # of each class
_NO_LIMIT = (1 << 63) - 1
Offset: TypeAlias = "dict[str, Any]"
Generations: TypeAlias = "dict[str, dict[str, int]]"


@dataclass(frozen=True)
class CommitsPartition(InputPartition):
    """Commits of one shard, behind ``after`` up to ``until``, and the slabs that may have them."""

    shard: int
    after: int
    until: int
    slabs: frozenset[tuple[int, str, int]]

    def read(self, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        """Reads the messages, in a task.

        Raises NotFoundError, which names the generation, if one was dropped since.
        """
        shard, path = self.shard, options.path
        with topicdb.open(path, mode="r", only_shards=[shard]) as database:
            if _last_serials(database)[shard] < self.until:
                raise topicdb.StorageError(
                    f"shard {shard} of {path} ends before commit {self.until}, which the query "
                    "has planned to read: was the database replaced, or restored from a copy?"
                )
            missing = self.slabs - slabs_of(database)
            if missing and options.fail_on_data_loss:
                raise topicdb.NotFoundError(describe_missing(set(missing), path))
            tail = database.tail(
                options.filters,
                after={shard: self.after},
                until={shard: self.until},
                properties=options.properties,
            )
            for batch in tail.batches(serials=options.metadata):
                yield to_arrow(batch, shard if options.metadata else None)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of one query. It lives on the driver as long as the query; tasks get a copy.

    Spark calls its methods one at a time.
    """

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._opened: topicdb.Database | None = None
        self._target: Serials | None = None  # where Trigger.AvailableNow ends

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name, like those below
        database = self._database()
        last = _last_serials(database)
        starting = self._options.starting
        if self._options.start is not None:
            serials = {shard: self._before_start(database, shard) for shard in last}
        elif starting == LATEST:
            serials = last
        elif starting == EARLIEST:
            serials = dict.fromkeys(last, 0)
        else:
            serials = self._given(starting, last)
        return self._offset(database, serials, last)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.messages_max is not None:
            return ReadMaxRows(self._options.messages_max)
        if self._options.bytes_max is not None:
            return ReadMaxBytes(self._options.bytes_max)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = _last_serials(self._database())

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        database = self._database()
        last = _last_serials(database)
        begin = _serials(start)
        self._check_loss(database, start, last)
        end = {
            shard: max(begin.get(shard, 0), min(serial, (self._target or last)[shard]))
            for shard, serial in last.items()
        }
        if end == begin and self._target is not None:
            return start
        messages_max, bytes_max = _limits(limit)
        if (messages_max, bytes_max) != (_NO_LIMIT, _NO_LIMIT):
            end = self._within(database, begin, end, messages_max, bytes_max)
        return self._offset(database, end, last)

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        return None

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        database = self._database()
        self._check_loss(database, start, _last_serials(database))
        begin = _serials(start)
        until = _serials(end)
        slices = database.slices(
            self._options.filters, after=begin, until=until, bytes_max=_NO_LIMIT
        )
        _check_log(slices, self._options.path)
        if self._options.commit_order:
            slabs = {shard: _between(start, end, shard) for shard in until}
            return self._in_commit_order(database, begin, until, slabs)

        def cut(bytes_max: int) -> list[topicdb.Slice]:
            return database.slices(
                self._options.filters, after=begin, until=until, bytes_max=bytes_max
            )

        tasks = divide(cut, self._options.partitions_min)
        return [SlicesPartition(self._options.filters, slices) for slices in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Other partitions are Spark's own: they have nothing to read.
        if isinstance(partition, SlicesPartition | CommitsPartition):
            yield from partition.read(self._options)

    def commit(self, end: Offset) -> None:
        pass

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _database(self) -> topicdb.Database:
        """Returns the database as it is now."""
        if self._opened is not None:
            self._opened.refresh()
            return self._opened
        database = topicdb.open(self._options.path, mode="r")
        try:  # messages that are to come must be in the log
            database.tail(self._options.filters, after=_last_serials(database)).close()
        except BaseException:
            database.close()
            raise
        self._opened = database
        return database

    def _given(self, starting: Any, last: Serials) -> Serials:
        for shard in starting:
            if shard not in last:
                raise ValueError(
                    f"option startingOffsets: {self._options.path} has no shard {shard}, it has "
                    f"{len(last)}"
                )
        return {shard: min(starting.get(shard, 0), serial) for shard, serial in last.items()}

    def _before_start(self, database: topicdb.Database, shard: int) -> int:
        """Returns the serial before the first commit that ``startingTimestamp`` asks for.

        That is the first one with a message of that time or later.
        """
        first = database._core.measure_log(
            shard, self._options.filters, 0, None, self._options.start, 0, _NO_LIMIT
        )
        return first.until - 1 if first.messages else first.until

    def _in_commit_order(
        self,
        database: topicdb.Database,
        begin: Serials,
        until: Serials,
        slabs: dict[int, frozenset[tuple[int, str, int]]],
    ) -> list[InputPartition]:
        """Returns runs of commits, each for one task."""
        spans = [(shard, begin.get(shard, 0), last) for shard, last in until.items()]
        total = sum(self._measure(database, *span).bytes for span in spans)
        bytes_max = max(min(total // self._options.partitions_min, TASK_BYTES_MIN), 1)
        partitions: list[InputPartition] = []
        for shard, after, last in spans:
            while after < last:
                part = database._core.measure_log(
                    shard, None, after, last, None, _NO_LIMIT, bytes_max, whole_blocks=True
                )
                if part.messages:
                    partitions.append(CommitsPartition(shard, after, part.until, slabs[shard]))
                after = part.until
        return partitions

    def _measure(
        self, database: topicdb.Database, shard: int, after: int, until: int
    ) -> CommitSpan:
        """Returns the size of a shard's commits behind ``after``, up to ``until``."""
        return database._core.measure_log(shard, None, after, until, None, _NO_LIMIT, _NO_LIMIT)

    def _within(
        self,
        database: topicdb.Database,
        begin: Serials,
        end: Serials,
        messages_max: int,
        bytes_max: int,
    ) -> Serials:
        """Returns how far to read from ``begin`` within the limits, but at least one commit.

        The shards share the limits. The first shard, a different one each time, may read a commit
        that is larger than its share.
        """
        behind = [shard for shard in end if begin.get(shard, 0) < end[shard]]
        turn = sum(begin.values()) % max(len(behind), 1)
        result = {**end, **{shard: begin.get(shard, 0) for shard in behind}}
        messages_left, bytes_left = messages_max, bytes_max
        order = behind[turn:] + behind[:turn]
        for place, shard in enumerate(order):
            others = len(order) - place
            rows, size = -(-messages_left // others), -(-bytes_left // others)
            span = database._core.measure_log(
                shard,
                self._options.filters,
                result[shard],
                end[shard],
                None,
                max(rows, 1),
                max(size, 1),
            )
            fits = span.messages <= messages_left and span.bytes <= bytes_left
            if not fits and (messages_left, bytes_left) != (messages_max, bytes_max):
                continue
            result[shard] = span.until
            messages_left = max(messages_left - span.messages, 0)
            bytes_left = max(bytes_left - span.bytes, 0)
        return result

    def _offset(self, database: topicdb.Database, serials: Serials, last: Serials) -> Offset:
        return {
            "v": VERSION,
            "serials": {str(shard): serial for shard, serial in sorted(serials.items())},
            "generations": _unread(database, serials, last),
        }

    def _check_loss(self, database: topicdb.Database, offset: Offset, last: Serials) -> None:
        if not self._options.fail_on_data_loss:
            return
        begin = _serials(offset)
        for shard, serial in begin.items():
            if serial > last.get(shard, -1):
                raise topicdb.StorageError(
                    f"the query has read shard {shard} of {self._options.path} up to commit "
                    f"{serial}, but it ends at {last.get(shard)}: was the database replaced, or "
                    "restored from a copy? failOnDataLoss=false goes on"
                )
        stored = slabs_of(database)
        missing = {
            (int(shard), retention_class, generation)
            for shard, classes in _current(database).items()
            for retention_class, current in classes.items()
            for generation in range(_first(offset, shard, retention_class), current)
            if (int(shard), retention_class, generation) not in stored
        }
        if missing:
            raise topicdb.NotFoundError(describe_missing(missing, self._options.path))


def _check_log(slices: list[topicdb.Slice], path: str) -> None:
    """Raises SchemaError if some messages are in a generation that keeps no commit log.

    Which of them were replaced since they were committed is not known there.
    """
    for one in slices:
        if one.layout != "columnar":
            raise topicdb.SchemaError(
                f"class {one.retention_class!r}, generation {one.generation} of shard {one.shard} "
                f"of {path} has the layout {one.layout!r}, which keeps no commit log: it can be "
                "read by batch, not by stream"
            )


def _serials(offset: Offset) -> Serials:
    return {int(shard): serial for shard, serial in offset["serials"].items()}


def _last_serials(database: topicdb.Database) -> Serials:
    return {shard["shard"]: shard["serial"] for shard in database.stats()["shards"]}


def _limits(limit: ReadLimit) -> tuple[int, int]:
    """Returns the most messages and bytes."""
    if isinstance(limit, ReadMaxRows):
        return limit.max_rows, _NO_LIMIT
    if isinstance(limit, ReadMaxBytes):
        return _NO_LIMIT, limit.max_bytes
    return _NO_LIMIT, _NO_LIMIT


def _current(database: topicdb.Database) -> Generations:
    """Returns the generation that is written to, by shard and class."""
    found: Generations = {}
    for slab in database.slabs():
        if not slab.read_only:
            found.setdefault(str(slab.shard), {})[slab.retention_class] = slab.generation
    return found


def _unread(database: topicdb.Database, serials: Serials, last: Serials) -> Generations:
    """Returns the first generation with commits behind these serials, by shard and class."""
    found = _current(database)
    if all(serials[shard] >= serial for shard, serial in last.items()):
        return found
    for slice in database.slices(None, after=serials, bytes_max=_NO_LIMIT):
        classes = found[str(slice.shard)]
        first = classes[slice.retention_class]
        classes[slice.retention_class] = min(first, slice.generation)
    return found


def _between(start: Offset, end: Offset, shard: int) -> frozenset[tuple[int, str, int]]:
    """Returns the slabs that may have commits of a shard between two offsets."""
    return frozenset(
        (shard, retention_class, generation)
        for retention_class, last in end["generations"].get(str(shard), {}).items()
        for generation in range(_first(start, str(shard), retention_class), last + 1)
    )


def _first(offset: Offset, shard: str, retention_class: str) -> int:
    """Returns the first generation with commits that an offset has not read.

    A class that the offset does not name was made since: once made, a class stays.
    """
    first: int = offset["generations"].get(shard, {}).get(retention_class, FIRST_GENERATION)
    return first
