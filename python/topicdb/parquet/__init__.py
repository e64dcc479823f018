"""Parquet files out of a database and into it."""

from topicdb.parquet.files import Exported, Imported, import_into, schema_for

__all__ = ["Exported", "Imported", "import_into", "schema_for"]
