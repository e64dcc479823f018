"""A sink that delivers into a database of TopicDB."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, get_args

from topicdb.arguments.wrong_types import wrong_type
from topicdb.forward.sink import PermanentError
from topicdb.types import Durability

if TYPE_CHECKING:
    from topicdb.database.database import Database
    from topicdb.types import Row


class DatabaseSink:
    """Appends each batch to a database. A batch is confirmed when the append returns.

    - ``decode``: called with each item, returns (topic, timestamp, value), as ``Database.append``
      takes it. If it raises, or returns what cannot be stored, the sink raises PermanentError.
    - ``durability``: as in ``append``. If it is weaker than that of the queue, a crash may lose
      items that were acknowledged.

    An item that is sent twice is stored twice, except in the layout skipstream if ``decode`` gives
    it a timestamp of its own. The sink does not close the database. Raises ValueError or TypeError
    for a bad option.
    """

    def __init__(
        self,
        database: Database,
        decode: Callable[[bytes], Row],
        *,
        durability: Durability | None = None,
    ) -> None:
        # Here, since a forwarder would take the error of an append for one of the item.
        if durability is not None and durability not in get_args(Durability):
            raise ValueError(
                f"durability: expected 'none', 'os', 'disk' or None, got {durability!r}"
            )
        if not callable(decode):
            raise wrong_type("decode", "a function", decode)
        self._database = database
        self._decode = decode
        self._durability = durability

    def open(self) -> None: ...

    def deliver(self, items: list[bytes]) -> None:
        try:
            rows = [self._decode(item) for item in items]
        except Exception as error:
            raise PermanentError(f"decode raised {error!r}") from error
        try:
            self._database.append(rows, durability=self._durability)
        except (TypeError, ValueError) as error:  # TopicError is a ValueError
            raise PermanentError(f"the database cannot store it: {error}") from error

    def close(self) -> None: ...
