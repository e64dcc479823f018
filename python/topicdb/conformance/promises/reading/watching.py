"""Watches of streams as they come to be."""

from __future__ import annotations

from topicdb import _core
from topicdb.conformance import expect
from topicdb.conformance.lab import Lab
from topicdb.conformance.promise import promise


@promise("watches", "streams")
def each_new_stream_once(lab: Lab) -> None:
    """A watch gives each stream once, when its first message can be read."""
    lab.append(("w/before", 1, b""))
    watch = lab.engine.watch_streams("w/#", False)
    expect.equal(watch.next_streams(0), [], "streams before a commit")
    lab.append(("w/new/x", 1, b"first"), ("other", 1, b""))
    found = watch.next_streams(lab.patience_us)
    expect.equal(
        [stream in lab.engine.streams("w/new/x", None, None, None) for stream in found],
        [True],
        "the new stream",
    )
    page = lab.engine.next(lab.engine.iterator(found[0], "w/new/x", None, None), 10, 1 << 20)
    expect.equal(page.batch.values, [b"first"], "its messages")
    lab.append(("w/new/x", 2, b"second"))
    expect.equal(watch.next_streams(0), [], "streams after a commit without a new one")
    watch.close()


@promise("watches", "streams")
def existing_ones_first(lab: Lab) -> None:
    """With existing a watch gives the streams that are there, and then new ones."""
    lab.append(*[(f"w/{n}/x", 1, b"") for n in range(10)])
    watch = lab.engine.watch_streams("w/#", True)
    found = watch.next_streams(lab.patience_us)
    while more := watch.next_streams(0):
        found += more
    wanted = lab.engine.streams("w/#", None, None, None)
    expect.equal(
        sorted(map(bytes, found)), sorted(map(bytes, wanted)), "the streams that are there"
    )
    watch.close()


@promise("watches", "generations")
def a_generation_has_its_own(lab: Lab) -> None:
    """The first message in a new generation makes a new stream; to begin one does not."""
    lab.append(("w", 1, b""))
    watch = lab.engine.watch_streams("w", False)
    lab.engine.rotate(None)
    expect.equal(watch.next_streams(0), [], "streams of a generation without messages")
    lab.append(("w", 2, b""))
    found = watch.next_streams(lab.patience_us)
    expect.equal(len(found), 1, "how many streams are new")
    watch.close()


@promise("watches")
def a_commit_wakes_it(lab: Lab) -> None:
    """A call that waits returns when a commit makes a stream."""
    watch = lab.engine.watch_streams("w/#", False)
    waits = lab.beside(lambda: watch.next_streams(None))
    lab.append(("other", 1, b""))
    lab.append(("w/x", 1, b""))
    expect.equal(len(waits.result()), 1, "how many streams came")
    watch.close()


@promise("watches")
def closing_ends_a_wait(lab: Lab) -> None:
    """A call that waits raises ClosedError when another thread closes the watch."""
    watch = lab.engine.watch_streams("#", False)
    waits = lab.beside(lambda: watch.next_streams(None))
    watch.close()
    watch.close()
    with expect.raises(_core.ClosedError, "next_streams() of a closed watch"):
        waits.result()
    with expect.raises(_core.TopicError, "the filter a/#/b"):
        lab.engine.watch_streams("a/#/b", False)
