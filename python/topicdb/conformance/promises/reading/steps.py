"""Scans in steps: one position in all streams of some filters, which can be stored."""

from __future__ import annotations

from topicdb import _core
from topicdb._core import ScanIterator
from topicdb.conformance import expect
from topicdb.conformance.lab import Lab, plain
from topicdb.conformance.promise import promise
from topicdb.engine import Filters
from topicdb.results import ScanStep

Messages = list[tuple[str, int, bytes]]
SIZE = 8 << 20
MESSAGES_MAX = 1_000  # a scan that gives more than this has no end


def _begin(
    lab: Lab, filter: Filters = "#", start: int | None = None, end: int | None = None
) -> ScanIterator:
    return lab.engine.scan_iterator(filter, start, end)


def _step(lab: Lab, at: ScanIterator, rows: int) -> ScanStep:
    """Returns the next step, from the stored form of a position."""
    step = lab.engine.next_of_scan(ScanIterator.from_bytes(bytes(at)), rows, SIZE)
    expect.true(len(step.batch) <= rows, f"a page has at most {rows} messages")
    shards = {lab.shard_of(topic) for topic in step.batch.topics}
    expect.true(len(shards) <= 1, "the messages of a page are of one shard")
    has_some = len(step.batch) > 0 or step.loss is not None
    expect.true(has_some or step.end_of_scan, "a page without messages is the end, or a loss")
    expect.equal(step.end_of_scan, step.iterator.at_end, "end_of_scan and at_end")
    return step


def _read_on(lab: Lab, at: ScanIterator, rows: int = 7) -> Messages:
    """Returns what a scan gives from a position to its end."""
    found: Messages = []
    while not at.at_end:
        step = _step(lab, at, rows)
        expect.equal(step.loss, None, "a loss")
        found += plain(step.batch)
        expect.true(len(found) < MESSAGES_MAX, "a scan comes to its end")
        at = step.iterator
    return found


def _fill(lab: Lab, commits: int = 9) -> Messages:
    """Stores messages whose times go to and fro, in some generations if there are any."""
    rows: Messages = []
    for commit in range(commits):
        some = [
            (f"st/{'ab'[n % 2]}/{n % 3}", (37 * (20 * commit + n)) % 199, b"%d.%d" % (commit, n))
            for n in range(20)
        ]
        some.append(("$SYS/st", commit, b"%d" % commit))
        lab.append(*some)
        rows += some
        if commit % 4 == 3 and lab.has("generations"):
            lab.engine.rotate(None)
    return rows


def _of(topic: str, messages: Messages) -> Messages:
    return [message for message in messages if message[0] == topic]


@promise("steps")
def they_give_what_a_scan_gives(lab: Lab) -> None:
    """A scan in steps gives what scan() would give when it begins, each message once, those of a
    topic in the order "stream"; a page has messages of one shard."""
    _fill(lab)
    filters: list[Filters] = ["st/#", None, "st/+/1", ["st/a/#", "st/+/0"], "$SYS/#", "nobody"]
    for filter in filters:
        for start, end in ((None, None), (50, 120), (190, None), (None, 3), (9, 5)):
            wanted = lab.messages(filter, start, end)
            for rows in (1, 7, 1_000):
                found = _read_on(lab, _begin(lab, filter, start, end), rows)
                what = f"what {filter} finds from {start} to {end}, {rows} at a time"
                expect.equal(sorted(found), sorted(wanted), what)
                for topic in {topic for topic, _, _ in wanted}:
                    expect.equal(_of(topic, found), _of(topic, wanted), f"{what}, of {topic!r}")


@promise("steps")
def a_position_can_be_stored(lab: Lab) -> None:
    """The bytes of a position make the same position again, which gives the same messages, also
    after the engine was opened again; it says its filters and the commits that are part of it."""
    _fill(lab)
    at = _begin(lab, ["st/#", "nobody"])
    expect.equal(at.filters, ["st/#", "nobody"], "its filters")
    expect.equal(at.serials, lab.serials(), "the last commits that are part of it")
    first = _step(lab, at, 10)
    rest = _read_on(lab, first.iterator, 1_000)
    wanted = lab.messages("st/#")
    expect.equal(sorted([*plain(first.batch), *rest]), sorted(wanted), "what it gives")
    saved = bytes(first.iterator)
    for _ in range(2):
        expect.equal(ScanIterator.from_bytes(saved), first.iterator, "the position from its bytes")
        expect.equal(_read_on(lab, ScanIterator.from_bytes(saved)), rest, "what it gives")
        if not lab.has("persistence"):
            return
        lab.reopen()


