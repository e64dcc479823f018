"""The methods of a Database that write and read Parquet files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from topicdb.arguments.times import TimeLike
from topicdb.database.view import reading, view_of
from topicdb.engine import Engine
from topicdb.engines.features import require
from topicdb.parquet import files
from topicdb.parquet.files import PathLike, Progress
from topicdb.parquet.results import Exported, Imported
from topicdb.types import AtLeastLike


class ParquetFiles:
    """Methods of Database that use its engine (``_core``)."""

    _core: Engine

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
        partial: bool = False,
        at_least: AtLeastLike | None = None,
    ) -> Exported:
        """Writes messages, ``start`` <= timestamp < ``end``, to a file or a directory of files.

        The export sees the database as it is when the export begins. But if ``filter`` is None or
        several, messages that are deleted or dropped meanwhile through this handle may be missing.
        Messages of a topic with equal timestamps keep their order. Memory is bounded; in that case
        by the largest commit.

        Arguments:
            path: a file if it ends with ``.parquet``, else a directory. It appears when all is
                written and on disk. An export that fails or is interrupted leaves nothing.
            filter: as in ``scan``.
            start: as in ``scan``.
            end: as in ``scan``.
            rows_per_file: the most messages in a file of a directory (default 10,000,000).
            properties: True writes columns of MQTT properties, which ``import_parquet`` reads back.
                False leaves the properties out. None writes the columns if any message has
                properties; when the export finds the first such message, it begins anew.
            progress: is called after each group of rows with (messages written, about how many
                there will be). For the second number the export first looks at the index of what is
                stored.
            partial: as in ``scan``. ``Exported.missing_shards`` tells what was left out, and so
                does the metadata of the files: ``topicdb.missing_shards``, such as ``1,3``.
            at_least: as in ``scan``.

        Returns:
            How much was written, and the files.

        Raises:
            ExistsError: there is something at ``path``.
            TopicError, ValueError: bad arguments.
            StaleError, NoQuorumError: as in ``scan``.
            ModuleNotFoundError: pyarrow is missing: install ``topicdb[arrow]``.
            OSError: the file system failed.

        Example:
            >>> db.export_parquet("site.parquet", "site/#", start="-7d").messages
            2
        """
        view = view_of(self._core, partial=partial, at_least=at_least)
        return files.export(
            reading(self._core, filter, view),
            path,
            filter,
            times=(start, end),
            rows_per_file=rows_per_file,
            properties=properties,
            progress=progress,
            partial=partial,
        )

    def import_parquet(
        self,
        path: PathLike | Iterable[PathLike],
        *,
        key: str | None = None,
        repeat: bool = False,
        progress: Progress | None = None,
    ) -> Imported:
        """Stores the messages of Parquet files: all of them, or none.

        The import checks everything and stages it as a job (``topicdb.jobs``) before anything of it
        can be seen. Then all of it is there at once, durably. A process that is killed before
        leaves no message. With the layout ``skipstream``, an import of more than 256 MiB is stored
        in several such steps. If it was killed between them, repeat it to complete it. Memory is
        bounded, but each page of a Parquet file is read whole: writers make pages of 1 MiB, and the
        format allows 2 GiB.

        Arguments:
            path: a file, a directory (its ``*.parquet``, by name), or several of them, in this
                order. Of files that TopicDB has not written, it reads the columns topic, timestamp
                (with a zone, or int64 µs) and value (binary or string).
            key: in a database with ``shard_by="key"``, a column (string or binary) that has the
                keys of the messages, or null where the topic decides the shard. In an export with
                properties that may be ``"client_id"``. None: all messages go by their topics.
            repeat: stores the messages although the same files were imported before. By default, an
                import that is repeated within a week does nothing, whatever the files are called
                now.
            progress: is called after each batch with (rows read, rows in all).

        Returns:
            How many messages were stored, and whether the import was a repeated one.

        Raises:
            ValueError, TopicError: a column is missing or has another type, or a row is no message;
                the text names file, column and row (from 0).
            SchemaError: the file is of a database with timestamps and this one has none, a newer
                TopicDB wrote it, or there is a ``key`` and the database shards by topic.
            CorruptionError: the file is damaged or no Parquet file.
            QuotaError: the quota is reached.
            ReadOnlyError: this handle only reads.
            ModuleNotFoundError: pyarrow is missing: install ``topicdb[arrow]``.
            OSError: the file system failed.
            NotImplementedError: the engine has no directory in TopicDB's format.

        Example:
            >>> db.export_parquet("site.parquet", "site/#").messages
            2
            >>> with topicdb.open("copy.db") as copy:
            ...     copy.import_parquet("site.parquet").messages
            2
        """
        require(self._core, "directory", "import_parquet")
        return files.import_files(self._core, path, key=key, repeat=repeat, progress=progress)
