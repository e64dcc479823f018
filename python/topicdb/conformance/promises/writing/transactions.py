"""Transactions on one shard: what they see, what they apply, what makes them fail."""

from __future__ import annotations

from collections.abc import Callable

from topicdb import _core
from topicdb.conformance import expect
from topicdb.conformance.lab import Lab, plain, read
from topicdb.conformance.promise import promise
from topicdb.engine import TransactionEngine

OWN = "$topicdb/conformance/x"


def _number(value: bytes | None) -> int:
    return int(value or b"0")


@promise("transactions")
def everything_is_applied_at_commit(lab: Lab) -> None:
    """Nothing of a transaction is seen before its commit, and all of it afterwards, as one
    commit."""
    a, b, gone = (lab.topic_in(0, name) for name in ("a", "b", "gone"))
    lab.append((a, 1, b"old"), (gone, 1, b""))
    before = lab.everything()
    transaction = lab.engine.begin(0, None, None)
    transaction.write(a, 2, b"new")
    transaction.write(b, 3, bytearray(b"b"))
    transaction.delete(gone, None, None)
    expect.equal(lab.everything(), before, "what others see before the commit")
    expect.equal((transaction.open, transaction.shard), (True, 0), "open and shard")
    receipt = transaction.commit()
    expect.equal(
        lab.everything(), sorted([(a, 1, b"old"), (a, 2, b"new"), (b, 3, b"b")]), "afterwards"
    )
    expect.equal(receipt.count, 2, "the count of the receipt")
    expect.equal(receipt.serials, {0: lab.serials()[0]}, "the serial of the receipt")
    expect.equal(transaction.open, False, "open, after the commit")


@promise("transactions")
def a_rollback_applies_nothing(lab: Lab) -> None:
    """A transaction that is rolled back leaves nothing behind. A rollback may be repeated."""
    lab.append(("a", 1, b""))
    with lab.nothing_changes("a rollback"):
        transaction = lab.engine.begin(0, None, None)
        transaction.write("b", 1, b"")
        transaction.delete("#", None, None)
        transaction.rollback()
        transaction.rollback()
    expect.equal(transaction.open, False, "open, after a rollback")


@promise("transactions")
def it_sees_its_own_changes(lab: Lab) -> None:
    """A transaction reads what it has written and deleted itself, on top of what is stored."""
    a, b, c = (lab.topic_in(0, name) for name in ("a", "b", "c"))
    lab.append((a, 1, b"1"), (a, 2, b"2"), (b, 2, b"b"))
    with lab.transaction() as transaction:
        transaction.write(a, 3, b"own")
        transaction.write(c, 0, b"c")
        expect.equal(transaction.get(a, 3), b"own", "a message of its own")
        expect.equal(transaction.get(a, 7), None, "a message that is not there")
        found = read(transaction.scan("#", None, None))
        wanted = [(c, 0, b"c"), (a, 1, b"1"), (a, 2, b"2"), (b, 2, b"b"), (a, 3, b"own")]
        expect.equal(sorted(found), sorted(wanted), "a scan")
        expect.equal([m[1] for m in found], [0, 1, 2, 2, 3], "the order of a scan by timestamp")
        transaction.delete(a, 2, None)
        expect.equal(transaction.get(a, 2), None, "a message that it has deleted")
        expect.equal(read(transaction.scan(a, None, None)), [(a, 1, b"1")], "a scan afterwards")
        transaction.write(a, 2, b"again")
        found = read(transaction.scan(a, 1, 3))
        expect.equal(found, [(a, 1, b"1"), (a, 2, b"again")], "a scan of a range")
    expect.equal(lab.messages(a), [(a, 1, b"1"), (a, 2, b"again")], "what is stored")


@promise("transactions")
def it_reads_one_moment(lab: Lab) -> None:
    """A transaction reads the shard as it was when the transaction began."""
    a = lab.topic_in(0)
    lab.append((a, 1, b"1"))
    with lab.transaction() as transaction:
        lab.append((a, 1, b"2"), (a, 2, b"2"))
        expect.equal(transaction.get(a, 1), b"1", "a message that was written again since")
        expect.equal(read(transaction.scan(a, None, None)), [(a, 1, b"1")], "a scan")


