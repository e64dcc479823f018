"""The operations that ``compare.py`` measures with each of two builds.

They use only what all versions of TopicDB since 0.1.0 have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import workloads
from measure import Timing, once
from workloads.rows import Workload, table_rows

import topicdb

COMMITS_SHARE = 20  # one commit of a single message for this many rows of a workload
ITEM_BYTES = 1_000


class Measured:
    """Times each operation once, when its turn has come. One process uses it.

    ``take_turn`` gets the results of the operation before, with its CPU seconds, wall seconds and
    the digest of what it has read or written, and returns when the next one may begin.
    """

    def __init__(self, take_turn: Callable[[dict[str, Any]], None]) -> None:
        self._take_turn = take_turn
        self._last: dict[str, Any] = {}

    def run(self, name: str, operation: Callable[[], object], digest: Callable[[], str]) -> None:
        """Runs the operation. ``digest`` is called after the clock has stopped."""
        self._take_turn(self._last)
        timing = Timing()
        once(operation, timing)
        self._last = {
            "name": name,
            "cpu_s": timing.cpu,
            "wall_s": timing.wall,
            "digest": digest(),
        }

    def end(self) -> None:
        """Hands in the results of the last operation."""
        self._take_turn(self._last)


def measure_all(directory: Path, rows: int, take_turn: Callable[[dict[str, Any]], None]) -> None:
    """Runs all operations, one for each turn."""
    measured = Measured(take_turn)
    for name in ("metrics", "fleet"):
        load = workloads.make(name, rows)
        list(load.batches()), list(load.tables())  # makes them before the clock starts
        appends(measured, directory, load)
        reads(measured, directory, load)
    commits(measured, directory, workloads.make("metrics", rows // COMMITS_SHARE))
    queue(measured, directory, rows)
    measured.end()


@contextmanager
def opened(directory: Path, name: str) -> Iterator[topicdb.Database]:
    """Opens a new database of this name, and closes it at the end of the block."""
    with topicdb.open(directory / name) as database:
        yield database


def content_of(database: topicdb.Database) -> str:
    return workloads.digest(table_rows(database.scan().to_arrow()))


def appends(measured: Measured, directory: Path, load: Workload) -> None:
    def append_tuples(database: topicdb.Database) -> None:
        for batch in load.batches():
            database.append(batch)

    def append_tables(database: topicdb.Database) -> None:
        for table in load.tables():
            database.append(table)

    for how, append in (("tuples", append_tuples), ("Arrow", append_tables)):
        with opened(directory, f"{load.name}-{how}.db") as database:
            name = f"append {how}, {load.name}"
            measured.run(name, partial(append, database), partial(content_of, database))
            if how == "tuples":
                measured.run(f"flush, {load.name}", database.flush, partial(content_of, database))


def reads(measured: Measured, directory: Path, load: Workload) -> None:
    times = load.columns.timestamps
    start, end = int(times[len(load) * 45 // 100]), int(times[len(load) * 55 // 100])
    topics = sorted(set(load.columns.topics))[:200]
    with opened(directory, f"{load.name}.db") as database:
        for table in load.tables():
            database.append(table)
        database.flush()
        operations: dict[str, Callable[[], Any]] = {
            "scan to Arrow": lambda: database.scan().to_arrow().num_rows,
            "scan to tuples": lambda: sum(1 for _ in database.scan()),
            "scan by time": lambda: database.scan(order="time").to_arrow().num_rows,
            "10 % of the time, 20 times": lambda: [
                database.scan(start=start, end=end).to_arrow().num_rows for _ in range(20)
            ],
            "one topic, 200 times": lambda: [database.scan(t).to_arrow().num_rows for t in topics],
            "newest of each topic": lambda: database.last().to_arrow().num_rows,
            "count": lambda: database.scan().count(),
            "tail of everything": lambda: sum(1 for _ in database.tail(timeout=0)),
            "slices, 50 times": lambda: [len(database.slices()) for _ in range(50)],
        }
        for what, operation in operations.items():
            found: list[Any] = []

            def read(operation: Callable[[], Any] = operation, found: list[Any] = found) -> None:
                found.append(operation())

            def digest(found: list[Any] = found) -> str:
                return digest_of(found)

            measured.run(f"{what}, {load.name}", read, digest)


def commits(measured: Measured, directory: Path, load: Workload) -> None:
    """Measures commits of one message each, by append and by transaction, and a lag."""

    def append_each(database: topicdb.Database) -> None:
        for row in load.rows:
            database.append([row])

    def transact_each(database: topicdb.Database) -> None:
        for topic, timestamp, value in load.rows:
            with database.transaction() as transaction:
                transaction.write(topic, timestamp, value)

    for what, write in (("append", append_each), ("transaction", transact_each)):
        with opened(directory, f"{what}s.db") as database:
            name = f"{what} of 1 message, {len(load)} times"
            measured.run(name, partial(write, database), partial(content_of, database))
    with opened(directory, "lag.db") as database:
        append_each(database)
        lags: list[int] = []

        def measure_lags(consumer: topicdb.Consumer) -> None:
            lags.extend(consumer.lag() for _ in range(50))

        with database.consumer("reader", start="earliest") as consumer:
            measured.run("lag, 50 times", partial(measure_lags, consumer), lambda: digest_of(lags))


def queue(measured: Measured, directory: Path, rows: int) -> None:
    items = [b"%0*d" % (ITEM_BYTES, number) for number in range(rows // 10)]
    popped: list[bytes] = []

    def append(queue: topicdb.Queue) -> None:
        for first in range(0, len(items), 100):
            queue.append(items[first : first + 100])

    def pop(queue: topicdb.Queue) -> None:
        while (batch := queue.pop(count=100)).items:
            popped.extend(batch.items)
            queue.ack(batch.ref)

    with topicdb.Queue.open(directory / "buffer.q") as buffer:
        measured.run("queue: append by 100", partial(append, buffer), lambda: digest_of(items))
        measured.run("queue: pop by 100", partial(pop, buffer), lambda: digest_of(popped))


def digest_of(found: Any) -> str:
    return hashlib.blake2b(repr(found).encode(), digest_size=8).hexdigest()
