"""Makes ``format("topicdb")`` known to Spark, which imports every module named ``pyspark_…``.

If such a module fails to import, no Python data source works. So this one imports nothing of
TopicDB before it is used.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import DataSource


class DefaultSource(DataSource):
    """Passes every call to ``topicdb.spark.source.TopicDBDataSource``."""

    @classmethod
    def name(cls) -> str:
        return "topicdb"

    def _source(self) -> Any:
        from topicdb.spark.source import TopicDBDataSource

        return TopicDBDataSource(self.options)

    def schema(self) -> Any:
        return self._source().schema()

    def reader(self, schema: Any) -> Any:
        return self._source().reader(schema)

    def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
        return self._source().streamReader(schema)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        return self._source().writer(schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        return self._source().streamWriter(schema, overwrite)
