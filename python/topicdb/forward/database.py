"""A sink that delivers into a database of TopicDB."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, get_args

from topicdb._core import SchemaError
from topicdb.arguments.wrong_types import wrong_type
from topicdb.forward.sink import PermanentError
from topicdb.types import Durability

if TYPE_CHECKING:
    from topicdb.database.database import Database
    from topicdb.types import Key, Row


class DatabaseSink:
    """Appends each batch to a database. A batch is confirmed when the append returns.

    An item that is sent twice is stored twice, except in the layout skipstream if ``decode`` gives
    it a timestamp of its own. The sink does not close the database.

    Arguments:
        database: where to store the items; it stays open as long as the forwarder runs.
        decode: is called with each item, and returns (topic, timestamp, value), as
            ``Database.append`` takes it. If it raises, or returns what cannot be stored, the sink
            raises PermanentError.
        key: is called with each item, and returns its key or None, for a database that shards by
            key.
        durability: as in ``append``. If it is weaker than that of the queue, a crash may lose items
            that were acknowledged.

    Raises:
        ValueError, TypeError: a bad option.

    Example:
        >>> from topicdb.forward import DatabaseSink, Forwarder
        >>> with topicdb.Queue.open("out.q") as queue:
        ...     receipt = queue.append([b"41", b"42"])
        ...     sink = DatabaseSink(db, lambda item: ("plant/events", None, item))
        ...     Forwarder(queue, sink).run(until_empty=True)
        >>> db.scan("plant/#").count()
        2
    """

    def __init__(
        self,
        database: Database,
        decode: Callable[[bytes], Row],
        *,
        key: Callable[[bytes], Key | None] | None = None,
        durability: Durability | None = None,
    ) -> None:
        # Here, since a forwarder would take the error of an append for one of the item.
        if durability is not None and durability not in get_args(Durability):
            raise ValueError(
                f"durability: expected 'none', 'os', 'disk' or None, got {durability!r}"
            )
        if not callable(decode):
            raise wrong_type("decode", "a function", decode)
        if key is not None and not callable(key):
            raise wrong_type("key", "a function or None", key)
        if key is not None and database.schema.get("shard_by", "topic") != "key":
            raise SchemaError(
                f"key: {database.path} is sharded by topic, and its messages have no keys: leave "
                "the option out, or deliver to a database that was created with shard_by='key'"
            )
        self._database = database
        self._decode = decode
        self._key = key
        self._durability = durability

    def open(self) -> None: ...

    def deliver(self, items: list[bytes]) -> None:
        try:
            rows = [self._decode(item) for item in items]
        except Exception as error:
            raise PermanentError(f"decode raised {error!r}") from error
        try:
            keys = None if self._key is None else [self._key(item) for item in items]
        except Exception as error:
            raise PermanentError(f"key raised {error!r}") from error
        try:
            self._database.append(rows, key=keys, durability=self._durability)
        except (TypeError, ValueError) as error:  # TopicError is a ValueError
            raise PermanentError(f"the database cannot store it: {error}") from error

    def close(self) -> None: ...