@promise("steps")
def later_commits_are_left_out(lab: Lab) -> None:
    """A scan in steps gives nothing of commits that came after it began, whatever their times."""
    _fill(lab)
    rows = sorted(lab.messages(None))
    at = _begin(lab, None)
    first = _step(lab, at, 11)
    lab.append(("st/a/0", 500, b"later"), ("a/new/topic", 0, b"later"), ("zzz", 600, b"later"))
    if lab.has("generations"):
        lab.engine.rotate(None)
        lab.append(("st/a/1", 500, b"later"))
    found = [*plain(first.batch), *_read_on(lab, first.iterator)]
    expect.equal(sorted(found), rows, "what it gives")


@promise("steps", "log")
def the_log_goes_on_behind_it(lab: Lab) -> None:
    """A tail behind the serials of a scan in steps gives exactly what the scan leaves out."""
    topics = [lab.topic_in(shard, "st") for shard in range(lab.shards)]
    before = [(topic, n, b"%d" % n) for topic in topics for n in range(10)]
    lab.append(*before)
    at = _begin(lab, "st/#")
    later = [(topic, 0, b"late %d" % n) for topic in topics for n in range(5)]
    lab.append(*later)
    expect.equal(sorted(_read_on(lab, at)), sorted(before), "what the scan gives")
    tail = lab.engine.tail(["st/#"], at.serials, {})
    found: Messages = []
    while (batch := tail.next_batch(100, SIZE, 0)) is not None:
        found += plain(batch)
    tail.close()
    expect.equal(sorted(found), sorted(later), "what the tail gives")


@promise("steps", "deletes")
def what_was_deleted_is_left_out(lab: Lab) -> None:
    """What is deleted before a scan in steps comes to it is left out, and is no loss."""
    _fill(lab)
    first = _step(lab, _begin(lab), 30)
    lab.engine.delete("st/+/1", None, None, None)
    lab.engine.delete("#", 60, 90, None)
    given = plain(first.batch)
    wanted = [message for message in lab.messages("#") if message not in given]
    found = _read_on(lab, first.iterator)
    expect.equal(sorted(found), sorted(wanted), "what it gives afterwards")


@promise("steps", "generations")
def a_dropped_generation_is_a_loss(lab: Lab) -> None:
    """Messages that were dropped before a scan in steps came to them are a loss, which counts at
    least what is missing; it comes once, and the scan goes on behind it."""
    topic = lab.topic_in(0, "st")
    lab.append(*[(topic, n, b"%d" % n) for n in range(20)])
    lab.engine.rotate(None)
    lab.append((topic, 1, b"behind"))
    slab = next(s for s in lab.engine.slabs() if s.shard == 0 and s.read_only and s.messages)
    first = _step(lab, _begin(lab, "st/#"), 5)
    whole, values = _begin(lab, "st/#"), [b""]
    while b"behind" not in values:
        expect.true(values, "it comes to the later generation")
        step = _step(lab, whole, 7)
        whole, values = step.iterator, step.batch.values
    lab.engine.drop_slab(0, slab.retention_class, slab.generation)
    given = len(first.batch)
    for _ in range(2):  # the position has not moved
        step = _step(lab, first.iterator, 5)
        expect.true(step.loss is not None, "the loss comes before what is behind it")
        assert step.loss is not None
        expect.equal((len(step.batch), step.end_of_scan), (0, False), "messages and end, with it")
        where = step.loss.shard, step.loss.retention_class, step.loss.generation
        expect.equal(where, (0, slab.retention_class, slab.generation), "what was lost")
        expect.true(step.loss.messages >= 20 - given, "it counts at least what is missing")
    expect.equal(_read_on(lab, step.iterator), [(topic, 1, b"behind")], "what comes behind it")
    expect.equal(_read_on(lab, whole), [], "what comes where nothing was missed")


@promise("steps")
def another_database_is_not_found(lab: Lab) -> None:
    """A position of another database is a NotFoundError, also if all else is equal."""
    _fill(lab, 1)
    at = _begin(lab)
    foreign = ScanIterator(
        database=bytes(16),
        filters=at.filters,
        start=at.start,
        end=at.end,
        shards=at.shards,
        in_shard=at.in_shard,
        counted=at.counted,
    )
    with expect.raises(_core.NotFoundError, "next_of_scan()"):
        lab.engine.next_of_scan(foreign, 1, SIZE)


@promise("steps")
def what_cannot_be_is_refused(lab: Lab) -> None:
    """A bad filter is a TopicError; a scan that is read to its end gives nothing more."""
    _fill(lab, 1)
    with expect.raises(_core.TopicError, "the filter a/#/b"):
        _begin(lab, "a/#/b")
    at = _begin(lab)
    while not at.at_end:
        at = _step(lab, at, 100).iterator
    step = _step(lab, at, 100)
    expect.equal((len(step.batch), step.end_of_scan), (0, True), "a step behind the end")
