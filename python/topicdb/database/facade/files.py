"""The methods of a Database that write and read Parquet files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from topicdb.engine import Engine
from topicdb.parquet import files
from topicdb.parquet.files import Exported, Imported, PathLike, Progress
from topicdb.times import TimeLike


class ParquetFiles:
    """Methods of Database, for its engine (``_core``) and its quota (``_quota_bytes``)."""

    _core: Engine
    _quota_bytes: int

    def export_parquet(
        self,
        path: PathLike,
        filter: str | Sequence[str] | None = "#",
        *,
        start: TimeLike | None = None,
        end: TimeLike | None = None,
        rows_per_file: int | None = None,
        properties: bool | None = None,
        progress: Progress | None = None,
    ) -> Exported:
        """Writes messages, ``start`` <= timestamp < ``end``, to a file or a directory of files.

        - ``path``: a file if it ends with ``.parquet``, else a directory. It appears when all is
          written and on the disk; an export that fails or is interrupted leaves nothing.
        - ``filter``: one; several, of which a topic has to match one; or None: every topic, those
          that begin with ``$`` too (``#`` does not match them).
        - ``rows_per_file``: of a directory, messages in a file at most (10,000,000).
        - ``properties``: columns of MQTT properties, which ``import_parquet`` reads back. None: if
          a message has any; when the first one is found the export begins anew. False: properties
          are left out.
        - ``progress``: called after each group of rows with (messages written, about how many
          there will be). To know that takes a look at the index of what is stored.

        All of it is what was there when it began; but if ``filter`` is None or several, what is
        deleted or dropped meanwhile through this handle may be missing. Messages of a topic with
        equal timestamps keep their order. Memory is bounded, in that case by the largest commit.

        ExistsError: there is something at ``path``. TopicError, ValueError: bad arguments.
        ModuleNotFoundError: pyarrow is missing. OSError: the file system failed.
        """
        return files.export(
            self._core,
            path,
            filter,
            times=(start, end),
            rows_per_file=rows_per_file,
            properties=properties,
            progress=progress,
        )

    def import_parquet(
        self,
        path: PathLike | Iterable[PathLike],
        *,
        repeat: bool = False,
        progress: Progress | None = None,
    ) -> Imported:
        """Stores the messages of Parquet files: all of them, or none.

        - ``path``: a file, a directory (its ``*.parquet``, by name), or several of them, in this
          order. Of foreign files, the columns topic, timestamp (with a zone, or int64 µs) and value
          (binary or string) are read.
        - ``repeat``: stores them although the same files were imported before. Otherwise an import
          that is repeated within a week, whatever the files are called now, does nothing.
        - ``progress``: called after each batch with (rows read, rows in all).

        Everything is checked and staged as a job (``topicdb.jobs``) before anything of it can be
        seen; then it is there at once, durably. A process that is killed before leaves no message.
        With the layout ``skipstream``, what exceeds 256 MiB comes in several such steps; to repeat
        an import that was killed between them completes it. Memory is bounded, but a page of a
        Parquet file is read whole: writers make pages of 1 MiB, and the format allows 2 GiB.

        ValueError, TopicError: a column is missing or has another type, or a row is no message;
        file, column and row (from 0) are named. SchemaError: the file is of a database with
        timestamps, this has none; or a newer TopicDB wrote it. CorruptionError: it is no Parquet
        file, or damaged. QuotaError, ReadOnlyError, ModuleNotFoundError (pyarrow), OSError.
        """
        return files.import_files(
            self._core, self._quota_bytes, path, repeat=repeat, progress=progress
        )
