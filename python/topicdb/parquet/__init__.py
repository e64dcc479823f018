"""Export of a database to Parquet files, and import of such files."""

from topicdb.parquet.files import import_into, schema_for
from topicdb.parquet.results import Exported, Imported

__all__ = ["Exported", "Imported", "import_into", "schema_for"]
