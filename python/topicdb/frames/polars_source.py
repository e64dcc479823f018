"""A LazyFrame of polars over the messages of a database."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
from polars.io.plugins import register_io_source

from topicdb import _core
from topicdb.frames.polars_predicates import selection_of
from topicdb.frames.selection import EVERYTHING
from topicdb.frames.source import Source

_ROWS = 100_000


def lazy_frame(source: Source) -> pl.LazyFrame:
    """Returns the messages of ``source`` as a LazyFrame, which reads them when it is collected."""

    def read(
        columns: list[str] | None,
        predicate: pl.Expr | None,
        rows_max: int | None,
        batch_rows: int | None,
    ) -> Iterator[pl.DataFrame]:
        return _frames(source, columns, predicate, rows_max, batch_rows or _ROWS)

    return register_io_source(read, schema=schema_of(source))


def schema_of(source: Source) -> pl.Schema:
    """Returns the columns of the messages, with the types that polars has for them."""
    return pl.DataFrame(_core.empty_batch().read_as(source.form)).schema


def _frames(
    source: Source,
    columns: list[str] | None,
    predicate: pl.Expr | None,
    rows_max: int | None,
    batch_rows: int,
) -> Iterator[pl.DataFrame]:
    """Reads one frame after the other: the first ``rows_max`` messages, then filtered."""
    needed = columns
    narrowed = EVERYTHING
    if predicate is not None:
        if columns is not None:
            needed = [*columns, *predicate.meta.root_names()]
        if rows_max is None:  # otherwise the predicate chooses among the first messages of all
            narrowed = selection_of(predicate)
    scan = source.scan(narrowed, needed)
    if scan is None or rows_max == 0:
        return
    left = rows_max
    for batch in scan.batches(batch_rows if left is None else min(left, batch_rows)):
        frame = pl.DataFrame(batch)
        if left is not None:
            frame = frame.head(left)
            left -= len(frame)
        if predicate is not None:
            frame = frame.filter(predicate)
        yield frame if columns is None else frame.select(columns)
        if left == 0:
            return
