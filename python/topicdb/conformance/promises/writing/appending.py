"""Appends: what comes back, what a receipt says, and what is refused."""

from __future__ import annotations

import time
from typing import Any

from topicdb import _core
from topicdb.conformance import expect
from topicdb.conformance.lab import Lab, plain, values
from topicdb.conformance.promise import promise
from topicdb.engines.values import batch_of

TIME_MAX = (1 << 63) - 1
LEVELS = ("none", "os", "disk")
ODD_ROWS: list[tuple[str, int | None, bytes]] = [
    ("a", 0, b""),
    ("a/b", TIME_MAX, b"\x00\xff"),
    ("/", 1, b"between two empty levels"),
    ("a//b/", 1, b"with empty levels"),
    ("$SYS/broker/load", 1, b"of the broker"),
    ("größe/Ω/👍", 1, "größe".encode()),
    ("a b/c\td", 1, b"with blanks"),
    ("x" * 65_535, 1, b"the longest topic"),
    ("large", 1, bytes(range(256)) * 4_000),
]
BAD_ROWS: list[tuple[Any, type[Exception]]] = [
    (("", 1, b""), _core.TopicError),
    (("a/+", 1, b""), _core.TopicError),
    (("a/#", 1, b""), _core.TopicError),
    (("a/\0", 1, b""), _core.TopicError),
    (("x" * 65_536, 1, b""), _core.TopicError),
    (("$topicdb/map/x", 1, b""), _core.TopicError),
    (("a", -1, b""), ValueError),
    (("a", 1 << 63, b""), ValueError),
    (("a", 1, "text"), TypeError),
    (("a", 1, 7), TypeError),
    ((7, 1, b""), TypeError),
    (("a", 1), TypeError),
    ("abc", TypeError),
]


@promise()
def rows_come_back(lab: Lab) -> None:
    """Every message that was acknowledged is read as it was given: topic, timestamp, value."""
    lab.append(*ODD_ROWS[:4])
    lab.append(*ODD_ROWS[4:])
    expect.equal(lab.everything(), sorted(ODD_ROWS), "what is read of odd rows")
    for topic, timestamp, value in ODD_ROWS:
        expect.equal(lab.messages(topic), [(topic, timestamp, value)], f"what {topic[:20]!r} has")


@promise()
def rows_are_any_iterable(lab: Lab) -> None:
    """Rows come from any iterable; values are anything bytes-like, which may change afterwards."""
    value = bytearray(b"before")
    lab.engine.append_rows(iter([("a", 1, value), ["b", 2, memoryview(b"view")]]), None)
    value[:] = b"after!"
    expect.equal(lab.everything(), [("a", 1, b"before"), ("b", 2, b"view")], "what is stored")


@promise()
def a_receipt_says_what_was_stored(lab: Lab) -> None:
    """A receipt has the serial of the commit in each shard that was written, and the count."""
    topics = [f"receipt/{number}" for number in range(20)]
    receipt = lab.append(*[(topic, 1, b"") for topic in topics])
    expect.equal(
        set(receipt.serials), {lab.shard_of(t) for t in topics}, "the shards that were written"
    )
    expect.equal(receipt.count, len(topics), "the count")
    expect.equal(receipt.repeated, False, "repeated, of an append without an id")
    expect.equal(lab.serials() | receipt.serials, lab.serials(), "the serials that stats() has")


@promise()
def serials_increase(lab: Lab) -> None:
    """Each commit of a shard has a higher serial than those before it, from 1 on."""
    topic = lab.topic_in(lab.shards - 1)
    serials = [lab.append((topic, 9 - n, b"")).serials[lab.shards - 1] for n in range(10)]
    expect.true(serials[0] >= 1, "the first serial is 1 at least")
    expect.equal(serials, sorted(set(serials)), "serials of one shard")


@promise()
def nothing_is_no_commit(lab: Lab) -> None:
    """An append of no rows makes no commit."""
    lab.append(("a", 1, b""))
    with lab.nothing_changes("an append of no rows"):
        receipt = lab.append()
        expect.equal((receipt.serials, receipt.count), ({}, 0), "its receipt")