@promise("transactions")
def one_that_only_reads_always_commits(lab: Lab) -> None:
    """A transaction without writes, deletes and requirements commits, whatever has changed, and
    makes no commit."""
    a = lab.topic_in(0)
    transaction = lab.engine.begin(0, None, None)
    expect.equal(transaction.get(a, 1), None, "what it reads")
    lab.append((a, 1, b""))
    with lab.nothing_changes("its commit"):
        receipt = transaction.commit()
    expect.equal((receipt.serials, receipt.count), ({}, 0), "its receipt")


@promise("transactions")
def a_change_of_what_it_read_is_a_conflict(lab: Lab) -> None:
    """A commit that touches what a transaction has read, deletes or requires makes it fail with
    ConflictError, which lists that; nothing is applied."""
    a = lab.topic_in(0, "a")
    uses: dict[str, Callable[[TransactionEngine], object]] = {
        "get": lambda tx: tx.get(a, 5),
        "scan": lambda tx: read(tx.scan("a/+", None, None)),
        "scan of a range": lambda tx: read(tx.scan("#", 5, 6)),
        "delete": lambda tx: tx.delete("a/#", 5, 6),
        "require": lambda tx: tx.require(a, 5, None),
        "require_present": lambda tx: tx.require_present(a, 5),
    }
    for name, use in uses.items():
        if lab.has("deletes"):
            lab.engine.delete("#", None, None, None)
        elif lab.everything():
            return  # the first use was checked
        transaction = lab.engine.begin(0, None, None)
        use(transaction)
        transaction.write(lab.topic_in(0, "out"), 1, b"")
        receipt = lab.append((a, 5, b"changed"))
        with lab.nothing_changes(name), expect.raises(_core.ConflictError, name) as caught:
            transaction.commit()
        conflicts = caught.error.conflicts
        expect.equal(len(conflicts), 1, f"how many conflicts are listed of {name}")
        expect.equal(conflicts[0][3], receipt.serials[0], f"the commit that changed it, of {name}")
        expect.equal(transaction.open, False, "open, after a conflict")


@promise("transactions")
def a_change_beside_is_none(lab: Lab) -> None:
    """A commit that touches nothing of that does not make a transaction fail; a write that nothing
    read overwrites, and the later commit wins."""
    a, b = lab.topic_in(0, "a"), lab.topic_in(0, "b")
    uses: dict[str, Callable[[TransactionEngine], object]] = {
        "get": lambda tx: tx.get(a, 4),
        "scan": lambda tx: read(tx.scan("b/#", None, None)),
        "scan of a range": lambda tx: read(tx.scan("#", 6, 9)),
        "require": lambda tx: tx.require(b, 5, None),
        "write": lambda tx: tx.write(a, 5, b"own"),
    }
    for name, use in uses.items():
        transaction = lab.engine.begin(0, None, None)
        use(transaction)
        transaction.write(lab.topic_in(0, "out"), 1, name.encode())
        lab.append((a, 5, b"changed"))
        transaction.commit()
    with lab.transaction() as transaction:
        expect.equal(transaction.get(a, 5), b"own", "what the later commit wrote")


@promise("transactions")
def a_new_message_where_it_looked_is_a_conflict(lab: Lab) -> None:
    """Two transactions that each read what the other writes do not both commit."""
    a, b = lab.topic_in(0, "a"), lab.topic_in(0, "b")
    one, two = (lab.engine.begin(0, None, None) for _ in range(2))
    expect.equal(read(one.scan("b/#", None, None)), [], "what the first one reads")
    expect.equal(read(two.scan("a/#", None, None)), [], "what the second one reads")
    one.write(a, 1, b"1")
    two.write(b, 1, b"2")
    one.commit()
    with expect.raises(_core.ConflictError, "the commit of the second one"):
        two.commit()
    expect.equal(lab.everything(), [(a, 1, b"1")], "what is stored")


