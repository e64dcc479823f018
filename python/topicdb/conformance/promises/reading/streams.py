"""Streams, and iterators that can be stored."""

from __future__ import annotations

from topicdb import _core
from topicdb._core import Iterator, Stream
from topicdb.conformance import expect
from topicdb.conformance.calls import STREAM
from topicdb.conformance.lab import Lab, plain, read
from topicdb.conformance.promise import promise

Messages = list[tuple[str, int, bytes]]


def _read_on(lab: Lab, iterator: Iterator, rows: int) -> Messages:
    """Returns what an iterator gives in pages of ``rows``, up to a page without messages."""
    found: Messages = []
    while True:
        page = lab.engine.next(iterator, rows, 8 << 20)
        expect.true(len(page.batch) <= rows, f"a page has at most {rows} messages")
        if not len(page.batch):
            return found
        found += plain(page.batch)
        iterator = page.iterator


def _numbered(lab: Lab, count: int, first: int = 0, topic: str = "s/a") -> None:
    lab.append(*[(topic, n, b"%d" % n) for n in range(first, first + count)])


def _stream(lab: Lab, topic: str = "s/a") -> Stream:
    """Returns the newest stream of a topic."""
    found = lab.engine.streams(topic, None, None, None)
    expect.true(found, f"there is a stream for {topic!r}")
    return found[-1]


@promise("streams")
def together_they_hold_everything(lab: Lab) -> None:
    """The streams of a filter together hold every message that matches, each in one of them."""
    rows = [(f"s/{n % 9}/{n % 4}", n, b"%d" % n) for n in range(200)] + [("$SYS/x", 1, b"")]
    lab.append(*rows)
    for filter in ("s/#", "s/+/2", "s/3/+", "$SYS/#"):
        found: Messages = []
        for stream in lab.engine.streams(filter, None, None, None):
            found += _read_on(lab, lab.engine.iterator(stream, filter, None, None), 7)
        wanted = sorted(row for row in rows if _core.topic_matches(filter, row[0]))
        expect.equal(sorted(found), wanted, f"what the streams of {filter!r} hold")
    expect.equal(lab.engine.streams("nobody/has/this", None, None, None), [], "streams of no topic")


@promise("streams")
def they_are_values(lab: Lab) -> None:
    """Streams compare, hash, and come back from their bytes; each is listed once, in one order."""
    _numbered(lab, 5)
    lab.append(("s/b", 1, b""), ("other/x/y", 1, b""))
    found = lab.engine.streams(None, None, None, None)
    expect.equal(len(set(found)), len(found), "how many different streams are listed")
    expect.equal(
        [Stream.from_bytes(bytes(one)) for one in found], found, "streams from their bytes"
    )
    expect.equal(lab.engine.streams(None, None, None, None), found, "the streams, asked for again")
    places = [(s.shard, s.class_id, s.generation) for s in found]
    expect.equal(places, sorted(places), "the order by shard, class and generation")
    for stream in found:
        expect.true(0 <= stream.shard < lab.shards, "the shard of a stream exists")


@promise("streams")
def a_topic_keeps_its_stream(lab: Lab) -> None:
    """Within a generation a topic never changes its stream, whatever other topics come."""
    _numbered(lab, 3)
    before = _stream(lab)
    for n in range(150):
        lab.append((f"s/{n}", n, b""), (f"s/{n}/deep", n, b""))
    _numbered(lab, 3, first=3)
    iterator = lab.engine.iterator(before, "s/a", None, None)
    expect.equal(len(_read_on(lab, iterator, 100)), 6, "messages of the topic in its first stream")


