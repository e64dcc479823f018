"""Commits for which nobody waits, or not for long."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from topicdb import _core
from topicdb.conformance import expect
from topicdb.conformance.lab import Lab
from topicdb.conformance.promise import promise
from topicdb.database.database import Database
from topicdb.engine import TransactionEngine
from topicdb.errors import CommitTimeoutError
from topicdb.transaction import Transaction
from topicdb.types import Receipt

SHORT_S = (0.0, 1e-5, 1e-4, 1e-3)
"""Limits within which some commits are over, and some are not."""


def _begun(db: Database, topic: str, time: int, value: bytes = b"") -> Transaction:
    """Returns a transaction that writes one message."""
    transaction = db.transaction(shard=0)
    transaction.write(topic, time, value)
    return transaction


def _written(lab: Lab, topic: str, time: int) -> TransactionEngine:
    """Returns a transaction of the engine that writes one message."""
    transaction = lab.engine.begin(0, None, None)
    transaction.write(topic, time, b"")
    return transaction


def _times(lab: Lab, topic: str) -> list[int]:
    return [timestamp for _, timestamp, _ in lab.messages(topic)]


@promise("transactions")
def a_future_has_the_receipt(lab: Lab) -> None:
    """commit_async() ends a transaction, and gives a future with its receipt; commits of one thread
    are applied in their order."""
    db, topic = lab.database(), lab.topic_in(0)
    transactions = [_begun(db, topic, n, b"%d" % n) for n in range(60)]
    futures = [transaction.commit_async() for transaction in transactions]
    for transaction in transactions:
        uses: dict[str, Callable[[], object]] = {
            "write": lambda tx=transaction: tx.write(topic, 99, b""),  # type: ignore[misc]
            "get": lambda tx=transaction: tx.get(topic),  # type: ignore[misc]
            "commit": transaction.commit,
            "commit_async": transaction.commit_async,
        }
        expect.equal(transaction.open, False, "open, once a commit was begun")
        for name, use in uses.items():
            with expect.raises(_core.ClosedError, f"{name}() once a commit was begun"):
                use()
        transaction.rollback()
    receipts = [future.result(lab.patience_s) for future in futures]
    serials = [receipt.serials[0] for receipt in receipts]
    expect.equal(serials, sorted(set(serials)), "the serials of commits in their order")
    expect.equal([receipt.count for receipt in receipts], [1] * 60, "their counts")
    expect.equal([t.receipt for t in transactions], receipts, "the receipts of the transactions")
    expect.equal(_times(lab, topic), list(range(60)), "what is stored")
    reading = db.transaction(shard=0)
    reading.get(topic, 5)
    receipt = reading.commit_async().result(lab.patience_s)
    expect.equal((receipt.serials, receipt.count), ({}, 0), "the receipt of one that only reads")


@promise("transactions")
def an_error_is_in_the_future(lab: Lab) -> None:
    """What a commit raises is in its future, with all that it says; others are stored."""
    db, a = lab.database(), lab.topic_in(0, "a")
    conflicting = _begun(db, lab.topic_in(0, "b"), 1)
    conflicting.get(a, 1)
    receipt = lab.append((a, 1, b""))
    with expect.raises(_core.ConflictError, "a conflict") as caught:
        conflicting.commit_async().result(lab.patience_s)
    expect.equal(caught.error.conflicts[0][3], receipt.serials[0], "the commit that it lists")
    transactions = [_begun(db, a, n) for n in range(10, 30)]
    for transaction in transactions[::2]:
        transaction.require_present(a, 7)
    for number, future in enumerate([one.commit_async() for one in transactions]):
        if number % 2 == 0:
            with expect.raises(_core.PreconditionError, "a requirement") as caught:
                future.result(lab.patience_s)
            expect.equal(list(caught.error.failures), [(a, 7, True, None)], "the failures")
        else:
            future.result(lab.patience_s)
    expect.equal(_times(lab, a), [1, *range(11, 30, 2)], "what is stored")


@promise("transactions")
def a_block_takes_nothing_back(lab: Lab) -> None:
    """The end of a block takes back no commit that was begun in it, however the block ends."""
    db, topic = lab.database(), lab.topic_in(0)
    with db.transaction(shard=0) as transaction:
        transaction.write(topic, 1, b"")
        futures = [transaction.commit_async()]
    with expect.raises(ZeroDivisionError, "the error of a block"), db.transaction(shard=0) as late:
        late.write(topic, 2, b"")
        futures.append(late.commit_async())
        raise ZeroDivisionError
    expect.equal([f.result(lab.patience_s).count for f in futures], [1, 1], "the counts")
    expect.equal(_times(lab, topic), [1, 2], "what is stored")


@promise("transactions")
def closing_finishes_what_was_begun(lab: Lab) -> None:
    """close() of a database finishes appends and commits that were begun, and refuses others."""
    db, topic = lab.database(), lab.topic_in(0)
    futures: list[Future[Receipt]] = []
    for n in range(0, 60, 2):
        futures.append(_begun(db, topic, n).commit_async())
        futures.append(db.append_async([(topic, n + 1, b"")]))
    late = _begun(db, topic, 99)
    db.close()
    expect.equal([future.result(0).count for future in futures], [1] * 60, "what was begun")
    with expect.raises(_core.ClosedError, "commit_async() afterwards"):
        late.commit_async()
    if lab.has("persistence"):
        lab.reopen()
        expect.equal(_times(lab, topic), list(range(60)), "what is there afterwards")


@promise("transactions")
def in_time_it_is_a_commit_like_any_other(lab: Lab) -> None:
    """commit() with a timeout gives the receipt or the error of the commit if that is over in
    time."""
    db, topic = lab.database(), lab.topic_in(0)
    transaction = _begun(db, topic, 1)
    receipt = transaction.commit(timeout=lab.patience_s)
    expect.equal((receipt.count, transaction.receipt), (1, receipt), "the receipt")
    with db.transaction(shard=0, commit_timeout=lab.patience_s) as transaction:
        transaction.write(topic, 2, b"")
    failing = _begun(db, topic, 3)
    failing.require_present(topic, 7)
    with expect.raises(_core.PreconditionError, "a requirement"):
        failing.commit(timeout=lab.patience_s)
    expect.equal(_times(lab, topic), [1, 2], "what is stored")


@promise("transactions")
def what_is_said_after_a_limit_is_so(lab: Lab) -> None:
    """Whenever time is up for a commit: what is "not stored" never is, and of all else the outcome
    tells how it ends."""
    db, topic = lab.database(), lab.topic_in(0)
    wanted: list[int] = []
    unsure: dict[int, Future[Receipt]] = {}
    for n in range(200):
        futures = [_begun(db, topic, 1_000 + 10 * n + m).commit_async() for m in range(n % 3)]
        transaction = _begun(db, topic, n, bytes(100 * (n % 7)))
        try:
            transaction.commit(timeout=SHORT_S[n % len(SHORT_S)])
            wanted.append(n)
        except CommitTimeoutError as error:
            said = error.known, error.outcome is None
            known = [("not stored", True), ("unknown", False), ("stored", False)]
            expect.true(said in known, f"{said} is what a CommitTimeoutError may say")
            if error.outcome is not None:
                unsure[n] = error.outcome
            if error.known == "stored":
                expect.equal(lab.messages(topic, n, n + 1)[0][1], n, "a message that is stored")
        expect.equal(transaction.open, False, "open, after a timeout")
        for future in futures:
            future.result(lab.patience_s)
    for n, outcome in unsure.items():
        expect.equal(outcome.result(lab.patience_s).count, 1, f"the count of commit {n}")
        wanted.append(n)
    lab.append((topic, 999, b""))  # whatever waits goes before it
    found = [timestamp for timestamp in _times(lab, topic) if timestamp < 999]
    expect.equal(found, sorted(wanted), "what is stored")


@promise("transactions")
def a_commit_is_withdrawn_or_goes_on(lab: Lab) -> None:
    """give_up() withdraws a commit that is not being applied, and rolls back a transaction of which
    none was begun; its answer says whether that was so, and the future agrees."""
    queue, topic = lab.queue(), lab.topic_in(0)
    never = _written(lab, topic, 999)
    with lab.nothing_changes("what was given up before it was begun"):
        expect.equal(queue.give_up(never), "not stored", "what is known of it")
        with expect.raises(_core.ClosedError, "its commit"):
            queue.commit(never)
    wanted = []
    for n in range(0, 200, 4):
        transactions = [_written(lab, topic, n + m) for m in range(4)]
        futures = [queue.commit(transaction, urgent=True) for transaction in transactions]
        known = queue.give_up(transactions[-1])
        for m, future in enumerate(futures):
            assert future is not None, "it waits for room"
            if (m, known) == (3, "not stored"):
                with expect.raises(_core.Error, "the result of a commit that was withdrawn"):
                    future.result(lab.patience_s)
            else:
                expect.equal(future.result(lab.patience_s).count, 1, "the count of a commit")
                wanted.append(n + m)
    expect.equal(_times(lab, topic), wanted, "what is stored")


@promise("transactions")
def a_queue_is_closed_with_its_engine(lab: Lab) -> None:
    """close_engine() of a queue finishes what it has, and closes the engine; it may be repeated."""
    queue, topic = lab.queue(), lab.topic_in(0)
    appended = queue.start([(topic, 1, b"")], None, escapes=True, id=None)
    committed = queue.commit(_written(lab, topic, 2))
    late = _written(lab, topic, 3)
    queue.close_engine()
    queue.close_engine()
    assert committed is not None, "it waits for room"
    expect.equal((appended.result(0).count, committed.result(0).count), (1, 1), "the counts")
    expect.equal(lab.engine.closed, True, "closed, of the engine")
    with expect.raises(_core.ClosedError, "start() afterwards"):
        queue.start([(topic, 4, b"")], None, escapes=True, id=None)
    with expect.raises(_core.ClosedError, "commit() afterwards"):
        queue.commit(late)
