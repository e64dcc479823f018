"""Readers of streams, of the source in Python and of that in Java, with the same methods."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterator
from typing import Any, NoReturn, TypeAlias

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows
from spark_places import options_of

import topicdb
from topicdb.spark.options import stream_options
from topicdb.spark.stream import StreamReader

NATIVE = "topicdb-native"
Offset: TypeAlias = "dict[str, Any]"


class Streams:
    """Makes readers of one source. A test's fixture owns it, and closes the readers."""

    def __init__(self, spark: SparkSession, source: str) -> None:
        self._spark = spark
        self._source = source
        self._open: list[Any] = []

    def __call__(self, path: str, **given: str) -> Any:
        """Returns a reader of the database of a path, with these options."""
        options = {**options_of(path), **given}
        reader: Any
        if self._source == NATIVE:
            reader = NativeReader(self._spark, options)
        else:
            reader = StreamReader(stream_options(options))
        self._open.append(reader)
        return reader

    def close(self) -> None:
        """Closes all readers."""
        for reader in self._open:
            reader.stop()


class NativeReader:
    """The methods of ``topicdb.spark.stream.StreamReader``, by the connector in the JVM of Spark.

    Errors are those of Python. It belongs to the test that made it, which stops it.
    """

    def __init__(self, spark: SparkSession, options: dict[str, str]) -> None:
        self._spark = spark
        self._options = options
        frame = spark.readStream.format(NATIVE).options(**options).load()
        relation = frame._jdf.queryExecution().analyzed().collectLeaves().head()
        with_options = relation.table().newScanBuilder(relation.extraOptions())
        self._stream = _called(lambda: with_options.build().toMicroBatchStream(""))

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name, like those below
        return self._told(_called(self._stream.initialOffset))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        _called(self._stream.prepareForTriggerAvailableNow)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        begin = self._offset(start)
        return self._told(_called(lambda: self._stream.latestOffset(begin, self._limit(limit))))

    def partitions(self, start: Offset, end: Offset) -> list[Any]:
        first, last = self._offset(start), self._offset(end)
        return list(_called(lambda: self._stream.planInputPartitions(first, last)))

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        factory = self.copied(self._stream.createReaderFactory())
        reader = _called(lambda: factory.createColumnarReader(partition))
        try:
            while _called(reader.next):
                batch = reader.get()
                column = batch.column(2)
                values = [bytes(column.getBinary(row)) for row in range(batch.numRows())]
                yield pa.record_batch({"value": pa.array(values, pa.binary())})
        finally:
            reader.close()

    def stop(self) -> None:
        self._stream.stop()

    def copied(self, object: Any) -> Any:
        """Returns a copy of what goes to a task, as it arrives there."""
        assert self._spark.sparkContext._jvm is not None
        tools = self._spark.sparkContext._jvm.org.apache.spark.util.Utils
        loader = self._stream.getClass().getClassLoader()
        return tools.deserialize(tools.serialize(object), loader)

    def _limit(self, limit: ReadLimit) -> Any:
        if isinstance(limit, ReadMaxRows):
            given = {"maxMessagesPerTrigger": str(limit.max_rows)}
        elif isinstance(limit, ReadMaxBytes):
            given = {"maxBytesPerTrigger": str(limit.max_bytes)}
        else:
            assert isinstance(limit, ReadAllAvailable)
            given = {}
        other = NativeReader(self._spark, {**self._options, **given})
        try:
            return other._stream.getDefaultReadLimit()
        finally:
            other.stop()

    def _offset(self, offset: Offset) -> Any:
        return _called(lambda: self._stream.deserializeOffset(json.dumps(offset)))

    @staticmethod
    def _told(offset: Any) -> Offset:
        text = offset.json()
        found: Offset = json.loads(text)
        assert text == json.dumps(found), "both sources write the same text"
        return found


def _called(call: Any) -> Any:
    try:
        return call()
    except PySparkException as error:
        _raise(str(error))


def _raise(text: str) -> NoReturn:
    """Raises the error of Python that an error of Java names."""
    named = re.match(r"(?:\[[A-Z_.]+\] )?(\w+Error): (.*)", text, re.DOTALL)
    if named is None or named[1] == "ValueError":
        raise ValueError(text)
    raise getattr(topicdb, named[1])(named[2])


def values_of(reader: Any, start: Offset, end: Offset) -> list[bytes]:
    """Reads values with a reader and partitions as they arrive in a task."""
    start, end = json.loads(json.dumps(start)), json.loads(json.dumps(end))
    partitions = reader.partitions(start, end)
    if isinstance(reader, NativeReader):
        partitions = [reader.copied(partition) for partition in partitions]
    else:
        reader, partitions = pickle.loads(pickle.dumps((reader, partitions)))
    return [v for p in partitions for b in reader.read(p) for v in b.column("value").to_pylist()]
