"""Checks of what an engine is given, and values that it returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from topicdb import _core
from topicdb._core import Batch, Iterator
from topicdb.engine import Filters
from topicdb.types import Keys

Row: TypeAlias = "tuple[str, int | None, bytes]"
"""Topic, timestamp in µs (None: assigned at commit), value as it is stored."""

RESERVED = "$topicdb/"
"""What topics of TopicDB's own begin with: of maps, consumers, sessions and groups."""

DURABILITIES = ("none", "os", "disk")


def checked_rows(rows: Iterable[Any], escapes: bool) -> list[Row]:
    """Returns the rows of ``Engine.append_rows`` with values as they are to be stored.

    Arguments:
        rows: (topic, timestamp, value) tuples.
        escapes: readers are to see these values, even if they look like envelopes.

    Returns:
        The rows.

    Raises:
        TopicError, ValueError, TypeError: a row cannot be stored; the text names the first.
    """
    return _checked(_core.batch_of_rows(rows, escapes))


def checked_arrow(data: object, escapes: bool) -> list[Row]:
    """Returns the messages of ``Engine.append_arrow`` as ``checked_rows`` returns rows.

    Arguments:
        data: an object with an Arrow C stream or array.
        escapes: as in ``checked_rows``.

    Returns:
        The rows.

    Raises:
        ValueError: there is a column of keys: ``split_keys`` takes it off before.
    """
    return _checked(_core.batch_of_arrow(data, None, escapes))


def checked_keys(
    key: Keys | None, rows: int, schema: Mapping[str, Any], path: str
) -> list[bytes | None] | None:
    """Returns the key of each message, or None if the messages have no keys.

    Arguments:
        key: as in ``Database.append``.
        rows: how many messages there are.
        schema: of the engine, which is sharded by topic unless its schema has ``shard_by``.
        path: of the engine, for the text of an error.

    Returns:
        A list as long as ``rows``, or None.

    Raises:
        SchemaError: there are keys, and the engine is sharded by topic.
        TypeError, ValueError: the keys are others than ``Database.append`` takes.
    """
    if key is None:
        return None
    if schema.get("shard_by", "topic") != "key":
        raise _core.SchemaError(
            f"key: {path} is sharded by topic, and its messages have no keys: leave the "
            "keys out, or store in a database that was created with shard_by='key'"
        )
    return _core.key_column(key, rows)


def _checked(batch: Batch) -> list[Row]:
    found: list[Row] = []
    for number, (topic, timestamp, value) in enumerate(batch):
        check_topic(topic, f"row {number}: ")
        found.append((topic, None if timestamp < 0 else timestamp, value))
    return found


def check_topic(topic: str, where: str = "", *, reserved: bool = False) -> None:
    """Raises TopicError, which begins with ``where``, if a message cannot have this topic.

    ``reserved``: topics of TopicDB's own may be written.
    """
    try:
        _core.check_topic(topic)
    except _core.TopicError as error:
        raise _core.TopicError(f"{where}{error}") from None
    if topic.startswith(RESERVED) and not reserved:
        raise _core.TopicError(f"{where}topic {topic!r}: topics under {RESERVED} are TopicDB's own")


def checked_filters(filters: Filters) -> list[str] | None:
    """Returns filters as a list, or None for every topic.

    Arguments:
        filters: one filter, several, or None.

    Returns:
        The list.

    Raises:
        TopicError: one is no topic filter.
        TypeError: one is no text.
    """
    if filters is None:
        return None
    found = [filters] if isinstance(filters, str) else list(filters)
    for filter in found:
        _core.check_filter(filter)
    return found


def refuse_given(given: Sequence[Iterator]) -> None:
    """Raises NotImplementedError if there are iterators: for engines that lack "given".

    Arguments:
        given: the iterators.
    """
    if given:
        raise NotImplementedError(
            "given: this engine lacks 'given', and begins behind no iterators"
        )


def checked_durability(durability: str | None, default: str) -> str:
    """Returns ``durability``, or ``default`` for None.

    Arguments:
        durability: as in ``Database.append``.
        default: of the engine.

    Returns:
        "none", "os" or "disk".

    Raises:
        ValueError: an unknown durability.
    """
    if durability is None:
        return default
    if durability not in DURABILITIES:
        raise ValueError(f"durability: expected 'none', 'os' or 'disk', got {durability!r}")
    return durability


def stored_value(value: object, escapes: bool) -> bytes:
    """Returns the bytes to store for a value.

    ``escapes``: readers are to see this value, even if it looks like an envelope.

    Raises:
        TypeError: unless it is bytes-like.
    """
    if isinstance(value, str):
        raise TypeError("value: expected bytes, bytearray or a memoryview, got str")
    data = bytes(memoryview(value))  # type: ignore[arg-type]
    return _core.escaped_value(data) if escapes else data


def batch_of(messages: Iterable[Sequence[Any]], serials: Sequence[int] | None = None) -> Batch:
    """Returns a batch of (topic, timestamp, value) messages, with values as they are stored.

    Arguments:
        messages: the messages, as many as fit in memory.
        serials: for each message the serial of its commit, for a read that asked for them.

    Returns:
        The batch.
    """
    if serials is None:
        return _core.batch_of_rows(messages)
    import numpy as np  # importing topicdb does not take the time for it

    return _core.batch_of_rows(messages, False, np.array(serials, dtype=np.uint64))