@promise("transactions")
def requirements_are_checked_at_commit(lab: Lab) -> None:
    """require() lets a commit fail with PreconditionError, which lists what was expected and found,
    unless what is stored before it is so; nothing is applied then."""
    a, b = lab.topic_in(0, "a"), lab.topic_in(0, "b")
    lab.append((a, 1, b"is"))
    with lab.transaction() as transaction:
        transaction.require(a, 1, b"is")
        transaction.require(b, 1, None)
        transaction.write(b, 1, b"new")
    transaction = lab.engine.begin(0, None, None)
    transaction.require(a, 1, b"other")
    transaction.require(a, 3, b"there")
    transaction.require(b, 1, None)
    transaction.write(b, 2, b"")
    with (
        lab.nothing_changes("its commit"),
        expect.raises(_core.PreconditionError, "commit") as caught,
    ):
        transaction.commit()
    wanted = [(a, 1, b"other", b"is"), (a, 3, b"there", None), (b, 1, None, b"new")]
    expect.equal(list(caught.error.failures), wanted, "the failures")


@promise("transactions")
def presence_can_be_required(lab: Lab) -> None:
    """require_present() lets a commit fail unless a message is stored there before it, whatever its
    value; the failure lists True as what was expected."""
    a = lab.topic_in(0, "a")
    lab.append((a, 1, b"any"), (a, 2, b""))
    with lab.transaction() as transaction:
        transaction.require_present(a, 1)
        transaction.require_present(a, 2)
        transaction.write(a, 3, b"new")
    expect.equal(lab.messages(a, 3), [(a, 3, b"new")], "what is stored")
    transaction = lab.engine.begin(0, None, None)
    transaction.require_present(a, 1)
    transaction.require_present(a, 7)
    transaction.write(a, 7, b"of its own")
    with (
        lab.nothing_changes("its commit"),
        expect.raises(_core.PreconditionError, "commit") as caught,
    ):
        transaction.commit()
    expect.equal(list(caught.error.failures), [(a, 7, True, None)], "the failures")


@promise("transactions")
def the_last_write_counts(lab: Lab) -> None:
    """Of several writes of one topic and timestamp the last one counts; a delete takes earlier
    writes of the transaction with it."""
    a, b = lab.topic_in(0, "a"), lab.topic_in(0, "b")
    lab.append((a, 1, b"stored"))
    with lab.transaction() as transaction:
        transaction.write(b, 1, b"taken by the delete")
        transaction.delete("#", None, None)
        transaction.write(a, 1, b"first")
        transaction.write(a, 1, b"last")
    expect.equal(lab.everything(), [(a, 1, b"last")], "what is stored")


@promise("transactions")
def what_is_assigned_at_commit(lab: Lab) -> None:
    """A timestamp of None and a value of None, the serial of the commit, are assigned at commit."""
    time, serial = lab.topic_in(0, "time"), lab.topic_in(0, "serial")
    transaction = lab.engine.begin(0, None, None)
    transaction.write(time, None, b"t")
    transaction.write(serial, 5, None)
    receipt = transaction.commit()
    found = {topic: (timestamp, value) for topic, timestamp, value in lab.everything()}
    expect.equal(found[serial], (5, receipt.serials[0].to_bytes(8, "big")), "the serial as a value")
    expect.true(found[time][0] > 10**15, "a timestamp was assigned")


@promise("transactions")
def use_after_the_end_is_an_error(lab: Lab) -> None:
    """A transaction that is over raises ClosedError whatever it is asked, but for a rollback."""
    committed, rolled_back = (lab.engine.begin(0, None, None) for _ in range(2))
    committed.write("a", 1, b"")
    committed.commit()
    rolled_back.rollback()
    for transaction in (committed, rolled_back):
        uses: dict[str, Callable[[], object]] = {
            "write": lambda tx=transaction: tx.write("a", 1, b""),  # type: ignore[misc]
            "delete": lambda tx=transaction: tx.delete("#", None, None),  # type: ignore[misc]
            "get": lambda tx=transaction: tx.get("a", 1),  # type: ignore[misc]
            "scan": lambda tx=transaction: read(tx.scan("#", None, None)),  # type: ignore[misc]
            "require": lambda tx=transaction: tx.require("a", 1, None),  # type: ignore[misc]
            "require_present": lambda tx=transaction: tx.require_present("a", 1),  # type: ignore[misc]
            "commit": lambda tx=transaction: tx.commit(),  # type: ignore[misc]
        }
        for name, use in uses.items():
            with expect.raises(_core.ClosedError, f"{name}() after the end"):
                use()
        transaction.rollback()


