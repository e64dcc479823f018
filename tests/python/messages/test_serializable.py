"""Transactions, appends, deletes, rotations and restarts of several clients are serializable.

``HYPOTHESIS_PROFILE=nightly`` tries many more examples.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support import LAYOUTS, PATIENCE_S, Layout, newest

import topicdb
from model.serial import Client, Key, Range, Required, SerialModel
from topicdb import (
    CommitTimeoutError,
    ConflictError,
    Database,
    PreconditionError,
    Receipt,
    Transaction,
)

MEMORY_DISK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
CLIENTS = 3

topics = st.sampled_from(["a", "a/b", "a/c", "d/e/f", "$s/b"])
times = st.integers(0, 2)
keys = st.tuples(topics, times)
filters = st.sampled_from(["#", "a", "a/#", "a/+", "+", "+/b", "+/+/f", "$s/+", "no/match"])
ranges = st.builds(
    lambda text, start, length: (text, start, None if length is None else start + length),
    filters,
    times,
    st.none() | times,
)
clients = st.integers(0, CLIENTS - 1)
ways = st.sampled_from(["commit", "async", "within", "at once"])
values = st.binary(max_size=3)
rows_strategy = st.lists(st.tuples(topics, times, values), min_size=1, max_size=4)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("get"), keys),
        st.tuples(st.just("scan"), ranges),
        st.tuples(st.just("scan"), ranges),
        st.tuples(st.just("write"), keys, values),
        st.tuples(st.just("write"), keys, values),
        st.tuples(st.just("write"), keys, values),
        st.tuples(st.just("delete"), ranges),
        st.tuples(st.just("require"), keys, st.sampled_from([None, b"", True])),
        st.tuples(st.just("require_what_is"), times),
    ),
    min_size=1,
    max_size=5,
)


def in_order(found: topicdb.Scan) -> list[tuple[str, int, bytes]]:
    """Checks the order of times; sorts topics of equal times, whose order is not promised."""
    messages = [(m.topic, m.timestamp, m.value) for m in found]
    assert [m[1] for m in messages] == sorted(m[1] for m in messages)
    return sorted(messages, key=lambda m: (m[1], m[0]))


class Transactions(RuleBasedStateMachine):
    """Several transactions that are open at once and go on in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="topicdb-test-", dir=MEMORY_DISK))
        self.open: dict[int, tuple[Transaction, Client]] = {}

    @initialize(
        layout=st.sampled_from(LAYOUTS),
        thresholds=st.sampled_from([(100, 10), (1,), (0,)]),
        seal_bytes=st.sampled_from([1, 16 << 20]),
    )
    def create(self, layout: Layout, thresholds: tuple[int, ...], seal_bytes: int) -> None:
        self.options: dict[str, Any] = {
            "layout": layout,
            "thresholds": thresholds,
            "seal_bytes": seal_bytes,
            "conflict_window": "1h",
        }
        self.model = SerialModel(keeps_all=layout == "columnar")
        self.db = topicdb.open(self.directory / "db", **self.options)

    def of(self, number: int) -> tuple[Transaction, Client]:
        if number not in self.open:
            self.open[number] = (self.db.transaction(), self.model.begin())
        return self.open[number]

    @rule(number=clients, steps=steps, way=st.none() | ways)
    def work(self, number: int, steps: list[tuple[Any, ...]], way: str | None) -> None:
        for name, *arguments in steps:
            getattr(self, name)(number, *arguments)
        if way is not None:
            self.commit(number, way)

    def get(self, number: int, key: Key) -> None:
        transaction, client = self.of(number)
        assert transaction.get(*key) == client.view.get(key)
        if not client.reads_own(key):
            client.reads.append((key[0], key[1], key[1] + 1))

    def scan(self, number: int, keys: Range) -> None:
        transaction, client = self.of(number)
        found = transaction.scan(keys[0], start=keys[1], end=keys[2])
        assert in_order(found) == client.view.scan(keys)
        client.reads.append(keys)

    def write(self, number: int, key: Key, value: bytes) -> None:
        transaction, client = self.of(number)
        transaction.write(*key, value)
        client.write(key, value)

    def delete(self, number: int, keys: Range) -> None:
        transaction, client = self.of(number)
        transaction.delete(*keys)
        client.delete(keys)

    def require(self, number: int, key: Key, value: Required) -> None:
        transaction, client = self.of(number)
        if value is None:
            transaction.require_absent(*key)
        elif value is True:
            transaction.require_present(*key)
        else:
            transaction.require(*key, value)
        client.requirements.append((key, value))

    def require_what_is(self, number: int, start: int) -> None:
        transaction, client = self.of(number)
        for topic, timestamp, _ in self.model.state.scan(("#", start, None))[:1]:
            value = self.model.state.get((topic, timestamp))
            assert value is not None
            transaction.require(topic, timestamp, value)
            client.requirements.append(((topic, timestamp), value))

    @precondition(lambda self: self.open)
    @rule(data=st.data(), way=ways)
    def commit_one(self, data: st.DataObject, way: str) -> None:
        self.commit(data.draw(st.sampled_from(sorted(self.open))), way)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def commit_several(self, data: st.DataObject) -> None:
        """Begins to commit some transactions, in any order, before the first is over."""
        numbers = data.draw(st.permutations(sorted(self.open)))
        taken = [self.open.pop(number) for number in numbers]
        begun = [(client, transaction.commit_async()) for transaction, client in taken]
        for client, future in begun:
            self.check_commit(client, future.result)

    def commit(self, number: int, way: str) -> None:
        transaction, client = self.open.pop(number)
        if way == "async":
            self.check_commit(client, transaction.commit_async().result)
        elif way == "within":
            self.check_commit(client, lambda _: transaction.commit(timeout=PATIENCE_S))
        elif way == "at once":
            self.commit_at_once(transaction, client)
        else:
            self.check_commit(client, lambda _: transaction.commit())

    def commit_at_once(self, transaction: Transaction, client: Client) -> None:
        """Commits with a time limit that is up at once, and checks what is said of the outcome."""
        try:
            receipt = transaction.commit(timeout=0)
        except CommitTimeoutError as error:
            event(error.known)
            if error.outcome is not None:
                self.check_commit(client, error.outcome.result)
        except (ConflictError, PreconditionError) as error:
            self.check_failure(client, error)
        else:
            self.check_commit(client, lambda _: receipt)

    def check_commit(self, client: Client, commit: Callable[[float], Receipt]) -> None:
        try:
            commit(PATIENCE_S)
        except (ConflictError, PreconditionError) as error:
            self.check_failure(client, error)
            return
        assert not self.model.must_fail(client), "what it looked at had changed"
        assert not self.model.unmet(client)
        if client.changes:
            event("committed")
            self.model.apply(client.operations)

    def check_failure(self, client: Client, error: ConflictError | PreconditionError) -> None:
        event(type(error).__name__)
        if isinstance(error, ConflictError):
            assert error.conflicts
            assert self.model.must_fail(client) or self.model.may_fail(client)
        else:
            assert not self.model.must_fail(client)
            assert [failure[:2] for failure in error.failures] == self.model.unmet(client)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def rollback(self, data: st.DataObject) -> None:
        transaction, _ = self.open.pop(data.draw(st.sampled_from(sorted(self.open))))
        transaction.rollback()

    @rule(rows=rows_strategy)
    def append(self, rows: list[tuple[str, int, bytes]]) -> None:
        self.db.append(rows)
        self.model.apply([((t, time), value) for t, time, value in rows])

    @rule(rows=rows_strategy)
    def append_async(self, rows: list[tuple[str, int, bytes]]) -> None:
        for future in [self.db.append_async([row]) for row in rows]:
            future.result(PATIENCE_S)
        for t, time, value in rows:
            self.model.apply([((t, time), value)])

    @rule(keys=ranges)
    def delete_outside(self, keys: Range) -> None:
        found = self.model.state.scan(keys)
        receipt = self.db.delete(keys[0], start=keys[1], end=keys[2])
        assert receipt.count == len(found)
        self.model.apply([keys])

    @rule(what=st.sampled_from(["drop", "flush", "restart"]))
    def administrate(self, what: str) -> None:
        getattr(self, what)()

    @rule(layout=st.none() | st.sampled_from(LAYOUTS))
    def rotate(self, layout: Layout | None) -> None:
        self.db.rotate(layout=layout)
        self.model.rotate(keeps_all=None if layout is None else layout == "columnar")

    def drop(self) -> None:
        if len(self.model.state.generations) > 1:
            self.db.drop_slab(self.db.slabs()[0])
            self.model.drop_oldest()

    def flush(self) -> None:
        self.db.flush()

    def restart(self) -> None:
        self.db.close()
        assert not any(transaction.open for transaction, _ in self.open.values())
        self.open.clear()
        self.db = topicdb.open(self.directory / "db", **self.options)

    @invariant()
    def what_is_stored_is_the_serial_history(self) -> None:
        if hasattr(self, "db"):
            for filter in ("#", "$s/#"):
                found = in_order(self.db.scan(filter, order="time"))
                assert found == self.model.state.scan((filter, 0, None))

    def teardown(self) -> None:
        if hasattr(self, "db"):
            self.db.close()
        shutil.rmtree(self.directory)


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=2 * settings().max_examples)


