"""A dataset of pyarrow over the messages of a database, which DuckDB queries as a table."""

from __future__ import annotations

from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from topicdb import _core
from topicdb.frames.arrow_predicates import fields_of, selection_of
from topicdb.frames.selection import EVERYTHING
from topicdb.frames.source import Source

_READAHEAD = 2  # of batches; more of them would be read in vain for a LIMIT
_FILE_METHODS = (
    "filter",
    "get_fragments",
    "join",
    "join_asof",
    "replace_schema",
    "sort_by",
)


class MessageDataset(ds.Dataset):  # type: ignore[misc]
    """The messages of a database as a table; made by ``topicdb.duckdb.scan``.

    It is a ``pyarrow.dataset.Dataset``, since that is what DuckDB hands its columns and filters to.
    ``to_table``, ``to_batches``, ``head``, ``take`` and ``count_rows`` work as in pyarrow. Methods
    that are about files raise NotImplementedError. Valid while its database is open.
    """

    def __init__(self, source: Source) -> None:
        # The base class wraps a dataset in C++, and there is none: every method that would use it
        # is replaced here.
        self._source = source

    @property
    def schema(self) -> pa.Schema:
        """The columns and their Arrow types."""
        return pa.schema(_core.arrow_schema(self._source.form))

    def scanner(self, columns: Any = None, filter: Any = None, **options: Any) -> ds.Scanner:
        """Returns a pyarrow Scanner, which reads the messages once.

        Arguments:
            columns: the names of the columns, or a mapping from names to expressions. None: all.
            filter: an expression that messages have to fulfil. Its topics and times narrow what is
                read from the database.
            options: others of ``pyarrow.dataset.Scanner.from_batches``.
        """
        options.setdefault("batch_readahead", _READAHEAD)
        narrowed = EVERYTHING if filter is None else selection_of(filter)
        scan = self._source.scan(narrowed, _needed(columns, filter))
        schema = self.schema
        if scan is None:
            reader = pa.RecordBatchReader.from_batches(schema, iter(()))
        else:
            reader = pa.RecordBatchReader.from_stream(scan)
        return ds.Scanner.from_batches(reader, columns=columns, filter=filter, **options)

    @property
    def partition_expression(self) -> Any:
        """An expression that is true for all messages."""
        return pc.scalar(True)

    def __repr__(self) -> str:
        return f"<topicdb.duckdb.MessageDataset of {self._source.db!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("messages of an open database cannot be pickled: send its path instead")


def _needed(columns: Any, filter: Any) -> list[str] | None:
    """Returns the columns that are used, or None if that is not known."""
    if not isinstance(columns, list):
        return None
    filtered = [] if filter is None else fields_of(filter)
    return None if filtered is None else [*columns, *filtered]


def _refused(name: str) -> Any:
    def refuse(self: MessageDataset, *args: Any, **options: Any) -> NoReturn:
        raise NotImplementedError(
            f"{name}: messages of a database are no files; query them with DuckDB, or use "
            "to_table()"
        )

    return refuse


for _name in _FILE_METHODS:
    setattr(MessageDataset, _name, _refused(_name))