@promise("streams")
def pages_continue_where_the_last_ended(lab: Lab) -> None:
    """Pages give each message once, by timestamp; an empty page means that nothing is there yet."""
    _numbered(lab, 10)
    iterator = lab.engine.iterator(_stream(lab), "s/a", None, None)
    sizes, found = [], []
    for _ in range(5):
        page = lab.engine.next(iterator, 3, 8 << 20)
        sizes.append(len(page.batch))
        found += page.batch.values
        expect.equal(page.end_of_stream, False, "end_of_stream, in the current generation")
        iterator = page.iterator
    expect.equal(found, [b"%d" % n for n in range(10)], "what the pages have")
    expect.true(max(sizes) <= 3, "a page has at most 3 messages")
    _numbered(lab, 2, first=10)
    page = lab.engine.next(iterator, 3, 8 << 20)
    expect.equal(page.batch.values, [b"10", b"11"], "what comes later")


@promise("streams")
def equal_timestamps_are_divided_between_pages(lab: Lab) -> None:
    """An iterator may stand between messages of one timestamp; none is given twice or left out."""
    rows = [(f"s/{n}", 5, b"%d" % n) for n in range(12)]
    lab.append(*rows[:6])
    lab.append(*rows[6:])
    found: Messages = []
    for stream in lab.engine.streams("s/+", None, None, None):
        found += _read_on(lab, lab.engine.iterator(stream, "s/+", None, None), 1)
    expect.equal(sorted(found), sorted(rows), "what pages of one message have")


@promise("streams")
def an_iterator_can_be_stored(lab: Lab) -> None:
    """The bytes of an iterator make the same iterator again, which gives the same messages, also
    after the engine was opened again."""
    _numbered(lab, 10)
    page = lab.engine.next(lab.engine.iterator(_stream(lab), "s/a", None, 9), 4, 8 << 20)
    saved = bytes(page.iterator)
    for _ in range(2):
        iterator = Iterator.from_bytes(saved)
        expect.equal(iterator, page.iterator, "the iterator from its bytes")
        found = _read_on(lab, iterator, 2)
        expect.equal([v for _, _, v in found], [b"%d" % n for n in range(4, 9)], "what it gives")
        if not lab.has("persistence"):
            return
        lab.reopen()


@promise("streams")
def an_iterator_has_a_range(lab: Lab) -> None:
    """An iterator begins at its start, which it includes, and gives nothing from its end on."""
    _numbered(lab, 10)
    for start, end, wanted in (
        (None, None, range(10)),
        (4, None, range(4, 10)),
        (2, 5, range(2, 5)),
    ):
        iterator = lab.engine.iterator(_stream(lab), "s/a", start, end)
        found = [int(v) for _, _, v in _read_on(lab, iterator, 3)]
        expect.equal(found, list(wanted), f"an iterator from {start} to {end}")


@promise("streams")
def an_iterator_goes_forward(lab: Lab) -> None:
    """What is stored before the place of an iterator is not given; what is stored behind it is."""
    lab.append(("s/a", 10, b"1"), ("s/a", 30, b"3"))
    page = lab.engine.next(lab.engine.iterator(_stream(lab), "s/a", None, None), 1, 8 << 20)
    lab.append(("s/a", 20, b"2"), ("s/a", 5, b"0"))
    found = [v for _, _, v in _read_on(lab, page.iterator, 10)]
    expect.equal(found, [b"2", b"3"], "what comes behind the first page")


@promise("streams")
def a_scan_reads_given_streams_alone(lab: Lab) -> None:
    """A scan with streams reads these and no others; with none of them it reads nothing."""
    lab.append(*[(f"{name}/x", n, name.encode()) for n in range(5) for name in ("p", "q")])
    streams = lab.engine.streams("p/x", None, None, None)
    for order in ("stream", "time", "none"):
        found = read(lab.engine.scan("p/#", None, None, order, streams))
        expect.equal(sorted({topic for topic, _, _ in found}), ["p/x"], "topics of these streams")
        expect.equal(len(found), 5, "how many messages they have")
        expect.equal(read(lab.engine.scan("#", None, None, order, [])), [], "of no streams")


