"""The quota of an open engine: it is replaced at once, and what it refuses changes nothing."""

from __future__ import annotations

import math

from topicdb import _core
from topicdb.conformance import expect
from topicdb.conformance.lab import Lab
from topicdb.conformance.promise import promise
from topicdb.results import Dropped

LARGE = 1 << 50


def _quota(lab: Lab) -> tuple[int, float]:
    state = lab.engine.quota()
    return state.quota_bytes, state.quota_trim


@promise("quota")
def it_is_replaced_at_once(lab: Lab) -> None:
    """set_quota() replaces the quota, or a part of it; 0 bytes are no quota. With dry_run it
    changes nothing."""
    for size, part, wanted in (
        (LARGE, 0.5, (LARGE, 0.5)),
        (None, 0.25, (LARGE, 0.25)),
        (2 * LARGE, None, (2 * LARGE, 0.25)),
        (None, None, (2 * LARGE, 0.25)),
        (0, 0.0, (0, 0.0)),
    ):
        lab.engine.set_quota(1, 1.0, True)
        lab.engine.set_quota(size, part)
        expect.equal(_quota(lab), wanted, f"the quota after {size} and {part}")
        lab.append((lab.topic_in(0), 1, b"taken"))


@promise("quota")
def a_full_engine_takes_nothing_more(lab: Lab) -> None:
    """Once the quota is reached, what adds messages is a QuotaError and changes nothing, and
    deletes pass; with a higher quota, or none, the engine takes more."""
    topic, engine = lab.topic_in(0), lab.engine
    lab.append(*[(topic, n, b"x" * 100) for n in range(100)])
    engine.flush()
    lab.wait_until(lambda: engine.quota().disk_bytes > 0, "something counts against the quota")
    for higher, stored in ((LARGE, 100), (0, 0)):
        engine.set_quota(1, 0.0)
        with lab.nothing_changes("appends to a full engine"):
            with expect.raises(_core.QuotaError, "an append"):
                lab.append((topic, 1_000, b"more"))
            with expect.raises(_core.QuotaError, "an append to all shards"):
                lab.append(*[(lab.topic_in(shard), 1_000, b"") for shard in range(lab.shards)])
            if lab.has("transactions"):
                transaction = engine.begin(0, None, None)
                transaction.write(topic, 1_000, b"more")
                with expect.raises(_core.QuotaError, "a commit that writes"):
                    transaction.commit()
        if lab.has("deletes"):
            expect.equal(engine.delete(topic, 0, 100, None).count, stored, "the count of a delete")
        engine.set_quota(higher, None)
        expect.equal(lab.append((topic, 2_000, b"")).count, 1, "the count of an append then")


@promise("quota")
def what_cannot_be_is_refused(lab: Lab) -> None:
    """A part of the quota that is not from 0 to 1 is a ValueError, and changes nothing."""
    lab.engine.set_quota(LARGE, 0.5)
    for part in (-0.1, 1.1, math.nan):
        with expect.raises(ValueError, f"quota_trim {part}"):
            lab.engine.set_quota(2 * LARGE, part)
        expect.equal(_quota(lab), (LARGE, 0.5), "the quota")


def _names(dropped: list[Dropped]) -> list[tuple[int, str]]:
    """Returns generation and reason of those that have messages."""
    return [(one.slab.generation, one.reason) for one in dropped if one.slab.messages]


@promise("quota", "generations", "retention")
def it_says_what_goes_for_it(lab: Lab) -> None:
    """set_quota() says which generations maintain() drops for the quota next, the oldest first, and
    with dry_run nothing more; with a part of 0 none go."""
    topic, engine = lab.topic_in(0), lab.engine
    for n in range(3):
        lab.append(*[(topic, 10 * n + m, b"x" * 1_000) for m in range(10)])
        engine.rotate(None)
    engine.flush()
    ended = sorted(s.generation for s in engine.slabs() if s.read_only and s.messages)
    wanted = [(generation, "quota") for generation in ended]
    expect.equal(_names(engine.set_quota(1, 0.5, True)), wanted, "what would go")
    expect.equal(_names(engine.maintain(None).dropped), [], "what goes after a trial")
    expect.equal(_names(engine.set_quota(1, 0.0)), [], "what goes with a part of 0")
    expect.equal(_names(engine.maintain(None).dropped), [], "what goes with a part of 0")
    expect.equal(_names(engine.set_quota(1, 0.5)), wanted, "what will go")
    expect.equal(_names(engine.maintain(None).dropped), wanted, "what went")
    expect.equal(lab.everything(), [], "what is left")
