"""A data source that gives one batch again and again, to measure Spark's way from Python alone.

Spark can read no source that is written in Python faster.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

import topicdb
from topicdb.cursor.scan import BATCH_ROWS
from topicdb.spark.columns import DDL, to_arrow


class Repeats(InputPartition):
    def __init__(self, batches: int) -> None:
        self.batches = batches


class RepeatingReader(DataSourceReader):
    """Gives the first batch of a database again and again: some ``rows`` in ``tasks`` tasks."""

    def __init__(self, path: str, rows: int, tasks: int) -> None:
        self._path = path
        self._repeats = Repeats(max(rows // tasks // BATCH_ROWS, 1))
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        return [self._repeats] * self._tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Repeats)
        with topicdb.open(self._path, mode="r") as database:
            scan = database.scan_slices(database.slices(None)[:1], None)
            batch = to_arrow(next(iter(scan.batches(BATCH_ROWS))))
        for _ in range(partition.batches):
            yield batch


class RepeatingSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "topicdb-transport"

    def schema(self) -> str:
        return DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        path, rows, tasks = (self.options[key] for key in ("path", "rows", "tasks"))
        return RepeatingReader(path, int(rows), int(tasks))


def read_transport(spark: SparkSession, path: str, rows: int, tasks: int) -> DataFrame:
    spark.dataSource.register(RepeatingSource)
    reader = spark.read.format(RepeatingSource.name()).option("path", path)
    return reader.option("rows", rows).option("tasks", tasks).load()
