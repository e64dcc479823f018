"""Scans: lazy reads of many messages, which can be repeated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Iterator as _Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from topicdb import _core
from topicdb.arguments.forms import Form
from topicdb.arguments.wrong_types import wrong_type
from topicdb.cursor.contract import ScanCursor
from topicdb.frames.chosen import check_chosen, chosen_of, names_of
from topicdb.frames.converting import Values, check_count, pandas_of, polars_of, pylist_of
from topicdb.frames.progress import Part, with_progress
from topicdb.frames.shown import ROWS_MAX, messages_html, never
from topicdb.types import Message

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

MISSING_SHARDS_KEY = b"topicdb.missing_shards"
"""The metadata of Arrow data that leaves out missing shards has their numbers here: b"1,3"."""
BATCH_ROWS = 10_000
BATCH_BYTES_MAX = 8 << 20
ARROW_ROWS = 100_000
ARROW_BYTES_MAX = 64 << 20
SLICE_BYTES_MAX = 128 << 20


def check_batch_limits(rows: int, bytes_max: int) -> None:
    """Checks the limits of a batch.

    Raises:
        ValueError: a batch of these limits can hold no message, TypeError if one is no integer.
    """
    for what, limit in (("rows", rows), ("bytes_max", bytes_max)):
        if isinstance(limit, bool) or not hasattr(limit, "__index__"):
            raise wrong_type(what, "int", limit)
    if rows < 1 or bytes_max < 1:
        raise ValueError(f"rows and bytes_max must be at least 1, got {rows} and {bytes_max}")


OpenScan: TypeAlias = Callable[[], ScanCursor]


def missing_metadata(missing: Mapping[int, str]) -> dict[bytes, bytes] | None:
    """Returns the metadata of Arrow data that leaves out these shards; None for no shards."""
    if not missing:
        return None
    return {MISSING_SHARDS_KEY: ",".join(str(shard) for shard in sorted(missing)).encode()}


class Scan:
    """Messages that match a filter in a time range; made by ``Database.scan``.

    Nothing is read until you iterate or convert the scan. Each time is a new read, which sees the
    database as it is at that moment. Through ``__arrow_c_stream__`` it hands Arrow data to pyarrow,
    polars or DuckDB. It is valid while its database is open. Threads may share it: each read is
    independent of the others.

    Reading raises ClosedError, CorruptionError or ForkedError.

    Example:
        >>> scan = db.scan("site/#", start="-24h")
        >>> scan.count(), scan.to_list()[0].value
        (2, b'on')
    """

    def __init__(
        self,
        open: OpenScan,
        form: Form = "payload",
        open_unordered: OpenScan | None = None,
        missing: Callable[[], dict[int, str]] = dict,
        asked: Callable[[], str] = str,
        about: Callable[[], int | None] = lambda: None,
        counted: Callable[[], int] | None = None,
        *,
        columns: Sequence[str] | None = None,
    ) -> None:
        """``open`` begins a read; ``open_unordered`` one of the same messages in any order.

        ``asked`` returns the call that made the scan, for ``repr``.

        ``open_unordered`` serves ``count``, and may leave out values; it is given where that is
        faster. ``missing`` returns the missing shards that a read would leave out now. ``about``
        returns about how many messages a read would give, or None if it cannot know. ``counted``
        returns exactly how many there are; without it ``count`` reads them. ``columns`` are those
        that ``open`` reads; None: all.
        """
        self._open = open
        self._form = form
        self._open_unordered = open_unordered or open
        self._missing = missing
        self._asked = asked
        self._about = about
        self._columns = None if columns is None else list(columns)
        self._counted = counted

    @property
    def form(self) -> Form:
        """How values are given: "payload", "properties" or "stored"."""
        return self._form

    @property
    def missing_shards(self) -> dict[int, str]:
        """The missing shards that a read leaves out now, by number, and why each is missing.

        Only a scan that was made with ``partial=True`` leaves any out: docs/concepts/partial.md.
        """
        return self._missing()

    @property
    def is_partial(self) -> bool:
        """Whether a read leaves out shards now, which may have messages of the filter."""
        return bool(self.missing_shards)

    def __iter__(self) -> _Iterator[Message]:
        """Gives each message in turn.

        Raises:
            ClosedError, CorruptionError, ForkedError: .
        """
        for batch in self.batches():
            yield from batch

    def batches(
        self, rows: int = BATCH_ROWS, *, bytes_max: int = BATCH_BYTES_MAX, serials: bool = False
    ) -> _Iterator[_core.Batch]:
        """Gives batches of at most ``rows`` messages and about ``bytes_max`` bytes; none is empty.

        Arguments:
            rows: the most messages of a batch.
            bytes_max: about how many bytes of topics and values a batch has (default 8 MiB).
            serials: ``Batch.serials`` then has for each message the serial of the commit that
                stored it, in the shard where it is. It is 0 for a message that the transaction
                which reads has yet to commit.

        Returns:
            An iterator of batches.

        Raises:
            ValueError: a limit is less than 1.
        """
        check_batch_limits(rows, bytes_max)
        with self._opened() as scan:
            while (batch := scan.next_batch(rows, bytes_max, serials)) is not None:
                if len(batch):
                    yield batch.read_as(self._form)

    def to_list(self) -> list[Message]:
        """Returns all messages as a list."""
        return [message for batch in self.batches() for message in batch.to_list()]

    def count(self) -> int:
        """Returns how many messages there are. It reads few of them, as ``Database.summarize``.

        A scan of ``streams``, ``last``, ``scan_slices`` or a transaction reads all of them.
        """
        if self._counted is not None:
            return self._counted()
        stored = Scan(self._open_unordered, "stored")
        return sum(len(batch) for batch in stored.batches())

    def to_arrow(self, *, progress: bool = False) -> pa.Table:
        """Returns all messages as a pyarrow.Table.

        Arguments:
            progress: shows a progress bar. Needs the extra ``topicdb[progress]``. With a narrow
                filter the total is too high, until all is read.

        Returns:
            The table. Its columns are topic, timestamp (µs, UTC) and value, and with
            ``properties=True`` also those of docs/concepts/properties.md. A scan of some
            ``columns`` has only these, in the same order. If it leaves out missing shards, the
            metadata of its schema has their numbers: ``b"topicdb.missing_shards"``, such as
            ``b"1,3"``.

        Raises:
            ModuleNotFoundError: pyarrow is missing: install ``topicdb[arrow]``.
        """
        import pyarrow as pa

        with self._opened() as scan:
            parts = _arrow_batches(scan, ARROW_ROWS, ARROW_BYTES_MAX, self._form)
            batches = list(self._shown(parts, "to_arrow", progress=progress))
            metadata = missing_metadata(scan.missing_shards())
        schema = pa.schema(_core.arrow_schema(self._form, self._columns)).with_metadata(metadata)
        return pa.Table.from_batches(batches, schema=schema)

    def head(self, n: int = 10) -> _core.Batch:
        """Reads the first messages, and no more than these.

        Arguments:
            n: how many messages at most.

        Returns:
            A batch of them, which a notebook shows as a table. The scan still gives them, too.

        Raises:
            ValueError: ``n`` is negative.
            ClosedError, CorruptionError, ForkedError: the database cannot be read.

        Example:
            >>> db.scan("site/#").head(3).to_pylist()               # doctest: +SKIP
        """
        check_count(n)
        batches: list[_core.Batch] = []
        left = n
        with self._opened() as scan:
            while left and (batch := scan.next_batch(left, BATCH_BYTES_MAX)) is not None:
                batches.append(batch)
                left -= len(batch)
        if len(batches) == 1:
            return batches[0].read_as(self._form)
        rows = (message for batch in batches for message in batch)
        found = _core.batch_of_rows(rows).read_as(self._form)
        return found if self._columns is None else found.select(self._columns)

    def to_pylist(
        self, *, values: Values = "bytes", progress: bool = False
    ) -> list[dict[str, Any]]:
        """Returns all messages as dictionaries, with a datetime for each time.

        Arguments:
            values: ``"bytes"``; ``"text"``: a str, or None where a value is not UTF-8; ``"json"``:
                what the JSON stands for, or None where a value is no JSON.
            progress: shows a progress bar. Needs the extra ``topicdb[progress]``. With a narrow
                filter the total is too high, until all is read.

        Returns:
            A dictionary for each message with topic, timestamp (a datetime in UTC) and value, and
            with the fields of ``topicdb.Properties`` if the scan was made with ``properties=True``.

        Raises:
            ValueError: ``values`` is something else, or the scan has no column ``value`` for it, or
                a timestamp is after the year 9999.
            ClosedError, CorruptionError, ForkedError: the database cannot be read.

        Example:
            >>> db.last("site/+/temperature").to_pylist(values="json")      # doctest: +SKIP
        """
        check_chosen(self._columns, values)
        rows = pylist_of(self._shown(self.batches(), "to_pylist", progress=progress), values)
        return rows if self._columns is None else [chosen_of(row, self._columns) for row in rows]

    def to_pandas(self, *, values: Values = "bytes", progress: bool = False) -> pd.DataFrame:
        """Returns all messages as a pandas.DataFrame. Needs the extra ``topicdb[pandas]``.

        Arguments:
            values: ``"bytes"``; ``"text"``: a column of str, with None where a value is not UTF-8;
                ``"json"``: a column for each field of the JSON objects, such as ``motor.temp`` for
                a field of an object in an object. Values that are JSON, but no objects, are in the
                column ``value``, which is None where a value is no JSON.
            progress: shows a progress bar. Needs the extra ``topicdb[progress]``. With a narrow
                filter the total is too high, until all is read.

        Returns:
            The frame with topic, timestamp (datetime64, µs, UTC) and the values, and with a column
            for each MQTT property if the scan was made with ``properties=True``.

        Raises:
            ValueError: ``values`` is something else, or the scan has no column ``value`` for it, or
                there are more than 1,000 JSON fields.
            ModuleNotFoundError: pandas is not installed.
            ClosedError, CorruptionError, ForkedError: the database cannot be read.

        Example:
            >>> frame = db.scan("site/#", start="-24h").to_pandas(values="json")  # doctest: +SKIP
            >>> frame.set_index("timestamp")["temperature"].plot()                # doctest: +SKIP
        """
        check_chosen(self._columns, values)
        batches = self.batches(ARROW_ROWS, bytes_max=ARROW_BYTES_MAX)
        shown = self._shown(batches, "to_pandas", progress=progress)
        frame = pandas_of(shown, self._form, values)
        return frame if self._columns is None else frame[names_of(frame, self._columns)]

    def to_polars(self, *, values: Values = "bytes", progress: bool = False) -> pl.DataFrame:
        """Returns all messages as a polars.DataFrame. Needs the extra ``topicdb[polars]``.

        To read only what a query needs, use ``topicdb.polars.scan``.

        Arguments:
            values: as in ``to_pandas``. A field that has values of several types is a column of
                their JSON text.
            progress: shows a progress bar. Needs the extra ``topicdb[progress]``. With a narrow
                filter the total is too high, until all is read.

        Returns:
            The frame with topic, timestamp (Datetime, µs, UTC) and the values, and with a column
            for each MQTT property if the scan was made with ``properties=True``.

        Raises:
            ValueError: ``values`` is something else, or the scan has no column ``value`` for it, or
                there are more than 1,000 JSON fields.
            ModuleNotFoundError: polars is not installed.
            ClosedError, CorruptionError, ForkedError: the database cannot be read.

        Example:
            >>> db.scan("site/#").to_polars(values="text").group_by("topic").len()  # doctest: +SKIP
        """
        check_chosen(self._columns, values)
        batches = self.batches(ARROW_ROWS, bytes_max=ARROW_BYTES_MAX)
        shown = self._shown(batches, "to_polars", progress=progress)
        return polars_of(shown, self._form, values, self._columns)

    def _shown(self, parts: _Iterator[Part], method: str, *, progress: bool) -> _Iterator[Part]:
        """Returns ``parts``, with a progress bar if there is to be one."""
        return with_progress(parts, self._about, method) if progress else parts

    def __repr__(self) -> str:
        return f"<topicdb.Scan {self._asked()}".rstrip() + ">"

    def _repr_html_(self) -> str:
        """Shows the first messages; it reads them each time, and no more than these."""

        def show() -> str:
            found = self.head(ROWS_MAX + 1)
            missing = ", ".join(map(str, sorted(self.missing_shards)))
            notes = [f"leaves out the missing shards {missing}"] if missing else []
            if len(found) > ROWS_MAX:
                notes.append("… and more: to_pandas() or to_polars() reads all")
            return messages_html(repr(self), found, note="; ".join(notes) or f"{len(found)} in all")

        return never(show, self.__repr__)

    def __arrow_c_schema__(self) -> object:
        """Returns the columns as an Arrow C schema, for those who ask before they read."""
        return _core.arrow_schema(self._form, self._columns).__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Returns the messages as an Arrow C stream, read lazily: the database must stay open."""
        return self._open().arrow_stream(BATCH_ROWS, BATCH_BYTES_MAX, self._form)

    @contextmanager
    def _opened(self) -> _Iterator[ScanCursor]:
        scan = self._open()
        try:
            yield scan
        finally:
            scan.close()


def _arrow_batches(
    scan: ScanCursor, rows: int, bytes_max: int, form: Form
) -> _Iterator[pa.RecordBatch]:
    import pyarrow as pa

    while (arrow := scan.next_arrow(rows, bytes_max, form)) is not None:
        yield pa.record_batch(arrow)
