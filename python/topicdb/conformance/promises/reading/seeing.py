"""Reads that must see commits: they see them, or say that they do not."""

from __future__ import annotations

from collections.abc import Callable

from topicdb import _core
from topicdb._core import Iterator
from topicdb.conformance import expect
from topicdb.conformance.lab import Lab, read
from topicdb.conformance.promise import promise
from topicdb.engine import Engine
from topicdb.engines.features import lacks_of

_LATER = 1 << 40


def _reads(lab: Lab) -> dict[str, Callable[[Engine], object]]:
    """Returns reads that begin, and end at once, by name, as far as the engine has them."""
    reads: dict[str, tuple[str, Callable[[Engine], object]]] = {
        "scan": ("", lambda e: read(e.scan("#", None, None, "none", None))),
        "last": ("", lambda e: read(e.last("#", None, None))),
        "streams": ("streams", lambda e: e.streams("#", None, None, None)),
        "iterator": ("streams", lambda e: _begin(e, lab.engine)),
        "next": ("streams", lambda e: e.next(_begin(lab.engine, lab.engine), 1, 1_000)),
        "scan_iterator": ("steps", lambda e: e.scan_iterator("#", None, None)),
        "next_of_scan": (
            "steps",
            lambda e: e.next_of_scan(lab.engine.scan_iterator("#", None, None), 1, 1_000),
        ),
        "slices": ("slices", lambda e: e.slices(["#"], None, None, {}, {}, 1 << 20)),
        "scan_slices": ("slices", lambda e: read(e.scan_slices(["#"], []))),
        "explain": ("explain", lambda e: e.explain("#", None, None)),
        "summarize": ("summaries", lambda e: e.summarize("#", None, None, 0, None, 0)),
        "watch_streams": ("watches", lambda e: e.watch_streams("#", True).close()),
        "tail": ("log", lambda e: e.tail(["#"], {}, {}).close()),
        "subscribe": ("subscriptions", lambda e: e.subscribe(["#"], {}, 0, 10, 1_000).close()),
    }
    lacks = lacks_of(lab.engine)
    return {name: use for name, (feature, use) in reads.items() if feature not in lacks}


def _begin(engine: Engine, other: Engine) -> Iterator:
    """Returns an iterator of ``engine`` at the first message of a stream that ``other`` knows."""
    return engine.iterator(other.streams("#", None, None, None)[0], "#", None, None)


def _count(engine: Engine) -> int:
    return len(read(engine.scan("#", None, None, "none", None)))


@promise()
def what_was_committed_is_seen(lab: Lab) -> None:
    """Reads of an engine of seeing() see the commits that they must see, or without any, all that
    was acknowledged. In all else they are like other reads."""
    for n in range(5):
        receipt = lab.append((lab.topic_in(n % lab.shards, "s"), n, b"%d" % n))
        for serials in (receipt.serials, lab.serials(), {}, None):
            for engine in (lab.engine, lab.engine.partial()):
                seeing = engine.seeing(serials, lab.patience_us)
                expect.equal(_count(seeing), n + 1, f"messages that seeing({serials}) reads")
    for serials in (lab.serials(), None):
        for use in _reads(lab).values():
            use(lab.engine.seeing(serials, lab.patience_us))
            use(lab.engine.seeing(serials, lab.patience_us).partial())


@promise()
def what_does_not_come_is_told(lab: Lab) -> None:
    """A read that must see a commit which does not come raises StaleError once the time is over.
    Other reads go on."""
    lab.append(("s", 1, b"1"))
    later = {shard: serial + _LATER for shard, serial in lab.serials().items()}
    for name, use in _reads(lab).items():
        with expect.raises(_core.StaleError, f"{name} that must see a later commit"):
            use(lab.engine.seeing(later, 1_000))
        use(lab.engine)


@promise()
def a_shard_that_is_not_there_is_named(lab: Lab) -> None:
    """A read that must see a commit of a shard which the engine does not have is a ValueError."""
    with expect.raises(ValueError, "a read that must see a shard that is not there") as caught:
        _count(lab.engine.seeing({lab.shards: 1}, 0))
    expect.true(str(lab.shards) in str(caught.error), "the text of the error names the shard")


@promise()
def a_commit_that_comes_is_seen(lab: Lab) -> None:
    """A read waits for a commit that another thread makes meanwhile."""
    first = lab.append(("s", 1, b"1"))
    later = {shard: serial + 1 for shard, serial in first.serials.items()}
    waiting = lab.beside(lambda: _count(lab.engine.seeing(later, lab.patience_us)))
    (shard,) = later
    while lab.serials()[shard] < later[shard]:
        lab.append(("s", 2, b"2"))
    expect.true(waiting.result() > 1, "the read sees what came meanwhile")
