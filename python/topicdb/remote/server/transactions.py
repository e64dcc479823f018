"""The calls of clients about transactions."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from topicdb import _core
from topicdb.engine import AppendQueue, Engine, ScanCursor
from topicdb.remote.errors import outcome_of, told
from topicdb.remote.server.handles import Caller, Limits
from topicdb.remote.server.memory import Charge
from topicdb.remote.server.objects import Transaction
from topicdb.types import Receipt


class TransactionCalls:
    """Answers the calls about transactions of one database, which it does not own. Thread-safe.

    The service owns it, and adds ``calls`` and ``reads`` to its own.
    """

    def __init__(self, core: Engine, queue: AppendQueue, limits: Limits) -> None:
        self._core = core
        self._queue = queue
        self._limits = limits
        self.calls: dict[str, Callable[..., Any]] = {
            "begin": self._begin,
            "transaction.get": self._get,
            "transaction.apply": self._apply,
            "transaction.commit": self._commit,
            "transaction.commit_each": self._commit_each,
            "transaction.give_up": self._give_up,
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

    def _commit_each(self, caller: Caller, commits: list[list[Any]]) -> list[tuple[int, bool, Any]]:
        """Commits several transactions, and returns the outcome of each.

        Each of ``commits`` is the number of a transaction and its last changes. An outcome is the
        place in the list, whether it failed, and the error or the receipt.
        """
        if not isinstance(commits, list) or not all(map(_is_commit, commits)):
            raise ValueError("transaction.commit_each: expected numbers and lists of changes")
        try:
            begun = [self._begun(caller, *one) for one in commits]
            return [told(place, outcome_of(one)) for place, one in enumerate(begun)]
        finally:
            for number, *_ in commits:
                caller.client.drop(number)

    def _begun(
        self, caller: Caller, number: int, changes: list[Any]
    ) -> Future[Receipt] | Exception:
        try:
            transaction = self._changed(caller, number, changes)
            begun = self._queue.commit(transaction.core, urgent=True)  # clients gather them
        except Exception as error:  # it does not keep the others from being committed
            return error
        assert begun is not None  # it waits for room
        return begun

    def _give_up(self, caller: Caller, number: int) -> str:
        return self._queue.give_up(caller.client.get(number, Transaction).core)


def _is_commit(value: Any) -> bool:
    """Returns whether a value is a number and a list of changes."""
    return isinstance(value, list) and [type(part) for part in value] == [int, list]


def _topic(topic: Any) -> str:
    _core.check_topic(topic)
    return str(topic)
