"""Tails and subscriptions that begin exactly behind iterators."""

from __future__ import annotations

from collections.abc import Sequence

from topicdb import _core
from topicdb._core import Iterator, Stream
from topicdb.conformance import expect
from topicdb.conformance.calls import STREAM
from topicdb.conformance.lab import Lab
from topicdb.conformance.promise import promise
from topicdb.conformance.promises.following.subscribing import ALL, subscribe, take, texts

FILTER = "given/#"
SIZE = 8 << 20


class Steps:
    """Iterators in all streams of a filter, of which the bytes are stored, and what they gave."""

    def __init__(self, lab: Lab, filter: str = FILTER, generation_min: int | None = None) -> None:
        self._lab = lab
        self._saved = [
            bytes(lab.engine.iterator(stream, filter, None, None))
            for stream in lab.engine.streams(filter, None, None, generation_min)
        ]
        self.given: list[bytes] = []

    def read(self, rows: int) -> int:
        """Reads a page of each stream, and returns how many messages they have."""
        before = len(self.given)
        for number, iterator in enumerate(self.iterators()):
            page = self._lab.engine.next(iterator, rows, SIZE)
            self.given += page.batch.values
            self._saved[number] = bytes(page.iterator)
        return len(self.given) - before

    def read_all(self) -> None:
        """Reads each stream to its end, until a page is empty."""
        while self.read(1_000):
            pass

    def iterators(self) -> list[Iterator]:
        """Returns the iterators, from their bytes."""
        return [Iterator.from_bytes(saved) for saved in self._saved]


def _fill(lab: Lab, first: int = 0, count: int = 60, prefix: str = "given") -> list[bytes]:
    """Stores messages whose times go to and fro in several commits, and returns their values."""
    rows = [(f"{prefix}/{n % 5}", 37 * n % 101, b"%d" % n) for n in range(first, first + count)]
    for begin in range(0, count, 15):
        lab.append(*rows[begin : begin + 15])
    return [value for _, _, value in rows]


def _tailed(
    lab: Lab,
    given: Sequence[Iterator],
    filters: list[str] | None = None,
    after: dict[int, int] | None = None,
) -> list[bytes]:
    """Returns the values of what a tail has without waiting."""
    tail = lab.engine.tail(filters, after or {}, {}, given)
    found: list[bytes] = []
    while (batch := tail.next_batch(10, SIZE, 0)) is not None:
        found += batch.values
    tail.close()
    return found


def _drop_oldest(lab: Lab) -> int:
    """Drops the oldest generation of each shard that has messages; returns how many those were."""
    slabs = [slab for slab in lab.engine.slabs() if slab.read_only and slab.messages]
    for slab in slabs:
        lab.engine.drop_slab(slab.shard, slab.retention_class, slab.generation)
    return sum(slab.messages for slab in slabs)


@promise("given", "streams", "log")
def a_tail_gives_the_rest(lab: Lab) -> None:
    """A tail behind iterators leaves out what they have given, and gives everything else of the
    log once, also what comes late."""
    everything = _fill(lab)
    for rows in (0, 1, 4, 1_000):
        steps = Steps(lab)
        if rows:
            steps.read(rows)
        rest = _tailed(lab, steps.iterators(), [FILTER])
        what = f"what iterators and a tail give, pages of {rows}"
        expect.equal(sorted(steps.given + rest), sorted(everything), what)
    steps = Steps(lab)
    steps.read_all()
    expect.equal(_tailed(lab, steps.iterators(), [FILTER]), [], "what is left when all was read")
    late = _fill(lab, 100, 20)
    found = _tailed(lab, steps.iterators(), [FILTER])
    expect.equal(sorted(found), sorted(late), "what was committed since")


@promise("given", "streams", "subscriptions")
def a_subscription_gives_the_rest(lab: Lab) -> None:
    """A subscription behind iterators leaves out what they have given, and gives everything else
    once, and then what is committed."""
    everything = _fill(lab)
    steps = Steps(lab)
    steps.read(4)
    steps.read(2)
    cursor = subscribe(lab, [FILTER], given=steps.iterators())
    rest = texts(take(lab, cursor, len(everything) - len(steps.given)))
    expect.equal(sorted(steps.given + rest), sorted(everything), "what both give")
    late = _fill(lab, 100, 20)
    expect.equal(sorted(texts(take(lab, cursor, 20))), sorted(late), "what comes")
    expect.equal(cursor.next(1_000, ALL), None, "what is left")
    expect.equal(cursor.info()["lost"], 0, "what is lost")
    cursor.close()


@promise("given", "streams", "log")
def what_nobody_has_read_comes_whole(lab: Lab) -> None:
    """Topics that the filters of the iterators do not match, and streams without an iterator, come
    whole."""
    everything = [*_fill(lab), *_fill(lab, 60, 30, "other")]
    steps = Steps(lab, "given/1")
    steps.read_all()
    expect.equal(len(steps.given), 12, "how many messages a topic has")
    for filters in (None, ["#"], ["given/+", "other/#"]):
        rest = _tailed(lab, steps.iterators(), filters)
        expect.equal(sorted(steps.given + rest), sorted(everything), f"what {filters} gives")
    expect.equal(_tailed(lab, steps.iterators(), ["given/1"]), [], "of what was read")
    expect.equal(sorted(_tailed(lab, [], None)), sorted(everything), "behind no iterators")


