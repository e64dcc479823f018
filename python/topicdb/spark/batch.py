"""Batch reads: the driver plans slices at one moment, and each task reads some of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

import topicdb
from topicdb.frames.selection import Selection
from topicdb.spark.columns import to_arrow
from topicdb.spark.options import BatchOptions, ReadOptions, describe_missing
from topicdb.spark.place import Wanted, open_to_read, planned
from topicdb.spark.pushdown import push
from topicdb.spark.slices import divide
from topicdb.types import AtLeastLike


@dataclass(frozen=True)
class SlicesPartition(InputPartition):
    """The slices of one task, all of one shard of the database with the id ``database``."""

    database: str
    filters: list[str] | None
    slices: list[topicdb.Slice]

    def read(self, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        """Reads the messages, in a task.

        Raises NotFoundError, which names the generation, if one was dropped since.
        """
        shard = self.slices[0].shard
        until = max(slice.until for slice in self.slices)
        with open_to_read(
            options.place, Wanted(self.database, shard, until, self.filters)
        ) as database:
            for batch in self._batches(database, options):
                yield to_arrow(batch, shard if options.metadata else None)

    def _batches(self, database: topicdb.Database, options: ReadOptions) -> Iterator[topicdb.Batch]:
        """Reads the slices whose slabs are there.

        A server may drop one between the look at its slabs and the read, which then has not begun.
        """
        while True:
            kept = self._kept(database, options)
            scan = database.scan_slices(kept, self.filters, properties=options.properties)
            batches = scan.batches(serials=options.metadata)
            try:
                first = next(batches, None)
            except topicdb.NotFoundError:
                if self._kept(database, options) == kept:
                    raise
                continue
            if first is not None:
                yield first
                yield from batches
            return

    def _kept(self, database: topicdb.Database, options: ReadOptions) -> list[topicdb.Slice]:
        stored = set(database._extent(self.filters).slabs)
        missing = {slice[:3] for slice in self.slices} - stored
        if missing and options.fail_on_data_loss:
            raise topicdb.NotFoundError(describe_missing(missing, options.place))
        return [slice for slice in self.slices if slice[:3] in stored]


@dataclass(frozen=True)
class Plan:
    """The tasks of a read, the id of the database, and the number of slabs that it has."""

    tasks: list[list[topicdb.Slice]]
    database: str
    slabs: int

    @property
    def slices(self) -> list[topicdb.Slice]:
        """The slices of all tasks."""
        return [slice for task in self.tasks for slice in task]


def plan(options: BatchOptions, selection: Selection) -> Plan:
    """Plans the tasks that read a selection."""

    def make(database: topicdb.Database, at_least: AtLeastLike | None) -> Plan:
        extent = database._extent(selection.filters)
        if selection.is_empty:
            return Plan([], extent.database, len(extent.slabs))

        def cut(bytes_max: int) -> list[topicdb.Slice]:
            return database.slices(
                selection.filters,
                start=selection.start,
                end=selection.end,
                after=options.after,
                until=options.until,
                bytes_max=bytes_max,
                at_least=at_least,
            )

        tasks = divide(cut, options.partitions_min)
        return Plan(tasks, extent.database, len(extent.slabs))

    return planned(options.place, make, options.at_least)


class _PushFilters:
    """``pushFilters`` of one reader, as an object that Spark takes for that of the base class.

    Spark refuses any read by a class that overrides ``pushFilters`` while
    ``spark.sql.python.filterPushdown.enabled`` is false, which is the default. If it is true, Spark
    calls the attribute of the reader.
    """

    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader
        self.__func__ = DataSourceReader.pushFilters  # as a class attribute it would be bound

    def __call__(self, filters: list[Filter]) -> list[Filter]:
        return self._reader.push(filters)


class BatchReader(DataSourceReader):
    """The reader of one query. It is made on the driver, where it plans; tasks get a copy."""

    def __init__(self, options: BatchOptions) -> None:
        self._options = options
        self._selection = Selection(options.filters, options.start, options.end)
        if options.pushdown:
            self.pushFilters = _PushFilters(self)  # type: ignore[method-assign]

    def push(self, filters: list[Filter]) -> list[Filter]:
        """Narrows the read, and returns the predicates that Spark still has to check."""
        self._selection, rest = push(self._selection, filters)
        return rest

    def partitions(self) -> list[InputPartition]:
        found = plan(self._options, self._selection)
        filters = self._selection.filters
        return [SlicesPartition(found.database, filters, slices) for slices in found.tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, SlicesPartition):  # others are Spark's, with nothing to read
            yield from partition.read(self._options)