@promise()
def a_bad_row_stores_nothing(lab: Lab) -> None:
    """If one row cannot be stored, none is, in no shard; the error names the row."""
    good = [(lab.topic_in(shard), 1, b"good") for shard in range(lab.shards)]
    lab.append(*good)
    for bad, kind in BAD_ROWS:
        shown = repr(bad)[:40]
        with (
            lab.nothing_changes(f"the row {shown}"),
            expect.raises(kind, f"the row {shown}") as caught,
        ):
            lab.engine.append_rows([*good, bad, *good], None)
        text = str(caught.error)
        expect.true(f"row {len(good)}" in text, f"the error of {shown} names the row, in {text!r}")


@promise()
def a_failing_iterable_stores_nothing(lab: Lab) -> None:
    """If the iterable of rows raises an error, it comes out, and nothing is stored."""

    def rows() -> Any:
        yield "a", 1, b""
        raise KeyError("mine")

    with lab.nothing_changes("rows that fail"), expect.raises(KeyError, "rows that fail"):
        lab.engine.append_rows(rows(), None)


@promise()
def timestamps_are_assigned(lab: Lab) -> None:
    """A timestamp of None is assigned at commit: later than any assigned before in its shard."""
    before = time.time_ns() // 1_000
    topic = lab.topic_in(0)
    for number in range(3):
        lab.append(*[(topic, None, b"%d" % (10 * number + n)) for n in range(10)])
    found = lab.messages(topic)
    times = [timestamp for _, timestamp, _ in found]
    expect.equal(values(found), [b"%d" % n for n in range(30)], "the order of assigned timestamps")
    expect.equal(times, sorted(set(times)), "assigned timestamps")
    expect.true(times[0] >= before - 1_000_000, "they are not before the clock")


@promise()
def a_given_timestamp_stays(lab: Lab) -> None:
    """A timestamp in the future moves none of those that are assigned."""
    topic = lab.topic_in(0)
    lab.append((topic, TIME_MAX - 1, b"future"), (topic, None, b"now"))
    expect.equal(values(lab.messages(topic)), [b"now", b"future"], "messages by timestamp")


@promise()
def equal_places_follow_the_layout(lab: Lab) -> None:
    """Messages with one topic and timestamp are all kept, in their order; with the layout
    skipstream the last one replaces the others."""
    lab.append(("a", 1, b"1"), ("a", 1, b"2"), ("b", 1, b"b"))
    lab.append(("a", 1, b"3"))
    wanted = [b"1", b"2", b"3"] if lab.keeps_all else [b"3"]
    expect.equal(values(lab.messages("a")), wanted, "messages with equal topic and timestamp")


@promise()
def a_late_message_is_no_other(lab: Lab) -> None:
    """A message with an earlier timestamp is stored and found like any other."""
    lab.append(("a", 5, b"5"))
    lab.append(("a", 3, b"3"), ("b", 1, b""))
    lab.append(("a", 4, b"4"))
    expect.equal(values(lab.messages("a")), [b"3", b"4", b"5"], "messages by timestamp")
    expect.equal(values(lab.messages("a", 3, 5)), [b"3", b"4"], "messages of a range")


@promise()
def values_are_kept_for_readers_or_as_they_are(lab: Lab) -> None:
    """With escapes readers see the value that is given, even if it looks like an envelope."""
    envelope = _core.encode_envelope(
        b"payload", 1, False, "", None, None, "text/plain", None, None, [], [], None
    )
    looks = [envelope, _core.ENVELOPE_MAGIC, _core.ENVELOPE_MAGIC + b"x", b"plain", b""]
    lab.engine.append_rows([("seen", n, value) for n, value in enumerate(looks)], None, True)
    lab.engine.append_rows([("raw", 1, envelope)], None, False)
    seen = lab.engine.scan("seen", None, None, "stream", None)
    batch = seen.next_batch(100, 1 << 20)
    seen.close()
    assert batch is not None
    expect.equal(batch.read_as("payload").values, looks, "what readers see of escaped values")
    expect.equal(values(lab.messages("raw")), [envelope], "a value that is stored as it is")
    expect.equal(_core.payload_of(lab.messages("raw")[0][2]), b"payload", "its payload")


