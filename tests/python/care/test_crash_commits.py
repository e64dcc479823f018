"""kill -9 of a process with concurrent appends, transactions and deletes.

``TOPICDB_CRASH_ROUNDS`` sets how often the writer is killed (default 50; the long run is 200).
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import Child, Layout

import topicdb

ROUNDS = int(os.environ.get("TOPICDB_CRASH_ROUNDS", "50"))

# Each thread has a name for each commit and prints it, with the serial, when it is acknowledged.
# A commit has a pair of messages, so that half a commit would be noticed.
WRITER = """
    import sys, threading, topicdb
    path, round_number = sys.argv[1], int(sys.argv[2])
    print("opening")
    layouts = sys.argv[3].split(",")
    db = topicdb.open(path, thresholds=[3, 2], layout=layouts[0])
    lock = threading.Lock()

    def acknowledge(kind, number, i, receipt):
        with lock:
            print(kind, number, i, receipt.serials[0])

    def pair(kind, number, i):
        value = b"%d" % i
        return [(f"{kind}/{round_number}/{number}/{i}/{side}", i, value) for side in "lr"]

    def append(number):
        i = 0
        while True:
            acknowledge("append", number, i, db.append(pair("append", number, i),
                        durability=("os", "disk")[i % 2]))
            i += 1

    def append_async(number):
        i = 0
        while True:
            futures = [(i + k, db.append_async(pair("async", number, i + k))) for k in range(5)]
            for k, future in futures:
                acknowledge("async", number, k, future.result())
            i += 5

    def transact(number):
        i = 0
        def step(tx):
            last = tx.get("counter", 0)
            tx.write("counter", 0, b"%d" % (int(last or 0) + 1))
            for row in pair("tx", number, i):
                tx.write(*row)
            tx.write(f"serial/{round_number}/{number}/{i}", 0, topicdb.SERIAL)
            return tx
        while True:
            acknowledge("tx", number, i, db.transact(step, retries=1000).receipt)
            i += 1

    def transact_async(number):
        i = 0
        def begin(i):
            tx = db.transaction()
            for row in pair("txasync", number, i):
                tx.write(*row)
            return tx
        def within(tx, timeout):
            try:
                return tx.commit(timeout=timeout)
            except topicdb.CommitTimeoutError as error:
                return error.outcome and error.outcome.result()
        def tell(i, outcome):
            try:
                receipt = outcome()
            except topicdb.ConflictError:  # a generation of another layout has begun
                receipt = None
            if receipt is None:
                with lock:
                    print("withdrawn", number, i, 0)
            else:
                acknowledge("txasync", number, i, receipt)
        while True:
            futures = [(i + k, begin(i + k).commit_async()) for k in range(5)]
            for k, future in futures:
                tell(k, future.result)
            tell(i + 5, lambda: within(begin(i + 5), (i % 3) * 1e-4))
            i += 6

    def delete(number):
        i = 0
        while True:
            db.append(pair("deleted", number, i))
            with db.transaction() as tx:  # only this thread rotates, so it never conflicts
                tx.delete(f"deleted/{round_number}/{number}/{i}/#")
                tx.write(f"gone/{round_number}/{number}/{i}", 0, b"")
            acknowledge("delete", number, i, tx.receipt)
            if i % 10 == 9:
                db.rotate(layout=layouts[i // 10 % len(layouts)])
            i += 1

    for number, work in enumerate((append, append_async, transact, delete, transact_async)):
        threading.Thread(target=work, args=(number,), daemon=True).start()
    threading.Event().wait()
"""


class Rounds:
    """Kills one writer after another, and checks what is left."""

    def __init__(self, path: Path, layouts: tuple[Layout, ...], seed: int) -> None:
        self.path = path
        self.layouts = ",".join(layouts)
        self.random = random.Random(seed)
        self.serials: dict[int, tuple[str, ...]] = {}
        self.counter = 0

    def run(self, rounds: int) -> None:
        for number in range(rounds):
            acknowledged = self.write_and_kill(number)
            self.check(number, acknowledged)

    def write_and_kill(self, number: int) -> list[tuple[str, ...]]:
        wanted = self.random.randint(1, 150)
        with Child(WRITER, self.path, number, self.layouts) as child:
            child.expect("opening")
            lines = [child.read_line() for _ in range(wanted)]
            child.kill()
            _, rest, _ = child.finish()
        lines += [line[:-1] for line in rest.splitlines(keepends=True) if line[-1] == "\n"]
        return [tuple(line.split()) for line in lines]

    def check(self, number: int, acknowledged: list[tuple[str, ...]]) -> None:
        withdrawn = {(thread, i) for kind, thread, i, _ in acknowledged if kind == "withdrawn"}
        acknowledged = [one for one in acknowledged if one[0] != "withdrawn"]
        for kind, thread, i, serial in acknowledged:
            name = (str(number), kind, thread, i)
            assert self.serials.setdefault(int(serial), name) == name, "a serial was used twice"
        with topicdb.open(self.path) as db:
            stored = set(self.stored_pairs(db, number))
            assert not any(("txasync", *one) in stored for one in withdrawn)
            for kind, thread, i, serial in acknowledged:
                if kind == "delete":
                    assert db.scan(f"deleted/{number}/{thread}/{i}/#").count() == 0
                    assert db.scan(f"gone/{number}/{thread}/{i}").count() == 1
                else:
                    assert (kind, thread, i) in stored, "what was acknowledged is there"
                if kind == "tx":
                    (message,) = db.scan(f"serial/{number}/{thread}/{i}")
                    assert int.from_bytes(message.value, "big") == int(serial)
            self.check_transactions(db, stored, number)
            assert db.stats()["shards"][0]["serial"] >= max(self.serials)

    def stored_pairs(self, db: topicdb.Database, number: int) -> Iterator[tuple[str, ...]]:
        """Yields the stored commits of a round, and checks that each has both messages."""
        sides: dict[tuple[str, ...], set[str]] = {}
        for message in db.scan(f"+/{number}/+/+/+"):
            kind, _, thread, i, side = message.topic.split("/")
            sides.setdefault((kind, thread, i), set()).add(side)
        for name, found in sides.items():
            assert found == {"l", "r"}, f"half of {name}"
            yield name

    def check_transactions(
        self, db: topicdb.Database, stored: set[tuple[str, ...]], number: int
    ) -> None:
        """Checks that counter, pairs and serials of transactions come from the same commits."""
        of_round = sum(1 for kind, _, _ in stored if kind == "tx")
        newest = [m.value for m in db.scan("counter")][-1:] or [b"0"]
        self.counter += of_round
        assert int(newest[0]) == self.counter
        assert db.scan(f"serial/{number}/+/+").count() == of_round


def test_concurrent_writers_that_are_killed_lose_nothing(
    tmp_path: Path, layouts: tuple[Layout, ...]
) -> None:
    Rounds(tmp_path / "db", layouts, seed=80).run(max(1, ROUNDS // 5))


@pytest.mark.crash
def test_concurrent_writers_are_killed_for_long(
    tmp_path: Path, layouts: tuple[Layout, ...]
) -> None:
    for number in range(10):
        Rounds(tmp_path / f"{number}.db", layouts, seed=90 + number).run(max(1, ROUNDS // 10))
