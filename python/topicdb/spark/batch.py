"""Batch reads: the driver plans slices at one moment, each task reads some of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

import topicdb
from topicdb.scan import BATCH_BYTES_MAX
from topicdb.spark.columns import to_arrow
from topicdb.spark.options import BatchOptions, describe_missing, slabs_of
from topicdb.spark.pushdown import Selection, push

PARTITION_BYTES_MIN = 64 << 20
PARTITION_BYTES_MAX = 128 << 20
BATCH_ROWS = 10_000


@dataclass(frozen=True)
class SlicesPartition(InputPartition):
    """Slices of one task."""

    filters: list[str] | None
    slices: list[topicdb.Slice]


@dataclass(frozen=True)
class Plan:
    """The tasks of a read, and what was to choose from."""

    tasks: list[list[topicdb.Slice]]
    slabs: int

    @property
    def slices(self) -> list[topicdb.Slice]:
        return [slice for task in self.tasks for slice in task]


def plan(options: BatchOptions, selection: Selection) -> Plan:
    """Slices for each task, of one shard each, of 64 to 128 MiB where there is as much."""
    with topicdb.open(options.path, mode="r") as database:
        slabs = len(database.slabs())
        if selection.is_empty:
            return Plan([], slabs)

        def cut(bytes_max: int) -> list[topicdb.Slice]:
            return database.slices(
                selection.filters,
                start=selection.start,
                end=selection.end,
                after=options.after,
                until=options.until,
                bytes_max=bytes_max,
            )

        slices = cut(PARTITION_BYTES_MAX)
        total = sum(slice.bytes for slice in slices)
        share = total // (os.cpu_count() or 1)
        target = min(max(share, PARTITION_BYTES_MIN), PARTITION_BYTES_MAX)
        if options.partitions_min > 1:
            target = max(min(target, total // options.partitions_min), 1)
        if any(slice.bytes > target for slice in slices):
            slices = cut(target)
    return Plan(_pack(slices, target), slabs)


def _pack(slices: Sequence[topicdb.Slice], bytes_max: int) -> list[list[topicdb.Slice]]:
    tasks: list[list[topicdb.Slice]] = []
    size = 0
    for slice in slices:
        other = not tasks or tasks[-1][-1].shard != slice.shard
        if other or size + slice.bytes > bytes_max:
            tasks.append([])
            size = 0
        tasks[-1].append(slice)
        size += slice.bytes
    return tasks


class _PushFilters:
    """``pushFilters`` of one reader, as something that Spark takes for the one of the base class.

    Spark refuses any read by a class that overrides it while
    ``spark.sql.python.filterPushdown.enabled`` is false, which is the default; if it is true, Spark
    calls whatever the reader has there.
    """

    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader
        self.__func__ = DataSourceReader.pushFilters  # of the instance, or it would be bound

    def __call__(self, filters: list[Filter]) -> list[Filter]:
        return self._reader.push(filters)


class BatchReader(DataSourceReader):
    """Made on the driver, where it plans; tasks get a copy."""

    def __init__(self, options: BatchOptions) -> None:
        self._options = options
        self._selection = Selection(options.filters, options.start, options.end)
        if options.pushdown:
            self.pushFilters = _PushFilters(self)  # type: ignore[method-assign]

    def push(self, filters: list[Filter]) -> list[Filter]:
        """Narrows what is read; gives back the predicates that Spark has to look at."""
        self._selection, rest = push(self._selection, filters)
        return rest

    def partitions(self) -> list[InputPartition]:
        tasks = plan(self._options, self._selection).tasks
        return [SlicesPartition(self._selection.filters, slices) for slices in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, SlicesPartition):
            return  # Spark makes one of nothing, if nothing is to be read
        slices = partition.slices
        shard = slices[0].shard  # of all slices of a task
        metadata = self._options.metadata
        with topicdb.open(self._options.path, mode="r", only_shards=[shard]) as database:
            stored = slabs_of(database)
            missing = {slice[:3] for slice in slices} - stored
            if missing and self._options.fail_on_data_loss:
                raise topicdb.NotFoundError(describe_missing(missing, self._options.path))
            kept = [slice for slice in slices if slice[:3] in stored]
            scan = database.scan_slices(kept, partition.filters)
            for batch in scan.batches(BATCH_ROWS, bytes_max=BATCH_BYTES_MAX, serials=metadata):
                yield to_arrow(batch, shard if metadata else None)