@promise("transactions")
def bad_arguments_change_nothing(lab: Lab) -> None:
    """A bad topic or filter is a TopicError, another bad argument a ValueError or TypeError; the
    transaction can go on."""
    transaction = lab.engine.begin(0, None, None)
    for topic in ("", "a/+", "$topicdb/x"):
        with expect.raises(_core.TopicError, f"the topic {topic!r}"):
            transaction.write(topic, 1, b"")
    with expect.raises(_core.TopicError, "the filter a/#/b"):
        transaction.delete("a/#/b", None, None)
    with expect.raises(ValueError, "a range from 9 to 5"):
        transaction.delete("a", 9, 5)
    for value in (b"", None):
        with expect.raises(ValueError, f"the timestamp -1 with the value {value!r}"):
            transaction.write("a", -1, value)
    with expect.raises(TypeError, "a value that is text"):
        transaction.write("a", 1, "text")
    transaction.write("a", 1, b"good")
    transaction.commit()
    expect.equal(lab.everything(), [("a", 1, b"good")], "what is stored")
    with expect.raises(ValueError, "a shard too many"):
        lab.engine.begin(lab.shards, None, None)


@promise("transactions")
def topics_of_its_own_are_apart(lab: Lab) -> None:
    """Topics under $topicdb/ are written with reserved alone. Scans find them by name and with
    None, the log and slices have none of them; the last write of a topic and timestamp replaces
    others."""
    lab.append(("a", 1, b""))
    with lab.transaction() as transaction:
        transaction.write(OWN, 0, b"own", reserved=True)
        expect.equal(transaction.get(OWN, 0), b"own", "what the transaction reads")
    expect.equal(lab.everything(), [(OWN, 0, b"own"), ("a", 1, b"")], "what None finds")
    expect.equal(lab.messages("#"), [("a", 1, b"")], "what # finds")
    expect.equal(lab.messages("$topicdb/conformance/+"), [(OWN, 0, b"own")], "what its name finds")
    found = [topic for topic, _, _ in read(lab.engine.last(None, None, None))]
    expect.equal(found, [OWN, "a"], "what last() finds")
    if lab.has("slices"):
        slices = lab.engine.slices(None, None, None, {}, {}, 1 << 20)
        expect.equal(
            read(lab.engine.scan_slices(None, slices)), [("a", 1, b"")], "what slices have"
        )
    if lab.has("log"):
        tail = lab.engine.tail(None, {}, {})
        expect.equal(plain(tail.next_batch(100, 1 << 20, 0)), [("a", 1, b"")], "what a tail gives")
        expect.equal(tail.next_batch(100, 1 << 20, 0), None, "what a tail gives afterwards")
        tail.close()
    with lab.transaction() as transaction:
        transaction.write(OWN, 0, b"newer", reserved=True)
    expect.equal(lab.messages(OWN), [(OWN, 0, b"newer")], "what is there after a second write")
    with lab.transaction() as transaction:
        with expect.raises(_core.TopicError, "a delete without reserved"):
            transaction.delete("$topicdb/#", None, None)
        transaction.delete("$topicdb/conformance/#", None, None, reserved=True)
    expect.equal(lab.messages("$topicdb/#"), [], "what is left of them")


