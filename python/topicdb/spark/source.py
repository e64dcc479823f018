"""``format("topicdb")``: a database as a data source of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

SCHEMA = "topic string, timestamp timestamp, value binary"


class TopicDBDataSource(DataSource):
    """Reads by batch and by stream. Options: ``topicdb.spark.options``."""

    @classmethod
    def name(cls) -> str:
        return "topicdb"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> Any:
        from topicdb.spark.batch import BatchReader
        from topicdb.spark.options import batch_options

        _check_schema(schema)
        return BatchReader(batch_options(self.options))

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802 - Spark's name
        from topicdb.spark.options import stream_options
        from topicdb.spark.stream import StreamReader

        _check_schema(schema)
        return StreamReader(stream_options(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        raise ValueError(
            "writing with format('topicdb') is not yet possible: use topicdb.spark.write_dataframe"
        )

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802
        raise ValueError(
            "writing streams with format('topicdb') is not yet possible: use foreachBatch and "
            "topicdb.spark.write_dataframe"
        )


def _check_schema(schema: StructType) -> None:
    columns = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    if columns != [("topic", "string"), ("timestamp", "timestamp"), ("value", "binary")]:
        raise ValueError(f"schema: format('topicdb') gives {SCHEMA}; leave out .schema(…)")