@promise("streams", "generations")
def a_generation_that_ended_has_an_end(lab: Lab) -> None:
    """end_of_stream is true once a stream of a read-only generation was read to its end, and stays
    so; a new generation has streams of its own."""
    _numbered(lab, 5)
    old = _stream(lab)
    page = lab.engine.next(lab.engine.iterator(old, "s/a", None, None), 2, 8 << 20)
    lab.engine.rotate(None)
    _numbered(lab, 2, first=5)
    found = page.batch.values
    for _ in range(10):
        page = lab.engine.next(page.iterator, 2, 8 << 20)
        found += page.batch.values
        if page.end_of_stream:
            break
    expect.equal(found, [b"%d" % n for n in range(5)], "what the old stream has")
    expect.equal(page.end_of_stream, True, "end_of_stream, behind the last message")
    again = lab.engine.next(page.iterator, 2, 8 << 20)
    expect.equal((len(again.batch), again.end_of_stream), (0, True), "a page behind the end")
    new = _stream(lab)
    expect.true(new != old and new.generation > old.generation, "the new generation has its own")
    found = [v for _, _, v in _read_on(lab, lab.engine.iterator(new, "s/a", None, None), 9)]
    expect.equal(found, [b"5", b"6"], "what the new stream has")


@promise("streams", "generations")
def earlier_generations_can_be_left_out(lab: Lab) -> None:
    """streams() with generation_min leaves out streams of earlier generations; a negative one is a
    ValueError."""
    _numbered(lab, 3)
    old = _stream(lab)
    lab.engine.rotate(None)
    _numbered(lab, 3, first=3)
    new = _stream(lab)
    for first, wanted in (
        (None, [old, new]),
        (0, [old, new]),
        (old.generation, [old, new]),
        (new.generation, [new]),
        (new.generation + 1, []),
    ):
        found = lab.engine.streams("s/a", None, None, first)
        expect.equal(found, wanted, f"streams of generations from {first} on")
    with expect.raises(ValueError, "generation_min -1"):
        lab.engine.streams("s/a", None, None, -1)


@promise("streams", "generations")
def what_was_dropped_is_not_found(lab: Lab) -> None:
    """A stream or iterator of a generation that was dropped is a NotFoundError."""
    _numbered(lab, 5)
    stream = _stream(lab)
    iterator = lab.engine.iterator(stream, "s/a", None, None)
    lab.engine.rotate(None)
    lab.engine.drop_slab(stream.shard, stream.retention_class, stream.generation)
    with expect.raises(_core.NotFoundError, "next() of an iterator"):
        lab.engine.next(iterator, 1, 8 << 20)
    with expect.raises(_core.NotFoundError, "iterator() of a stream"):
        lab.engine.iterator(stream, "s/a", None, None)
    with expect.raises(_core.NotFoundError, "a scan of a stream"):
        read(lab.engine.scan("s/a", None, None, "stream", [stream]))


@promise("streams")
def another_database_is_not_found(lab: Lab) -> None:
    """A stream or iterator of another database is a NotFoundError, also if all else is equal."""
    _numbered(lab, 5)
    mine = _stream(lab)
    foreign = Stream(
        database=STREAM.database,
        shard=mine.shard,
        class_id=mine.class_id,
        retention_class=mine.retention_class,
        generation=mine.generation,
        structure=mine.structure,
        id=mine.id,
    )
    with expect.raises(_core.NotFoundError, "iterator() of a stream"):
        lab.engine.iterator(foreign, "s/a", None, None)
    with expect.raises(_core.NotFoundError, "next() of an iterator"):
        lab.engine.next(Iterator(foreign, "s/a", None, None), 1, 8 << 20)


@promise("streams")
def a_filter_must_fit_the_stream(lab: Lab) -> None:
    """An iterator with a filter that matches no topic of the stream is a ValueError; one with a bad
    filter a TopicError."""
    _numbered(lab, 5)
    with expect.raises(ValueError, "the filter x/y/z"):
        lab.engine.iterator(_stream(lab), "x/y/z", None, None)
    with expect.raises(_core.TopicError, "the filter a/#/b"):
        lab.engine.iterator(_stream(lab), "a/#/b", None, None)