@promise()
def durability_is_reached_or_refused(lab: Lab) -> None:
    """A receipt says a durability that is at least the one asked for; what cannot be reached is
    refused with NotImplementedError."""
    for level in LEVELS:
        if level != "none" and not lab.has("persistence"):
            with (
                lab.nothing_changes(level),
                expect.raises(NotImplementedError, f"durability {level!r}"),
            ):
                lab.engine.append_rows([("a", 1, b"")], level)
            continue
        reached = lab.engine.append_rows([("a", 1, b"")], level).durability
        expect.true(reached in LEVELS, f"a receipt has a durability, not {reached!r}")
        expect.true(
            LEVELS.index(reached) >= LEVELS.index(level), f"{reached!r} is at least {level!r}"
        )
    expect.true(
        lab.append(("a", 2, b"")).durability in LEVELS, "None stands for the engine's default"
    )
    with lab.nothing_changes("bad durability"), expect.raises(ValueError, "durability 'much'"):
        lab.engine.append_rows([("a", 1, b"")], "much")


@promise()
def arrow_is_the_same_as_rows(lab: Lab) -> None:
    """append_arrow stores what has an Arrow C array as append_rows stores rows."""
    rows = [(f"arrow/{n}", n, b"%d" % n) for n in range(100)]
    receipt = lab.engine.append_arrow(batch_of(rows), None)
    expect.equal(receipt.count, 100, "the count")
    expect.equal(lab.everything(), sorted(rows), "what is stored")
    with lab.nothing_changes("a bad topic"), expect.raises(_core.TopicError, "a bad topic"):
        lab.engine.append_arrow(batch_of([("good", 1, b""), ("bad/#", 1, b"")]), None)


@promise()
def arrow_tables_are_taken(lab: Lab) -> None:
    """append_arrow takes tables: any unit of time with a zone, nulls to be assigned, strings."""
    pa = lab.need_arrow()
    times = pa.array([5_000, None], pa.timestamp("ms", tz="UTC"))
    table = pa.table({"topic": ["a", "b"], "timestamp": times, "value": [b"1", b"2"]})
    lab.engine.append_arrow(table, None)
    lab.engine.append_arrow(pa.table({"topic": ["c"], "value": ["text"]}), None)
    found = lab.everything()
    expect.equal(found[0], ("a", 5_000_000, b"1"), "a timestamp in milliseconds")
    expect.equal([(t, v) for t, _, v in found[1:]], [("b", b"2"), ("c", b"text")], "the others")
    expect.true(found[2][1] > 5_000_000, "a timestamp was assigned")
    bad = [
        pa.table({"topic": ["a"], "value": [b""], "other": [1]}),
        pa.table({"topic": ["a"], "timestamp": [1.5], "value": [b""]}),
        pa.table({"topic": ["a"], "timestamp": [1]}),
    ]
    for one in bad:
        with (
            lab.nothing_changes(f"columns {one.schema.names}"),
            expect.raises((ValueError, TypeError), f"columns {one.schema.names}"),
        ):
            lab.engine.append_arrow(one, None)


@promise()
def threads_append_side_by_side(lab: Lab) -> None:
    """Threads may append at the same time; every append is stored, and those of one thread in
    their order."""
    threads, appends = 4, 25

    def work(thread: int) -> list[int]:
        topic = lab.topic_in(0, f"thread/{thread}")
        return [lab.append((topic, None, b"%d" % n)).serials[0] for n in range(appends)]

    serials = lab.together([lambda thread=n: work(thread) for n in range(threads)])  # type: ignore[misc]
    for thread, found in enumerate(serials):
        stored = values(lab.messages(lab.topic_in(0, f"thread/{thread}")))
        expect.equal(stored, [b"%d" % n for n in range(appends)], "the messages of one thread")
        expect.equal(found, sorted(found), "the serials of one thread")
    expect.equal(
        len({n for found in serials for n in found}), threads * appends, "different serials"
    )


@promise()
def a_batch_of_what_was_read_can_be_stored(lab: Lab) -> None:
    """A batch that a scan gave can be appended again."""
    lab.append(("a", 1, b"1"), ("b", 2, b"2"))
    scan = lab.engine.scan("a", None, None, "stream", None)
    batch = scan.next_batch(10, 1 << 20)
    scan.close()
    expect.equal(plain(batch), [("a", 1, b"1")], "the batch")
    lab.engine.append_arrow(batch, None)
    wanted = [("a", 1, b"1")] * (2 if lab.keeps_all else 1)
    expect.equal(lab.messages("a"), wanted, "what is stored")
