"""Closing: it waits for calls in flight, ends those that wait, and refuses later ones."""

from __future__ import annotations

import threading
from collections.abc import Callable

from topicdb import _core
from topicdb.conformance import expect
from topicdb.conformance.calls import CALLS, call
from topicdb.conformance.lab import Lab
from topicdb.conformance.promise import promise
from topicdb.engines.features import FEATURES


@promise()
def a_closed_engine_refuses_every_call(lab: Lab) -> None:
    """Every method of an engine that is closed raises ClosedError; path and schema can be read."""
    lab.append(("a", 1, b""))
    methods = [m for m in CALLS if all(lab.has(f) for f, names in FEATURES.items() if m in names)]
    if not lab.keeps_all:
        methods = [m for m in methods if m not in ("places_at", "count_dropped")]
    schema, path = lab.engine.schema, lab.engine.path
    engine = lab.engine
    engine.close()
    for method in methods:
        with expect.raises(_core.ClosedError, f"{method}() of a closed engine"):
            call(engine, method)
    expect.equal((engine.closed, engine.path, engine.schema), (True, path, schema), "what it says")


@promise()
def closing_twice_is_fine(lab: Lab) -> None:
    """close() may be repeated, also by several threads at once."""
    lab.append(("a", 1, b""))
    engine = lab.engine
    lab.together([engine.close for _ in range(4)])
    engine.close()
    expect.equal(engine.closed, True, "closed")


@promise()
def cursors_end_with_the_engine(lab: Lab) -> None:
    """Scans, tails, watches, subscriptions and transactions of an engine that is closed raise
    ClosedError; to close them is no error."""
    lab.append(*[("a", n, b"") for n in range(20)])
    engine = lab.engine
    scan = engine.scan("a", None, None, "stream", None)
    scan.next_batch(5, 1 << 20)
    uses: dict[str, Callable[[], object]] = {"scan": lambda: scan.next_batch(5, 1 << 20)}
    closes: list[Callable[[], object]] = [scan.close]
    if lab.has("log"):
        tail = engine.tail(None, {}, {})
        uses["tail"] = lambda: tail.next_batch(5, 1 << 20, 0)
        closes.append(tail.close)
    if lab.has("watches"):
        watch = engine.watch_streams("#", True)
        uses["watch"] = lambda: watch.next_streams(0)
        closes.append(watch.close)
    if lab.has("subscriptions"):
        subscription = engine.subscribe(None, None, 0, 10, 1 << 20)
        uses["subscription"] = lambda: subscription.next(0, 10)
        closes.append(subscription.close)
    if lab.has("transactions"):
        transaction = engine.begin(0, None, None)
        transaction.write("a", 99, b"never committed")
        uses["transaction"] = transaction.commit
        closes.append(transaction.rollback)
    engine.close()
    for name, use in uses.items():
        with expect.raises(_core.ClosedError, f"a {name} of a closed engine"):
            use()
    for close in closes:
        close()


@promise()
def closing_ends_calls_that_wait(lab: Lab) -> None:
    """Calls that wait for messages end with ClosedError when the engine is closed."""
    engine = lab.engine
    waits: dict[str, Callable[[], object]] = {}
    if lab.has("log"):
        tail = engine.tail(None, {}, {})
        waits["a tail"] = lambda: tail.next_batch(5, 1 << 20, None)
    if lab.has("watches"):
        watch = engine.watch_streams("#", False)
        waits["a watch"] = lambda: watch.next_streams(None)
    if lab.has("subscriptions"):
        subscription = engine.subscribe(None, {}, 0, 10, 1 << 20)
        waits["a subscription"] = lambda: subscription.next(None, 10)
    tasks = {name: lab.beside(wait) for name, wait in waits.items()}
    lab.beside(engine.close).result()
    for name, task in tasks.items():
        with expect.raises(_core.ClosedError, f"{name} that waits"):
            task.result()


@promise()
def closing_waits_for_appends(lab: Lab) -> None:
    """An append beside close() is either acknowledged, and then kept, or refused with
    ClosedError."""
    engine = lab.engine
    acknowledged: list[list[int]] = [[] for _ in range(4)]
    began = threading.Semaphore(0)

    def work(thread: int) -> None:
        for number in range(100_000):
            try:
                engine.append_rows([(f"closing/{thread}", number, b"%d" % number)], None)
            except _core.ClosedError:
                return
            acknowledged[thread].append(number)
            began.release()

    tasks = [lab.beside(lambda n=n: work(n)) for n in range(4)]  # type: ignore[misc]
    for _ in range(20):
        began.acquire()
    engine.close()
    for task in tasks:
        task.result()
    if not lab.has("persistence"):
        return
    lab.reopen()
    for thread, numbers in enumerate(acknowledged):
        found = [timestamp for _, timestamp, _ in lab.messages(f"closing/{thread}")]
        expect.equal(found, numbers, "what is there of the acknowledged appends of a thread")


@promise()
def closing_waits_for_scans(lab: Lab) -> None:
    """A scan beside close() gives right messages or raises ClosedError."""
    rows = [("a", n, b"%d" % n) for n in range(2_000)]
    lab.append(*rows)
    engine = lab.engine
    began = threading.Event()

    def work() -> None:
        for _ in range(100_000):
            try:
                scan = engine.scan("a", None, None, "stream", None)
                found = []
                while (batch := scan.next_batch(100, 1 << 20)) is not None:
                    found += batch.values
                    began.set()
            except _core.ClosedError:
                return
            expect.equal(found, [value for _, _, value in rows], "what a whole scan gives")

    task = lab.beside(work)
    began.wait(lab.patience_s)
    engine.close()
    task.result()
