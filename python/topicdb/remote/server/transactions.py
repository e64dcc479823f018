"""The calls of clients about transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from topicdb import _core
from topicdb.engine import Engine, ScanCursor
from topicdb.remote.server.handles import Caller, Limits
from topicdb.remote.server.memory import Charge
from topicdb.remote.server.objects import Transaction


class TransactionCalls:
    """Answers the calls about transactions of one database, which it does not own. Thread-safe.

    The service owns it, and adds ``calls`` and ``reads`` to its own.
    """

    def __init__(self, core: Engine, limits: Limits) -> None:
        self._core = core
        self._limits = limits
        self.calls: dict[str, Callable[..., Any]] = {
            "begin": self._begin,
            "transaction.get": self._get,
            "transaction.apply": self._apply,
            "transaction.commit": self._commit,
        }
        self.reads: dict[str, Callable[..., Any]] = {"transaction.scan": self._scan}

    def _begin(self, caller: Caller, shard: int, generation: Any, durability: Any) -> int:
        caller.access.check_any()
        core = self._core.begin(shard, generation, durability)
        charge = Charge(caller.client.share.account)
        return caller.client.keep(Transaction(core, self._limits.append_bytes_max, charge))

    def _apply(self, caller: Caller, number: int, changes: list[Any]) -> None:
        self._changed(caller, number, changes)

    def _changed(self, caller: Caller, number: int, changes: list[Any]) -> Transaction:
        transaction = caller.client.get(number, Transaction)
        transaction.apply(caller.access, changes)
        return transaction

    def _get(
        self, caller: Caller, number: int, changes: list[Any], topic: str, timestamp: int
    ) -> bytes | None:
        caller.access.check_read(_topic(topic))
        return self._changed(caller, number, changes).core.get(topic, timestamp)

    def _scan(self, caller: Caller, number: int, filter: str, start: Any, end: Any) -> ScanCursor:
        caller.access.check_read(filter)
        return caller.client.get(number, Transaction).core.scan(filter, start, end)

    def _commit(self, caller: Caller, number: int, changes: list[Any]) -> Any:
        try:
            return self._changed(caller, number, changes).core.commit()
        finally:
            caller.client.drop(number)


def _topic(topic: Any) -> str:
    _core.check_topic(topic)
    return str(topic)
