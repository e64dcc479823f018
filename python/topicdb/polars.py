"""Messages of a database as a polars LazyFrame. Needs the extra ``topicdb[polars]``.

>>> import polars as pl, topicdb.polars
>>> messages = topicdb.polars.scan(db, "metrics/#")                 # doctest: +SKIP
>>> messages.filter(pl.col("topic") == "metrics/h1/cpu").collect()  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from topicdb.arguments.filters import Filters
from topicdb.arguments.times import TimeLike
from topicdb.frames.extras import library
from topicdb.frames.source import Order, Scannable, source_of
from topicdb.types import AtLeastLike

if TYPE_CHECKING:
    import polars as pl

__all__ = ["scan"]


def scan(
    db: Scannable,
    filter: Filters = "#",
    *,
    start: TimeLike | None = None,
    end: TimeLike | None = None,
    order: Order = "stream",
    properties: bool = False,
    raw: bool = False,
    partial: bool = False,
    at_least: AtLeastLike | None = None,
) -> pl.LazyFrame:
    """Returns the messages that match ``filter`` as a LazyFrame.

    polars tells the scan what a query needs, and the scan reads no more than that from the
    database: the topics of ``==``, ``is_in`` and ``str.starts_with``, the range of ``timestamp``,
    and the first messages of ``head``. Values and properties are not decoded unless the query uses
    them. Messages come to polars batch by batch, so ``collect(engine="streaming")`` and
    ``sink_parquet`` handle more messages than memory holds.

    Each time you collect the frame, it reads what is stored then. The database must be open.

    Arguments:
        db: the database, from ``topicdb.open`` or ``topicdb.connect``.
        filter: one topic filter; several, of which a message has to match one; or None: every
            topic, also those that begin with "$".
        start: the first time that is read; int µs since 1970, an aware datetime, ISO 8601 text with
            a zone, or an age such as ``"-24h"``. None: no bound.
        end: the time before which reading ends, in the same forms. None: no bound.
        order: "stream", "time" or "none", as in ``Database.scan``.
        properties: adds a column for each MQTT property.
        raw: gives values as they are stored, with the properties in them.
        partial: leaves out shards that are missing.
        at_least: as in ``Database.scan``; each time you collect the frame waits for it.

    Returns:
        The frame, with the columns topic (String), timestamp (Datetime, µs, UTC) and value
        (Binary). ``pl.col("value").cast(pl.String)`` makes text of values that are UTF-8.

    Raises:
        TopicError: a filter breaks MQTT's rules.
        ValueError: another argument is wrong.
        ModuleNotFoundError: polars is not installed.

    Example:
        >>> messages = topicdb.polars.scan(db, "metrics/#", start="-24h")   # doctest: +SKIP
        >>> messages.group_by("topic").len().collect()                      # doctest: +SKIP
    """
    library("polars", "topicdb.polars.scan")
    from topicdb.frames.polars_source import lazy_frame

    return lazy_frame(
        source_of(
            db,
            filter,
            start,
            end,
            order,
            properties=properties,
            raw=raw,
            partial=partial,
            at_least=at_least,
        )
    )
