"""Stores the messages that clients send."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from topicdb.database.clocks import tell_of_clock
from topicdb.remote.errors import outcome_of, told
from topicdb.remote.server.access import Access
from topicdb.remote.server.gate import Call
from topicdb.remote.server.incoming import table_of
from topicdb.remote.server.meter import Meter
from topicdb.remote.server.service import Service
from topicdb.types import Receipt

APPENDS_MAX = 10_000
"""Appends in one call of ``append_async``, at most."""
_COUNTS = {"append": (2, 3), "append_async": (3, 4), "replay.publish": (4,)}
"""How many arguments each call may have; the last one of an append, its id, is optional."""


class Receiver:
    """Stores the messages of calls: one append, or several that gather with others. Thread-safe."""

    def __init__(self, service: Service, meter: Meter) -> None:
        self._core = service.database._core
        self._appends = service.database._appends
        self._replays = service.replays
        self._size_max = service.limits.append_bytes_max
        self._meter = meter

    def knows(self, method: str) -> bool:
        """Returns whether ``method`` is a call that stores messages."""
        return method in ("append", "append_async", "replay.publish")

    def call(self, call: Call, method: str, args: list[Any]) -> Any:
        """Returns the receipt, or the outcome of each append.

        Raises the errors that the same append would raise in the process of the database.
        """
        if len(args) not in _COUNTS[method]:
            raise ValueError(f"{method}: expected the durability, and messages as Arrow data")
        with call.caller.client.share.appends:
            if method == "append":
                return self._append(call, *args)
            if method == "replay.publish":
                return self._publish(call, *args)
            return self._append_each(call, *args)

    def _append(self, call: Call, durability: Any, data: Any, id: Any = None) -> Any:
        table = table_of(_arrow(data), self._size_max)
        call.check_token()
        _check_topics(call.caller.access, table)
        receipt = self._core.append_arrow(table, durability, False, id)
        self._meter.received(table.num_rows, table.nbytes)
        tell_of_clock(self._core)
        return receipt

    def _publish(self, call: Call, log: Any, qos: Any, durability: Any, data: Any) -> Any:
        """Publishes messages to a replay log, of which it may store only some."""
        table = table_of(_arrow(data), self._size_max)
        call.check_token()
        _check_topics(call.caller.access, table)
        found = self._replays.log(log)
        receipt = found.publish(table, qos=qos, durability=durability, raw=True)
        self._meter.received(table.num_rows, table.nbytes)
        return receipt

    def _append_each(
        self, call: Call, durability: Any, counts: Any, data: Any, ids: Any = None
    ) -> list[tuple[int, bool, Any]]:
        """Stores several appends, and returns the outcome of each.

        ``counts`` has the number of messages of each append, and ``ids`` their ids. An outcome is
        the number of the append, whether it failed, and the error or the receipt.
        """
        table = table_of(_arrow(data), self._size_max)
        is_list = isinstance(counts, list) and all(type(n) is int and n > 0 for n in counts)
        if not is_list or sum(counts) != table.num_rows or len(counts) > APPENDS_MAX:
            raise ValueError("append_async: it does not say which messages belong together")
        if ids is not None and (not isinstance(ids, list) or len(ids) != len(counts)):
            raise ValueError("append_async: it does not say which append has which id")
        call.check_token()
        fault = self._fault_of(call, table)
        started: list[Future[Receipt] | Exception] = []
        offset = 0
        for number, count in enumerate(counts):
            part = table.slice(offset, count)
            offset += count
            try:
                # A wrong append does not keep the others from being stored.
                found = self._fault_of(call, part) if fault is not None else None
                if found is not None:
                    raise found
                id = None if ids is None else ids[number]
                started.append(self._appends.start(part, durability, escapes=False, id=id))
                self._meter.received(count, part.nbytes)
            except Exception as error:
                started.append(error)
        outcomes = [told(number, outcome_of(one)) for number, one in enumerate(started)]
        tell_of_clock(self._core)
        return outcomes

    def _fault_of(self, call: Call, table: pa.Table) -> Exception | None:
        try:
            _check_topics(call.caller.access, table)
        except Exception as error:
            return error
        return None


def _arrow(data: Any) -> pa.Buffer:
    if not isinstance(data, pa.Buffer):
        raise ValueError("expected Arrow data")
    return data


def _check_topics(access: Access, table: pa.Table) -> None:
    """Raises AccessError if there is a topic that the token may not write."""
    if access.everything or "topic" not in table.schema.names:
        return
    kind = table.schema.field("topic").type
    if not pa.types.is_string(kind) and not pa.types.is_large_string(kind):
        raise ValueError(f"column 'topic': expected string, got {kind}")
    topics = pc.unique(table.column("topic"))
    access.check_topics(topic for topic in topics.to_pylist() if topic is not None)
