"""Tests of commits for which nobody waits, and of commits that must not take long."""

from __future__ import annotations

import asyncio
import random
import threading
from concurrent.futures import Future, wait
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE_S, Child, Layout, fork_and_run, newest, nothing_written

import topicdb
from topicdb import (
    ClosedError,
    CommitTimeoutError,
    ConflictError,
    Database,
    PreconditionError,
    QuotaError,
    Receipt,
    Transaction,
)


def timed_out(tx: topicdb.Transaction, timeout: float) -> CommitTimeoutError | None:
    """Commits, and returns the error if time was up before that was over."""
    try:
        tx.commit(timeout=timeout)
    except CommitTimeoutError as error:
        return error
    return None


def begun(db: Database, topic: str, timestamp: int = 0, value: bytes = b"") -> Transaction:
    """Returns a transaction that writes one message."""
    tx = db.transaction(shard=0)
    tx.write(topic, timestamp, value)
    return tx


def stored(db: Database) -> list[tuple[str, int]]:
    return sorted((m.topic, m.timestamp) for m in db.scan())


class TestAsync:
    def test_a_future_gives_the_receipt_and_the_transaction_is_over(self, db: Database) -> None:
        tx = begun(db, "a", 1)
        future = tx.commit_async()
        assert not tx.open
        with pytest.raises(ClosedError):
            tx.commit()
        with pytest.raises(ClosedError):
            tx.commit_async()
        with pytest.raises(ClosedError):
            tx.write("a", 2, b"")
        tx.rollback()  # does not take it back
        receipt = future.result(PATIENCE_S)
        assert receipt == Receipt({0: 1}, 1, "os") == tx.receipt
        assert stored(db) == [("a", 1)]

    def test_they_are_applied_in_the_order_of_the_calls(self, db: Database) -> None:
        futures = [begun(db, "a", 0, b"%d" % n).commit_async() for n in range(500)]
        serials = [future.result(PATIENCE_S).serials[0] for future in futures]
        assert serials == sorted(set(serials))
        assert newest(db, "a") == b"499"

    def test_one_that_only_reads_has_a_receipt_without_serials(self, db: Database) -> None:
        tx = db.transaction()
        assert tx.get("a") is None
        assert tx.commit_async().result(PATIENCE_S) == Receipt({}, 0, "os")

    def test_errors_are_in_the_future_with_all_that_they_say(self, db: Database) -> None:
        conflicting = db.transaction()
        conflicting.get("a", 1)
        conflicting.write("b", 1, b"")
        requiring = db.transaction()
        requiring.require_present("none", 1)
        requiring.write("c", 1, b"")
        db.append([("a", 1, b"")])
        with pytest.raises(ConflictError) as conflict:
            conflicting.commit_async().result(PATIENCE_S)
        assert conflict.value.conflicts == [("a", 1, 2, 1)]
        with pytest.raises(PreconditionError) as unmet:
            requiring.commit_async().result(PATIENCE_S)
        assert unmet.value.failures == [("none", 1, True, None)]
        assert stored(db) == [("a", 1)]

    def test_one_that_fails_keeps_no_other_from_being_stored(self, db: Database) -> None:
        transactions = [begun(db, "a", n) for n in range(20)]
        for tx in transactions[::2]:
            tx.require_present("none", 0)
        futures = [tx.commit_async() for tx in transactions]
        wait(futures, PATIENCE_S)
        assert [future.exception() is None for future in futures] == [n % 2 == 1 for n in range(20)]
        assert stored(db) == [("a", n) for n in range(1, 20, 2)]

    def test_one_conflicts_with_what_was_begun_before_it(self, db: Database) -> None:
        first = begun(db, "a", 1).commit_async()
        reader = db.transaction()
        found = reader.get("a", 1)
        reader.write("b", 1, b"")
        first.result(PATIENCE_S)
        if found is None:  # it began before the first was applied
            with pytest.raises(ConflictError):
                reader.commit_async().result(PATIENCE_S)
        else:
            reader.commit_async().result(PATIENCE_S)

    def test_on_commit_runs_before_the_future_is_there(self, db: Database) -> None:
        calls: list[Any] = []
        tx = begun(db, "a")
        tx.on_commit(lambda: calls.append(db.scan("a").count()))
        future = tx.commit_async()
        future.add_done_callback(lambda done: calls.append(done))
        future.result(PATIENCE_S)
        assert calls == [1, future]
        failing = begun(db, "b")
        failing.require_present("none", 0)
        failing.on_commit(lambda: calls.append("never"))
        with pytest.raises(PreconditionError):
            failing.commit_async().result(PATIENCE_S)
        assert len(calls) == 2

    def test_an_error_of_on_commit_is_in_the_future_and_undoes_nothing(self, db: Database) -> None:
        for error in (OSError("mine"), SystemExit(1)):
            tx = begun(db, "a")
            tx.on_commit(lambda error=error: _raise(error))  # type: ignore[misc]
            future = tx.commit_async()
            with pytest.raises(type(error)):
                future.result(PATIENCE_S)
            assert tx.receipt is not None
        assert begun(db, "b").commit_async().result(PATIENCE_S).count == 1

    def test_asyncio(self, db: Database) -> None:
        async def commit_some() -> list[Receipt]:
            waits = [begun(db, "a", n).commit_await() for n in range(20)]
            return list(await asyncio.gather(*waits))

        assert [receipt.count for receipt in asyncio.run(commit_some())] == [1] * 20
        assert len(stored(db)) == 20

    def test_in_a_block(self, db: Database) -> None:
        with db.transaction() as tx:
            tx.write("a", 1, b"")
            future = tx.commit_async()
        assert future.result(PATIENCE_S).count == 1
        with pytest.raises(ZeroDivisionError), db.transaction() as tx:
            tx.write("b", 1, b"")
            future = tx.commit_async()
            raise ZeroDivisionError
        assert future.result(PATIENCE_S).count == 1, "what was begun is not taken back"

    def test_closing_finishes_what_was_begun(self, db_path: Path, layout: Layout) -> None:
        interval = {"flush_interval": "1h", "idle_flush_interval": "1h"}
        db = topicdb.open(db_path, layout=layout, **interval)  # type: ignore[arg-type]
        futures = [begun(db, "a", n).commit_async() for n in range(50)]
        db.close()
        assert all(future.result(0).count == 1 for future in futures)
        with topicdb.open(db_path) as again:
            assert len(stored(again)) == 50

    def test_each_is_as_durable_as_it_asks(self, db: Database) -> None:
        for level in ("none", "os", "disk"):
            tx = db.transaction(durability=level)
            tx.write("a", 0, b"")
            assert tx.commit_async().result(PATIENCE_S).durability == level

    def test_a_large_delete_is_one_commit(self, db: Database) -> None:
        db.append([("a", n, b"x") for n in range(25_000)])
        tx = db.transaction()
        tx.delete("a")
        tx.write("a", 7, b"new")
        future = tx.commit_async()
        while not future.done():
            assert db.scan("a").count() in (25_000, 1)
        future.result(0)
        assert stored(db) == [("a", 7)]

    def test_the_quota_is_told(self, db_path: Path, layout: Layout) -> None:
        with topicdb.open(db_path, quota_trim=None, layout=layout) as db:
            tx = begun(db, "b")
            db.set_quota(1)  # a new database has more on disk already
            with nothing_written(db), pytest.raises(QuotaError):
                tx.commit_async().result(PATIENCE_S)
            assert not tx.open

    def test_exiting_without_close_loses_nothing(self, db_path: Path) -> None:
        code = """
            import sys, topicdb
            db = topicdb.open(sys.argv[1], flush_interval="1h", idle_flush_interval="1h")
            for n in range(10):
                tx = db.transaction()
                tx.write("a", n, b"")
                tx.commit_async()
        """
        with Child(code, db_path) as child:
            assert child.finish()[0] == 0
        with topicdb.open(db_path) as db:
            assert len(stored(db)) == 10


