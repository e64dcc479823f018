"""Tails of the commit log, and measuring it."""

from __future__ import annotations

from topicdb import _core
from topicdb.conformance import expect
from topicdb.conformance.lab import Lab, values
from topicdb.conformance.promise import promise
from topicdb.engine import Serials, TailCursor

LIMITS = 10_000, 8 << 20


def _tail(
    lab: Lab,
    filters: list[str] | None = None,
    after: Serials | None = None,
    until: Serials | None = None,
) -> TailCursor:
    return lab.engine.tail(filters, after or {}, until or {})


def _drain(tail: TailCursor, rows: int = LIMITS[0]) -> list[bytes]:
    """Returns the values of what a tail has without waiting, and closes it."""
    found: list[bytes] = []
    while (batch := tail.next_batch(rows, LIMITS[1], 0)) is not None:
        expect.true(len(batch) > 0, "a batch has a message at least")
        found += batch.values
    tail.close()
    return found


@promise("log")
def commits_in_their_order(lab: Lab) -> None:
    """A tail gives the messages of a shard in the order of commits and of places in them, whatever
    their timestamps."""
    topics = [lab.topic_in(0, f"log/{n}") for n in range(3)]
    for commit in range(10):
        lab.append(*[(topics[n % 3], 99 - commit, b"%d.%d" % (commit, n)) for n in range(7)])
    wanted = [b"%d.%d" % (commit, n) for commit in range(10) for n in range(7)]
    expect.equal(_drain(_tail(lab)), wanted, "values of all commits")
    expect.equal(_drain(_tail(lab, ["log/#"]), 3), wanted, "values in small batches")
    some = [value for value in wanted if value.endswith((b"1", b"4"))]
    expect.equal(_drain(_tail(lab, [topics[1]])), some, "values of one topic")


@promise("log")
def every_message_of_all_shards_once(lab: Lab) -> None:
    """A tail gives every message of all shards once; those of each shard in their order."""
    wanted: dict[int, list[bytes]] = {shard: [] for shard in range(lab.shards)}
    for commit in range(12):
        rows = [(f"log/{n}", commit, b"%d.%d" % (commit, n)) for n in range(10)]
        lab.append(*rows)
        for topic, _, value in rows:
            wanted[lab.shard_of(topic)].append(value)
    tail = _tail(lab)
    found: dict[int, list[bytes]] = {shard: [] for shard in range(lab.shards)}
    while (batch := tail.next_batch(*LIMITS, 0)) is not None:
        shards = {lab.shard_of(topic) for topic in batch.topics}
        expect.equal(len(shards), 1, "how many shards a batch is of")
        found[shards.pop()] += batch.values
    tail.close()
    expect.equal(found, wanted, "values by shard")


@promise("log")
def a_batch_has_whole_commits(lab: Lab) -> None:
    """A batch has whole commits: more than rows_max messages if one commit has more."""
    topic = lab.topic_in(0)
    for commit in range(6):
        lab.append(*[(topic, commit, b"%d" % commit)] * 5)
    for rows in (1, 5, 7, 1_000):
        tail = _tail(lab)
        while (batch := tail.next_batch(rows, 1 << 20, 0)) is not None:
            expect.equal(len(batch) % 5, 0, f"messages of a part of a commit, with rows_max {rows}")
        tail.close()


@promise("log")
def it_goes_on_behind_serials(lab: Lab) -> None:
    """A tail goes on behind the serials of a receipt, and behind those that another tail says."""
    topics = [lab.topic_in(shard) for shard in range(lab.shards)]
    receipts = [lab.append(*[(t, 5, b"%d" % n) for t in topics]) for n in range(8)]
    found = _drain(_tail(lab, after=receipts[4].serials))
    expect.equal(
        sorted(found), sorted([b"5", b"6", b"7"] * lab.shards), "what comes behind a receipt"
    )
    seen: list[bytes] = []
    serials: Serials = {}
    for _ in range(100):
        tail = _tail(lab, after=serials)
        batch = tail.next_batch(2, 1 << 20, 0)
        serials = tail.serials()
        tail.close()
        if batch is None:
            break
        seen += batch.values
    expect.equal(
        sorted(seen), sorted([b"%d" % n for n in range(8)] * lab.shards), "what many tails give"
    )
    expect.equal(
        serials, {s: receipts[-1].serials[s] for s in range(lab.shards)}, "serials at the end"
    )


