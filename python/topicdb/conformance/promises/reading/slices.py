"""Slices, for reading with many processes."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

from topicdb import _core
from topicdb.conformance import expect
from topicdb.conformance.lab import Lab, read
from topicdb.conformance.promise import promise
from topicdb.types import Slice


def _fill(lab: Lab) -> list[tuple[str, int, bytes]]:
    rows = []
    for commit in range(8):
        some = [(f"c/{n % 5}", 10 * commit + n, b"%d.%d" % (commit, n)) for n in range(10)]
        some.append(("$SYS/x", commit, b"%d" % commit))
        lab.append(*some)
        rows += some
    return rows if lab.keeps_all else lab.everything()


def _content(
    lab: Lab, slices: Sequence[Slice], filters: list[str] | None
) -> list[tuple[str, int, bytes]]:
    return sorted(m for one in slices for m in read(lab.engine.scan_slices(filters, [one])))


@promise("slices")
def together_they_hold_everything(lab: Lab) -> None:
    """The slices of filters and a range hold each message that matches once, however large they
    may be; they can be pickled."""
    rows = _fill(lab)
    for filters in (["#"], None, ["c/1", "c/+"], ["$SYS/#"], ["nobody"]):
        for start, end in ((None, None), (15, 42)):
            wanted = sorted(
                row
                for row in rows
                if (filters is None or any(_core.topic_matches(f, row[0]) for f in filters))
                and (start is None or row[1] >= start)
                and (end is None or row[1] < end)
            )
            for size in (1, 200, 1 << 30):
                slices = lab.engine.slices(filters, start, end, {}, {}, size)
                expect.true(
                    all(isinstance(one, Slice) for one in slices), "slices are of class Slice"
                )
                sent = pickle.loads(pickle.dumps(slices))
                expect.equal(_content(lab, sent, filters), wanted, f"what slices of {filters} hold")
                found = sorted(read(lab.engine.scan_slices(filters, slices)))
                expect.equal(found, wanted, "what one scan of all slices gives")


@promise("slices")
def they_are_of_one_moment(lab: Lab) -> None:
    """Later commits are in no slice."""
    rows = _fill(lab)
    slices = lab.engine.slices(None, None, None, {}, {}, 100)
    lab.append(*[(f"c/{n}", n + 1_000, b"later") for n in range(5)])
    expect.equal(_content(lab, slices, None), sorted(rows), "what they hold afterwards")


@promise("slices")
def between_two_commits(lab: Lab) -> None:
    """after and until limit the commits of each shard: behind the first, up to the second."""
    topics = [lab.topic_in(shard) for shard in range(lab.shards)]
    receipts = [lab.append(*[(t, n, b"%d" % n) for t in topics]) for n in range(6)]
    after, until = receipts[1].serials, receipts[4].serials
    slices = lab.engine.slices(None, None, None, after, until, 1)
    wanted = sorted((t, n, b"%d" % n) for t in topics for n in (2, 3, 4))
    expect.equal(_content(lab, slices, None), wanted, "what they hold")
    none = lab.engine.slices(None, None, None, receipts[5].serials, {}, 1)
    expect.equal(_content(lab, none, None), [], "what is behind the last commit")


@promise("slices", "deletes")
def deleted_messages_are_left_out(lab: Lab) -> None:
    """A scan of slices leaves out what was deleted since they were made."""
    rows = _fill(lab)
    slices = lab.engine.slices(None, None, None, {}, {}, 100)
    lab.engine.delete("c/1", None, None, None)
    wanted = sorted(row for row in rows if row[0] != "c/1")
    expect.equal(_content(lab, slices, None), wanted, "what they hold afterwards")


@promise("slices", "generations")
def what_was_dropped_is_not_found(lab: Lab) -> None:
    """A slice of a generation that was dropped is a NotFoundError."""
    lab.append(("a", 1, b""))
    (one,) = lab.engine.slices(None, None, None, {}, {}, 1 << 20)
    lab.engine.rotate(None)
    lab.engine.drop_slab(one.shard, one.retention_class, one.generation)
    with expect.raises(_core.NotFoundError, "a scan of the slice"):
        read(lab.engine.scan_slices(None, [one]))
