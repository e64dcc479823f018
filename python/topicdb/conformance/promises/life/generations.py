"""Generations: they begin, end, and are dropped as a whole."""

from __future__ import annotations

from topicdb import _core
from topicdb._core import Slab
from topicdb.conformance import expect
from topicdb.conformance.lab import Lab
from topicdb.conformance.promise import promise


def _slab(lab: Lab, shard: int, *, read_only: bool) -> Slab:
    """Returns the newest slab with messages of a shard that is read-only, or is not."""
    found = [s for s in lab.engine.slabs() if s.shard == shard and s.messages]
    found = [s for s in found if s.read_only == read_only]
    expect.true(found, f"shard {shard} has a slab with messages, read-only: {read_only}")
    return max(found, key=lambda slab: slab.generation)


@promise("generations")
def slabs_say_what_they_have(lab: Lab) -> None:
    """slabs() lists each shard, class and generation with its counts, times and state."""
    topic = lab.topic_in(0)
    lab.append((topic, 5, b"12345"), (topic, 3, b""))
    found = lab.engine.slabs()
    places = [(s.shard, s.retention_class, s.generation) for s in found]
    expect.equal(len(set(places)), len(places), "how many different slabs are listed")
    expect.equal({s.shard for s in found}, set(range(lab.shards)), "the shards of slabs")
    slab = _slab(lab, 0, read_only=False)
    size = 2 * len(topic) + 5
    expect.equal((slab.messages, slab.bytes), (2, size), "messages and bytes")
    expect.equal((slab.first_timestamp, slab.last_timestamp), (3, 5), "the range of timestamps")
    expect.equal(slab.sealed_at, None, "when the current generation ended")
    expect.equal(slab.layout, lab.engine.schema["layout"], "the layout")


@promise("generations")
def a_new_one_takes_what_comes(lab: Lab) -> None:
    """rotate() begins a generation that takes new messages; the one before is read-only."""
    topic = lab.topic_in(0)
    lab.append((topic, 1, b"old"))
    before = _slab(lab, 0, read_only=False)
    lab.engine.rotate(None)
    old = _slab(lab, 0, read_only=True)
    expect.equal(old.generation, before.generation, "the generation that ended")
    expect.true(old.sealed_at is not None, "it has a time at which it ended")
    lab.append((topic, 2, b"new"))
    new = _slab(lab, 0, read_only=False)
    expect.true(new.generation > old.generation, "generations count up")
    expect.equal(_slab(lab, 0, read_only=True).messages, 1, "messages of the old generation")
    expect.equal(lab.everything(), [(topic, 1, b"old"), (topic, 2, b"new")], "what is stored")


@promise("generations")
def a_dropped_one_is_gone(lab: Lab) -> None:
    """drop_slab() removes all messages of a generation in a shard, and no others."""
    topics = [lab.topic_in(shard) for shard in range(lab.shards)]
    lab.append(*[(topic, 1, b"old") for topic in topics])
    lab.engine.rotate(None)
    lab.append(*[(topic, 2, b"new") for topic in topics])
    slab = _slab(lab, 0, read_only=True)
    lab.engine.drop_slab(0, slab.retention_class, slab.generation)
    wanted = sorted([(t, 2, b"new") for t in topics] + [(t, 1, b"old") for t in topics[1:]])
    expect.equal(lab.everything(), wanted, "what is left")
    places = [(s.shard, s.retention_class, s.generation) for s in lab.engine.slabs()]
    gone = 0, slab.retention_class, slab.generation
    expect.true(gone not in places, "the slab is not listed any more")
    with expect.raises(_core.NotFoundError, "dropping it again"):
        lab.engine.drop_slab(*gone)


@promise("generations")
def the_current_one_stays(lab: Lab) -> None:
    """To drop the current generation is a ValueError; one that is unknown is a NotFoundError."""
    lab.append((lab.topic_in(0), 1, b"stays"))
    slab = _slab(lab, 0, read_only=False)
    with lab.nothing_changes("drop_slab"):
        with expect.raises(ValueError, "the current generation"):
            lab.engine.drop_slab(0, slab.retention_class, slab.generation)
        with expect.raises(_core.NotFoundError, "generation 1,000"):
            lab.engine.drop_slab(0, slab.retention_class, 1_000)
        with expect.raises(_core.NotFoundError, "a class that is not there"):
            lab.engine.rotate("no/such/class")
        with expect.raises(ValueError, "a clock that is reset for one class"):
            lab.engine.rotate(slab.retention_class, True)


@promise("generations")
def each_has_its_layout(lab: Lab) -> None:
    """rotate() with a layout begins a generation of it, and older ones keep theirs; a layout that
    the engine cannot have is a SchemaError, which changes nothing."""
    topic = lab.topic_in(0)
    lab.append((topic, 1, b"old"))
    first = lab.engine.schema["layout"]
    other = "skipstream" if first != "skipstream" else "columnar"
    with lab.nothing_changes("rotate"), expect.raises(_core.SchemaError, "the layout 'rows'"):
        lab.engine.rotate(None, False, "rows")
    before = len(lab.engine.slabs())
    try:
        lab.engine.rotate(None, False, other)
    except _core.SchemaError:
        expect.equal(len(lab.engine.slabs()), before, "how many slabs there are")
        return
    lab.append((topic, 1, b"new"), (topic, 1, b"newer"))
    old, new = _slab(lab, 0, read_only=True), _slab(lab, 0, read_only=False)
    expect.equal((old.layout, new.layout), (first, other), "the layouts")
    kept = [b"newer"] if other == "skipstream" else [b"new", b"newer"]
    wanted = [(topic, 1, value) for value in [b"old", *kept]]
    expect.equal(lab.messages(topic), wanted, "what is stored")


@promise("generations", "persistence")
def generations_are_kept(lab: Lab) -> None:
    """Generations, and that one was dropped, are kept when the engine is opened again."""
    topic = lab.topic_in(0)
    for n in range(3):
        lab.append((topic, n, b"%d" % n))
        lab.engine.rotate(None)
    slabs = sorted(
        (s for s in lab.engine.slabs() if s.shard == 0 and s.messages), key=lambda s: s.generation
    )
    lab.engine.drop_slab(0, slabs[0].retention_class, slabs[0].generation)
    before = [
        (s.shard, s.retention_class, s.generation, s.read_only, s.messages)
        for s in lab.engine.slabs()
    ]
    lab.reopen()
    after = [
        (s.shard, s.retention_class, s.generation, s.read_only, s.messages)
        for s in lab.engine.slabs()
    ]
    expect.equal(after, before, "the slabs")
    expect.equal(lab.everything(), [(topic, 1, b"1"), (topic, 2, b"2")], "what is stored")
    lab.append((topic, 0, b"new"))
    expect.true(_slab(lab, 0, read_only=False).generation > slabs[-1].generation, "they count on")
