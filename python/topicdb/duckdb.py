"""Messages of a database as a table of DuckDB. Needs the extra ``topicdb[duckdb]``.

>>> import duckdb, topicdb.duckdb
>>> messages = topicdb.duckdb.scan(db, "metrics/#")                 # doctest: +SKIP
>>> duckdb.sql("SELECT topic, count(*) FROM messages GROUP BY topic")   # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from topicdb.arguments.filters import Filters
from topicdb.arguments.times import TimeLike
from topicdb.frames.extras import library
from topicdb.frames.source import Order, Scannable, source_of
from topicdb.types import AtLeastLike

if TYPE_CHECKING:
    from topicdb.frames.dataset import MessageDataset

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
) -> MessageDataset:
    """Returns the messages that match ``filter`` as a table that DuckDB queries by its name.

    DuckDB finds the variable that a query names. It tells the scan which columns, topics and times
    the query needs, and the scan reads no more than that from the database: the topics of ``=`` and
    ``IN``, and the range of ``timestamp``. It stops reading when a ``LIMIT`` is reached. DuckDB
    keeps other conditions, such as ``LIKE``, to itself: give their topics as ``filter``.

    Each query reads what is stored then. The database must be open.

    Arguments:
        db: the database, from ``topicdb.open`` or ``topicdb.connect``.
        filter: one topic filter; several, of which a message has to match one; or None: every
            topic, also those that begin with "$".
        start: the first time that is read; int µs since 1970, an aware datetime, ISO 8601 text with
            a zone, or an age such as ``"-24h"``. None: no bound.
        end: the time before which reading ends, in the same forms. None: no bound.
        order: "stream", "time" or "none", as in ``Database.scan``. DuckDB promises an order only
            with ORDER BY.
        properties: adds a column for each MQTT property.
        raw: gives values as they are stored, with the properties in them.
        partial: leaves out shards that are missing.
        at_least: as in ``Database.scan``; each query waits for it.

    Returns:
        The table, with the columns topic (VARCHAR), timestamp (TIMESTAMP WITH TIME ZONE) and value
        (BLOB). ``decode(value)`` makes text of values. It is a ``pyarrow.dataset.Dataset``, too.

    Raises:
        TopicError: a filter breaks MQTT's rules.
        ValueError: another argument is wrong.
        ModuleNotFoundError: DuckDB or pyarrow is not installed.

    Example:
        >>> messages = topicdb.duckdb.scan(db, "metrics/#", start="-24h")       # doctest: +SKIP
        >>> duckdb.sql("SELECT max(timestamp) FROM messages WHERE topic = 'metrics/h1/cpu'")
        ... # doctest: +SKIP
    """
    library("duckdb", "topicdb.duckdb.scan")
    library("pyarrow", "topicdb.duckdb.scan", "duckdb")
    from topicdb.frames.dataset import MessageDataset

    return MessageDataset(
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
