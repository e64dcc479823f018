"""The suite catches what is wrong with transactions, and with commits for which nobody waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from faults import Faults

import topicdb
from examples.memory_engine.state import Shard
from examples.memory_engine.transaction import MemoryTransaction
from topicdb.engine import Engine
from topicdb.engines import AppendThread
from topicdb.engines.appends import _Commit

broken = Faults()


# Transactions.


@broken(
    "no transaction has a conflict",
    MemoryTransaction,
    "_check_conflicts",
    "transactions.a_change_of_what_it_read_is_a_conflict",
)
def _(right: Any) -> Any:
    return lambda self: None


@broken(
    "phantoms are no conflict",
    MemoryTransaction,
    "_check_conflicts",
    "transactions.a_new_message_where_it_looked_is_a_conflict",
)
def _(right: Any) -> Any:
    def check(self: MemoryTransaction) -> None:
        self._reads = [read for read in self._reads if read[1] is not None]  # no scans
        right(self)

    return check


@broken(
    "requirements are not checked",
    MemoryTransaction,
    "_check_required",
    "transactions.requirements_are_checked_at_commit",
)
def _(right: Any) -> Any:
    return lambda self: None


@broken(
    "presence is not checked",
    MemoryTransaction,
    "require_present",
    "transactions.presence_can_be_required",
)
def _(right: Any) -> Any:
    return lambda self, topic, timestamp: None


@broken(
    "presence that is missed looks like a value",
    MemoryTransaction,
    "_check_required",
    "transactions.presence_can_be_required",
)
def _(right: Any) -> Any:
    def check(self: MemoryTransaction) -> None:
        try:
            right(self)
        except topicdb.PreconditionError as error:
            error.failures = [
                (topic, timestamp, b"any", there) for topic, timestamp, _, there in error.failures
            ]
            raise

    return check


@broken(
    "a commit that goes on is said to be withdrawn",
    AppendThread,
    "give_up",
    "committing.what_is_said_after_a_limit_is_so",
)
def _(right: Any) -> Any:
    return lambda self, transaction: "not stored"


@broken(
    "what was given up can be committed",
    AppendThread,
    "give_up",
    "committing.a_commit_is_withdrawn_or_goes_on",
)
def _(right: Any) -> Any:
    return lambda self, transaction: "unknown" if transaction.open else right(self, transaction)


@broken(
    "a commit in the background has no error",
    _Commit,
    "store",
    "committing.an_error_is_in_the_future",
)
def _(right: Any) -> Any:
    def store(self: _Commit, engine: Engine) -> topicdb.Receipt:
        try:
            return right(self, engine)  # type: ignore[no-any-return]
        except topicdb.Error:
            return topicdb.Receipt({}, 0, "none")

    return store


@broken(
    "a commit in the background is two",
    _Commit,
    "store",
    "committing.a_future_has_the_receipt",
)
def _(right: Any) -> Any:
    def store(self: _Commit, engine: Engine) -> topicdb.Receipt:
        receipt = right(self, engine)
        return topicdb.Receipt(receipt.serials, 2 * receipt.count, receipt.durability)

    return store


@broken(
    "a transaction reads what others commit",
    MemoryTransaction,
    "get",
    "transactions.it_reads_one_moment",
)
def _(right: Any) -> Any:
    def get(self: MemoryTransaction, topic: str, timestamp: int) -> Any:
        self._view.update(self._shard.messages)
        return right(self, topic, timestamp)

    return get


@broken(
    "a rollback commits", MemoryTransaction, "rollback", "transactions.a_rollback_applies_nothing"
)
def _(right: Any) -> Any:
    def rollback(self: MemoryTransaction) -> None:
        if self.open:
            self.commit()

    return rollback


@broken(
    "a wildcard finds topics of TopicDB's own",
    Shard,
    "find",
    "transactions.topics_of_its_own_are_apart",
)
def _(right: Any) -> Any:
    return lambda self, filters, start, end: right(
        self, ["#", "$topicdb/#"] if filters == ["#"] else filters, start, end
    )


@pytest.mark.parametrize("what", list(broken))
def test_it_is_caught(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken.check(what, tmp_path, monkeypatch)