@promise("log")
def it_ends_at_serials(lab: Lab) -> None:
    """With until for all shards a tail ends there, without waiting."""
    topics = [lab.topic_in(shard) for shard in range(lab.shards)]
    receipts = [lab.append(*[(t, 5, b"%d" % n) for t in topics]) for n in range(6)]
    tail = _tail(lab, until=receipts[3].serials)
    found: list[bytes] = []
    while (batch := tail.next_batch(*LIMITS, None)) is not None:
        found += batch.values
    tail.close()
    expect.equal(
        sorted(found), sorted([b"0", b"1", b"2", b"3"] * lab.shards), "what comes up to there"
    )


@promise("log")
def batches_have_serials(lab: Lab) -> None:
    """With with_serials each message of a tail comes with the serial of its commit."""
    topic = lab.topic_in(0)
    serials = [lab.append((topic, 1, b""), (topic, 2, b"")).serials[0] for _ in range(5)]
    tail = _tail(lab)
    found: list[int] = []
    while (batch := tail.next_batch(*LIMITS, 0, True)) is not None:
        assert batch.serials is not None
        found += batch.serials.tolist()
    tail.close()
    expect.equal(found, [serial for serial in serials for _ in range(2)], "serials")


@promise("log")
def a_commit_wakes_it(lab: Lab) -> None:
    """A call that waits returns when a commit has something for it; 0 does not wait."""
    tail = _tail(lab, ["log/+"])
    expect.equal(tail.next_batch(*LIMITS, 0), None, "a batch before any commit")
    waits = lab.beside(lambda: tail.next_batch(*LIMITS, None))
    lab.append(("other", 1, b""))
    lab.append(("log/x", 1, b"mine"))
    batch = waits.result()
    expect.equal(None if batch is None else batch.values, [b"mine"], "what came")
    expect.equal(tail.next_batch(*LIMITS, 1_000), None, "a batch after a timeout")
    tail.close()


@promise("log", "deletes")
def deleted_messages_are_left_out(lab: Lab) -> None:
    """What is deleted before a tail comes to it is left out."""
    topic = lab.topic_in(0)
    lab.append(*[(topic, n, b"%d" % n) for n in range(6)])
    lab.engine.delete(topic, 2, 4, None)
    expect.equal(_drain(_tail(lab)), [b"0", b"1", b"4", b"5"], "what is left")


@promise("log", "generations")
def across_generations(lab: Lab) -> None:
    """The log goes on over generations; what was dropped is left out."""
    topic = lab.topic_in(0)
    lab.append((topic, 3, b"1"))
    lab.engine.rotate(None)
    lab.append((topic, 2, b"2"))
    expect.equal(_drain(_tail(lab)), [b"1", b"2"], "the log")
    old = min(s.generation for s in lab.engine.slabs() if s.shard == 0)
    slab = next(s for s in lab.engine.slabs() if (s.shard, s.generation) == (0, old) and s.messages)
    lab.engine.drop_slab(0, slab.retention_class, old)
    expect.equal(_drain(_tail(lab)), [b"2"], "the log without the old generation")


@promise("log", "subscriptions", "generations")
def nothing_is_passed_by_silently(lab: Lab) -> None:
    """A tail that comes to a generation without a log gives what is before it, and then raises
    SchemaError; check_log() raises it for whoever would begin there."""
    topic = lab.topic_in(0)
    lab.append((topic, 1, b"1"))
    lab.engine.check_log([topic], {}, 0)  # all is in a log
    lab.engine.check_log([topic], None, 0)
    try:
        lab.engine.rotate(None, False, "skipstream")
    except _core.SchemaError:
        return  # all generations of this engine have one
    lab.append((topic, 2, b"2"))
    with expect.raises(_core.SchemaError, "check_log() from now on"):
        lab.engine.check_log([topic], None, 0)
    with expect.raises(_core.SchemaError, "a tail that begins there"):
        _tail(lab, [topic], lab.serials())
    lab.engine.check_log([topic], {}, 0)
    tail = _tail(lab, [topic])
    batch = tail.next_batch(*LIMITS, 0)
    expect.equal(None if batch is None else batch.values, [b"1"], "what is before it")
    with expect.raises(_core.SchemaError, "the tail when it comes there"):
        tail.next_batch(*LIMITS, 0)
    tail.close()


