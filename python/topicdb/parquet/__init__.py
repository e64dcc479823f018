"""Export of a database to Parquet files, and import of such files."""

from topicdb.parquet.files import Exported, Imported, import_into, schema_for

__all__ = ["Exported", "Imported", "import_into", "schema_for"]