class TestTimeout:
    def test_in_time_it_is_a_commit_like_any_other(self, db: Database) -> None:
        tx = begun(db, "a", 1)
        assert tx.commit(timeout=PATIENCE_S) == tx.receipt == Receipt({0: 1}, 1, "os")
        assert begun(db, "a", 2).commit(timeout=timedelta(seconds=PATIENCE_S)).count == 1
        with db.transaction(commit_timeout=PATIENCE_S) as tx:
            tx.write("a", 3, b"")
        assert db.transact(lambda tx: tx.write("a", 4, b""), commit_timeout=PATIENCE_S) is None
        assert stored(db) == [("a", n) for n in (1, 2, 3, 4)]

    def test_errors_come_out_of_the_call(self, db: Database) -> None:
        tx = begun(db, "b")
        tx.get("a", 1)
        db.append([("a", 1, b"")])
        with pytest.raises(ConflictError, match="commit 1") as caught:
            tx.commit(timeout=PATIENCE_S)
        assert caught.value.conflicts == [("a", 1, 2, 1)]
        with pytest.raises(PreconditionError), db.transaction(commit_timeout=PATIENCE_S) as tx:
            tx.require_absent("a", 1)

    def test_it_does_not_wait_for_others_to_gather(self, db_path: Path, layout: Layout) -> None:
        interval = {"flush_interval": "1h", "idle_flush_interval": "1h"}
        with topicdb.open(db_path, layout=layout, **interval) as db:  # type: ignore[arg-type]
            waiting = begun(db, "a", 1).commit_async()
            assert begun(db, "a", 2).commit(timeout=PATIENCE_S).serials == {0: 2}
            assert waiting.result(PATIENCE_S).serials == {0: 1}

    def test_what_is_said_after_a_timeout_is_so(self, db: Database) -> None:
        """Whatever the moment at which time is up: what is not stored never is, the rest comes."""
        chance = random.Random(7)
        waits: dict[str, list[tuple[int, Future[Receipt]]]] = {"unknown": [], "stored": []}
        expected = set()
        for n in range(400):
            tx = begun(db, "a", n, bytes(chance.randint(0, 20_000)))
            error = timed_out(tx, chance.choice([0, 1e-5, 5e-5, 2e-4, 1e-3]))
            assert not tx.open
            if error is not None:
                assert isinstance(error, TimeoutError) and "was not over within" in str(error)
                if error.known == "not stored":
                    assert error.outcome is None and tx.receipt is None
                    assert not tx._may_be_stored
                    continue
                assert error.outcome is not None
                if error.known == "stored":
                    assert db.scan("a", start=n, end=n + 1).count() == 1
                waits[error.known].append((n, error.outcome))
            expected.add(("a", n))
        for n, outcome in [*waits["unknown"], *waits["stored"]]:
            assert outcome.result(PATIENCE_S).count == 1, n
        db.append([("end", 0, b"")])  # whatever waits goes before it
        assert set(stored(db)) == expected | {("end", 0)}

    def test_many_threads_agree_on_what_is_stored(self, db: Database) -> None:
        told: list[tuple[int, bool]] = []

        def work(first: int) -> None:
            for n in range(first, first + 50):
                error = timed_out(begun(db, "a", n), (n % 5) * 1e-4)
                if error is not None and error.outcome is not None:
                    error.outcome.result(PATIENCE_S)
                told.append((n, error is None or error.known != "not stored"))

        threads = [threading.Thread(target=work, args=(50 * i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(told) == 200
        assert stored(db) == sorted(("a", n) for n, is_stored in told if is_stored)

    def test_on_commit_runs_when_the_outcome_is_known(self, db: Database) -> None:
        for n in range(100):
            calls: list[int] = []
            tx = begun(db, "a", n)
            tx.on_commit(lambda calls=calls: calls.append(1))  # type: ignore[misc]
            error = timed_out(tx, 0)
            if error is not None and error.outcome is not None:
                error.outcome.result(PATIENCE_S)
            is_stored = error is None or error.known != "not stored"
            assert calls == ([1] if is_stored else [])

    def test_ctrl_c_ends_the_wait_and_not_the_commit(self, db_path: Path) -> None:
        code = """
            import sys, threading, topicdb
            from topicdb import transaction
            wait = transaction.wait
            def told(*args):
                transaction.wait = wait
                print("waits", flush=True)
                return wait(*args)
            transaction.wait = told
            db = topicdb.open(sys.argv[1])
            lock = threading.Lock()
            tx = db.transaction()
            tx.write("a", 1, b"")
            tx.on_commit(lock.acquire)  # the outcome does not come before the lock is free
            lock.acquire()
            try:
                tx.commit(timeout=500)
            except KeyboardInterrupt:
                print("interrupted", flush=True)
            lock.release()
            db.close()
            print(tx.receipt is not None)
        """
        with Child(code, db_path) as child:
            child.expect("waits")
            child.interrupt()
            child.expect("interrupted")
            child.expect("True")
            assert child.finish()[0] == 0

    @pytest.mark.parametrize("timeout", [-1, float("nan"), 1e9])
    def test_a_bad_timeout_changes_nothing(self, db: Database, timeout: float) -> None:
        tx = begun(db, "a", 1)
        with pytest.raises(ValueError, match="timeout"):
            tx.commit(timeout=timeout)
        assert tx.open
        tx.commit()
        with pytest.raises(ValueError, match="commit_timeout"):
            db.transaction(commit_timeout=timeout)
        with pytest.raises(ValueError, match="commit_timeout"):
            db.transact(lambda tx: tx.write("a", 2, b""), commit_timeout=timeout)
        assert stored(db) == [("a", 1)]


def _raise(error: BaseException) -> None:
    raise error


def test_a_forked_child_cannot_commit(db: Database) -> None:
    tx = begun(db, "a", 1)

    def use() -> str:
        with pytest.raises(topicdb.ForkedError):
            tx.commit_async()
        with pytest.raises(topicdb.ForkedError):
            tx.commit(timeout=1)
        return "refused"

    assert fork_and_run(use) == "refused"
    assert tx.commit_async().result(PATIENCE_S).count == 1