@promise("log")
def closing_ends_a_wait(lab: Lab) -> None:
    """A call that waits raises ClosedError when another thread closes the tail."""
    tail = _tail(lab)
    waits = lab.beside(lambda: tail.next_batch(*LIMITS, None))
    tail.close()
    tail.close()
    with expect.raises(_core.ClosedError, "next_batch() of a closed tail"):
        waits.result()


@promise("log")
def what_cannot_be_is_refused(lab: Lab) -> None:
    """A shard that does not exist is a ValueError of a tail and a NotFoundError of measure_log, a
    bad filter is a TopicError."""
    with expect.raises(ValueError, "after, with a shard too many"):
        _tail(lab, after={lab.shards: 1})
    with expect.raises(ValueError, "until, with a shard too many"):
        _tail(lab, until={lab.shards: 1})
    with expect.raises(_core.TopicError, "the filter a/#/b"):
        _tail(lab, ["a/#/b"])
    with expect.raises(_core.NotFoundError, "measure_log of a shard too many"):
        lab.engine.measure_log(lab.shards, None, 0, None, None, 1, 1)


@promise("log")
def it_can_be_measured(lab: Lab) -> None:
    """measure_log says how far whole commits go within limits, at least one that matches, and how
    many messages and bytes they have."""
    topic = lab.topic_in(0, "log")
    serials = [lab.append(*[(topic, n, b"12345")] * 4).serials[0] for n in range(6)]
    size = len(topic) + 5
    measure = lab.engine.measure_log
    no_limit = 1 << 40
    span = measure(0, ["log/#"], 0, None, None, no_limit, no_limit)
    expect.equal((span.messages, span.bytes), (24, 24 * size), "the whole log")
    expect.true(span.until >= serials[-1], "it goes to the last commit")
    span = measure(0, None, serials[1], serials[3], None, no_limit, no_limit)
    expect.equal((span.until, span.messages), (serials[3], 8), "between two commits")
    span = measure(0, None, serials[0], None, None, 9, no_limit)
    expect.equal((span.until, span.messages), (serials[2], 8), "with a limit of 9 messages")
    span = measure(0, None, 0, None, None, 1, no_limit)
    expect.equal(span.messages, 4, "with a limit of 1 message, which a commit exceeds")
    span = measure(0, None, serials[-1], None, None, no_limit, no_limit)
    expect.equal(span.messages, 0, "behind the last commit")
    span = measure(0, ["nobody"], 0, None, None, no_limit, no_limit)
    expect.equal(span.messages, 0, "of a topic that nobody has")
    span = measure(0, None, 0, None, 4, no_limit, no_limit)
    expect.equal(span.messages, 8, "with timestamps from 4 on")


@promise("log")
def beside_writers(lab: Lab) -> None:
    """A tail beside writers gives each message once, those of each writer in their order."""
    writers, commits = 3, 40

    def write(writer: int) -> None:
        for commit in range(commits):
            lab.append(*[(f"w/{writer}", 1, b"%d.%d" % (commit, n)) for n in range(3)])

    tasks = [lab.beside(lambda n=n: write(n)) for n in range(writers)]  # type: ignore[misc]
    tail = _tail(lab, ["w/#"])
    seen: dict[str, list[bytes]] = {f"w/{n}": [] for n in range(writers)}
    is_over = False
    while not is_over:
        is_over = all(task.over for task in tasks)
        while (batch := tail.next_batch(*LIMITS, 0)) is not None:
            for topic, _, value in batch:
                seen[topic].append(value)
    tail.close()
    for task in tasks:
        task.result()
    wanted = [b"%d.%d" % (commit, n) for commit in range(commits) for n in range(3)]
    for topic, found in seen.items():
        expect.equal(found, wanted, f"what {topic!r} gave")


@promise("log", "persistence")
def the_log_is_kept(lab: Lab) -> None:
    """The log is the same after the engine was opened again, and serials mean the same."""
    topic = lab.topic_in(0)
    receipts = [lab.append((topic, 9 - n, b"%d" % n)) for n in range(6)]
    lab.reopen()
    expect.equal(_drain(_tail(lab)), [b"%d" % n for n in range(6)], "the whole log")
    later = lab.append((topic, 1, b"6"))
    expect.true(later.serials[0] > receipts[-1].serials[0], "serials go on")
    expect.equal(
        _drain(_tail(lab, after=receipts[3].serials)), [b"4", b"5", b"6"], "from a receipt on"
    )
    expect.equal(len(values(lab.messages(topic))), 7, "how many messages there are")