def test_no_write_skew_among_threads(db: Database) -> None:
    """Two people are on call; one may leave only if a read has shown that the other stays."""
    topics_on_call = ["on/1", "on/2"]

    def leave(tx: Transaction, own: str) -> None:
        if tx.scan("on/+").count() > 1:
            tx.delete(own)

    for _ in range(50):
        db.delete("on/+")
        db.append([(topic, 0, b"") for topic in topics_on_call])
        start = threading.Barrier(2)

        def work(own: str, start: threading.Barrier = start) -> None:
            start.wait()
            db.transact(lambda tx: leave(tx, own), retries=100)

        run_together([lambda own=own: work(own) for own in topics_on_call])  # type: ignore[misc]
        assert db.scan("on/+").count() == 1


def test_no_money_is_made_or_lost_by_threads(db: Database) -> None:
    """Transfers between accounts run beside a reader that adds all accounts up."""
    accounts = [f"account/{i}" for i in range(4)]
    db.append([(account, 0, b"100") for account in accounts])
    stop = threading.Event()
    sums: set[int] = set()

    def transfer(tx: Transaction, chance: random.Random) -> None:
        source, target = chance.sample(accounts, 2)
        amount = chance.randint(1, 5)
        tx.write(source, 0, b"%d" % (int(tx.get(source) or 0) - amount))
        tx.write(target, 0, b"%d" % (int(tx.get(target) or 0) + amount))

    def move(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(100):
            db.transact(lambda tx: transfer(tx, chance), retries=10_000)

    def total(messages: topicdb.Scan) -> int:
        # The last one of a time is the newest.
        newest_of = {m.topic: int(m.value) for m in messages}
        return sum(newest_of.values())

    def add_up() -> None:
        while not stop.is_set():
            with db.transaction() as tx:
                sums.add(total(tx.scan("account/+")))
            sums.add(total(db.scan("account/+")))

    reader = threading.Thread(target=add_up)
    reader.start()
    run_together([lambda seed=seed: move(seed) for seed in range(3)])  # type: ignore[misc]
    stop.set()
    reader.join()
    assert sums == {400}
    assert sum(int(newest(db, account) or 0) for account in accounts) == 400


def run_together(functions: list[Callable[[], None]]) -> None:
    """Runs each function in a thread; raises AssertionError if one of them raised an error."""
    errors: list[BaseException] = []

    def run(function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