@promise("given", "streams", "log")
def it_goes_on_with_the_same_iterators(lab: Lab) -> None:
    """A tail behind iterators goes on behind its serials with the same iterators."""
    everything = _fill(lab)
    steps = Steps(lab)
    steps.read(5)
    found = list(steps.given)
    serials: dict[int, int] = {}
    for _ in range(100):
        tail = lab.engine.tail([FILTER], serials, {}, steps.iterators())
        batch = tail.next_batch(1, SIZE, 0)
        serials = tail.serials()
        tail.close()
        if batch is None:
            break
        found += batch.values
    expect.equal(sorted(found), sorted(everything), "what all of them give")


@promise("given", "streams", "log", "persistence")
def iterators_say_it_after_a_restart(lab: Lab) -> None:
    """Iterators say what they have given also after the engine was opened again."""
    everything = _fill(lab)
    steps = Steps(lab)
    steps.read(3)
    lab.reopen()
    rest = _tailed(lab, steps.iterators(), [FILTER])
    expect.equal(sorted(steps.given + rest), sorted(everything), "what both give")


@promise("given", "streams", "log", "generations")
def older_generations_count_as_given(lab: Lab) -> None:
    """In a shard and class, generations that are older than those of the iterators count as given,
    as far as the filters of the iterators go."""
    topic, other = lab.topic_in(0, "given"), lab.topic_in(0, "other")
    lab.append((topic, 1, b"old"), (other, 1, b"other"))
    lab.engine.rotate(None)
    lab.append((topic, 1, b"new"))
    (newest, *_) = reversed(lab.engine.streams(topic, None, None, None))
    steps = Steps(lab, topic, newest.generation)
    found = _tailed(lab, steps.iterators())
    expect.equal(found, [b"other", b"new"], "behind an iterator in the later generation")
    found = _tailed(lab, Steps(lab, topic).iterators())
    expect.equal(found, [b"old", b"other", b"new"], "behind iterators in both")


@promise("given", "streams", "log", "generations")
def a_tail_tells_that_something_is_gone(lab: Lab) -> None:
    """A tail behind iterators is a NotFoundError if a generation was dropped of which they had
    still to give; if they had given all of it, the tail goes on."""
    _fill(lab)
    some, everything = Steps(lab), Steps(lab)
    some.read(2)
    everything.read_all()
    lab.engine.rotate(None)
    later = _fill(lab, 100, 20)
    _drop_oldest(lab)
    with expect.raises(_core.NotFoundError, "a tail behind iterators that had not given all"):
        _tailed(lab, some.iterators(), [FILTER])
    found = _tailed(lab, everything.iterators(), [FILTER])
    expect.equal(sorted(found), sorted(later), "behind iterators that had given all")


@promise("given", "streams", "subscriptions", "generations")
def a_subscription_tells_what_is_lost(lab: Lab) -> None:
    """A subscription behind iterators tells the loss of what was dropped before they had given it;
    of what they had given nothing is lost."""
    everything = _fill(lab)
    some, whole = Steps(lab), Steps(lab)
    some.read(2)
    whole.read_all()
    lab.engine.rotate(None)
    later = _fill(lab, 100, 20)
    dropped = _drop_oldest(lab)
    cursor = subscribe(lab, [FILTER], given=some.iterators())
    found = take(lab, cursor, 20)
    expect.equal(sorted(texts(found)), sorted(later), "what comes behind the loss")
    lost = sum(one.loss.messages for one in found if one.loss is not None)
    missing = len(everything) - len(some.given)
    expect.true(missing <= lost <= dropped, f"{lost} are lost, {missing} to {dropped} were dropped")
    expect.equal(cursor.info()["lost"], lost, "what info() counts as lost")
    cursor.close()
    cursor = subscribe(lab, [FILTER], given=whole.iterators())
    expect.equal(sorted(texts(take(lab, cursor, 20))), sorted(later), "behind all")
    expect.equal(cursor.info()["lost"], 0, "what is lost of what was given")
    cursor.close()


@promise("given", "streams")
def another_database_is_not_found(lab: Lab) -> None:
    """An iterator of another database is a NotFoundError, also if all else is equal."""
    _fill(lab)
    (mine, *_) = lab.engine.streams(FILTER, None, None, None)
    foreign = Stream(
        database=STREAM.database,
        shard=mine.shard,
        class_id=mine.class_id,
        retention_class=mine.retention_class,
        generation=mine.generation,
        structure=mine.structure,
        id=mine.id,
    )
    given = [Iterator(foreign, FILTER, None, None, 1)]
    if lab.has("log"):
        with expect.raises(_core.NotFoundError, "a tail"):
            lab.engine.tail(None, {}, {}, given)
    if lab.has("subscriptions"):
        with expect.raises(_core.NotFoundError, "a subscription"):
            subscribe(lab, given=given)
