"""The source in Python: ``format("topicdb-python")``, and ``"topicdb"`` where there is no JAR."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from topicdb.spark.columns import ddl

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from topicdb.spark.options import WriteOptions


class TopicDBDataSource(DataSource):
    """Reads and writes, by batch and by stream. The options are in ``topicdb.spark.options``."""

    @classmethod
    def name(cls) -> str:
        return "topicdb"

    def schema(self) -> str:
        from topicdb.spark.options import is_true

        return ddl(
            metadata=is_true(self.options, "includeMetadata"),
            properties=is_true(self.options, "includeProperties"),
        )

    def reader(self, schema: StructType) -> Any:
        from topicdb.spark.batch import BatchReader
        from topicdb.spark.options import batch_options

        _check_schema(schema, self.schema())
        return BatchReader(batch_options(self.options))

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802 - Spark's name
        from topicdb.spark.options import stream_options
        from topicdb.spark.stream import StreamReader

        _check_schema(schema, self.schema())
        return StreamReader(stream_options(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        from topicdb.spark.sink import BatchWriter

        return BatchWriter(self._write_options(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802
        from topicdb.spark.sink import StreamWriter

        return StreamWriter(self._write_options(schema, overwrite))

    def _write_options(self, schema: StructType, overwrite: bool) -> WriteOptions:
        from topicdb.spark.options import write_options
        from topicdb.spark.sink import check_schema

        if overwrite:
            raise ValueError(
                "mode overwrite (output mode complete): format('topicdb') only appends; delete "
                "what shall go with Database.delete, and use mode append"
            )
        options = write_options(self.options)
        check_schema(schema, options.place)
        return options


class NamedTopicDBDataSource(TopicDBDataSource):
    """The same under a name that the connector in Java does not have."""

    @classmethod
    def name(cls) -> str:
        return "topicdb-python"


def _check_schema(schema: StructType, wanted: str) -> None:
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields)
    if columns != wanted:
        raise ValueError(f"schema: format('topicdb') gives {wanted}; leave out .schema(…)")
