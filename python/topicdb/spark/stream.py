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
from topicdb.cooperating import Extent
from topicdb.results import CommitSpan
from topicdb.spark.batch import SlicesPartition
from topicdb.spark.checks import EARLIEST, LATEST, Serials
from topicdb.spark.columns import to_arrow
from topicdb.spark.options import (
    ReadOptions,
    StreamOptions,
    describe_missing,
)
from topicdb.spark.place import Place, Wanted, check_reaches, open_to_plan, open_to_read
from topicdb.spark.slices import TASK_BYTES_MIN, divide

VERSION = 1
FIRST_GENERATION = 1  # of each class
_NO_LIMIT = (1 << 63) - 1
Offset: TypeAlias = "dict[str, Any]"
Generations: TypeAlias = "dict[str, dict[str, int]]"


@dataclass(frozen=True)
class CommitsPartition(InputPartition):
    """Commits of one shard, behind ``after`` up to ``until``, and the slabs that may have them.

    The shard is one of the database with the id ``database``.
    """

    database: str
    shard: int
    after: int
    until: int
    slabs: frozenset[tuple[int, str, int]]

    def read(self, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        """Reads the messages, in a task.

        Raises NotFoundError, which names the generation, if one was dropped since.
        """
        shard, place = self.shard, options.place
        wanted = Wanted(self.database, shard, self.until, options.filters)
        with open_to_read(place, wanted) as database:
            extent = database._extent(options.filters)
            check_reaches(extent, wanted, str(place))
            missing = self.slabs - set(extent.slabs)
            if missing and options.fail_on_data_loss:
                raise topicdb.NotFoundError(describe_missing(set(missing), place))
            others = dict.fromkeys(extent.serials, 0)  # a server has more shards than this one
            tail = database.tail(
                options.filters,
                after={**others, shard: self.after},
                until={**others, shard: self.until},
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
        self._id: str | None = None  # of the database
        self._target: Serials | None = None  # where Trigger.AvailableNow ends

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name, like those below
        database, extent = self._database()
        last = extent.serials
        starting = self._options.starting
        if self._options.start is not None:
            serials = {shard: self._before_start(database, shard) for shard in last}
        elif starting == LATEST:
            serials = last
        elif starting == EARLIEST:
            serials = dict.fromkeys(last, 0)
        else:
            serials = self._given(starting, last)
        return self._offset(database, serials, extent)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.messages_max is not None:
            return ReadMaxRows(self._options.messages_max)
        if self._options.bytes_max is not None:
            return ReadMaxBytes(self._options.bytes_max)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._database()[1].serials

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        database, extent = self._database()
        last = extent.serials
        begin = _serials(start)
        self._check_loss(start, extent)
        end = {
            shard: max(begin.get(shard, 0), min(serial, (self._target or last)[shard]))
            for shard, serial in last.items()
        }
        if end == begin and self._target is not None:
            return start
        messages_max, bytes_max = _limits(limit)
        if (messages_max, bytes_max) != (_NO_LIMIT, _NO_LIMIT):
            end = self._within(database, begin, end, messages_max, bytes_max)
        return self._offset(database, end, extent)

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        return None

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        database, extent = self._database()
        self._check_loss(start, extent)
        self._check_serials("has planned to read", end, extent)
        begin = _serials(start)
        until = _serials(end)
        slices = database.slices(
            self._options.filters, after=begin, until=until, bytes_max=_NO_LIMIT
        )
        _check_log(slices, self._options.place)
        if self._options.commit_order:
            slabs = {shard: _between(start, end, shard) for shard in until}
            return [
                CommitsPartition(extent.database, shard, after, last, slabs[shard])
                for shard, after, last in self._in_commit_order(database, begin, until)
            ]

        def cut(bytes_max: int) -> list[topicdb.Slice]:
            return database.slices(
                self._options.filters, after=begin, until=until, bytes_max=bytes_max
            )

        tasks = divide(cut, self._options.partitions_min)
        filters = self._options.filters
        return [SlicesPartition(extent.database, filters, slices) for slices in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Other partitions are Spark's own: they have nothing to read.
        if isinstance(partition, SlicesPartition | CommitsPartition):
            yield from partition.read(self._options)

    def commit(self, end: Offset) -> None:
        pass

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _database(self) -> tuple[topicdb.Database, Extent]:
        """Returns the database as it is now, and how far it reaches.

        If its server does not answer any more, takes another one.
        """
        if self._opened is not None:
            try:
                self._opened.refresh()
                return self._opened, self._opened._extent(self._options.filters)
            except topicdb.UnavailableError:
                self._opened.close()
                self._opened = None
        database = open_to_plan(self._options.place)
        try:
            extent = database._extent(self._options.filters)
            if self._id not in (None, extent.database):
                raise ValueError(
                    f"option remote: {database.path} has another database than the query began "
                    "with: all servers of the list must offer the same one"
                )
            # Messages that are to come must be in the log.
            database.tail(self._options.filters, after=extent.serials).close()
        except BaseException:
            database.close()
            raise
        self._opened, self._id = database, extent.database
        return database, extent

    def _given(self, starting: Any, last: Serials) -> Serials:
        for shard in starting:
            if shard not in last:
                raise ValueError(
                    f"option startingOffsets: {self._options.place} has no shard {shard}, it has "
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
        self, database: topicdb.Database, begin: Serials, until: Serials
    ) -> Iterator[tuple[int, int, int]]:
        """Gives runs of commits, each for one task: the shard, behind which one, and the last."""
        spans = [(shard, begin.get(shard, 0), last) for shard, last in until.items()]
        total = sum(self._measure(database, *span).bytes for span in spans)
        bytes_max = max(min(total // self._options.partitions_min, TASK_BYTES_MIN), 1)
        for shard, after, last in spans:
            while after < last:
                part = database._core.measure_log(
                    shard, self._every(), after, last, None, _NO_LIMIT, bytes_max, whole_blocks=True
                )
                if part.messages:
                    yield shard, after, part.until
                after = part.until

    def _every(self) -> list[str] | None:
        """Returns the filters for what concerns every topic.

        A token may be allowed no more than the filters of the query.
        """
        return None if isinstance(self._options.place, str) else self._options.filters

    def _measure(
        self, database: topicdb.Database, shard: int, after: int, until: int
    ) -> CommitSpan:
        """Returns the size of a shard's commits behind ``after``, up to ``until``."""
        return database._core.measure_log(
            shard, self._every(), after, until, None, _NO_LIMIT, _NO_LIMIT
        )

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

    def _offset(self, database: topicdb.Database, serials: Serials, extent: Extent) -> Offset:
        return {
            "v": VERSION,
            "serials": {str(shard): serial for shard, serial in sorted(serials.items())},
            "generations": self._unread(database, serials, extent),
        }

    def _unread(self, database: topicdb.Database, serials: Serials, extent: Extent) -> Generations:
        """Returns the first generation with commits behind these serials, by shard and class."""
        found = _current(extent)
        if all(serials[shard] >= serial for shard, serial in extent.serials.items()):
            return found
        for slice in database.slices(self._every(), after=serials, bytes_max=_NO_LIMIT):
            classes = found[str(slice.shard)]
            first = classes[slice.retention_class]
            classes[slice.retention_class] = min(first, slice.generation)
        return found

    def _check_serials(self, what: str, offset: Offset, extent: Extent) -> None:
        """Raises StorageError if the database, or a server that is behind, ends too early."""
        if not self._options.fail_on_data_loss:
            return
        last = extent.serials
        for shard, serial in _serials(offset).items():
            if serial > last.get(shard, -1):
                raise topicdb.StorageError(
                    f"the query {what} shard {shard} of {self._options.place} up to commit "
                    f"{serial}, but it ends at {last.get(shard)}: was the database replaced, or "
                    "restored from a copy? failOnDataLoss=false goes on"
                )

    def _check_loss(self, offset: Offset, extent: Extent) -> None:
        if not self._options.fail_on_data_loss:
            return
        self._check_serials("has read", offset, extent)
        stored = set(extent.slabs)
        missing = {
            (int(shard), retention_class, generation)
            for shard, classes in _current(extent).items()
            for retention_class, current in classes.items()
            for generation in range(_first(offset, shard, retention_class), current)
            if (int(shard), retention_class, generation) not in stored
        }
        if missing:
            raise topicdb.NotFoundError(describe_missing(missing, self._options.place))


def _check_log(slices: list[topicdb.Slice], place: Place) -> None:
    """Raises SchemaError if some messages are in a generation that keeps no commit log.

    Which of them were replaced since they were committed is not known there.
    """
    for one in slices:
        if one.layout != "columnar":
            raise topicdb.SchemaError(
                f"class {one.retention_class!r}, generation {one.generation} of shard {one.shard} "
                f"of {place} has the layout {one.layout!r}, which keeps no commit log: it can be "
                "read by batch, not by stream"
            )


def _serials(offset: Offset) -> Serials:
    return {int(shard): serial for shard, serial in offset["serials"].items()}


def _limits(limit: ReadLimit) -> tuple[int, int]:
    """Returns the most messages and bytes."""
    if isinstance(limit, ReadMaxRows):
        return limit.max_rows, _NO_LIMIT
    if isinstance(limit, ReadMaxBytes):
        return _NO_LIMIT, limit.max_bytes
    return _NO_LIMIT, _NO_LIMIT


def _current(extent: Extent) -> Generations:
    """Returns the generation that is written to, by shard and class."""
    found: Generations = {}
    for shard, retention_class, generation in extent.current:
        found.setdefault(str(shard), {})[retention_class] = generation
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