@promise("transactions")
def a_shard_has_what_is_written_to_it(lab: Lab) -> None:
    """A transaction writes to its shard, whatever shard the topic belongs to; every read finds
    it."""
    for shard in range(lab.shards):
        with lab.transaction(shard) as transaction:
            transaction.write("anywhere", shard, b"%d" % shard)
            expect.equal(transaction.shard, shard, "the shard of a transaction")
    wanted = [("anywhere", shard, b"%d" % shard) for shard in range(lab.shards)]
    expect.equal(lab.messages("anywhere", order="time"), wanted, "what a scan finds")
    with lab.transaction(lab.shards - 1) as transaction:
        found = read(transaction.scan("#", None, None))
        expect.equal(found, wanted[-1:], "what a transaction of the last shard finds")


@promise("transactions", "generations")
def a_generation_can_be_chosen(lab: Lab) -> None:
    """With a generation a transaction reads and deletes there alone; one that takes no messages is
    a ReadOnlyError at commit, one that does not exist a NotFoundError."""
    a = lab.topic_in(0)
    lab.append((a, 1, b"old"))
    old = next(s.generation for s in lab.engine.slabs() if s.shard == 0 and s.messages)
    lab.engine.rotate(None)
    lab.append((a, 2, b"new"))
    transaction = lab.engine.begin(0, old, None)
    expect.equal(read(transaction.scan("#", None, None)), [(a, 1, b"old")], "what it reads")
    expect.equal(transaction.get(a, 2), None, "a message of another generation")
    transaction.write(a, 3, b"")
    with lab.nothing_changes("a write"), expect.raises(_core.ReadOnlyError, "its commit"):
        transaction.commit()
    transaction = lab.engine.begin(0, old, None)
    transaction.delete("#", None, None)
    transaction.commit()
    expect.equal(lab.everything(), [(a, 2, b"new")], "what is left after a delete in it")
    with expect.raises(_core.NotFoundError, "generation 1,000"):
        lab.engine.begin(0, 1_000, None)


@promise("transactions", "generations")
def a_dropped_generation_is_a_conflict(lab: Lab) -> None:
    """A generation that is dropped counts as a change of everything."""
    a = lab.topic_in(0)
    lab.append((a, 1, b"old"))
    lab.engine.rotate(None)
    transaction = lab.engine.begin(0, None, None)
    transaction.get(a, 1)
    transaction.write(a, 9, b"")
    slab = next(s for s in lab.engine.slabs() if s.shard == 0 and s.messages)
    lab.engine.drop_slab(0, slab.retention_class, slab.generation)
    with lab.nothing_changes("its commit"), expect.raises(_core.ConflictError, "its commit"):
        transaction.commit()


@promise("transactions")
def counters_of_threads_lose_nothing(lab: Lab) -> None:
    """Threads that count in transactions, and repeat those with a conflict, lose no step."""
    threads, steps = 3, 8
    topic = lab.topic_in(0, "counter")

    def work() -> None:
        for _ in range(steps):
            while True:
                transaction = lab.engine.begin(0, None, None)
                try:
                    number = _number(transaction.get(topic, 0))
                    transaction.write(topic, 0, b"%d" % (number + 1))
                    transaction.commit()
                    break
                except _core.ConflictError:
                    transaction.rollback()

    lab.together([work] * threads)
    with lab.transaction() as transaction:
        expect.equal(transaction.get(topic, 0), b"%d" % (threads * steps), "the counter")


@promise("transactions", "persistence")
def transactions_are_kept(lab: Lab) -> None:
    """What a transaction has committed is there when the engine is opened again; what it has not is
    not."""
    a, b = lab.topic_in(0, "a"), lab.topic_in(0, "b")
    lab.append((b, 1, b""))
    with lab.transaction() as transaction:
        transaction.write(a, 1, b"kept")
        transaction.delete(b, None, None)
        transaction.write(OWN, 0, b"own", reserved=True)
    left_open = lab.engine.begin(0, None, None)
    left_open.write(a, 2, b"never committed")
    lab.reopen()
    expect.equal(lab.messages("#"), [(a, 1, b"kept")], "what is stored")
    expect.equal(lab.messages(OWN), [(OWN, 0, b"own")], "what is stored of its own")
